"""Early stopping: end a run that no longer gets better, and keep the best parameters if asked to.

In: evaluations.  Out: ``state.stop`` with a reason.  Invariant: only evaluations are judged, and
patience counts them; what was best, and how long ago, survives a checkpoint.
"""

from collections.abc import Mapping
from typing import final

import numpy as np

from workbench.arguments import whole_from
from workbench.errors import DTypeError, ShapeError, TracingError
from workbench.train.callback import EARLY_STOP_BAND, Callback
from workbench.train.callbacks.best import Best, no_best
from workbench.train.callbacks.packed import Memory, require_kinds
from workbench.train.events import EpochEnd, EvalEnd, RunBegin, RunEnd, RunView
from workbench.train.report import fixed
from workbench.train.reports import Report
from workbench.train.tree import Leaf, Structure, flatten, paths, unflatten

__all__ = ["EarlyStopping"]


@final
class EarlyStopping(Callback):
    """Stop after more than ``patience`` evaluations in a row that were not the best.

    With patience 8 it stops at the ninth.  Patience counts evaluations, not epochs: with
    ``eval_every=2`` a patience of 3 lets six epochs pass.

    Parameters
    ----------
    monitor
        The name of a metric of the evaluation, or ``"train_loss"``; that one too is judged after
        evaluations only.
    patience
        Evaluations that may pass without a better value.
    higher_is_better
        Whether a greater value is better, as for an accuracy.
    min_delta
        By how much a value has to be better; exactly so much is not enough.
    min_epochs
        The run is not stopped before so many epochs are complete.
    restore_best
        Whether to end with the parameters of the best evaluation, when this callback stopped the
        run or all epochs were run.  The optimizer's state stays that of the last step.  Keeping
        them copies all parameters at each best evaluation.

    Attributes
    ----------
    best
        The best value, when it was, and how many evaluations ago.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Notes
    -----
    A value that is not finite is never the best, nor is any of parameters or after a loss that are
    not: it counts as a bad evaluation.  A run that was
    stopped and is continued stops again at the next evaluation that is not better.
    """

    band = EARLY_STOP_BAND
    writes = ("stop",)
    may_stop = True

    def __init__(
        self,
        monitor: str,
        patience: int = 10,
        *,
        higher_is_better: bool,
        min_delta: float = 0.0,
        min_epochs: int = 0,
        restore_best: bool = False,
    ) -> None:
        self.best = Best(monitor, higher_is_better=higher_is_better, min_delta=min_delta)
        self._asked_patience = whole_from("patience", patience, 0)
        # What was set while a run went on: it is that run's alone.
        self._set_patience: int | None = None
        self.min_epochs = whole_from("min_epochs", min_epochs, 0)
        self.restore_best = restore_best
        self.reads = (monitor,)
        self.name = f"{type(self).__name__}({monitor})"
        self._kept: Mapping[str, Leaf] = {}
        self._kept_epoch = 0
        self._stopped = False
        self._evaluated = False
        self._told = False

    def on_run_begin(self, event: RunBegin) -> Report | None:
        """Begin to watch; say so at once if nothing will ever be evaluated."""
        self._evaluated = self._told = False
        self._stopped = self._stopped and event.state.stop
        config = event.run.config
        evaluates = config.eval_every or config.eval_every_steps
        return None if evaluates else self._tell(_NOTHING_EVALUATED)

    def on_eval_end(self, event: EvalEnd) -> Report | None:
        """Judge an evaluation, and stop the run if there were too many bad ones in a row."""
        state, best = event.state, self.best
        self._evaluated = True
        if best.measured(state) is None:
            return self._tell(best.explain_absence(state))
        if best.observe(state) and self.restore_best:
            self._kept, self._kept_epoch = _leaves(event.run.params), best.epoch
        if best.wait > self.patience and state.epoch >= self.min_epochs:
            self._stopped = True
            state.request_stop(self.reason)
        return None

    def on_epoch_end(self, event: EpochEnd) -> Report | None:
        """Say so if an evaluation was due and there was none."""
        every = event.run.config.eval_every
        if self._evaluated or not every or event.epoch % every:
            return None
        return self._tell(_NOTHING_EVALUATED)

    def on_run_end(self, event: RunEnd) -> Report | None:
        """Give the run its best parameters back, if asked to."""
        done = self._stopped or event.outcome == "completed"
        if not (self.restore_best and done and (self.best.seen or event.state.unsound)):
            return None
        return self.give_best(event.run)

    @property
    def keeps_best(self) -> bool:
        """Whether it keeps the best parameters."""
        return self.restore_best

    def give_best(self, run: RunView) -> Report:
        """Give a run, which stands between two batches, its best parameters; say which."""
        best, where = self.best, f"epoch {self.best.epoch}"
        if not best.seen:
            return no_best(run, f"no evaluation of `{best.monitor}` was the best yet")
        value = f"{best.monitor} {fixed(best.value, 4)}"
        if self._kept_epoch != best.epoch:
            return Report(
                f"the best parameters, of {where} ({value}), were not kept: they were trained "
                "by callbacks that did not keep them",
                severity="error",
            )
        try:
            _, structure = flatten(run.params)
            run.params = unflatten(structure, [self._kept[name] for name in _names(structure)])
        except (KeyError, TracingError, ShapeError, DTypeError):
            return Report(
                f"the best parameters, of {where} ({value}), are of another model; these stay",
                severity="error",
            )
        return Report(f"the parameters are those of {where}, the best ({value})")

    @property
    def reason(self) -> str:
        """Why it stops, or would."""
        best = self.best
        end = f"best was {best.value:.4f} at epoch {best.epoch}" if best.seen else "it never was"
        verb = "improved" if best.seen else "been finite"
        return (
            f"{best.monitor} has not {verb} for {best.wait} evaluations "
            f"(patience {self.patience}); {end}"
        )

    @property
    def asked_patience(self) -> int:
        """The patience that it was made with."""
        return self._asked_patience

    def forget_patience(self) -> None:
        """Go back to the patience that it was made with."""
        self._set_patience = None

    @property
    def patience(self) -> int:
        """Evaluations that may pass without a better value; may be set while a run goes on."""
        return self._asked_patience if self._set_patience is None else self._set_patience

    @patience.setter
    def patience(self, patience: int) -> None:
        self._set_patience = whole_from("patience", patience, 0)

    def pack(self) -> Memory:
        """Return what was best and how long ago, with the parameters of then if it keeps them."""
        kept = {"kept": dict(self._kept), "kept_epoch": self._kept_epoch}
        own = {"stopped": self._stopped, "set_patience": self._set_patience}
        return {**self.best.pack(), **own, **kept}

    def unpack(self, packed: Memory) -> None:
        """Go on from there."""
        require_kinds(
            packed, stopped=bool, set_patience=(int, type(None)), kept=dict, kept_epoch=int
        )
        self.best.unpack(packed)
        self._stopped, self._set_patience = packed["stopped"], packed["set_patience"]
        self._kept, self._kept_epoch = packed["kept"], packed["kept_epoch"]

    def _tell(self, problem: str) -> Report | None:
        """Return a warning the first time there is a reason for one."""
        if self._told:
            return None
        self._told = True
        return Report(f"`{self.best.monitor}` cannot stop this run: {problem}", severity="error")


def _leaves(tree: object) -> Mapping[str, Leaf]:
    """Return the leaves of a tree by their paths, never to be written again."""
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            leaf.flags.writeable = False
    return dict(zip(_names(structure), leaves, strict=True))


def _names(structure: Structure) -> list[str]:
    """Return a name for each leaf: two keys of other types may be written alike."""
    return [f"{number} {path}" for number, path in enumerate(paths(structure))]


_NOTHING_EVALUATED = (
    "nothing is evaluated; pass a validation set, `eval_batch` and an `eval_every` above 0"
)

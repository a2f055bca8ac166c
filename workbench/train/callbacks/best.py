"""The best value of one metric so far, and how long ago it was.

In: a run's state after an evaluation.  Out: whether that evaluation was the best one.  Invariant:
what is not finite is never the best, and counts as an evaluation that was not better; nor is an
evaluation of parameters, or after a loss, that are not.
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, final

from workbench.arguments import number_from
from workbench.train.callbacks.packed import Memory
from workbench.train.events import RunView
from workbench.train.reports import Report
from workbench.train.state import RunState

__all__ = ["TRAIN_LOSS", "VAL", "Best", "no_best"]

TRAIN_LOSS: Final = "train_loss"
VAL: Final = "val_"
"""How the log and the history begin the name of a metric of the evaluation."""


def no_best(run: RunView, problem: str) -> Report:
    """Return what to say of a run that has no best parameters, with the reason if it is known."""
    unsound = run.state.unsound
    why = f" ({unsound})" if unsound else ""
    return Report(
        f"{problem}{why}; the parameters stay", severity="error" if unsound else "warning"
    )


@final
@dataclass(slots=True)
class Best:
    """What early stopping, a plateau schedule and a checkpoint of the best all ask.

    Parameters
    ----------
    monitor
        The name of a metric of the evaluation, with ``"val_"`` before it or not, or
        ``"train_loss"``.
    higher_is_better
        Whether a greater value is better, as for an accuracy.
    min_delta
        By how much a value has to be better; exactly so much is not enough.

    Attributes
    ----------
    value
        The best value; NaN before the first.
    epoch
        Completed epochs when it was measured.
    wait
        Evaluations since.
    seen
        Whether there was a finite value yet.

    Examples
    --------
    >>> best = Best("loss", higher_is_better=False, min_delta=0.01)
    >>> state = RunState()
    >>> for loss in (1.0, 0.995, 0.98):
    ...     state.val.update("loss", loss, 1)
    ...     print(best.observe(state), best.wait)
    ...     state.val = type(state.val)()
    True 0
    False 1
    True 0
    """

    monitor: str
    _: KW_ONLY
    higher_is_better: bool
    min_delta: float = 0.0
    value: float = math.nan
    epoch: int = 0
    wait: int = 0
    seen: bool = False

    def __post_init__(self) -> None:
        number_from("min_delta", self.min_delta, 0.0)

    def measured(self, state: RunState) -> float | None:
        """Return the monitored value of the last evaluation; None if it has none of that name."""
        if self.monitor == TRAIN_LOSS:
            return state.train_loss
        name = self.monitor if self.monitor in state.val else self.monitor.removeprefix(VAL)
        return state.val.value(name) if name in state.val else None

    def observe(self, state: RunState) -> bool:
        """Take note of an evaluation and return whether it is the best one so far.

        An evaluation without the monitored metric changes nothing.
        """
        value = self.measured(state)
        if value is None:
            return False
        sound = math.isfinite(value) and not state.unsound
        if sound and (not self.seen or self._is_better(value)):
            self.value, self.epoch, self.wait, self.seen = value, state.epoch, 0, True
            return True
        self.wait += 1
        return False

    def _is_better(self, value: float) -> bool:
        if self.higher_is_better:
            return value > self.value + self.min_delta
        return value < self.value - self.min_delta

    def pack(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {"wait": self.wait, "best": self.value, "epoch": self.epoch, "seen": self.seen}

    def unpack(self, packed: Memory) -> None:
        """Remember what `pack` returned.

        Raises
        ------
        ValueError
            If it is no such thing.
        """
        wait, value, epoch, seen = (packed[name] for name in ("wait", "best", "epoch", "seen"))
        counts = all(type(each) is int and each >= 0 for each in (wait, epoch))
        # Before the first good evaluation there is no best value: it is NaN.
        fits = isinstance(value, float) and isinstance(seen, bool)
        if not (counts and fits and math.isfinite(value) == seen):
            raise ValueError(f"what was best cannot be {dict(packed)!r}")
        self.wait, self.value, self.epoch, self.seen = wait, value, epoch, seen

    def explain_absence(self, state: RunState) -> str:
        """Return a sentence that says which metrics there are instead of the monitored one."""
        names = ", ".join((*state.val.names, TRAIN_LOSS))
        return f"`{self.monitor}` is not a metric of the evaluation, which has {names}"

"""A learning rate that is cut when a metric stops getting better.

In: evaluations.  Out: ``state.lr`` at the next epoch.  Invariant: the rate only falls, and never
below its least value; a resumed run keeps its cuts.
"""

from typing import final

from workbench.arguments import number_from, whole_from
from workbench.train.callback import SCHEDULE_BAND, Callback
from workbench.train.callbacks.best import Best
from workbench.train.callbacks.packed import Memory, require_kinds
from workbench.train.events import EpochBegin, EvalEnd, RunBegin
from workbench.train.reports import Report

__all__ = ["PlateauSchedule"]


@final
class PlateauSchedule(Callback):
    """Multiply the learning rate by ``factor`` after more than ``patience`` bad evaluations.

    The new rate is used from the next epoch on.  The run begins at the rate that its state holds:
    the configured one, or that of the checkpoint.  A rate that a person sets while the run goes on
    is taken over, and cut from there.

    Parameters
    ----------
    monitor
        The name of a metric of the evaluation, or ``"train_loss"``.
    factor
        Between 0 and 1.
    patience
        Evaluations that may pass without a better value; one more makes a cut.
    higher_is_better
        Whether a greater value is better.
    min_delta
        By how much a value has to be better.
    least
        The rate never falls below it.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    band = SCHEDULE_BAND
    writes = ("lr",)
    fatal = True

    def __init__(
        self,
        monitor: str,
        factor: float = 0.1,
        *,
        patience: int = 10,
        higher_is_better: bool,
        min_delta: float = 0.0,
        least: float = 0.0,
    ) -> None:
        self.best = Best(monitor, higher_is_better=higher_is_better, min_delta=min_delta)
        self.factor = number_from("factor", factor, 0.0, open_end=True)
        self.patience = whole_from("patience", patience, 0)
        self.least = number_from("least", least, 0.0)
        self.reads = (monitor,)
        self.name = f"{type(self).__name__}({monitor})"
        self.rate: float = 0.0
        self._written: float = 0.0
        # A cut that was decided and is not yet in the run's state.
        self._is_due = False
        self._told_absence = False

    def on_run_begin(self, event: RunBegin) -> None:
        """Begin at the rate that the run has."""
        self._told_absence = False
        rate = event.state.lr or event.run.config.lr
        # The run was left, or saved, between an evaluation and the next epoch.
        self._is_due = self._is_due and rate == self._written
        if not self._is_due:
            self.rate = rate
        event.state.lr = self._written = rate

    def on_epoch_begin(self, event: EpochBegin) -> None:
        """Set the rate that the evaluations so far have led to."""
        if event.state.lr != self._written:
            self.rate = event.state.lr
        event.state.lr = self._written = self.rate
        self._is_due = False

    def on_eval_end(self, event: EvalEnd) -> Report | None:
        """Judge an evaluation, and cut the rate if there were too many bad ones in a row."""
        state, best = event.state, self.best
        if best.measured(state) is None:
            if self._told_absence:
                return None
            self._told_absence = True
            absence = best.explain_absence(state)
            return Report(f"the rate is never cut: {absence}", severity="error")
        if best.observe(state) or best.wait <= self.patience:
            return None
        best.wait = 0
        self._cut()
        self._is_due = True
        return None

    def _cut(self) -> None:
        self.rate = max(self.rate * self.factor, min(self.least, self.rate))

    def pack(self) -> Memory:
        """Return what was best, and the rate of the next epoch if it is not the run's yet."""
        due = {"due": self._is_due, "rate": self.rate, "written": self._written}
        return {**self.best.pack(), **due}

    def unpack(self, packed: Memory) -> None:
        """Go on from there."""
        require_kinds(packed, due=bool, rate=float, written=float)
        self.best.unpack(packed)
        self._is_due, self.rate, self._written = packed["due"], packed["rate"], packed["written"]

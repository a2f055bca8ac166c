"""A learning rate that is cut when a metric stops getting better.

In: evaluations.  Out: ``state.lr`` at the next epoch.  Invariant: the rate only falls, and never
below its least value; a resumed run keeps its cuts.
"""

from typing import final

from workbench.train.bounds import number_from, whole_from
from workbench.train.callback import SCHEDULE_BAND, Callback
from workbench.train.callbacks.best import Best
from workbench.train.callbacks.packed import Kind, Packed
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
        self.rate = event.state.lr or event.run.config.lr
        event.state.lr = self._written = self.rate
        if self._is_due:  # the run was left, or saved, between an evaluation and the next epoch
            self._cut()

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

    def pack(self) -> Packed:
        """Return its state; the rate itself is the run's.

        A cut that is due is a wait of -1, since nothing was waited for after it.
        """
        packed = self.best.pack(Kind.SCHEDULE)
        return packed._replace(wait=-1.0) if self._is_due else packed

    def unpack(self, packed: Packed) -> None:
        """Take back its state."""
        self._is_due = packed.wait < 0.0
        self.best.unpack(packed._replace(wait=max(packed.wait, 0.0)))

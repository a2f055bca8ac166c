"""The end of a run that has used up its time.

In: a monotonic clock.  Out: ``state.stop`` with a reason.  Invariant: what counts is the time on
the wall since this process began or resumed the run, pauses included.
"""

import time
from collections.abc import Callable
from typing import final

from workbench.arguments import number_from
from workbench.train.callback import EARLY_STOP_BAND, Callback
from workbench.train.duration import duration
from workbench.train.events import BatchEnd, EpochEnd, RunBegin

__all__ = ["TimeBudget"]


@final
class TimeBudget(Callback):
    """Stop once the run has taken ``seconds``.

    The time is that of one `fit`: the next one has the whole budget again, and goes on.

    Parameters
    ----------
    seconds
        Above 0.
    every_batch
        Whether to look at the clock after each batch and stop there, rather than at the end of the
        epoch in which the time runs out.
    clock
        Seconds that never go back.

    Raises
    ------
    ConfigurationError
        If ``seconds`` is not above 0.
    """

    band = EARLY_STOP_BAND
    may_stop = True

    def __init__(
        self,
        seconds: float,
        *,
        every_batch: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = number_from("seconds", seconds, 0.0, open_end=True)
        self._clock = clock
        self._end = float("inf")
        if every_batch:
            self.on_batch_end = self._after_batch

    def on_run_begin(self, event: RunBegin) -> None:
        """Begin to count."""
        self._end = self._clock() + self.seconds

    def on_epoch_end(self, event: EpochEnd) -> None:
        """Look at the clock."""
        if self._clock() >= self._end:
            event.run.stop(after="epoch", reason=self._reason)

    def _after_batch(self, event: BatchEnd) -> None:
        if self._clock() >= self._end:
            event.run.stop(after="batch", reason=self._reason)

    @property
    def _reason(self) -> str:
        return f"the time budget of {duration(self.seconds)} is used up"

"""A bar that is rewritten as the run goes on, with the time that is left.

In: ends of batches and epochs.  Out: reports in place.  Invariant: at most ten a second, whatever
the run's speed, and the last state is always shown.
"""

import sys
import time
from collections.abc import Callable
from typing import Final, final

from workbench.arguments import whole_from
from workbench.train.callback import PROGRESS_BAND, Callback
from workbench.train.callbacks.stopping import may_stop_early
from workbench.train.estimate import TimeEstimate
from workbench.train.events import (
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EvalEnd,
    RunBegin,
    RunEnd,
    RunView,
)
from workbench.train.report import bar, colours, epoch_label, fixed
from workbench.train.reports import Report
from workbench.train.screen import draws_unicode

__all__ = ["Progress", "validations_left"]

_INTERVAL_S: Final = 0.1


@final
class Progress(Callback):
    """Show a bar, the training loss and the time left, if ``config.verbose`` says so.

    After an epoch the bar is the share of the epochs, within an epoch that of its batches.

    Parameters
    ----------
    width
        Characters of the bar, without its ends.
    batch_every
        Show each so many batches; 0 shows epochs only.  Above 0 it brings Python back into the
        loop, which matters where a step takes microseconds.
    clock
        Seconds that never go back.

    Attributes
    ----------
    estimate
        What is known of the run's speed; its units are updates.

    Raises
    ------
    ConfigurationError
        If a number is negative.
    """

    band = PROGRESS_BAND
    reads = ("lr", "stop")

    def __init__(
        self,
        width: int = 24,
        batch_every: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.width = whole_from("width", width, 0)
        self.batch_every = whole_from("batch_every", batch_every, 0)
        self.estimate = TimeEstimate()
        self._clock = clock
        self._last = -float("inf")
        self._late: Callable[[], str] | None = None
        self._portion = (0, 0)
        self._validation_s = 0.0
        self._validations = 0
        self._unicode = self._colour = False
        if self.batch_every:
            # A hook of the instance: without it, batches stay in native code.
            self.on_batch_end = self._after_batch

    def on_run_begin(self, event: RunBegin) -> None:
        """Begin to measure: what was trained before does not count."""
        self._unicode, self._colour = draws_unicode(sys.stdout), colours(sys.stdout)
        self._last, self._late = -float("inf"), None
        self.estimate.restart()
        self._portion = _portion(event.run)
        self._feed(event.run)

    def on_epoch_begin(self, event: EpochBegin) -> None:
        """Measure anew if an update is no longer what it was."""
        if _portion(event.run) != self._portion:
            self._portion = _portion(event.run)
            self.estimate.restart()
            self._feed(event.run)

    def _after_batch(self, event: BatchEnd) -> Report | None:
        if event.batch % self.batch_every:
            return None
        self._feed(event.run)
        state, run, done = event.state, event.run, event.batch + 1
        label = epoch_label(state.epoch + 1, run.config.epochs)
        loss = state.train_loss
        return self._shown(run, lambda: self._line(run, label, done, state.batches, done, loss))

    def on_eval_end(self, event: EvalEnd) -> None:
        """Take note of how long the evaluation took."""
        self._validations += 1
        self._validation_s += event.seconds

    def on_epoch_end(self, event: EpochEnd) -> Report | None:
        """Show the epochs that are complete."""
        self._feed(event.run)
        run, epoch, epochs = event.run, event.epoch, event.run.config.epochs
        label, loss = epoch_label(epoch, epochs), event.loss
        return self._shown(run, lambda: self._line(run, label, epoch, epochs, 0, loss))

    def on_run_end(self, event: RunEnd) -> Report | None:
        """Show the last state, if it came too soon after the one before."""
        late, self._late = self._late, None
        return None if late is None else Report(late(), in_place=True)

    def _feed(self, run: RunView) -> None:
        self.estimate.feed(
            run.state.global_step,
            self._clock(),
            paused_s=run.paused_s,
            validation_s=self._validation_s,
            validations=self._validations,
        )

    def _shown(self, run: RunView, line: Callable[[], str]) -> Report | None:
        """Return a report of ``line``, unless the last one is too recent."""
        if not run.config.verbose:
            return None
        now = self._clock()
        if now - self._last < _INTERVAL_S:
            self._late = line
            return None
        self._last, self._late = now, None
        return Report(line(), in_place=True)

    def _line(
        self, run: RunView, label: str, done: int, total: int, batch: int, loss: float
    ) -> str:
        drawn = bar(done, total, self.width, unicode=self._unicode, colour=self._colour)
        line = f"{label}  {drawn}  loss {fixed(loss, 4)}"
        state, config = run.state, run.config
        batches = (config.epochs - state.epoch) * state.batches - batch
        units = -(-batches // run.accum_steps)
        if units <= 0 or state.stop:
            return line
        left = self.estimate.left(
            units,
            validations=validations_left(run, units),
            may_stop=may_stop_early(run.callbacks),
        )
        return line if left is None else f"{line}  {left} left"


def _portion(run: RunView) -> tuple[int, int]:
    """Return what the time of one update depends on: rows of a batch, rows of the data."""
    return run.config.batch_size, run.state.rows


def validations_left(run: RunView, updates: int) -> int:
    """Return how many evaluations are still to come, those within epochs too.

    One within an epoch that falls on the epoch's own is counted with it: the time is at most that.
    """
    config, state = run.config, run.state
    if not run.evaluates:
        return 0
    every, steps, done = config.eval_every, config.eval_every_steps, state.global_step
    left = config.epochs // every - state.epoch // every if every else 0
    return left + ((done + updates) // steps - done // steps if steps else 0)

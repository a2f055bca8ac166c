"""A sweep over learning rates, to find one to begin with.

In: a run, its rows and its step.  Out: losses by rate, and a suggestion.  Invariant: the run and
its context are left as they are: what is trained is a copy.

The method is that of Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017: the
rate grows exponentially from batch to batch until the loss explodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np
import numpy.typing as npt

from workbench.arguments import number_from, whole_from
from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.errors import ConfigurationError
from workbench.runtime.context import Context
from workbench.train.callback import EARLY_STOP_BAND, Callback
from workbench.train.callbacks.schedule import StepSchedule
from workbench.train.curves import drawn
from workbench.train.events import BatchEnd
from workbench.train.run import Run
from workbench.train.training import Step, Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RateSweep", "find_learning_rate"]

_KEPT: Final = 0.9
"""How much of the smoothed loss comes from the steps before."""

_NOISY: Final = 10
"""After so many losses their mean is smooth: ``_KEPT`` weighs about as many."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class RateSweep:
    """What a sweep over learning rates found.

    Attributes
    ----------
    rates
        The rate of each update that was made, float64.
    losses
        The loss at it, before the update.
    smoothed
        The losses' exponential moving average, corrected for its beginning.
    suggestion
        The rate at which the smoothed loss fell fastest over the logarithm of the rate; NaN if it
        never fell.
    """

    rates: npt.NDArray[np.float64]
    losses: npt.NDArray[np.float64]
    smoothed: npt.NDArray[np.float64]
    suggestion: float

    def figure(self) -> Figure:
        """Return a drawing of the losses over the rates, with the suggestion.

        Raises
        ------
        BackendUnavailable
            If matplotlib is not installed.
        """
        import pandas as pd  # slow to import, and only needed here

        table = {"loss": self.losses, "smoothed loss": self.smoothed}
        figure = drawn(
            pd.DataFrame(table, pd.Index(self.rates, name="learning rate")), "training loss"
        )
        axes = cast("Any", figure.axes[0])
        axes.set_xscale("log")
        if math.isfinite(self.suggestion):
            axes.axvline(self.suggestion, color="0.3", linestyle="--")
            axes.set_title(f"suggestion {self.suggestion:.2g}")
        return figure

    def __repr__(self) -> str:
        span = f"{self.rates[0]:.2g} to {self.rates[-1]:.2g}" if len(self.rates) else "none"
        return f"<RateSweep: {len(self.rates)} rates, {span}; suggestion {self.suggestion:.2g}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"


def find_learning_rate(
    run: Run,
    train: Dataset | Stream,
    step: Step,
    *,
    least: float = 1e-7,
    greatest: float = 10.0,
    steps: int = 100,
    rise: float = 4.0,
) -> RateSweep:
    """Train a copy of ``run`` at growing rates, and return how the loss went.

    Parameters
    ----------
    run
        Whose parameters, optimizer state, batch size and seed are taken; it is not changed.
    train, step
        As for `fit`.
    least, greatest
        The first rate and the last one.
    steps
        Updates, 2 or more; their rates grow by the same factor each.
    rise
        The sweep ends early when the smoothed loss is so many times its least, or not finite.

    Returns
    -------
    RateSweep
        Rates, losses and a suggestion.

    Raises
    ------
    ConfigurationError
        If ``greatest`` is not above ``least``, or another number is out of range.
    """
    number_from("least", least, 0.0, open_end=True)
    number_from("rise", rise, 1.0, open_end=True)
    whole_from("steps", steps, 2)
    if not least < greatest < math.inf:
        raise ConfigurationError(
            f"the rates go from {least} to {greatest}",
            remedy="pass a `greatest` above `least`, such as 1e-7 and 10",
        )
    window = run.accum_steps
    batches = steps * window
    if isinstance(train, Stream):
        batches = min(batches, train.steps_per_epoch)
        train = Stream(
            train.batches, batch_size=train.batch_size, steps_per_epoch=batches, dtype=train.dtype
        )
    factor = greatest / least
    watch = _Watch(rise, window)
    config = replace(
        run.config,
        epochs=1,
        lr=least,
        verbose=False,
        validation_split=0.0,
        eval_every=0,
        eval_every_steps=0,
        steps_per_epoch=batches,
    )
    context = Context(run.context.backend, settings=run.context.settings)
    copy = Run(run.params, run.opt, config, context=context)
    schedule = StepSchedule(lambda update: least * factor ** (update / (steps - 1)))
    copy.train_now(Training([schedule, watch], train, None, step))
    losses = np.array(watch.losses, np.float64)
    rates = schedule.step_rates(0, len(losses))
    smoothed = np.array(watch.smoothed, np.float64)
    return RateSweep(rates, losses, smoothed, _suggestion(rates, smoothed))


class _Watch(Callback):
    """Keeps the loss of each update, and ends the sweep when it explodes."""

    band = EARLY_STOP_BAND
    fatal = True

    def __init__(self, rise: float, window: int) -> None:
        self.rise, self.window = rise, window
        self.losses: list[float] = []
        self.smoothed: list[float] = []
        self._mean = 0.0
        self._open: list[float] = []

    def on_batch_end(self, event: BatchEnd) -> None:
        """Take a loss."""
        self._open.append(event.loss)
        if len(self._open) < self.window and event.batch + 1 < event.state.batches:
            return
        loss = float(np.mean(self._open))
        self._open.clear()
        self._mean = _KEPT * self._mean + (1.0 - _KEPT) * loss
        smoothed = self._mean / (1.0 - _KEPT ** (len(self.losses) + 1))
        if math.isfinite(loss):
            self.losses.append(loss)
            self.smoothed.append(smoothed)
        if not math.isfinite(loss) or smoothed > self.rise * min(self.smoothed):
            event.run.stop(after="batch", reason="the loss exploded")


def _suggestion(rates: npt.NDArray[np.float64], smoothed: npt.NDArray[np.float64]) -> float:
    """Return the rate where the loss falls fastest, before it is least."""
    if len(rates) < 2:
        return math.nan
    slopes: npt.NDArray[Any] = np.gradient(smoothed, np.log(rates))
    lowest = int(np.argmin(smoothed))
    # The mean of the first few losses is mostly noise, and so is its slope.
    first = _NOISY if lowest > _NOISY else 0
    place = first + int(np.argmin(slopes[first : lowest + 1]))
    return float(rates[place]) if slopes[place] < 0.0 else math.nan

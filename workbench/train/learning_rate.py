"""A sweep over learning rates, to find one to begin with.

In: a run, its rows and its step.  Out: losses by rate, and a suggestion.  Invariant: the run and
its context are left as they are: what is trained is a copy.

The method is that of Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017: the
rate grows exponentially from batch to batch until the loss explodes. Losses are judged by their
differences, in units of what the loss fell and of its noise: never by their ratio, so that a loss
plus a constant, or times a positive one, suggests the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

__all__ = ["RateSweep", "exploded", "find_learning_rate", "suggested"]

_KEPT: Final = 0.9
"""How much of the smoothed loss comes from the steps before."""

_FEWEST: Final = 2

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
        never fell by more than its noise.
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
        The sweep ends early when the smoothed loss has risen by so many times what it had fallen,
        or its noise if that is more, or is not finite.

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
    return RateSweep(rates, losses, smoothed, suggested(rates, losses))


class _Watch(Callback):
    """Keeps the loss of each update, and ends the sweep when it explodes."""

    band = EARLY_STOP_BAND
    fatal = True

    def __init__(self, rise: float, window: int) -> None:
        self.rise, self.window = rise, window
        self.losses: list[float] = []
        self.smoothed: list[float] = []
        self._average = _Average()
        self._open: list[float] = []

    def on_batch_end(self, event: BatchEnd) -> None:
        """Take a loss."""
        self._open.append(event.loss)
        if len(self._open) < self.window and event.batch + 1 < event.state.batches:
            return
        loss = float(np.mean(self._open))
        self._open.clear()
        if math.isfinite(loss):
            self.losses.append(loss)
            self.smoothed.append(self._average.after(loss))
        if not math.isfinite(loss) or exploded(self.losses, self.smoothed, self.rise):
            event.run.stop(after="batch", reason="the loss exploded")


class _Average:
    """The exponential moving average of losses, corrected for its beginning."""

    def __init__(self) -> None:
        self._mean, self._missing = 0.0, 1.0

    def after(self, loss: float) -> float:
        """Take a loss and return the average."""
        self._mean = _KEPT * self._mean + (1.0 - _KEPT) * loss
        self._missing *= _KEPT
        return self._mean / (1.0 - self._missing)


def _noise(losses: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Return how much a loss differs from the one before: the median, which no explosion moves."""
    return float(np.median(np.abs(np.diff(losses)))) if len(losses) > 1 else 0.0


def exploded(losses: Sequence[float], smoothed: Sequence[float], rise: float) -> bool:
    """Return whether the smoothed loss has risen by ``rise`` times what it had fallen before.

    Where it fell by less than its noise, by ``rise`` times that.
    """
    least = min(smoothed)
    fallen = max(smoothed[: smoothed.index(least) + 1]) - least
    scale = max(fallen, _noise(losses))
    return scale > 0.0 and smoothed[-1] - least > rise * scale


def suggested(rates: npt.ArrayLike, losses: npt.ArrayLike) -> float:
    """Return the rate where a recorded loss falls fastest, before it is least.

    Parameters
    ----------
    rates
        Growing and above 0, shape ``(updates,)``.
    losses
        The loss at each, of any sign; what comes after the first that is not finite does not count.

    Returns
    -------
    float
        One of the rates, the same for a loss plus a constant and times a positive one; NaN if the
        smoothed loss does not fall by more than its noise.
    """
    curve = np.asarray(losses, np.float64)
    lost = np.flatnonzero(~np.isfinite(curve))
    curve = curve[: lost[0]] if len(lost) else curve
    average = _Average()
    # Only differences count: without the first loss no digit is lost to a great constant.
    smoothed = np.array([average.after(loss - curve[0]) for loss in curve.tolist()], np.float64)
    if len(curve) < _FEWEST:
        return math.nan
    slopes: npt.NDArray[Any] = np.gradient(smoothed, np.log(np.asarray(rates)[: len(curve)]))
    lowest = int(np.argmin(smoothed))
    # The mean of the first few losses is mostly noise, and so is its slope.
    first = _NOISY if lowest > _NOISY else 0
    place = first + int(np.argmin(slopes[first : lowest + 1]))
    fallen = float(smoothed[first : lowest + 1].max() - smoothed[lowest])
    falls = slopes[place] < 0.0 and fallen > _noise(curve[: lowest + 1])
    return float(np.asarray(rates)[place]) if falls else math.nan

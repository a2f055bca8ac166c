"""Schedules: callbacks that set the learning rate by the epoch or by the update.

In: a rate as a function of the position.  Out: ``state.lr``, and for rates by the update a table
that the native loop reads.  Invariant: the rate depends on the position in the run alone, so that a
resumed run goes on where the uninterrupted one would be.
"""

import math
from typing import Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from workbench.arguments import function_from, number_from
from workbench.train.callback import SCHEDULE_BAND, Callback
from workbench.train.callbacks.rate import Based, Rate
from workbench.train.config import Config
from workbench.train.events import EpochBegin, RunBegin

__all__ = ["EpochSchedule", "PerStep", "StepSchedule", "based_on"]


@runtime_checkable
class PerStep(Protocol):
    """A callback that knows the rate of each update beforehand.

    The loop asks once for each epoch and hands the table to native code: rates by the update then
    cost no call of Python.
    """

    def step_rates(self, first_step: int, count: int) -> npt.NDArray[np.float64]:
        """Return the rates of ``count`` updates.

        Parameters
        ----------
        first_step
            ``state.global_step`` of the first of them.
        count
            How many.
        """
        ...


@final
class EpochSchedule(Callback):
    """Set the learning rate at the beginning of each epoch.

    Parameters
    ----------
    rate
        ``rate(epoch)``, the epoch counted from 0: a `CosineRate` or one of its kin, or any function
        of that form.

    Examples
    --------
    >>> EpochSchedule(lambda epoch: 0.1 / (1 + epoch)).name
    'EpochSchedule(<lambda>)'
    """

    band = SCHEDULE_BAND
    writes = ("lr",)
    # A run whose rate went wrong unseen is worse than one that ended.
    fatal = True

    def __init__(self, rate: Rate) -> None:
        self.rate = function_from("rate", rate, "rate(epoch)")
        # Over the rate of the run that it serves, if it has no base of its own.
        self._based = self.rate
        self.name = f"{type(self).__name__}({_name_of(rate)})"

    def on_run_begin(self, event: RunBegin) -> None:
        """Set the rate of the epoch that the run begins or goes on with."""
        self._based = based_on(self.rate, event.run.config)
        event.state.lr = _checked(self._based, event.state.epoch)

    def on_epoch_begin(self, event: EpochBegin) -> None:
        """Set the rate of this epoch."""
        event.state.lr = _checked(self._based, event.epoch)


@final
class StepSchedule(Callback):
    """Set the learning rate for each update.

    Parameters
    ----------
    rate
        ``rate(step)``, the updates since the run began counted from 0: a `BudgetRate`, a
        `OneCycleRate` or another of their kin, or any function of that form.

    Examples
    --------
    >>> StepSchedule(lambda step: 0.1 / (1 + step)).step_rates(3, 2)
    array([0.025, 0.02 ])
    """

    band = SCHEDULE_BAND
    writes = ("lr",)
    fatal = True

    def __init__(self, rate: Rate) -> None:
        self.rate = function_from("rate", rate, "rate(step)")
        # Over the rate of the run that it serves, if it has no base of its own.
        self._based = self.rate
        self.name = f"{type(self).__name__}({_name_of(rate)})"

    def step_rates(self, first_step: int, count: int) -> npt.NDArray[np.float64]:
        """Return the rates of ``count`` updates from ``first_step`` on, float64.

        Raises
        ------
        ConfigurationError
            If one of them is negative or not finite.
        """
        rate = self._based
        found = [rate(step) for step in range(first_step, first_step + count)]
        if all(type(each) is float and 0.0 <= each < math.inf for each in found):
            return np.array(found, np.float64)
        rates = [_rate(rate, first_step + place, each) for place, each in enumerate(found)]
        return np.array(rates, np.float64)

    def on_run_begin(self, event: RunBegin) -> None:
        """Set the rate of the update that the run begins or goes on with."""
        self._based = based_on(self.rate, event.run.config)
        event.state.lr = _checked(self._based, event.state.global_step)

    def on_epoch_begin(self, event: EpochBegin) -> None:
        """Set the rate of the epoch's first update."""
        event.state.lr = _checked(self._based, event.state.global_step)


def _name_of(rate: Rate) -> str:
    return getattr(rate, "__name__", type(rate).__name__)


def based_on(rate: Rate, config: Config) -> Rate:
    """Return the rate over its own base, or over the configured one if its own is 0."""
    asked: object = rate
    return asked.with_base(config.lr) if isinstance(asked, Based) and asked.base == 0.0 else rate


def _checked(rate: Rate, position: int) -> float:
    return _rate(rate, position, rate(position))


def _rate(rate: Rate, position: int, value: object) -> float:
    return number_from(f"{_name_of(rate)}({position})", value, 0.0)

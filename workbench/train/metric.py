"""Metrics of an epoch, accumulated batch by batch.

In: a mean over the rows of each batch with the number of rows, or plain counts.  Out: the value
over all rows.  Invariant: the value does not depend on how the rows were cut into batches; a short
last batch weighs what its rows weigh.
"""

from collections.abc import ItemsView, Iterable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from workbench.errors import ConfigurationError

__all__ = ["Counter", "Meter", "MeterSet"]


@final
@dataclass(slots=True)
class Meter:
    """The mean of one quantity over rows, from sums and weights.

    Right for means over rows: loss, accuracy, absolute error.  A ratio of counts, such as
    precision, needs a `Counter`.

    Attributes
    ----------
    total
        The sum over all rows so far.
    count
        The rows so far, or the sum of their weights.

    Examples
    --------
    >>> meter = Meter()
    >>> meter.update(10.0, 2)
    >>> meter.update(9.0, 1)
    >>> round(meter.value, 4)
    9.6667
    """

    total: float = 0.0
    count: float = 0

    @property
    def value(self) -> float:
        """The mean over all rows; 0.0 when there were none."""
        return self.total / self.count if self.count else 0.0

    def update(self, value: float, count: float) -> None:
        """Add a batch of ``count`` rows, or of rows of that weight, whose mean is ``value``."""
        self.add_total(value * count if count else 0.0, count)

    def add_total(self, total: float, count: float) -> None:
        """Add ``count`` rows whose sum is ``total``.

        Raises
        ------
        ConfigurationError
            If ``count`` is negative.
        """
        _check_count(count)
        self.total += total
        self.count += count

    def update_all(self, values: NDArray[np.floating], counts: NDArray[np.float64]) -> None:
        """Add several batches, one after another: the same bits as an `update` for each.

        Parameters
        ----------
        values
            The mean of each batch, shape ``(batches,)``.
        counts
            The rows of each batch, or the sum of their weights, shape ``(batches,)``.
        """
        if len(values):
            sums = values * counts
            if not counts.all():
                sums[counts == 0.0] = 0.0  # the mean over nothing may be NaN, and adds nothing
            # Running sums keep the order of additions; a dot product would not.
            weights = counts.copy()
            sums[0] += self.total
            weights[0] += self.count
            self.total, self.count = float(sums.cumsum()[-1]), float(weights.cumsum()[-1])

    def reset(self) -> None:
        """Forget all rows."""
        self.total, self.count = 0.0, 0


@final
class MeterSet:
    """Meters by name, in the order in which the names were first seen.

    Examples
    --------
    >>> meters = MeterSet()
    >>> meters.update_batch(["loss", "accuracy"], [2.0, 0.5], 8)
    >>> meters.update_batch(["loss", "accuracy"], [4.0, 1.0], 8)
    >>> meters
    MeterSet(loss=3.0, accuracy=0.75)
    """

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they were first seen."""
        return tuple(self._meters)

    def update(self, name: str, value: float, count: float) -> None:
        """Add a batch of ``count`` rows to ``name``, whose mean over them is ``value``."""
        self._meters.setdefault(name, Meter()).update(value, count)

    def update_batch(self, names: Iterable[str], values: Iterable[float], count: float) -> None:
        """Add one batch of ``count`` rows to several names; each has one value."""
        for name, value in zip(names, values, strict=True):
            self.update(name, value, count)

    def value(self, name: str) -> float:
        """Return the mean of ``name``; 0.0 if it was never seen, which ``in`` can tell."""
        meter = self._meters.get(name)
        return 0.0 if meter is None else meter.value

    def count(self, name: str) -> float:
        """Return how many rows ``name`` was given; 0 if it was never seen."""
        meter = self._meters.get(name)
        return 0 if meter is None else meter.count

    def items(self) -> ItemsView[str, float]:
        """Return names and means, in the order in which the names were first seen."""
        return {name: meter.value for name, meter in self._meters.items()}.items()

    def __contains__(self, name: object) -> bool:
        return name in self._meters

    def __len__(self) -> int:
        return len(self._meters)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in self.items())
        return f"MeterSet({inner})"


@final
@dataclass(slots=True)
class Counter:
    """A ratio of two counts, divided once at the end: precision, recall, share of hits.

    The mean of the batches' ratios would be another number.

    Attributes
    ----------
    hits
        The numerator so far.
    total
        The denominator so far.

    Examples
    --------
    >>> counter = Counter()
    >>> counter.add(1, 2)
    >>> counter.add(3, 3)
    >>> counter.ratio
    0.8
    """

    hits: int = 0
    total: int = 0

    @property
    def ratio(self) -> float:
        """``hits / total``; 0.0 when there was nothing to count."""
        return self.hits / self.total if self.total else 0.0

    def add(self, hits: int, total: int) -> None:
        """Add the counts of a batch.

        Raises
        ------
        ConfigurationError
            If a count is negative, or there are more hits than chances.
        """
        _check_count(hits)
        _check_count(total)
        if hits > total:
            raise ConfigurationError(
                f"{hits} hits of {total} are more than all", remedy="pass the hits first"
            )
        self.hits += hits
        self.total += total


def _check_count(count: float) -> None:
    if count < 0:
        raise ConfigurationError(
            f"the count is {count}, below 0", remedy="pass the number of rows of the batch"
        )

"""Steps that stand out: a number is measured against the window of those before it.

In: losses or gradient norms. Out: how many standard deviations each lies off. Invariant:
a number is judged by what came before it, never by itself; what is not finite is not remembered.
"""

from __future__ import annotations

import math
from collections import deque
from typing import final

from workbench.arguments import whole_from

__all__ = ["OutlierDetector"]


@final
class OutlierDetector:
    """A z-score over a sliding window, on the host.

    Skip the update of a step whose score is above a bound. One detector watches one quantity.

    Parameters
    ----------
    window
        How many numbers are remembered.

    Raises
    ------
    ConfigurationError
        If ``window`` is not a whole number from 1 on.

    Examples
    --------
    >>> detector = OutlierDetector(4)
    >>> [detector.update(value) for value in (1.0, 1.1, 0.9, 1.0)]
    [nan, nan, nan, nan]
    >>> round(detector.update(1.05), 3)
    0.707
    """

    def __init__(self, window: int = 128) -> None:
        self.window = whole_from("window", window, 1)
        self._values: deque[float] = deque(maxlen=self.window)

    @property
    def values(self) -> tuple[float, ...]:
        """What is remembered, the oldest first."""
        return tuple(self._values)

    def update(self, value: float) -> float:
        """Return how far ``value`` lies from the mean of the window, and remember it.

        Returns
        -------
        float
            In population standard deviations, negative below the mean. NaN while the window fills;
            infinity for what is not finite, and for what differs from a window of equal numbers.
        """
        value = float(value)
        if not math.isfinite(value):
            return math.inf
        score = math.nan
        if len(self._values) == self.window:
            score = _score(value, self._values)
        self._values.append(value)  # the oldest falls out of a full window
        return score

    def __repr__(self) -> str:
        return f"<OutlierDetector: {len(self._values)} of {self.window} values>"


def _score(value: float, window: deque[float]) -> float:
    # In units of the greatest: squares of numbers near the greatest float would overflow.
    unit = max(abs(x) for x in window)
    if unit == 0.0:
        return 0.0 if value == 0.0 else math.copysign(math.inf, value)
    # Differences to the oldest: equal numbers have none, while their mean is rounded.
    oldest = window[0] / unit
    differences = [x / unit - oldest for x in window]
    count = len(window)
    mean = math.fsum(differences) / count
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in differences) / count)
    off = value / unit - oldest - mean
    if spread == 0.0:
        return 0.0 if off == 0.0 else math.copysign(math.inf, off)
    return off / spread

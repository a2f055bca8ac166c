"""One cycle: a rate that rises to a peak and then falls far below where it began.

In: a position counted from 0.  Out: the learning rate there.  Invariant: the peak is reached once.
Source: L. N. Smith and N. Topin, Super-Convergence, 2018, with both flanks cosines.
"""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import final

from workbench.arguments import number_from, share_from, whole_from
from workbench.train.callbacks.rate import Rate

__all__ = ["OneCycleRate"]


@final
@dataclass(frozen=True, slots=True)
class OneCycleRate:
    """A rate that rises from ``base / start_div`` to ``base``, then falls to its end.

    The rise ends at position ``rise * total - 1``, the fall at ``total - 1``, with the rate
    ``base / start_div / end_div``, which holds afterwards.

    Parameters
    ----------
    base
        The rate at the peak; 0 for the run's ``config.lr``.
    total
        Positions of the whole cycle, 1 or more.
    rise
        The share of the cycle that rises.
    start_div
        The peak divided by the first rate, above 0.
    end_div
        The first rate divided by the last, above 0.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Examples
    --------
    >>> rate = OneCycleRate(1.0, 10)
    >>> [round(rate(step), 3) for step in (0, 1, 2, 9)]
    [0.04, 0.52, 1.0, 0.0]
    """

    base: float
    total: int
    _: KW_ONLY
    rise: float = 0.3
    start_div: float = 25.0
    end_div: float = 1e4

    def __post_init__(self) -> None:
        number_from("base", self.base, 0.0)
        whole_from("total", self.total, 1)
        share_from("rise", self.rise)
        number_from("start_div", self.start_div, 0.0, open_end=True)
        number_from("end_div", self.end_div, 0.0, open_end=True)

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        first, end = self.base / self.start_div, self.total - 1
        peak = min(self.rise * self.total - 1.0, float(end))
        if position < peak:
            return _between(first, self.base, position / peak)
        last = first / self.end_div
        peak = max(peak, 0.0)
        # A cycle that is all rise ends at its peak.
        share = (min(position, end) - peak) / (end - peak) if end > peak else 0.0
        return _between(self.base, last, share)

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


def _between(start: float, end: float, share: float) -> float:
    """Return what half a wave of the cosine from ``start`` to ``end`` is at ``share`` of it."""
    return end + (start - end) * 0.5 * (1.0 + math.cos(math.pi * share))

"""Learning rates over a budget of updates that is known beforehand, with a linear warm-up.

In: a position counted from 0.  Out: the learning rate there.  Invariant: from the end of the budget
on the rate holds.
"""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Literal, TypeAlias, final, get_args

from workbench.arguments import number_from, share_from, whole_from
from workbench.errors import ConfigurationError
from workbench.train.callbacks.rate import Rate

__all__ = ["BudgetRate", "Course"]

Course: TypeAlias = Literal["constant", "cosine", "linear", "wsd"]

_COURSES: Final = get_args(Course)


@final
@dataclass(frozen=True, slots=True)
class BudgetRate:
    """A rate that warms up, holds or falls, and ends at a fraction of its base.

    With ``low = base * final_frac`` and ``r(start) = clip((position - start) / (total - start), 0,
    1)``, which is 1 if nothing is left after ``start``:

    ============  ==============================================================================
    warm-up       ``base * (position + 1) / warmup``; the end of the budget beats a longer one
    ``constant``  ``base``
    ``cosine``    ``low + (base - low) * (1 + cos(pi * r(warmup))) / 2``
    ``linear``    ``low + (base - low) * (1 - r(warmup))``
    ``wsd``       warm-up, stable, decay: ``base``, and for the last ``decay_frac`` of the budget
                  ``low + (base - low) * (1 - sqrt(r(start of the decay)))``
    ============  ==============================================================================

    Parameters
    ----------
    base
        The highest rate; 0 for the run's ``config.lr``.
    total
        Positions of the whole budget, 1 or more.
    course
        One of the names above.
    warmup
        Positions of the warm-up.
    final_frac
        The last rate as a share of ``base``; ``constant`` does not look at it.
    decay_frac
        The share of the budget that ``wsd`` decays over.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or the course has another name.

    Examples
    --------
    >>> rate = BudgetRate(0.05, 10, course="linear", final_frac=0.2)
    >>> [round(rate(step), 3) for step in (0, 1, 5, 8, 10, 12)]
    [0.05, 0.046, 0.03, 0.018, 0.01, 0.01]
    """

    base: float
    total: int
    _: KW_ONLY
    course: Course = "cosine"
    warmup: int = 0
    final_frac: float = 0.0
    decay_frac: float = 0.2

    def __post_init__(self) -> None:
        number_from("base", self.base, 0.0)
        whole_from("total", self.total, 1)
        whole_from("warmup", self.warmup, 0)
        share_from("final_frac", self.final_frac)
        share_from("decay_frac", self.decay_frac)
        if self.course not in _COURSES:
            raise ConfigurationError(
                f"the course is {self.course!r}", remedy=f"use one of {', '.join(_COURSES)}"
            )

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        base, low = self.base, self.base * self.final_frac
        if position < self.warmup and position < self.total:
            return base * (position + 1) / self.warmup
        if self.course == "constant":
            return base
        if self.course == "cosine":
            return low + 0.5 * (1.0 + math.cos(math.pi * self._share(position, self.warmup))) * (
                base - low
            )
        if self.course == "linear":
            return low + (1.0 - self._share(position, self.warmup)) * (base - low)
        decay = int((1.0 - self.decay_frac) * self.total)
        if position < decay:
            return base
        return low + (1.0 - math.sqrt(self._share(position, decay))) * (base - low)

    def _share(self, position: int, start: int) -> float:
        """Return how much of what comes after ``start`` is over at ``position``."""
        length = self.total - start
        return 1.0 if length <= 0 else min(max((position - start) / length, 0.0), 1.0)

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)

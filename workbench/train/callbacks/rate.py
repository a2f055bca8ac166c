"""Learning rates as pure functions of a position: constant, stepwise, exponential, cosine.

In: a position counted from 0, an epoch or an update.  Out: the learning rate there.  Invariant: a
rate depends on its position alone, whatever was asked before, so that a resumed run needs no state.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

from workbench.train.bounds import number_from, whole_from

__all__ = ["Based", "ConstantRate", "CosineRate", "ExponentialRate", "Rate", "StepRate"]

Rate: TypeAlias = Callable[[int], float]

# Fifteen digits: the reference trajectories were computed with them, and agree to the last bit.
_PI: Final = 3.14159265358979


@runtime_checkable
class Based(Protocol):
    """A rate that scales with a base; a base of 0 stands for the run's configured rate."""

    @property
    def base(self) -> float:
        """The rate that the others are fractions of."""
        ...

    def with_base(self, base: float) -> Rate:
        """Return the same course over another base."""
        ...


@final
@dataclass(frozen=True, slots=True)
class ConstantRate:
    """The same rate at every position.

    Parameters
    ----------
    base
        The rate; 0 for the run's ``config.lr``.

    Raises
    ------
    ConfigurationError
        If the base is negative or not finite.
    """

    base: float = 0.0

    def __post_init__(self) -> None:
        number_from("base", self.base, 0.0)

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        return self.base

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


@final
@dataclass(frozen=True, slots=True)
class StepRate:
    """A rate that is multiplied by ``factor`` after each ``every`` positions.

    ``max(base * factor ** (k // every), least)``, where ``k`` counts from the end of the warm-up.

    Parameters
    ----------
    base
        The first rate; 0 for the run's ``config.lr``.
    factor
        Above 0.
    every
        Positions between two changes, 1 or more.
    least
        The rate never falls below it, except in the warm-up.
    warmup
        During so many positions the rate rises: ``base * (position + 1) / (warmup + 1)``.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Examples
    --------
    >>> rate = StepRate(0.1, 0.5, every=2)
    >>> [rate(epoch) for epoch in (0, 1, 2, 5)]
    [0.1, 0.1, 0.05, 0.025]
    """

    base: float
    factor: float
    _: KW_ONLY
    every: int
    least: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        _check(self.base, self.least, self.warmup)
        number_from("factor", self.factor, 0.0, open_end=True)
        whole_from("every", self.every, 1)

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        if position < self.warmup:
            return _risen(self.base, position, self.warmup)
        falls = (position - self.warmup) // self.every
        return max(self.base * _power(self.factor, falls), self.least)

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


@final
@dataclass(frozen=True, slots=True)
class ExponentialRate:
    """A rate that is multiplied by ``factor`` at every position.

    ``max(base * factor ** k, least)``, where ``k`` counts from the end of the warm-up.

    Parameters
    ----------
    base
        The first rate; 0 for the run's ``config.lr``.
    factor
        Above 0.
    least
        The rate never falls below it, except in the warm-up.
    warmup
        During so many positions the rate rises: ``base * (position + 1) / (warmup + 1)``.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    base: float
    factor: float
    _: KW_ONLY
    least: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        _check(self.base, self.least, self.warmup)
        number_from("factor", self.factor, 0.0, open_end=True)

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        if position < self.warmup:
            return _risen(self.base, position, self.warmup)
        return max(self.base * _power(self.factor, position - self.warmup), self.least)

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


@final
@dataclass(frozen=True, slots=True)
class CosineRate:
    """Half a wave of the cosine, from ``base`` down to ``least``, which holds afterwards.

    ``least + (base - least) * (1 + cos(pi * t)) / 2`` with
    ``t = min((position - warmup) / (horizon - warmup), 1)``.

    Parameters
    ----------
    base
        The highest rate; 0 for the run's ``config.lr``.
    horizon
        The position at which ``least`` is reached.  A horizon that the warm-up swallows leaves the
        rate at ``base``.
    least
        The last rate.
    warmup
        During so many positions the rate rises: ``base * (position + 1) / (warmup + 1)``.

    Raises
    ------
    ConfigurationError
        If a value is out of range.

    Examples
    --------
    >>> rate = CosineRate(0.01, 60, least=0.0002, warmup=3)
    >>> [round(rate(epoch), 6) for epoch in (0, 3, 31, 60, 99)]
    [0.0025, 0.01, 0.005235, 0.0002, 0.0002]
    """

    base: float
    horizon: int
    _: KW_ONLY
    least: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        _check(self.base, self.least, self.warmup)
        whole_from("horizon", self.horizon, 0)

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        if position < self.warmup:
            return _risen(self.base, position, self.warmup)
        length = self.horizon - self.warmup
        if length <= 0:
            return self.base
        share = min((position - self.warmup) / length, 1.0)
        return self.least + (self.base - self.least) * 0.5 * (1.0 + math.cos(_PI * share))

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


def _check(base: float, least: float, warmup: int) -> None:
    number_from("base", base, 0.0)
    number_from("least", least, 0.0)
    whole_from("warmup", warmup, 0)


def _risen(base: float, position: int, warmup: int) -> float:
    """Return a rate on its way up: above 0 at once, and ``base`` just after the warm-up."""
    return base * (position + 1) / (warmup + 1)


def _power(factor: float, exponent: int) -> float:
    """Return ``factor ** exponent`` from products alone, which are the same on every machine."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= factor
        factor *= factor
        exponent >>= 1
    return result

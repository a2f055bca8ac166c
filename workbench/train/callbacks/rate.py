"""Learning rates as pure functions of a position: constant, stepwise, exponential, cosine.

In: a position counted from 0, an epoch or an update.  Out: the learning rate there.  Invariant: a
rate depends on its position alone, whatever was asked before, so that a resumed run needs no state.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final, Protocol, TypeAlias, final, runtime_checkable

from workbench.arguments import number_from, whole_from

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


@dataclass(frozen=True, slots=True)
class _Falling(ABC):
    """A rate that rises in a warm-up and then changes: what the three below have in common.

    Parameters
    ----------
    base
        The highest rate; 0 for the run's ``config.lr``.
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
    _: KW_ONLY
    least: float = 0.0
    warmup: int = 0

    def __post_init__(self) -> None:
        number_from("base", self.base, 0.0)
        number_from("least", self.least, 0.0)
        whole_from("warmup", self.warmup, 0)
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Refuse what is out of range among the values of its own."""

    @abstractmethod
    def _after(self, position: int) -> float:
        """Return the rate ``position`` positions after the warm-up."""

    def __call__(self, position: int) -> float:
        """Return the rate at ``position``."""
        if position < self.warmup:
            # On its way up: above 0 at once, and at its base just after the warm-up.
            return self.base * (position + 1) / (self.warmup + 1)
        return self._after(position - self.warmup)

    def with_base(self, base: float) -> Rate:
        """Return this course over another base."""
        return replace(self, base=base)


@final
@dataclass(frozen=True, slots=True)
class StepRate(_Falling):
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
    least, warmup
        Where it ends, and how it begins: never below ``least`` except in the warm-up, during which
        it rises, ``base * (position + 1) / (warmup + 1)``.

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

    factor: float
    _: KW_ONLY
    every: int

    def _check(self) -> None:
        number_from("factor", self.factor, 0.0, open_end=True)
        whole_from("every", self.every, 1)

    def _after(self, position: int) -> float:
        return max(self.base * _power(self.factor, position // self.every), self.least)


@final
@dataclass(frozen=True, slots=True)
class ExponentialRate(_Falling):
    """A rate that is multiplied by ``factor`` at every position.

    ``max(base * factor ** k, least)``, where ``k`` counts from the end of the warm-up.

    Parameters
    ----------
    base
        The first rate; 0 for the run's ``config.lr``.
    factor
        Above 0.
    least, warmup
        As of `StepRate`.

    Raises
    ------
    ConfigurationError
        If a value is out of range.
    """

    factor: float

    def _check(self) -> None:
        number_from("factor", self.factor, 0.0, open_end=True)

    def _after(self, position: int) -> float:
        return max(self.base * _power(self.factor, position), self.least)


@final
@dataclass(frozen=True, slots=True)
class CosineRate(_Falling):
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
    least, warmup
        As of `StepRate`.

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

    horizon: int

    def _check(self) -> None:
        whole_from("horizon", self.horizon, 0)

    def _after(self, position: int) -> float:
        length = self.horizon - self.warmup
        if length <= 0:
            return self.base
        share = min(position / length, 1.0)
        return self.least + (self.base - self.least) * 0.5 * (1.0 + math.cos(_PI * share))


def _power(factor: float, exponent: int) -> float:
    """Return ``factor ** exponent`` from products alone, which are the same on every machine."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= factor
        factor *= factor
        exponent >>= 1
    return result

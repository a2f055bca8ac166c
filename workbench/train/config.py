"""What a person decides about a run before it starts.

In: numbers as they were typed.  Out: a frozen `Config`.  Invariant: a `Config` that exists is one
that a run can be made with.
"""

import math
from dataclasses import KW_ONLY, dataclass
from operator import index
from typing import Final, final

from workbench.errors import ConfigurationError

__all__ = ["Config"]

_LEAST: Final = {"epochs": 0, "batch_size": 1, "eval_every": 0, "seed": -(1 << 63)}


@final
@dataclass(frozen=True, slots=True)
class Config:
    """How long, in what portions and at what rate a run trains.

    Parameters
    ----------
    epochs
        How many epochs the whole run has, those before a resumption included; 0 or more.
    batch_size
        Rows of a batch, 1 or more.
    lr
        The learning rate that the run starts with; finite and not negative.
    seed
        Where every random choice of the run comes from: an integer of 64 bits, signed or not.
    shuffle
        Whether each epoch visits the rows in an order of its own.
    eval_every
        Evaluate after each so many epochs; 0 never evaluates.
    verbose
        Whether the run reports as it goes.
    drop_last
        Whether a last batch of fewer rows is left out.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or a count is not an integer.

    Examples
    --------
    >>> Config(60, 16, 0.01, 20260807, eval_every=2).batch_size
    16
    """

    epochs: int
    batch_size: int
    lr: float
    seed: int
    _: KW_ONLY
    shuffle: bool = True
    eval_every: int = 1
    verbose: bool = True
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            # Numpy's integers become Python's: a seed is computed with beyond 64 bits.
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        object.__setattr__(self, "lr", _rate(self.lr))
        if self.seed >= 1 << 64:
            raise ConfigurationError(
                f"seed is {self.seed}, which does not fit in 64 bits",
                remedy="choose a seed from -2**63 up to 2**64 - 1",
            )


def _whole(name: str, value: object, least: int) -> int:
    try:
        number = index(value)  # type: ignore[arg-type]  # asked of whatever was typed
    except TypeError:
        raise ConfigurationError(
            f"{name} is {value!r}, which is not an integer", remedy=f"pass {name} as an integer"
        ) from None
    if isinstance(value, bool):
        raise ConfigurationError(
            f"{name} is {value}, a truth value", remedy=f"pass {name} as an integer"
        )
    if number < least:
        raise ConfigurationError(
            f"{name} is {number}; it is at least {least}", remedy=f"use {least} or more"
        )
    return number


def _rate(value: object) -> float:
    try:
        rate = float(value)  # type: ignore[arg-type]  # asked of whatever was typed
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"lr is {value!r}, which is not a number", remedy="pass a number such as 0.01"
        ) from None
    if not 0.0 <= rate < math.inf:
        raise ConfigurationError(
            f"lr is {rate}; it is finite and not negative", remedy="pass a number such as 0.01"
        )
    return rate

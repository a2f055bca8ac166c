"""One completed epoch, as a run's history tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["EpochRow"]


@final
@dataclass(frozen=True, slots=True)
class EpochRow:
    """One completed epoch.

    Attributes
    ----------
    epoch
        Completed epochs: 1 after the first.
    train_loss
        The mean loss over the epoch's rows.
    lr
        The learning rate at its end.
    val
        Names and means of its evaluation; empty if it was not evaluated.
    seconds
        How long it took.
    train
        Names of the step's own metrics and their means over the epoch's rows.
    """

    epoch: int
    train_loss: float
    lr: float
    val: tuple[tuple[str, float], ...] = ()
    seconds: float = 0.0
    train: tuple[tuple[str, float], ...] = ()

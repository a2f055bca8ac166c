"""Where a run stands: the numbers that the loop advances and callbacks read.

Invariant: only the training thread writes a `RunState`; each field has one writer, the loop or the
one callback that declared it.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, final

from workbench.train.config import Config
from workbench.train.metric import MeterSet

__all__ = ["RunState"]


_put: Final = object.__setattr__


@final
@dataclass(slots=True)
class RunState:
    """The progress of a run.

    Attributes
    ----------
    epoch
        Completed epochs; while an epoch runs, its index counted from 0.
    epochs
        How many epochs the run has.
    batch, batches
        The batch of this epoch, counted from 0, and how many there are.
    rows
        Rows of the training set.
    global_step
        Updates tried since the run began, those that were skipped for a gradient that is not finite
        included; never reset.
    lr
        The learning rate of the next step.
    train_loss
        The mean loss over this epoch's rows so far; NaN before there is one.
    val_loss
        ``loss`` of the last evaluation; NaN if there was none or it has no such metric.
    val
        All metrics of the last evaluation, kept until the next one: it may be some epochs old.
    unsound
        Why the last evaluation cannot be the best, such as parameters that hold NaN; empty if it
        can be.
    seed
        The run's base seed.
    stop, stop_reason
        Whether the run ends, and why.
    stop_after
        Whether it ends after this ``"epoch"`` or this ``"batch"``.
    stopped_by
        The callback that decided so.  Such a stop is part of the run: it is in checkpoints, and
        `fit` trains no further until ``run.resume()``.  Empty if a person asked for the stop,
        after which the next `fit` goes on.
    best_path
        The file of the best parameters, once there is one.
    guard
        What the dispatcher refuses, see ``state_guard``.
    guarded
        The thread whose writes are guarded.
    """

    epoch: int = 0
    epochs: int = 0
    batch: int = 0
    batches: int = 0
    rows: int = 0
    global_step: int = 0
    lr: float = 0.0
    train_loss: float = math.nan
    val_loss: float = math.nan
    val: MeterSet = field(default_factory=MeterSet)
    unsound: str = ""
    seed: int = 0
    stop: bool = False
    stop_reason: str = ""
    stop_after: Literal["batch", "epoch"] = "epoch"
    stopped_by: str = ""
    best_path: str = ""
    # Refuses what a callback may not write, while one is called.
    guard: Callable[[str, object], None] | None = field(default=None, repr=False, compare=False)
    guarded: int = field(default=0, repr=False, compare=False)

    def __setattr__(self, name: str, value: object) -> None:
        # Another thread, such as a notebook's cell, writes for itself.
        guard = getattr(self, "guard", None)
        if guard is not None and name != "guard" and self.guarded == threading.get_ident():
            guard(name, value)
        _put(self, name, value)

    def put(self, name: str, value: object) -> None:
        """Write a field for the run itself, whoever is being called."""
        _put(self, name, value)

    @classmethod
    def at_start(cls, config: Config) -> "RunState":
        """Return the state of a run that has done nothing yet."""
        return cls(epochs=config.epochs, lr=config.lr, seed=config.seed)

    def request_stop(self, reason: str, *, after: Literal["batch", "epoch"] = "epoch") -> None:
        """Ask that the run end after this epoch, or this batch; the first reason given is kept.

        Any number of callbacks may ask, so asking is not a write that must be declared.
        """
        if not self.stop:
            _put(self, "stop", True)
            _put(self, "stop_reason", reason)
            _put(self, "stop_after", after)
        elif after == "batch":
            _put(self, "stop_after", after)

    def forget_stop(self) -> None:
        """Let the next training go on, whoever ended the last one."""
        self.stop, self.stop_reason = False, ""
        self.stop_after, self.stopped_by = "epoch", ""

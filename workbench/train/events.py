"""The moments of a run, as values: one frozen event for each hook that a callback may have.

Invariant: an event is only made by the loop; a callback reads it and may change the run through
``event.state``.  New fields may be added to an event, none is taken away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, final

import numpy.typing as npt

from workbench.train.config import Config
from workbench.train.controls import After
from workbench.train.metric import MeterSet
from workbench.train.state import RunState

__all__ = [
    "BatchBegin",
    "BatchEnd",
    "EpochBegin",
    "EpochEnd",
    "EvalEnd",
    "Event",
    "Hook",
    "RunBegin",
    "RunEnd",
    "RunView",
]


class Hook(Enum):
    """The seven moments at which callbacks are called; the values are stable and go to files."""

    RUN_BEGIN = 0
    EPOCH_BEGIN = 1
    BATCH_BEGIN = 2
    BATCH_END = 3
    EVAL_END = 4
    EPOCH_END = 5
    RUN_END = 6

    # By identity, as equality is: that of `Enum` is Python code, and asked for at every batch.
    __hash__ = object.__hash__

    @property
    def method(self) -> str:
        """The name of the method that a callback defines for it, such as ``on_epoch_end``."""
        return f"on_{self.name.lower()}"

    @property
    def is_reversed(self) -> bool:
        """Whether callbacks run by descending band here.

        The ends of what has a beginning mirror it, so that one callback can wrap another.  An
        evaluation has no begin hook: there is nothing to mirror, and who judges it comes before who
        acts on the judgement.
        """
        return self in _REVERSED


_REVERSED: Final = frozenset({Hook.BATCH_END, Hook.EPOCH_END, Hook.RUN_END})


class RunView(Protocol):
    """What callbacks see of a run."""

    @property
    def config(self) -> Config:
        """What was decided before the run."""
        ...

    @property
    def state(self) -> RunState:
        """Where the run stands; a callback writes the fields that it declared."""
        ...

    @property
    def params(self) -> Any:
        """The parameters after the last step; asking for them copies them out of the engine."""
        ...

    @params.setter
    def params(self, tree: Any) -> None: ...

    @property
    def opt(self) -> Any:
        """The optimizer state after the last step; asking for it copies it out of the engine."""
        ...

    @property
    def callbacks(self) -> Sequence[object]:
        """The callbacks of this run, as they were given."""
        ...

    @property
    def evaluates(self) -> bool:
        """Whether there is something to evaluate on."""
        ...

    @property
    def skips_steps(self) -> bool:
        """Whether the optimizer skips steps whose gradients are not finite."""
        ...

    @property
    def accum_steps(self) -> int:
        """How many batches make an update."""
        ...

    @property
    def paused_s(self) -> float:
        """Seconds that the run was paused, in this process."""
        ...

    @property
    def series(self) -> Mapping[str, npt.NDArray[Any]]:
        """The step's own metrics, a value for each batch of the epoch at hand; NaN if not run."""
        ...

    def stop(self, *, after: After = ..., reason: str = ...) -> None:
        """Ask for the end after the batch or the epoch at hand."""
        ...


@dataclass(frozen=True, slots=True)
class _OfRun:
    """What every event has.

    Attributes
    ----------
    run
        The run it happened in.
    """

    run: RunView

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self.run.state


@final
@dataclass(frozen=True, slots=True)
class RunBegin(_OfRun):
    """A run begins or goes on: before its first epoch here, after anything was restored."""

    hook: ClassVar[Hook] = Hook.RUN_BEGIN


@final
@dataclass(frozen=True, slots=True)
class EpochBegin(_OfRun):
    """The rows of an epoch are in their order and none was used yet.

    Attributes
    ----------
    epoch
        Its index, counted from 0.
    """

    hook: ClassVar[Hook] = Hook.EPOCH_BEGIN
    epoch: int


@final
@dataclass(frozen=True, slots=True)
class BatchBegin(_OfRun):
    """A batch is about to be learned; the rate in ``state.lr`` after this hook is the one used.

    Attributes
    ----------
    batch
        Its index in the epoch, counted from 0.
    rows
        How many rows it has.
    """

    hook: ClassVar[Hook] = Hook.BATCH_BEGIN
    batch: int
    rows: int


@final
@dataclass(frozen=True, slots=True)
class BatchEnd(_OfRun):
    """A batch was learned; ``state.train_loss`` is the mean of the epoch up to here.

    Attributes
    ----------
    batch
        Its index in the epoch, counted from 0.
    rows
        How many rows it had.
    loss
        Its own mean loss, before the update.
    """

    hook: ClassVar[Hook] = Hook.BATCH_END
    batch: int
    rows: int
    loss: float


@final
@dataclass(frozen=True, slots=True)
class EvalEnd(_OfRun):
    """The validation set was evaluated; comes before the end of the epoch, and not in each one.

    With ``eval_every_steps`` it comes within epochs too: ``state.batch`` is the batch after which.

    Attributes
    ----------
    epoch
        Completed epochs.
    metrics
        The values over its rows, which ``state.val`` holds too.
    seconds
        How long it took, pauses left out.
    """

    hook: ClassVar[Hook] = Hook.EVAL_END
    epoch: int
    metrics: MeterSet
    seconds: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class EpochEnd(_OfRun):
    """An epoch is complete, its evaluation included.

    Attributes
    ----------
    epoch
        Completed epochs: 1 after the first.
    loss
        The mean loss over its rows.
    evaluated
        Whether it was evaluated; if not, ``state.val`` is from an earlier epoch.
    seconds
        How long it took, evaluation included and pauses left out.
    """

    hook: ClassVar[Hook] = Hook.EPOCH_END
    epoch: int
    loss: float
    evaluated: bool
    seconds: float


@final
@dataclass(frozen=True, slots=True)
class RunEnd(_OfRun):
    """The run ends, however it came to that.

    Attributes
    ----------
    outcome
        ``"completed"`` all epochs, ``"stopped"`` by a callback or a person, ``"interrupted"`` from
        the keyboard or the kernel, or ``"failed"`` with an exception.
    """

    hook: ClassVar[Hook] = Hook.RUN_END
    outcome: Literal["completed", "stopped", "interrupted", "failed"]


Event: TypeAlias = RunBegin | EpochBegin | BatchBegin | BatchEnd | EvalEnd | EpochEnd | RunEnd

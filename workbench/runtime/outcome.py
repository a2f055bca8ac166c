"""Failures as values, each with the phase it belongs to: for searches, which go on after one.

In: an attempt to compile or to run. Out: what it gave, or what failed where. Invariant: what a
caller did wrong (a released context, a shape, an order of runs) is raised as always; only what may
be the fault of one candidate among many is returned.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, final

if TYPE_CHECKING:
    from workbench.runtime.context import Context
    from workbench.runtime.routine import Routine


class Phase(enum.Enum):
    """Where on the way from a program to its results something failed."""

    TRANSFORM = "transform"
    BACKEND_CODEGEN = "backend codegen"
    BACKEND_LINK = "backend link"
    PREFLIGHT = "preflight"
    LAUNCH = "launch"
    SYNC = "sync"

    @property
    def wrote_nothing(self) -> bool:
        """Whether no buffer can have been written when it fails."""
        return self not in (Phase.LAUNCH, Phase.SYNC)


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """What failed, and where.

    Attributes
    ----------
    phase
        Where.
    error
        What was raised.
    is_candidates
        Whether the candidate alone is at fault, so that another may be tried. If not, and the
        phase may have written, the lineage can be used no more.
    """

    phase: Phase
    error: Exception
    is_candidates: bool

    def __str__(self) -> str:
        return f"{self.phase.value}: {type(self.error).__name__}: {self.error}"


_Made = TypeVar("_Made")


@final
@dataclass(frozen=True, slots=True)
class Outcome(Generic[_Made]):
    """What an attempt gave: ``made``, or a ``failure``.

    Attributes
    ----------
    made
        The result; None if it failed.
    failure
        Why; None if it did not.
    """

    made: _Made | None
    failure: Failure | None = None

    def result(self) -> _Made:
        """Return what was made, or raise what was raised."""
        if self.failure is not None:
            raise self.failure.error
        assert self.made is not None
        return self.made


CompileOutcome = Outcome[tuple["Context", "Routine"]]


@final
class Reached:
    """How far a compile has come."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase: Phase | None = None


def classify(phase: Phase, error: BaseException) -> bool:
    """Return whether a failure is the fault of the candidate at hand alone.

    A transform, the code generator and the link write nothing, so whatever an `Exception` says
    there, the next candidate may be tried. A launch that failed may have written half its results:
    on a processor nothing vouches for the contrary. What is no `Exception`, such as an interrupt,
    and an `AssertionError`, which is a fault of ours, is never a candidate's.
    """
    if not isinstance(error, Exception) or isinstance(error, AssertionError):
        return False
    return phase.wrote_nothing

"""Failures as values, each with the phase it belongs to: for searches, which go on after one.

In: an attempt to compile or to run. Out: what it gave, or what failed where. Invariant: what a
caller did wrong (a released context, a shape, an order of runs) is raised as always; only what may
be the fault of one candidate among many is returned.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, final

from workbench.backends.registry import DRIVERS
from workbench.errors import DeviceMemoryError


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


@final
class Reached:
    """How far a compile has come; the phase is None while what a caller gave is being checked."""

    __slots__ = ("phase",)

    def __init__(self) -> None:
        self.phase: Phase | None = None


def classify(
    phase: Phase, error: BaseException, blames: Callable[[BaseException], bool | None]
) -> bool:
    """Return whether a failure is the fault of the candidate at hand alone.

    What is no `Exception`, such as an interrupt, a failed assertion, an exhausted stack or an
    exhausted memory of the host, never is. Else, before a launch nothing was written, so that the
    next candidate may be tried. A failed launch is its candidate's only if the backend says so.

    Parameters
    ----------
    phase
        Where it failed.
    error
        What was raised.
    blames
        The backend's own word about a failed launch, None if it cannot tell.
    """
    if not isinstance(error, Exception) or isinstance(error, (AssertionError, RecursionError)):
        return False
    if isinstance(error, MemoryError) and not isinstance(error, DeviceMemoryError):
        return False
    return phase.wrote_nothing or blames(error) is True


def blames(kind: str) -> Callable[[BaseException], bool | None]:
    """Return what the backend of devices of ``kind`` says of a failed launch."""
    known = DRIVERS.get(kind)
    return (lambda error: None) if known is None else known.blames


_counted: Final = threading.local()


def count_backend_compile() -> None:
    """Note that a backend has finished to make code, in this thread."""
    _counted.value = backend_compiles() + 1


def backend_compiles() -> int:
    """Return how often a backend has made code in this thread; read it as a difference.

    A compile that is refused before it reaches the backend does not count, nor does linking code
    again that was retained.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.input("x", (3,))
    >>> before = wb.backend_compiles()
    >>> ctx, double = wb.Context.interpreter().compile([x * 2.0])
    >>> wb.backend_compiles() - before
    1
    """
    return int(getattr(_counted, "value", 0))

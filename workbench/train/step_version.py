"""Versions of what a person edits while a run goes on: its step, loss, optimizer and schedule.

Invariant: a version tells for ever what it was and when it took over, whether it did or failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal, final, overload

from workbench.train.controls import Request
from workbench.train.report import printable
from workbench.train.source_text import name_of_function, source_diff, source_of

if TYPE_CHECKING:
    from workbench.train.trace import Leaves

__all__ = ["PARTS", "Part", "StepHistory", "StepVersion"]

Part = Literal["step", "loss", "optimizer", "schedule"]
PARTS: Final[tuple[Part, ...]] = ("step", "loss", "optimizer", "schedule")


@final
class StepVersion:
    """One version of a part of the run.

    Attributes
    ----------
    number
        Counted from 1 over all parts.
    part
        ``"step"``, ``"loss"``, ``"optimizer"`` or ``"schedule"``.
    name
        What the function is called.
    function
        The function; None where a schedule was taken away.
    source
        Its text, as it was when the cell was run.
    diff
        How the text differs from that of the version of this part before it; empty for the first.
    asked_step
        ``state.global_step`` when it was given.
    global_step
        ``state.global_step`` when it took over; None if it did not, or not yet.
    error
        Why it was refused, with the line of the cell; None if it was not.
    line
        That line, counted from 1; None if there is none.
    fingerprint
        Of what the whole step computes with it; empty until that is known.
    changes
        Paths of the parameters that the step gives new values, with it.
    """

    def __init__(
        self,
        number: int,
        part: Part,
        function: Callable[..., Any] | None,
        before: StepVersion | None,
        asked_step: int,
        restore: Callable[[StepVersion], None],
    ) -> None:
        self.number, self.function = number, function
        self.part: Part = part
        self.name = "none" if function is None else name_of_function(function)
        self.source = "" if function is None else source_of(function)
        self.diff = ""
        if before is not None:
            names = (f"{part} {before.number}", f"{part} {number}")
            self.diff = source_diff(before.source, self.source, names)
        self.asked_step = asked_step
        self.global_step: int | None = None
        self.error: str | None = None
        self.line: int | None = None
        self.fingerprint = ""
        self.changes: tuple[str, ...] = ()
        self.replaced = False
        self.request: Request | None = None
        # The leaves that it was traced over, for going back to it.
        self.params: Leaves | None = None
        self._restore = restore

    @property
    def state(self) -> Literal["failed", "waiting", "in force", "replaced"]:
        """How it stands."""
        if self.error is not None:
            return "failed"
        if self.replaced:
            return "replaced"
        return "waiting" if self.global_step is None else "in force"

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it has taken over.

        Raises
        ------
        TimeoutError
            If it has not after ``timeout_s`` seconds.
        """
        if self.request is not None:
            self.request.wait(timeout_s)

    def restore(self) -> None:
        """Put it in force again, with the parameters that it was written for.

        It is compiled beside what goes on and takes over at the next batch, as a new version.
        """
        self._restore(self)

    def __repr__(self) -> str:
        return f"<StepVersion {self.line_of_text()}>"

    def line_of_text(self) -> str:
        """Return what it is, and how it stands, on one line."""
        where = f" since step {self.global_step}" if self.state == "in force" else ""
        if self.state == "replaced" and self.global_step is not None:
            where = f", took over at step {self.global_step}"
        if self.error is not None:
            where = f" at step {self.asked_step}: {self.error}"
        return printable(f"{self.number} {self.part} `{self.name}`: {self.state}{where}")


@final
class StepHistory(Sequence[StepVersion]):
    """The versions of a run's parts, the first one first; ``run.step_history[2].restore()``."""

    def __init__(self) -> None:
        self._versions: tuple[StepVersion, ...] = ()

    def add(self, version: StepVersion) -> None:
        """Add a version."""
        self._versions = (*self._versions, version)

    def of(self, part: Part) -> tuple[StepVersion, ...]:
        """Return the versions of one part."""
        return tuple(version for version in self._versions if version.part == part)

    @overload
    def __getitem__(self, index: int) -> StepVersion: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[StepVersion, ...]: ...
    def __getitem__(self, index: int | slice) -> StepVersion | tuple[StepVersion, ...]:
        return self._versions[index]

    def __len__(self) -> int:
        return len(self._versions)

    def __iter__(self) -> Iterator[StepVersion]:
        return iter(self._versions)

    def __repr__(self) -> str:
        lines = [version.line_of_text() for version in self._versions]
        return "\n".join(lines) if lines else "StepHistory: no version yet"

    def _repr_html_(self) -> str:
        shown = "".join(
            f"<li><details><summary>{escape(version.line_of_text())}</summary>"
            f"<pre>{escape(version.diff or version.source)}</pre></details></li>"
            for version in self._versions
        )
        return f"<ul>{shown}</ul>" if shown else "<p>StepHistory: no version yet</p>"

"""What a run tells people: texts, each with how much it matters.

Invariant: a report is a value; whoever makes one says how much it matters, and the loop says it
once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

__all__ = ["Report", "Said", "Severity", "troubles"]

Severity: TypeAlias = Literal["info", "warning", "error"]


@final
@dataclass(frozen=True, slots=True)
class Report:
    """A text that a callback hands to the loop, which prints it when the hook is done.

    Attributes
    ----------
    text
        One or more lines.
    in_place
        Whether the next report may take its place on a screen, as a progress bar's does.
    severity
        ``"info"`` for what went as it should; ``"warning"`` for what may not be what was meant;
        ``"error"`` for something that was asked for and did not happen: a callback that raised, a
        file that could not be written.
    """

    text: str
    in_place: bool = False
    severity: Severity = "info"


@final
@dataclass(frozen=True, slots=True)
class Said:
    """A report of a run, and when it was made.

    Attributes
    ----------
    report
        What was said.
    at
        Batches that had been run.
    step
        Updates that had been made.
    epoch
        Completed epochs.
    """

    report: Report
    at: int
    step: int
    epoch: int


def troubles(reports: Iterable[Report]) -> str:
    """Return how many warnings and errors there are among reports, in words; empty for none.

    Examples
    --------
    >>> troubles([Report("a"), Report("b", severity="error"), Report("c", severity="error")])
    '2 errors among its reports'
    """
    grave = [report.severity for report in reports]
    counts = [(grave.count(kind), kind) for kind in ("error", "warning")]
    named = [f"{count} {kind}{'s' * (count > 1)}" for count, kind in counts if count]
    return f"{' and '.join(named)} among its reports" if named else ""

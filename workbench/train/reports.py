"""What a run tells people: texts, each with how much it matters.

Invariant: a report is a value; whoever makes one says how much it matters, and the loop says it
once.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

__all__ = ["Report", "Severity"]

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

"""The reports of a run as lines of its record.

In: what a run reports.  Out: ``reports.jsonl``.  Invariant: a report is written once; what cannot
be written now is kept, and written with the next one that can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import final

from workbench.train.atomic_file import replace_file
from workbench.train.record_format import report_line
from workbench.train.reports import Said

__all__ = ["ReportFile"]


@final
class ReportFile:
    """Where reports are written down.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: set[str] = set()
        self._waiting: list[str] = []

    def begin(self, said: Iterable[Said], step: int) -> None:
        """Go on after ``step`` updates: with what the file has of them, and what was ``said``.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        before = [line for line in _lines(self.path) if json.loads(line)["step"] <= step]
        self._known = set(before)
        text = "".join(before)

        def write(partial: Path) -> None:
            partial.write_text(text, encoding="utf-8", newline="\n")

        if before:
            replace_file(self.path, write, durable=False)
        else:
            self.path.unlink(missing_ok=True)
        for each in said:
            self.hear(each)

    def hear(self, said: Said) -> None:
        """Take a report; what went wrong is written at once, the others with the next flush."""
        line = report_line(said)
        if said.report.in_place or line in self._known:
            return
        self._known.add(line)
        self._waiting.append(line)
        if said.report.severity != "info":
            self.flush()

    def flush(self) -> None:
        """Write what waits, if that can be done now."""
        if not self._waiting:
            return
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write("".join(self._waiting))
        except OSError:
            return
        self._waiting = []


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file, none if there is no such file or it is damaged."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        return [line for line in whole if isinstance(json.loads(line)["step"], int)]
    except (OSError, ValueError, KeyError, TypeError):
        return []

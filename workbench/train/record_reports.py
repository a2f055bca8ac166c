"""The reports of a run as lines of its record.

In: what a run reports.  Out: ``reports.jsonl``.  Invariant: a report is written once; what cannot
be written now is kept, and written with the next one that can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import final

from workbench.errors import DataError
from workbench.train.growing_file import GrowingLines
from workbench.train.record_format import report_line
from workbench.train.record_values import LARGEST_FILE_BYTES, read_text
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
        # In the order in which they came.
        self._known: dict[str, None] = {}
        self._file = GrowingLines(path, whole=lambda: "".join(self._known))

    def begin(self, said: Iterable[Said], step: int) -> None:
        """Continue after ``step`` updates: with what the file has of them, and what was ``said``.

        Raises
        ------
        DataError, OSError
            If the file cannot be written.
        """
        self._file.close()
        before = [line for line in _lines(self.path) if json.loads(line)["step"] <= step]
        self._known = dict.fromkeys(before)
        if not before:
            self.path.unlink(missing_ok=True)
        for each in said:
            self.hear(each)
        self.flush()

    def hear(self, said: Said) -> None:
        """Take a report; what went wrong is written at once, the others with the next flush."""
        line = report_line(said)
        if said.report.in_place or line in self._known:
            return
        self._known[line] = None
        self._file.add(line)
        if said.report.severity != "info":
            with suppress(OSError, DataError):  # tried again by the next flush, which tells of it
                self.flush()

    def flush(self) -> None:
        """Write what waits.

        Raises
        ------
        DataError, OSError
            If that cannot be done now.
        """
        if self._known:
            self._file.flush()


def _lines(path: Path) -> list[str]:
    """Return the whole lines of a file, none if there is no such file or it is damaged."""
    try:
        lines = read_text(path, most=LARGEST_FILE_BYTES).splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        return [line for line in whole if isinstance(json.loads(line)["step"], int)]
    except (ValueError, KeyError, TypeError, RecursionError):  # a DataError is a ValueError
        return []

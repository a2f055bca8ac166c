"""Reports on a stream: plain lines in a file or a pipe, one line that is rewritten on a screen.

In: reports.  Out: text on a stream.  Invariant: what is written in place is written at most ten
times a second and never wider than the screen; a stream that fails is left alone, and never ends a
run.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO, final

from workbench.train.reports import Report

__all__ = ["Screen", "draws_unicode", "rewrites"]

INTERVAL_S: Final = 0.1
"""The least time between two updates of what is written in place."""

_COLUMNS: Final = 80
_CODE: Final = re.compile(r"\x1b\[[0-9;]*m")
_PLAIN: Final = "\x1b[0m"


def rewrites(stream: TextIO) -> bool:
    """Return whether a line on ``stream`` can be rewritten: on a terminal or below a cell."""
    if type(stream).__module__.startswith("ipykernel."):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def draws_unicode(stream: TextIO) -> bool:
    """Return whether ``stream`` is a screen that shows characters beyond ASCII."""
    return rewrites(stream) and (stream.encoding or "").lower().replace("-", "").startswith("utf")


@final
class Screen:
    """Where the reports of a run are shown.

    A report that is not in place gets a line of its own.  One in place is rewritten by the next
    where that is possible, and stays below the others; elsewhere it is a line like any other, but
    not more than ten times a second.  The last one is always shown.

    Parameters
    ----------
    stream
        Where to write.
    clock
        Seconds that never go back.
    in_place
        Whether lines can be rewritten; by default what `rewrites` says of the stream.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        in_place: bool | None = None,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._in_place = rewrites(stream) if in_place is None else in_place
        self._shown = ""
        self._waiting = ""
        self._last = -float("inf")

    def show(self, report: Report) -> None:
        """Write a report, or keep it for later if it comes too soon."""
        if report.in_place:
            self._waiting = "  ".join(report.text.splitlines())
            if self._clock() - self._last >= INTERVAL_S:
                self._update()
            return
        if self._in_place:
            below = self._waiting or self._shown
            self._write(self._wipe() + report.text + "\n" + self._drawn(below))
            self._waiting = ""
            return
        # A line in place that comes later than its successor would be wrong.
        self._waiting = ""
        self._write(report.text + "\n")

    def close(self) -> None:
        """Show what is kept, and leave the cursor at the beginning of a line."""
        if self._waiting:
            self._update()
        if self._shown:
            self._write("\n")
            self._shown = ""

    def _update(self) -> None:
        self._last = self._clock()
        text, self._waiting = self._waiting, ""
        self._write(self._wipe() + self._drawn(text) if self._in_place else text + "\n")

    def _wipe(self) -> str:
        """Return what clears the line in place, with blanks: not every screen knows more."""
        blank = " " * len(_CODE.sub("", self._shown))
        self._shown = ""
        return f"\r{blank}\r" if blank else ""

    def _drawn(self, text: str) -> str:
        self._shown = _clipped(text, self._columns() - 1)
        return self._shown

    def _columns(self) -> int:
        # A notebook's stream has a file number that belongs to another one.
        with suppress(OSError, ValueError, AttributeError):
            if self._stream.isatty():
                return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        return _COLUMNS if self._stream.isatty() else 2 * _COLUMNS

    def _write(self, text: str) -> None:
        # A closed pipe or a full disk costs the reports, not the training.
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _clipped(text: str, width: int) -> str:
    """Return as much of ``text`` as fits ``width`` columns; colour codes take none."""
    parts: list[str] = []
    left, at = width, 0
    for code in _CODE.finditer(text):
        parts += [text[at : code.start()][:left], code.group()]
        left -= min(code.start() - at, left)
        at = code.end()
    parts.append(text[at:][:left])
    clipped = "".join(parts)
    return clipped + _PLAIN if at and not clipped.endswith(_PLAIN) else clipped

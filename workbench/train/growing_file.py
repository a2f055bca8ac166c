"""Files that grow while a run trains, and catch up with what could not be written for a while.

In: lines, or numbers with their places.  Out: a file.  Invariant: what was given is kept until it
is written, each byte once; a file that was removed, or whose folder was, is made again.  What was
given to the system is there however the process ends: nothing waits in a buffer of Python's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import numpy as np

from workbench.errors import DataError
from workbench.files import kind_of_file
from workbench.train.atomic_file import replace_file

__all__ = ["GrowingLines", "GrowingNumbers"]

NUMBER: Final = np.dtype("<f4")
_PIECE_BYTES: Final = 1 << 20


def _opened(path: Path, flags: int, *, follow: bool) -> int:
    """Open a regular file to write to, made if it is missing; do not wait for anything."""
    try:
        kind = kind_of_file((path.stat() if follow else path.lstat()).st_mode)
    except FileNotFoundError:
        kind = None
    flags |= os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = -1
    if kind is None:
        flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o666)
        kind = kind_of_file(os.fstat(descriptor).st_mode)
    if kind is not None:
        if descriptor >= 0:
            os.close(descriptor)
        raise DataError(f"`{path}` is {kind}", remedy="remove it, or choose another path")
    return descriptor


class _Open:
    """A descriptor and the name under which it was opened."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1

    @property
    def is_there(self) -> bool:
        """Whether it is open, and its name is still that of this file."""
        if self.descriptor < 0:
            return False
        try:
            return os.path.samestat(self.path.lstat(), os.fstat(self.descriptor))
        except OSError:
            return False

    def write(self, octets: bytes) -> bytes:
        """Write as much as there is room for, and return what is left."""
        while octets:
            octets = octets[os.write(self.descriptor, octets) :]
        return octets

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


@final
class GrowingLines:
    """Lines of text that are added to a file.

    Parameters
    ----------
    path
        The file.  What it holds stays, unless ``whole`` is given.
    whole
        Returns all lines up to now, each with its end: the file is begun with them, and made of
        them again if it was removed, and links are not followed.  Without it a removed file is
        made of what comes then.
    """

    def __init__(self, path: Path, *, whole: Callable[[], str] | None = None) -> None:
        self.path = path
        self._whole = whole
        self._file = _Open(path)
        self._waiting: list[bytes] = []

    def add(self, line: str) -> None:
        """Take a line with its end; it is written by the next `flush`."""
        self._waiting.append(line.encode("utf-8", "backslashreplace"))

    def flush(self, *, looks: bool = True) -> None:
        """Write what waits, if there is anything or the file is gone.

        Parameters
        ----------
        looks
            Whether to look if the file is still there.

        Raises
        ------
        DataError, OSError
            If that cannot be done now; it is tried again by the next one.
        """
        if self._file.descriptor < 0 or (looks and not self._file.is_there):
            self._open()
        if self._waiting:
            octets = b"".join(self._waiting)
            self._waiting = [octets]
            written = 0
            try:
                while written < len(octets):
                    written += os.write(self._file.descriptor, octets[written:])
            finally:
                self._waiting = [octets[written:]] if written < len(octets) else []

    def close(self) -> None:
        """Close the file; what waits is kept."""
        self._file.close()

    def _open(self) -> None:
        self._file.close()
        if self._whole is not None:
            text = self._whole().encode("utf-8", "backslashreplace")
            replace_file(
                self.path,
                lambda partial: _put(partial, text),
                durable=False,
                follow=False,
            )
            self._waiting = []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        follow = self._whole is None
        self._file.descriptor = _opened(self.path, os.O_RDWR | os.O_APPEND, follow=follow)
        self._file.path = self.path.resolve() if follow else self.path
        if self._whole is None:
            self._end_line()

    def _end_line(self) -> None:
        """End a line that a killed run left without its end."""
        size = os.fstat(self._file.descriptor).st_size
        if size:
            os.lseek(self._file.descriptor, size - 1, os.SEEK_SET)
            if os.read(self._file.descriptor, 1) != b"\n":
                self._file.write(b"\n")


@final
class GrowingNumbers:
    """Numbers of float32, each at its place in a file; NaN where none was given.

    Parameters
    ----------
    path
        The file; links are not followed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _Open(path)
        self._most: int | None = None
        self._blocks: list[tuple[int, bytes]] = []

    def begin(self, count: int) -> None:
        """Continue a file with no more than its first ``count`` numbers."""
        self._file.close()
        self._blocks, self._most = [], count

    def put(self, first: int, octets: bytes) -> None:
        """Take numbers, the first one's place being ``first``; the next `flush` writes them."""
        self._blocks.append((first, octets))

    def flush(self, *, looks: bool = True) -> None:
        """Write what waits; see `GrowingLines.flush`.

        Raises
        ------
        DataError, OSError
            If that cannot be done now.
        """
        if self._file.descriptor < 0 or (looks and not self._file.is_there):
            self._open()
        descriptor = self._file.descriptor
        while self._blocks:
            first, octets = self._blocks[0]
            place = first * NUMBER.itemsize
            missing = (place - os.lseek(descriptor, 0, os.SEEK_END)) // NUMBER.itemsize
            self._file.write(np.full(max(0, missing), np.nan, NUMBER).tobytes())
            os.lseek(descriptor, place, os.SEEK_SET)
            # Written again as a whole if there was no room for the end of it.
            self._file.write(octets)
            del self._blocks[0]

    def close(self) -> None:
        """Close the file; what waits is kept."""
        self._file.close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = _opened(self.path, os.O_RDWR, follow=False)
        before, self._file.descriptor = self._file.descriptor, made
        if before >= 0:  # it was removed, and is read as long as it is open
            try:
                os.ftruncate(made, 0)
                os.lseek(before, 0, os.SEEK_SET)
                while piece := os.read(before, _PIECE_BYTES):
                    self._file.write(piece)
            except OSError:
                self._file.descriptor = before
                os.close(made)
                raise
            os.close(before)
        elif self._most is not None:
            whole = os.fstat(made).st_size // NUMBER.itemsize
            os.ftruncate(made, min(whole, self._most) * NUMBER.itemsize)
            self._most = None


def _put(path: Path, octets: bytes) -> None:
    path.write_bytes(octets)

"""Files that people name: their paths, and reading them whole without waiting for anything.

In: a path.  Out: a `pathlib.Path`, a descriptor or bytes.  Invariant: only regular files are
opened, so that nothing hangs on a pipe or starts a device, and no more is read than was allowed.
"""

import os
import stat
from pathlib import Path
from typing import Final, cast

from workbench.errors import DataError

__all__ = ["as_path", "kind_of_file", "open_regular", "read_regular"]

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)
_PIECE_BYTES: Final = 1 << 20


def as_path(path: object) -> Path:
    """Return a path that was given as text or as a path, with ``~`` expanded.

    Raises
    ------
    DataError
        If it is something else, holds a NUL, or names the home of a user that there is not.

    Examples
    --------
    >>> as_path("runs/digits").parts
    ('runs', 'digits')
    """
    if not isinstance(path, (str, os.PathLike)):
        raise DataError(
            f"a path must be text or a `pathlib.Path`, got {path!r}",
            remedy='pass a path such as `"runs/digits.safetensors"`',
        )
    text = cast("str | bytes", os.fspath(cast("str | os.PathLike[str]", path)))
    if not isinstance(text, str):
        raise DataError(
            f"a path must be text, got the bytes {text!r}", remedy="decode it with `os.fsdecode`"
        )
    if "\0" in text:
        raise DataError(f"the path {text!r} holds a NUL", remedy="use a name without it")
    try:
        return Path(text).expanduser()
    except RuntimeError as fault:
        raise DataError(
            f"the path {text!r} begins with the home of a user that there is not",
            remedy="write the folder out, or `./` before a name that begins with `~`",
        ) from fault


def kind_of_file(mode: int) -> str | None:
    """Return what something of this mode is, in words; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "no regular file")


def open_regular(path: Path, *, follow: bool = True) -> int:
    """Return a descriptor to read a regular file with.

    Parameters
    ----------
    path
        The file.
    follow
        Whether it may be a link.

    Raises
    ------
    DataError
        If it is anything but a regular file.
    OSError
        If it is missing or cannot be opened.
    """
    found = path.stat() if follow else path.lstat()
    _refuse_other_kinds(path, found.st_mode)
    # It may have been replaced meanwhile: opening must not wait, and what is opened is judged too.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        _refuse_other_kinds(path, os.fstat(descriptor).st_mode)
    except DataError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_other_kinds(path: Path, mode: int) -> None:
    kind = kind_of_file(mode)
    if kind is not None:
        raise DataError(f"`{path}` is {kind}", remedy="pass the path of a file")


def read_regular(path: Path, *, most: int, follow: bool = True) -> bytes:
    """Return the bytes of a regular file.

    Parameters
    ----------
    path
        The file.
    most
        How many bytes it may have.
    follow
        Whether it may be a link.

    Raises
    ------
    DataError
        If it is missing, anything but a regular file, or longer.
    """
    try:
        descriptor = open_regular(path, follow=follow)
        try:
            pieces: list[bytes] = []
            left = most + 1
            while left > 0 and (piece := os.read(descriptor, min(left, _PIECE_BYTES))):
                pieces.append(piece)
                left -= len(piece)
        finally:
            os.close(descriptor)
    except OSError as fault:
        raise DataError(
            f"`{path}` cannot be read: {fault.strerror or fault}", remedy="check the path"
        ) from fault
    if left <= 0:
        raise DataError(
            f"`{path}` is longer than {most} bytes, the most that such a file may have",
            remedy="look at what wrote into it; it is no file of the workbench",
        )
    return b"".join(pieces)

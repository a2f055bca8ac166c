"""Files that are replaced whole and durably, or not at all.

In: a path and what writes a file.  Out: the file.  Invariant: at every instant, a loss of power
included, the path holds the old file or the new one, complete; what fails leaves the old one.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from workbench.errors import DataError
from workbench.files import as_path, kind_of_file
from workbench.train.process import Process, this_process

__all__ = ["as_target", "give_second_name", "remove_leftovers", "replace_file"]

_SUFFIX: Final = ".wb-partial"
_PARTIAL: Final = re.compile(
    r"\..+\.(?P<pid>\d+)-(?P<started>\d*)-[0-9a-f]+@(?P<host>[\w.-]*)\.wb-partial"
)
# Whether a writer on another machine still runs cannot be asked; none takes this long.
_STALE_S: Final = 24 * 3600.0


def as_target(path: str | os.PathLike[str]) -> Path:
    """Return where ``path`` really is, so that a link stays one when its file is replaced.

    Raises
    ------
    DataError
        If it is no path.
    """
    return Path(os.path.realpath(as_path(path)))


def replace_file(
    path: str | os.PathLike[str],
    write: Callable[[Path], None],
    *,
    durable: bool = True,
    follow: bool = True,
) -> Path:
    """Let ``write`` make a file, and put it in the place of ``path`` once it is on the disk.

    Folders that are missing are made.  What earlier writers left in the folder when they were
    killed is removed.

    Parameters
    ----------
    path
        The file to make or to replace.
    write
        Called with the path of a new file beside it.
    durable
        Whether to wait for the disk.  Without it a killed process still leaves the old file or the
        new one, but a loss of power may leave neither.
    follow
        Whether the file that a link names is replaced, rather than the link.

    Returns
    -------
    Path
        Where the file really is.

    Raises
    ------
    DataError
        If it cannot be written, saying why, or a folder, a pipe or a device has that name; the
        file that was there is as it was.
    """
    target = as_path(path)
    if follow and os.path.islink(target):  # noqa: PTH114 - `Path.is_symlink` raises for long names
        target = as_target(target)
    if not target.name:
        raise DataError(f"`{target}` is a folder", remedy="pass the path of a file in it")
    partial = target.with_name(_partial_name(target.name))
    outcome = "nothing was made"
    try:
        if _is_there(target):
            outcome = "the file that was there is unchanged"
        _make_folder(target.parent)
        remove_leftovers(target.parent)
        write(partial)
        if durable:
            _sync(partial, os.O_RDWR)
        partial.replace(target)
        outcome = "the new file is there, but a loss of power may undo that"
        if durable:
            _sync_folder(target.parent)
    except OSError as fault:
        raise DataError(
            f"`{target}` could not be written: {fault.strerror or fault}; {outcome}",
            remedy="make room or choose a folder that can be written to, and save again",
        ) from fault
    finally:
        # Gone already if all went well.
        with suppress(OSError):
            partial.unlink()
    return target


def _is_there(target: Path) -> bool:
    """Return whether a file is replaced; refuse to replace anything but a file or a link."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return False
    kind = kind_of_file(mode)
    if kind not in (None, "a link"):
        raise DataError(
            f"`{target}` could not be written: it is {kind}", remedy="pass the path of a file"
        )
    return True


def give_second_name(source: Path, path: Path) -> None:
    """Let ``path`` be the file ``source`` too, in place of what it was.

    Where the file system has no second names for a file it is copied.

    Raises
    ------
    DataError
        If that cannot be done, saying why; the file that was there is as it was.
    """

    def link(partial: Path) -> None:
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)

    replace_file(path, link)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; other files are not touched."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # The name ends alike for all: a folder may hold thousands of other files.
            if entry.name.endswith(_SUFFIX) and _is_abandoned(entry):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    match = _PARTIAL.fullmatch(entry.name)
    if match is None:
        return False
    here = this_process()
    if match["host"] == _plain(here.host):
        writer = Process(int(match["pid"]), match["started"], here.host, here.boot)
        return writer.presence() == "gone"
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_S


def _partial_name(name: str) -> str:
    me = this_process()
    # Drawn, not counted: a name that lies in the folder already is never chosen.
    return f".{name}.{me.pid}-{me.started}-{os.urandom(6).hex()}@{_plain(me.host)}{_SUFFIX}"


def _plain(host: str) -> str:
    return re.sub(r"[^\w.-]", "_", host)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each durably."""
    if folder.is_dir():
        return
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        _sync_folder(made.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where folders can be opened at all."""
    if os.name == "posix":
        _sync(folder, os.O_RDONLY)

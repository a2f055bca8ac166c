"""Which process writes a file: two that train into one would overwrite each other.

In: a path.  Out: an owner to hold for as long as files are written there.  Invariant: a process
that is gone, killed or not, owns nothing, since the system gives back its locks; and a forked child
owns nothing of its parent's.

The lock is advisory (``flock``), on a small file in the user's own part of the folder for temporary
files.  Processes of other users or machines are therefore not seen; and where the system has no
such locks (Windows), nobody is refused.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final
from weakref import WeakValueDictionary

from workbench.errors import ConfigurationError

__all__ = ["owned"]

_MOST_BYTES: Final = 64


@final
class Owner:
    """Holds a path until it goes."""

    __slots__ = ("__weakref__", "_descriptor", "_lock", "_pid")

    def __init__(self, lock: Path, descriptor: int) -> None:
        self._lock, self._descriptor, self._pid = lock, descriptor, os.getpid()

    def give_back(self, *, removes: bool) -> None:
        """Give the lock back; the file goes with it unless another process still holds it."""
        if self._descriptor >= 0:
            # Removed while it is locked: whoever waits for it looks whether it is still there.
            if removes:
                with suppress(OSError):
                    self._lock.unlink()
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        self.give_back(removes=self._pid == os.getpid())


_owners: WeakValueDictionary[Path, Owner] = WeakValueDictionary()


def owned(path: Path) -> Owner | None:
    """Return what holds ``path`` for this process; None where that cannot be had.

    Runs of one process share it.

    Raises
    ------
    ConfigurationError
        If another process holds it.
    """
    known = _owners.get(path)
    if known is not None:
        return known
    try:
        fcntl: Any = import_module("fcntl")
    except ImportError:
        return None
    lock = _lock_of(path)
    if lock is None:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            descriptor = os.open(lock, flags, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise ConfigurationError(
                f"`{path}` is being written by {holder or 'another process'}",
                remedy="wait for that run to end, or choose another path",
            ) from None
        except OSError:  # a file system without locks
            os.close(descriptor)
            return None
        if _is_at(lock, descriptor):
            break
        os.close(descriptor)
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()}\n".encode())
    made = Owner(lock, descriptor)
    _owners[path] = made
    return made


def _lock_of(path: Path) -> Path | None:
    """Return the file that is locked for ``path``, in a folder that only this user may write."""
    folder = Path(tempfile.gettempdir(), f"training-workbench-{os.geteuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid != os.geteuid():
            return None
    except OSError:
        return None
    return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.lock"


def _is_at(lock: Path, descriptor: int) -> bool:
    """Return whether the file that was locked was not removed meanwhile."""
    try:
        found, mine = lock.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _forget() -> None:
    """Close the parent's locks in a forked child, which otherwise keeps them when it is killed."""
    for owner in list(_owners.values()):
        owner.give_back(removes=False)
    _owners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

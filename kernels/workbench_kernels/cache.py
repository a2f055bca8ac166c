"""Object code on disk, one file a kernel, believed only when it can be.

Reading comes before executing: an entry is used only if the folder and the file belong to this user
and nobody else may write them, every byte hashes to what the file says, and the header names this
very key, processor and compiler. Anything else is as good as absent and is rebuilt.

File format, all of it covered by the SHA-256 in its last 32 bytes::

    b"WBKERN01"                    format and its version
    4 bytes                        length of the header, little-endian
    header                         JSON: key, symbol, target, payload_bytes
    payload                        the object file

Invariant: :meth:`ObjectCache.get` never raises over what it finds on disk.
"""

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, final

from workbench_kernels.object_code import ObjectCode, host_target, symbol_of

MAGIC: Final = b"WBKERN01"
ENVIRONMENT_VARIABLE: Final = "WORKBENCH_CACHE"
_LENGTH_BYTES: Final = 4
_DIGEST_BYTES: Final = 32
_MAX_ENTRY_BYTES: Final = 64 * 1024 * 1024  # far above any kernel: what is larger is not ours
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; kernels are compiled in every process."""


def default_folder() -> Path:
    """Return where object code is kept: ``kernels`` in the user's cache folder.

    The environment variable ``WORKBENCH_CACHE`` names another folder to hold ``kernels``.
    """
    override = os.environ.get(ENVIRONMENT_VARIABLE)
    if override:
        folder = Path(override)
        with suppress(RuntimeError):  # `~nobody`: what it names is no folder, and that is reported
            folder = folder.expanduser()
        return folder / "kernels"
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("training-workbench")) / "kernels"


def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=4)


@final
class ObjectCache:
    """Kernels' object code in a folder that only this user may write.

    Parameters
    ----------
    folder
        Made on first use with mode 0700; by default :func:`default_folder`.
    report
        Called once with one sentence when the folder cannot be used; by default a
        :class:`CacheWarning`.
    """

    def __init__(
        self, folder: Path | str | None = None, *, report: Callable[[str], None] = _warn
    ) -> None:
        self.folder = default_folder() if folder is None else Path(folder)
        self._report = report
        self._reported = False

    def get(self, key: str) -> ObjectCode | None:
        """Return the object code kept under ``key``, or None if there is none to be trusted."""
        if self._distrust(self.folder) is not None:
            return None
        try:
            data = _read_own(self._path(key))
        except OSError:
            return None
        return None if data is None else _decode(data, key)

    def put(self, key: str, item: ObjectCode) -> None:
        """Keep object code under ``key``; a folder that cannot hold it is reported once."""
        data = _encode(key, item)
        problem = self._distrust(self.folder)
        try:
            if problem is None or not str(self.folder).startswith("~"):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                problem = self._distrust(self.folder)
            if problem is None:
                _write(self._path(key), data)
        except OSError as error:
            problem = error.strerror or str(error)
        except ValueError as error:  # a NUL
            problem = str(error)
        if problem is not None:
            self._report_once(problem)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.wbk"

    def _report_once(self, problem: str) -> None:
        if not self._reported:
            self._reported = True
            self._report(
                f"compiled kernels are not kept in {self.folder}: {problem}; each process compiles "
                f"its own until {ENVIRONMENT_VARIABLE} names a folder of yours"
            )

    @staticmethod
    def _distrust(folder: Path) -> str | None:
        """Say why files in ``folder`` may not be executed, or None if they may."""
        if str(folder).startswith("~"):
            return "it begins with the home of a user that there is not"
        try:
            found = folder.stat()
        except OSError as error:
            return error.strerror or str(error)
        except ValueError as error:  # a NUL
            return str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is not a folder"
        return _foreign(found)


def _foreign(found: os.stat_result) -> str | None:
    """Say who else could have written what ``found`` describes."""
    if not hasattr(os, "geteuid"):
        return None  # Windows: a profile's folders are its user's by their access lists
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, not to user {os.geteuid()}"
    if found.st_mode & _WRITABLE_BY_OTHERS:
        return f"other users may write it (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def _read_own(path: Path) -> bytes | None:
    # Opened first and judged by its descriptor: a path could be swapped between the two.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    flags |= getattr(os, "O_NONBLOCK", 0)  # a pipe of that name must not hang us
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or _foreign(found) is not None:
            return None
        if found.st_size > _MAX_ENTRY_BYTES:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_ENTRY_BYTES)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    # Renamed into place: a reader sees the old entry, the new one or none. Not flushed to the disk:
    # what a crash leaves torn does not hash and is rebuilt.
    temporary = path.with_name(f".{path.stem}.{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def _encode(key: str, item: ObjectCode) -> bytes:
    header = {
        "key": key,
        "symbol": item.symbol,
        "target": asdict(host_target()),
        "payload_bytes": len(item.code),
    }
    text = json.dumps(header, sort_keys=True).encode()
    body = MAGIC + len(text).to_bytes(_LENGTH_BYTES, "little") + text + item.code
    return body + hashlib.sha256(body).digest()


def _decode(data: bytes, key: str) -> ObjectCode | None:
    start = len(MAGIC) + _LENGTH_BYTES
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if body[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != digest:
        return None
    length = int.from_bytes(body[len(MAGIC) : start], "little")
    payload = body[start + length :]
    expected = {
        "key": key,
        "symbol": symbol_of(key),
        "target": asdict(host_target()),
        "payload_bytes": len(payload),
    }
    try:
        header = json.loads(body[start : start + length])
    except (ValueError, RecursionError):
        return None
    return ObjectCode(payload, symbol_of(key)) if header == expected else None

"""Read IDX files, the format of MNIST: a header of big-endian words, then the values.

==========  =============================================================
bytes       meaning
==========  =============================================================
0, 1        zero
2           element type: ``0x08`` for unsigned bytes
3           number of axes ``d``
4 .. 4+4d   the extents, each a big-endian unsigned 32-bit word
the rest    the values in row-major order, nothing after them
==========  =============================================================

The first four bytes read as one number are the "magic" of the format's description: 2051 for
images (three axes) and 2049 for labels (one).  A file may be gzipped, whatever its name says.

Invariant: the extents of a header are believed only as far as the file can back them, and what a
zipped file declares is bounded before anything is unpacked, so that neither four damaged bytes nor
a small file of zeros asks for a terabyte of memory.
"""

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.errors import DataError
from workbench.files import open_regular

__all__ = ["read_idx"]

_UNSIGNED_BYTE: Final = 0x08
_TYPES: Final = {
    0x08: "unsigned byte",
    0x09: "signed byte",
    0x0B: "16-bit integer",
    0x0C: "32-bit integer",
    0x0D: "32-bit float",
    0x0E: "64-bit float",
}
_GZIP_MAGIC: Final = b"\x1f\x8b"

# Deflate stores a run of 258 bytes in two bits at best, so 1032 is the most it can expand.
_LARGEST_EXPANSION: Final = 1032
_LARGEST_UNPACKED_BYTES: Final = 1 << 30  # the largest of the published files has 638 MB


class _ByteSource(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...
    def readinto(self, buffer: memoryview, /) -> int: ...


def read_idx(path: Path, axes: int, row: tuple[int, ...] | None = None) -> NDArray[np.uint8]:
    """Return the unsigned bytes of an IDX file as an array.

    Parameters
    ----------
    path
        The file, gzipped or not.
    axes
        How many axes the array must have: 3 for images, 1 for labels.
    row
        The extents after the first, such as ``(28, 28)``; by default any.

    Returns
    -------
    NDArray[np.uint8]
        The values in the shape of the header.  The memory needed is that of the array.

    Raises
    ------
    DataError
        If the file is none that can be read; if the magic, the element type, the number of axes or
        the extents of a row are other than expected; if a zipped file declares more than 1 GiB, or
        a file holds fewer or more values than its header says; or if its compression is damaged.
        The text names the file, what was expected and what was found.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as plain:
            return _read_file(plain, path, axes, row)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}", remedy="check the path."
        ) from error


def _read_file(
    plain: io.BufferedReader, path: Path, axes: int, row: tuple[int, ...] | None
) -> NDArray[np.uint8]:
    size = os.fstat(plain.fileno()).st_size
    zipped = plain.read(2) == _GZIP_MAGIC
    plain.seek(0)
    if not zipped:
        return _read(plain, path, axes, row, size)
    most = min(size * _LARGEST_EXPANSION, _LARGEST_UNPACKED_BYTES)
    try:
        with gzip.GzipFile(fileobj=plain) as unzipped:
            return _read(unzipped, path, axes, row, most)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: expected a whole gzip file, found {size} bytes that end early or are "
            f"damaged ({error})",
            remedy="fetch the file again.",
        ) from error


def _read(
    source: _ByteSource, path: Path, axes: int, row: tuple[int, ...] | None, most_bytes: int
) -> NDArray[np.uint8]:
    shape = _read_header(source, path, axes)
    expected = math.prod(shape)
    if row is not None and shape[1:] != row:
        raise DataError(
            f"{path}: expected images of {_extents(row)} pixels, found {_extents(shape[1:])}",
            remedy="check that the file belongs to the data set.",
        )
    if expected > most_bytes:
        raise _size_error(path, shape, f"a file that holds at most {most_bytes}")
    values = np.empty(expected, np.uint8)
    found = _fill(source, values)
    if found < expected:
        raise _size_error(path, shape, str(found))
    if source.read(1):
        raise _size_error(path, shape, "more")
    return values.reshape(shape)


def _read_header(source: _ByteSource, path: Path, axes: int) -> tuple[int, ...]:
    magic = source.read(4)
    wanted = bytes((0, 0, _UNSIGNED_BYTE, axes))
    if magic != wanted:
        raise DataError(
            f"{path}: expected the magic {int.from_bytes(wanted)} ({_words(wanted)}), "
            f"found {_words(magic)}",
            remedy="check that the file is what its name says; "
            "images and labels are easily swapped.",
        )
    words = source.read(4 * axes)
    if len(words) < 4 * axes:
        raise DataError(
            f"{path}: expected a header of {4 + 4 * axes} bytes, found {4 + len(words)}",
            remedy="fetch the file again; it was cut off.",
        )
    return struct.unpack(f">{axes}I", words)


def _words(magic: bytes) -> str:
    """Say what the first four bytes of a file mean."""
    if len(magic) < 4:
        return f"a file of {len(magic)} bytes"
    if magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        return f"the bytes {magic.hex(' ')}, which begin no IDX file"
    axes = "1 axis" if magic[3] == 1 else f"{magic[3]} axes"
    return f"{int.from_bytes(magic)}: {_TYPES[magic[2]]} values on {axes}"


def _fill(source: _ByteSource, values: NDArray[np.uint8]) -> int:
    """Read until ``values`` is full or the source ends, and return the number of bytes read."""
    view, done = values.data, 0
    while done < len(view):
        count = source.readinto(view[done:])
        if not count:
            break
        done += count
    return done


def _size_error(path: Path, shape: tuple[int, ...], found: str) -> DataError:
    return DataError(
        f"{path}: expected {math.prod(shape)} bytes of values ({_extents(shape)}), found {found}",
        remedy="fetch the file again.",
    )


def _extents(shape: tuple[int, ...]) -> str:
    return " x ".join(str(extent) for extent in shape)

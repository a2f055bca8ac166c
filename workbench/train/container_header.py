"""The header of a safetensors file: which arrays it holds and where, sealed against damage.

In: arrays and texts, or the bytes of a header.  Out: the bytes, or places of arrays.  Invariant:
the arrays that a header names fill the rest of the file without a gap and without an overlap, and
no size that it declares is believed before it is compared with that of the file.

A header that the workbench writes for itself begins with two digests: that of all content, and the
seal, a SHA-256 of the header itself with zeros in the seal's place.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast, final

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError

__all__ = [
    "DOCUMENT",
    "FINGERPRINT",
    "LARGEST_HEADER_BYTES",
    "ArraySpec",
    "Place",
    "header_of",
    "is_sealed",
    "name_of_type",
    "read_header",
    "sealed",
]

Array = npt.NDArray[Any]

DOCUMENT: Final = "workbench"
FINGERPRINT: Final = "fingerprint"
_SEAL: Final = "seal"
_METADATA: Final = "__metadata__"

LARGEST_HEADER_BYTES: Final = 100_000_000
"""What readers of the format take, and no more is written."""

_NO_DIGEST: Final = "0" * 64
_BEGINS: Final = b'{"__metadata__":{"fingerprint":"'
_BETWEEN: Final = b'","seal":"'
# In a file: the header's length of 8 bytes comes before it.
_LENGTH_BYTES: Final = 8
_FINGERPRINT_AT: Final = _LENGTH_BYTES + len(_BEGINS)
_SEAL_AT: Final = _FINGERPRINT_AT + len(_NO_DIGEST) + len(_BETWEEN)
_ALIGNMENT: Final = 8
# Numpy knows no array of more axes, and no extent that takes more bits.
_MOST_AXES: Final = 32
_MOST_EXTENT: Final = 1 << 62

_CODES: Final = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "int8": "I8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "uint8": "U8",
}
_NAMES: Final = {code: name for name, code in _CODES.items()}


@final
@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array as the header tells of it.

    Attributes
    ----------
    dtype
        Its element type as numpy names it.
    shape
        Its extents.
    """

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


@final
@dataclass(frozen=True, slots=True)
class Place:
    """An array in a file.

    Attributes
    ----------
    spec
        Its type and shape.
    start, stop
        Its bytes, counted from the end of the header.
    """

    spec: ArraySpec
    start: int
    stop: int


# -- writing


def header_of(arrays: Mapping[str, Array], texts: Mapping[str, str], *, seals: bool) -> bytes:
    """Return a header with its length before it, and zeros for the two digests if it ``seals``.

    Raises
    ------
    DataError
        If an array's name or type is none that the format can hold, or all is too long.
    """
    digests = {FINGERPRINT: _NO_DIGEST, _SEAL: _NO_DIGEST} if seals else {}
    entries: dict[str, object] = {_METADATA: {**digests, **texts}}
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        entries[_checked(name)] = {
            "dtype": _CODES[_known_type(name, array)],
            "shape": array.shape,
            "data_offsets": (start, stop),
        }
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > LARGEST_HEADER_BYTES:
        raise DataError(
            f"the header takes {len(text)} bytes, and the format allows {LARGEST_HEADER_BYTES}",
            remedy="use shorter names and texts, or fewer of them",
        )
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def sealed(header: bytes, fingerprint: str) -> bytes:
    """Return a header, its length before it, with the content's fingerprint and its own seal."""
    made = bytearray(header)
    made[_FINGERPRINT_AT : _FINGERPRINT_AT + len(_NO_DIGEST)] = fingerprint.encode()
    made[_SEAL_AT : _SEAL_AT + len(_NO_DIGEST)] = _seal_of(bytes(made))
    return bytes(made)


def is_sealed(header: bytes) -> bool | None:
    """Return whether a header is what was written; None if it never had a seal."""
    begins = header[_LENGTH_BYTES:_FINGERPRINT_AT] == _BEGINS
    between = header[_FINGERPRINT_AT + len(_NO_DIGEST) : _SEAL_AT] == _BETWEEN
    if not (begins or between):
        return None
    return header[_SEAL_AT : _SEAL_AT + len(_NO_DIGEST)] == _seal_of(header)


def _seal_of(header: bytes) -> bytes:
    digest = hashlib.sha256(header[:_SEAL_AT])
    digest.update(_NO_DIGEST.encode())
    digest.update(header[_SEAL_AT + len(_NO_DIGEST) :])
    return digest.hexdigest().encode()


def _checked(name: str) -> str:
    if name == _METADATA:
        raise DataError(
            f"an array is named `{_METADATA}`, which a safetensors file keeps for itself",
            remedy="give it another name",
        )
    try:
        name.encode()
    except UnicodeEncodeError as fault:
        raise DataError(
            f"an array is named {name!r}, which is no text that a file can hold: {fault.reason}",
            remedy="use a name of whole characters",
        ) from fault
    return name


def _known_type(name: str, array: Array) -> str:
    found = name_of_type(array.dtype)
    if found not in _CODES:
        raise DataError(
            f"`{name}` is an array of {array.dtype}, which a safetensors file cannot hold",
            remedy=f"convert it to one of {', '.join(_CODES)}",
        )
    return found


@lru_cache(maxsize=64)
def name_of_type(dtype: np.dtype[Any]) -> str:
    """Return a type's name, which numpy puts together each time it is asked."""
    return dtype.name


# -- reading


def read_header(text: bytes) -> tuple[dict[str, str], dict[str, Place]]:
    """Return the texts of a header and the places of its arrays, sorted by name.

    Raises
    ------
    ValueError
        If it is no header of the format, saying why.
    """
    try:
        entries = json.loads(text, object_pairs_hook=_without_doubles)
    except RecursionError as fault:
        raise ValueError("its header is nested too deeply") from fault
    if not isinstance(entries, dict):
        raise ValueError("its header is no JSON object")
    named = cast("dict[str, object]", entries)
    texts = named.pop(_METADATA, {})
    if not isinstance(texts, dict):
        raise ValueError(f"its `{_METADATA}` is no JSON object")
    metadata = cast("dict[str, object]", texts)
    if not all(isinstance(each, str) for each in metadata.values()):
        raise ValueError(f"its `{_METADATA}` holds something else than text")
    places = {name: _place(name, named[name]) for name in sorted(named)}
    end = 0
    for place in sorted(places.values(), key=lambda each: (each.start, each.stop)):
        if place.start != end:
            raise ValueError("its arrays do not follow one another")
        end = place.stop
    return cast("dict[str, str]", metadata), places


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _place(name: str, entry: object) -> Place:
    if not isinstance(entry, dict):
        raise ValueError(f"its entry `{name}` is no JSON object")
    told = cast("dict[str, object]", entry)
    code, shape = told.get("dtype"), _extents(told.get("shape"))
    offsets = _extents(told.get("data_offsets"))
    if not isinstance(code, str) or shape is None or offsets is None or len(offsets) != 2:
        raise ValueError(f"its entry `{name}` tells no type, shape and place")
    dtype = _NAMES.get(code, code)
    start, stop = offsets
    if code in _NAMES and stop - start != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"its entry `{name}` has another size than {dtype} {shape}")
    if stop < start:
        raise ValueError(f"its entry `{name}` ends before it begins")
    return Place(ArraySpec(dtype, shape), start, stop)


def _extents(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    entries = cast("Sequence[object]", value)
    if len(entries) > _MOST_AXES:
        return None
    found = tuple(each for each in entries if type(each) is int and 0 <= each < _MOST_EXTENT)
    return found if len(found) == len(entries) else None

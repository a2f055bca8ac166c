"""The files of a run's record, read and checked value by value.

In: the path of a file.  Out: plain values that tables and curves are made of.  Invariant: what
comes back has the types and the entries that are promised; anything else is refused with the file
named, and neither a pipe nor a link in the folder is opened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from workbench.errors import DataError
from workbench.files import read_regular

__all__ = ["LARGEST_FILE_BYTES", "read_config", "read_history", "read_status", "read_text"]

LARGEST_FILE_BYTES: Final = 1 << 30
"""Of a file of lines: a history of some ten million epochs."""

_LARGEST_JSON_BYTES: Final = 1 << 26
_MOST: Final = 1 << 63
_MOST_AXES: Final = 64
_REMEDY: Final = "remove the folder of this run"


def read_text(path: Path, *, most: int) -> str:
    """Return the text of a regular file.

    Raises
    ------
    DataError
        If it cannot be read, or is no text.
    """
    try:
        return read_regular(path, most=most, follow=False).decode()
    except UnicodeDecodeError as fault:
        raise _unreadable(path, f"it is no text: {fault.reason}") from fault
    except DataError as fault:
        raise DataError(fault.problem, remedy=_REMEDY) from fault


def read_status(path: Path) -> dict[str, Any]:
    """Return how a run is, with its process.

    Raises
    ------
    DataError
        If it cannot be read, or a value of it cannot be.
    """
    found = _read_json(path)
    for name in ("status", "started"):
        _require(path, name, found.get(name), lambda value: isinstance(value, str), "text")
    process = found.get("process")
    _require(path, "process", process, _is_process, "a process")
    return found


def read_config(path: Path) -> dict[str, Any]:
    """Return what was decided of a run, with the shapes of its parameters.

    Raises
    ------
    DataError
        If it cannot be read, or a value of it cannot be.
    """
    found = _read_json(path)
    for name, value in found.items():
        if name == "parameters":
            _require(path, name, value, _is_parameters, "types and shapes by name")
        elif name in _NUMBERS:
            _require(path, name, value, _is_number, "a number")
        elif name in _TEXTS:
            _require(path, name, value, lambda each: isinstance(each, str), "text")
    return found


_NUMBERS: Final = frozenset({"epochs", "batch_size", "lr", "seed", "rows"})
_TEXTS: Final = frozenset({"name", "note", "optimizer"})


def read_history(path: Path) -> list[dict[str, float]]:
    """Return a dict for each epoch; a number that was not finite is NaN.

    Raises
    ------
    DataError
        If it cannot be read, or a line of it is no epoch.
    """
    *lines, _ = read_text(path, most=LARGEST_FILE_BYTES).split("\n")
    rows: list[dict[str, float]] = []
    last = 0
    for at, line in enumerate(lines, 1):
        row = _parsed(path, line, f"line {at}")
        _require(path, f"line {at}", row, _is_row, "the numbers of an epoch")
        epoch = cast("int", row["epoch"])
        words = f"an epoch after {last}"
        _require(path, f"line {at}", row["epoch"], lambda each: each > last, words)  # noqa: B023 - called at once
        rows.append({n: math.nan if value is None else value for n, value in row.items()})
        last = epoch
    return rows


def _read_json(path: Path) -> dict[str, Any]:
    return _parsed(path, read_text(path, most=_LARGEST_JSON_BYTES), "it")


def _parsed(path: Path, text: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError as fault:
        raise _unreadable(path, f"{what} is nested too deeply") from fault
    except ValueError as fault:
        raise _unreadable(path, f"{what} is no JSON: {fault}") from fault
    if not isinstance(found, dict):
        raise _unreadable(path, f"{what} is no JSON object")
    return cast("dict[str, Any]", found)


def _is_number(value: object) -> bool:
    if type(value) is int:
        return -_MOST <= value < 2 * _MOST
    return isinstance(value, float)


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST


def _is_row(value: Mapping[str, object]) -> bool:
    numbers = all(each is None or _is_number(each) for each in value.values())
    needed = all(name in value for name in ("train_loss", "lr", "seconds"))
    return numbers and needed and _is_whole(value.get("epoch"))


def _is_process(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    told = cast("dict[str, object]", value)
    texts = all(isinstance(told.get(name), str) for name in ("started", "host", "boot"))
    # The numbers of processes have at most 32 bits.
    pid = told.get("pid")
    return len(told) == 4 and texts and type(pid) is int and 0 < pid < 1 << 31


def _is_parameters(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return all(_is_parameter(each) for each in cast("dict[str, object]", value).values())


def _is_parameter(value: object) -> bool:
    if not isinstance(value, list) or len(cast("list[object]", value)) != 2:
        return False
    dtype, shape = cast("list[object]", value)
    if not isinstance(dtype, str) or not isinstance(shape, list):
        return False
    extents = cast("list[object]", shape)
    return len(extents) <= _MOST_AXES and all(_is_whole(each) for each in extents)


def _require(path: Path, name: str, value: Any, fits: Callable[[Any], bool], words: str) -> None:
    if not fits(value):
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
        raise DataError(
            f"`{path}` is damaged: `{name}` must be {words}, got {shown}", remedy=_REMEDY
        )


def _unreadable(path: Path, how: str) -> DataError:
    return DataError(f"`{path}` cannot be read: {how}", remedy=_REMEDY)

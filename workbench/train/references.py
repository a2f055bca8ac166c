"""What a function refers to: whether it would compute now what it computed before.

In: a function. Out: a record of its code and of all that its code can look up, or nothing if that
cannot be told. Invariant: two equal records mean the same computation; what could change unseen,
such as a list or an array, makes no record.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Final, cast, final

__all__ = ["Record", "record_of"]

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes)
# Modules that nobody edits while a notebook is open.
_STEADY: Final = frozenset({"builtins", "math", "numpy", "workbench"})


@final
class Record:
    """What a function consisted of and referred to."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[object]) -> None:
        self._parts = parts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or len(self._parts) != len(other._parts):
            return False
        return all(map(_is_same, self._parts, other._parts))

    __hash__ = None  # type: ignore[assignment]  # it holds what has no hash


def record_of(function: object) -> Record | None:
    """Return what ``function`` consists of and refers to, through other functions too.

    None if it is no plain function, or refers to something whose changes would not be seen.
    """
    parts: list[object] = []
    waiting: list[object] = [function]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, types.FunctionType):
            if id(value) not in seen:
                seen.add(id(value))
                parts.append(value.__code__)
                waiting.extend(_of_function(value))
        elif isinstance(value, tuple):
            entries = cast("tuple[object, ...]", value)
            parts.append(len(entries))
            waiting.extend(entries)
        elif isinstance(value, (*_PLAIN, type)) or _is_steady(value):
            parts.append(value)
        else:
            return None
    return Record(parts)


def _of_function(function: types.FunctionType) -> Iterator[object]:
    yield function.__defaults__
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name
        yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            yield None
    known = function.__globals__
    for name in _names(function.__code__):
        # Names of attributes are among them: a global of that name does no harm.
        if name in known:
            yield name
            yield known[name]


def _names(code: types.CodeType) -> Iterator[str]:
    """Give the names that code looks up, that of functions within it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_steady(value: Any) -> bool:
    if isinstance(value, types.BuiltinFunctionType):
        # That of a list or a dict would see what is in it.
        value = value.__self__
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _STEADY


def _is_same(left: object, right: object) -> bool:
    if left is right:
        return True
    return isinstance(left, _PLAIN) and type(left) is type(right) and left == right

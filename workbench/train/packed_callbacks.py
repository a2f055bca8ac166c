"""What callbacks remember, by their names, so that a resumed run may list them in any order.

In: callbacks with ``pack`` and ``unpack``.  Out: plain values and arrays for a file; and the
callbacks as they were.  Invariant: either every callback takes its memory back, or all are as
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError
from workbench.train.callback import name_of
from workbench.train.callbacks.packed import Memory, Packable

__all__ = ["MEMORY", "copied", "memory_of", "pack_callbacks", "remembering", "unpack_callbacks"]

MEMORY: Final = "memory"
"""Before the number of a callback and the place of an array in what it remembers."""

Array = npt.NDArray[Any]
Entry = Mapping[str, Any]
# Name, and which of several that have it.
Key = tuple[str, int]


def remembering(callback: object) -> Packable | None:
    """Return a callback as one that has a memory, or None if it has none."""
    # Asked of the attributes: a check against the protocol takes many times as long.
    if all(callable(getattr(callback, name, None)) for name in ("pack", "unpack")):
        return cast("Packable", callback)
    return None


def memory_of(callback: Packable) -> Memory:
    """Return what a callback remembers, copied: it may change what it returned.

    Arrays that cannot be written are not copied.

    Raises
    ------
    DataError
        If ``pack`` does not return a dict.
    """
    packed = cast("object", callback.pack())
    if not isinstance(packed, Mapping):
        raise DataError(
            f"`pack` of the callback `{name_of(callback)}` returned a "
            f"`{type(packed).__qualname__}`",
            remedy="return a dict of plain values and arrays",
        )
    return copied(cast("Memory", packed))


def copied(memory: Memory) -> Memory:
    """Return a memory that does not change with the callback it came from."""
    return cast("Memory", _mapped(memory, _copied))


def pack_callbacks(
    callbacks: Sequence[object], memory: Callable[[Packable], Memory] = memory_of
) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Return the memories of the callbacks that have one, and the arrays in them by name.

    Parameters
    ----------
    callbacks
        One has a memory if it defines ``pack()``, which returns a dict of plain values and arrays,
        and ``unpack``, which takes it back.
    memory
        What a callback remembers.
    """
    entries: list[dict[str, Any]] = []
    arrays: dict[str, Array] = {}
    for (name, number), callback in _by_key(callbacks).items():
        places: list[list[str | int]] = []
        for place, array in _arrays_in(memory(callback)):
            arrays[f"{MEMORY}.{len(entries)}.{len(places)}"] = array
            places.append(place)
        state = _mapped(memory(callback), lambda value: None if _is_array(value) else value)
        entries.append({"name": name, "number": number, "state": state, "arrays": places})
    return entries, arrays


def unpack_callbacks(
    callbacks: Sequence[object],
    entries: Sequence[Entry] | None,
    arrays: Mapping[str, Array],
) -> None:
    """Give callbacks the memories that `pack_callbacks` returned.

    Parameters
    ----------
    callbacks
        In any order.  Those that ``entries`` do not name keep their memory.
    entries
        The memories; None if none were kept, as in a file of the best parameters.
    arrays
        The arrays in them, by name.

    Raises
    ------
    DataError
        If a memory has no callback to go to, or a callback does not take it; all are as before
        then.
    """
    if entries is None:
        return
    mine = _by_key(callbacks)
    theirs = {
        (entry["name"], entry["number"]): _revived(index, entry, arrays)
        for index, entry in enumerate(entries)
    }
    lost = [key for key, memory in theirs.items() if key not in mine and _remembers(memory)]
    if lost:
        raise DataError(
            f"the checkpoint holds state for {len(theirs)} callbacks and this run registers "
            f"{len(mine)}: {', '.join(_text(key) for key in lost)} is missing",
            remedy="resume with the callbacks that the run was checkpointed with, or pass "
            "`callbacks=None` to forget what they remembered",
        )
    before = [(callback, memory_of(callback)) for callback in mine.values()]
    try:
        for key, callback in mine.items():
            if key in theirs:
                callback.unpack(theirs[key])
    except Exception as fault:  # any fault of a person's own code
        for callback, memory in before:
            callback.unpack(memory)
        raise DataError(
            f"a callback does not take its state back: {fault!r}",
            remedy="resume with the callbacks that the run was checkpointed with",
        ) from fault


def _by_key(callbacks: Sequence[object]) -> dict[Key, Packable]:
    found: dict[Key, Packable] = {}
    for callback in callbacks:
        packable = remembering(callback)
        if packable is not None:
            name, number = name_of(callback), 0
            while (name, number) in found:
                number += 1
            found[name, number] = packable
    return found


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_array(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def _copied(value: object) -> object:
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return array.copy() if array.flags.writeable else array
    return deepcopy(value)


def _mapped(value: Any, function: Callable[[Any], object]) -> Any:
    """Return plain values with ``function`` of each that is no dict, list or tuple."""
    inner = _inner(value)
    if inner is None:
        return function(value)
    mapped = [(key, _mapped(each, function)) for key, each in inner]
    return dict(mapped) if isinstance(value, Mapping) else [each for _, each in mapped]


def _inner(value: Any) -> list[tuple[Any, Any]] | None:
    """Return what is in a dict, list or tuple, with its keys; None of anything else."""
    if _is_mapping(value):
        return list(value.items())
    if type(value) in (list, tuple):
        in_order: Sequence[Any] = value
        return list(enumerate(in_order))
    return None


def _arrays_in(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[list[Any], Array]]:
    """Return the arrays in plain values, each with the keys that lead to it."""
    if _is_array(value):
        return [(list(place), np.asarray(value))]
    return [found for key, each in _inner(value) or () for found in _arrays_in(each, (*place, key))]


def _revived(index: int, entry: Entry, arrays: Mapping[str, Array]) -> Memory:
    memory = deepcopy(entry["state"])
    for number, place in enumerate(entry["arrays"]):
        holder = memory
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = arrays[f"{MEMORY}.{index}.{number}"]
    return cast("Memory", memory)


def _remembers(memory: Any) -> bool:
    if isinstance(memory, np.ndarray):
        return memory.size > 0
    inner = _inner(memory)
    return bool(memory) if inner is None else any(_remembers(each) for _, each in inner)


def _text(key: Key) -> str:
    name, number = key
    return f"`{name}`" + (f" (the {number + 1}. of that name)" if number else "")

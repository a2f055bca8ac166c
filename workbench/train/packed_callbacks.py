"""What callbacks remember, by their names, so that a resumed run may list them in any order.

In: callbacks with ``pack`` and ``unpack``.  Out: plain values for a file; and the callbacks as they
were.  Invariant: either every callback takes its state back, or all are as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from workbench.errors import DataError
from workbench.train.callback import name_of
from workbench.train.callbacks.packed import Kind, Packable, Packed

__all__ = ["pack_callbacks", "unpack_callbacks"]

Entry = Mapping[str, Any]
# Name, kind, and which of several that have both in common.
Key = tuple[str, int, int]


def pack_callbacks(callbacks: Sequence[object]) -> list[dict[str, Any]]:
    """Return the states of the callbacks that have one.

    A callback has one if it defines ``pack()``, which returns a `Packed` or a dict of plain values,
    and ``unpack``, which takes it back.
    """
    entries: list[dict[str, Any]] = []
    for (name, kind, number), callback in _by_key(callbacks).items():
        entries.append({"name": name, "kind": kind, "number": number, "state": _state(callback)})
    return entries


def unpack_callbacks(callbacks: Sequence[object], entries: Sequence[Entry] | None) -> None:
    """Give callbacks the states that `pack_callbacks` returned.

    Parameters
    ----------
    callbacks
        In any order.  Those that ``entries`` do not name keep their state.
    entries
        The states; None if none were kept, as in a file of the best parameters.

    Raises
    ------
    DataError
        If a state has no callback to go to, or a callback does not take it; all are as before then.
    """
    if entries is None:
        return
    mine = _by_key(callbacks)
    theirs = {(e["name"], e["kind"], e["number"]): e["state"] for e in entries}
    lost = [key for key, state in theirs.items() if key not in mine and _remembers(state)]
    if lost:
        raise DataError(
            f"the checkpoint holds state for {len(theirs)} callbacks and this run registers "
            f"{len(mine)}: {', '.join(_text(key) for key in lost)} is missing",
            remedy="resume with the callbacks that the run was checkpointed with, or pass "
            "`callbacks=None` to forget what they remembered",
        )
    before = [(callback, callback.pack()) for callback in mine.values()]
    try:
        for key, callback in mine.items():
            if key in theirs:
                callback.unpack(_revived(key, theirs[key]))
    except Exception as fault:  # any fault of a person's own code
        for callback, state in before:
            callback.unpack(state)
        raise DataError(
            f"a callback does not take its state back: {fault!r}",
            remedy="resume with the callbacks that the run was checkpointed with",
        ) from fault


def _by_key(callbacks: Sequence[object]) -> dict[Key, Packable]:
    found: dict[Key, Packable] = {}
    for callback in callbacks:
        # Asked of the attributes: a check against the protocol takes many times as long.
        if all(callable(getattr(callback, name, None)) for name in ("pack", "unpack")):
            packable = cast("Packable", callback)
            name, kind, number = name_of(callback), _kind(packable), 0
            while (name, kind, number) in found:
                number += 1
            found[name, kind, number] = packable
    return found


def _kind(callback: Packable) -> int:
    packed = cast("object", callback.pack())
    return int(packed.kind) if isinstance(packed, Packed) else int(Kind.OTHER)


def _state(callback: Packable) -> object:
    packed = cast("object", callback.pack())
    if isinstance(packed, Packed):
        return [float(value) for value in packed[1:]]
    if isinstance(packed, Mapping):
        # A callback that goes on may change what it returned.
        return deepcopy(dict(cast("Mapping[str, object]", packed)))
    raise DataError(
        f"`pack` of the callback `{name_of(callback)}` returned a `{type(packed).__qualname__}`",
        remedy="return a dict of plain values",
    )


def _revived(key: Key, state: Any) -> Any:
    return Packed(Kind(key[1]), *state) if isinstance(state, list) else state


def _remembers(state: Any) -> bool:
    return bool(state) and any(state)


def _text(key: Key) -> str:
    name, _, number = key
    return f"`{name}`" + (f" (the {number + 1}. of that name)" if number else "")

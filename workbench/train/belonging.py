"""Which run a callback serves, so that what it remembers of one is not taken into another.

In: a run that begins, with its callbacks.  Out: callbacks that remember that run and no other.
Invariant: a callback serves one run at a time; what it remembers of a run is kept with the run
while it serves another, and taken up when it comes back.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, final

from workbench.errors import ConfigurationError
from workbench.train.callback import name_of
from workbench.train.callbacks.packed import Memory, Packable
from workbench.train.packed_callbacks import copied, memory_of, remembering
from workbench.train.reports import Report

__all__ = ["Memories", "claim", "memory_in"]


@final
class Memories:
    """What callbacks remember of one run, while they serve another."""

    def __init__(self) -> None:
        # With the callback itself: its number would be another's once it is gone.
        self._kept: dict[int, tuple[object, Memory]] = {}

    def keep(self, callback: object, memory: Memory) -> None:
        """Keep what a callback that leaves remembers."""
        self._kept[id(callback)] = callback, memory

    def take(self, callback: object) -> Memory | None:
        """Return what a callback that comes back remembered, and keep it no longer."""
        kept = self._kept.pop(id(callback), None)
        return None if kept is None else kept[1]

    def look(self, callback: object) -> Memory | None:
        """Return what a callback that is away remembers of the run."""
        kept = self._kept.get(id(callback))
        return None if kept is None else kept[1]


class Owner(Protocol):
    """What a run is to its callbacks."""

    memories: Memories

    @property
    def is_training(self) -> bool:
        """Whether it is at work."""
        ...


@dataclass(slots=True)
class _Service:
    """Whom a callback serves, and what it was like before it served anybody."""

    run: weakref.ref[Owner]
    fresh: Memory | None
    looks: dict[str, object]


_SERVICES: Final[dict[int, _Service]] = {}
_LOCK: Final = threading.RLock()


def claim(run: Owner, callbacks: Sequence[object]) -> list[Report]:
    """Let callbacks serve a run, and remember what they have learned of it, if anything.

    Returns
    -------
    list[Report]
        A warning for each that served another run, keeps attributes of its own and tells nobody
        which of them are its memory.

    Raises
    ------
    ConfigurationError
        If one of them serves another run that is training.
    """
    with _LOCK:
        for callback in callbacks:
            service = _SERVICES.get(id(callback))
            other = service.run() if service is not None else None
            if other is not None and other is not run and other.is_training:
                raise ConfigurationError(
                    f"the callback `{name_of(callback)}` serves another run, which is training: "
                    "it remembers one run at a time",
                    remedy="make one for each run, or wait for the other to end: `run.wait()`",
                )
        return [said for callback in callbacks for said in _serve(run, callback)]


def _serve(run: Owner, callback: object) -> Iterable[Report]:
    service = _SERVICES.get(id(callback))
    if service is None:
        _begin(run, callback)
        return
    other = service.run()
    if other is run:
        return
    service.run = weakref.ref(run)
    packable = remembering(callback)
    if packable is None or service.fresh is None:
        begins = callable(getattr(callback, "on_run_begin", None))
        # One that is told of the beginning is taken to begin there.
        if not begins and _looks(callback) != service.looks:
            yield Report(
                f"the callback `{name_of(callback)}` served another run and may remember it: its "
                "attributes are not as they were; make one for each run, or define `pack`, which "
                "returns what it remembers as a dict, and `unpack`, which takes that back",
                severity="warning",
            )
        return
    try:
        if other is not None:
            other.memories.keep(callback, memory_of(packable))
        known = run.memories.take(callback)
        packable.unpack(copied(service.fresh) if known is None else known)
    except Exception as fault:  # noqa: BLE001 - any fault of a person's own code, told
        yield Report(
            f"the callback `{name_of(callback)}` remembers another run still, since its `pack` or "
            f"`unpack` raised {fault!r}; make one for each run",
            severity="error",
        )


def _begin(run: Owner, callback: object) -> None:
    number, packable = id(callback), remembering(callback)
    try:
        # Told when it is gone: its number may then be another's.
        weakref.finalize(callback, _SERVICES.pop, number, None).atexit = False
    except TypeError:
        return  # an object of slots alone, which cannot be followed
    fresh: Memory | None = None
    if packable is not None:
        # What it remembers may come into being with its run.
        with suppress(Exception):
            fresh = memory_of(packable)
    _SERVICES[number] = _Service(weakref.ref(run), fresh, _looks(callback))


def memory_in(run: Owner, packable: Packable) -> Memory:
    """Return what a callback remembers of ``run``, whomever it serves now."""
    with _LOCK:
        away = run.memories.look(packable)
        return memory_of(packable) if away is None else away


def _looks(callback: object) -> dict[str, object]:
    """Return what tells whether a callback changed: small values, and how long containers are."""
    return {
        name: value
        if isinstance(value, (bool, int, float, str, type(None)))
        else (id(cast("object", value)), _length(value))
        for name, value in cast("dict[str, Any]", getattr(callback, "__dict__", {})).items()
        if not callable(value)
    }


def _length(value: Any) -> int:
    try:
        return len(value)
    except TypeError:
        return 0

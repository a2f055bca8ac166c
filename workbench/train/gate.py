"""A gate between the training loop and whoever wants to look at a run from another thread.

Invariant: while somebody is inside, no batch runs; while a native call runs, nobody is inside. So
what is read through the gate belongs to one batch.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import final


@final
class Gate:
    """Lets either the loop run batches or visitors look, never both.

    Visitors come first: the loop waits for those who are there before its next native call, which
    is short, so a visitor waits for one call at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_running = False
        self._visitors = 0
        self._running = _Running(self)

    def running(self) -> _Running:
        """Return what holds the gate for the loop, around a native call: ``with`` it."""
        return self._running

    def begin(self) -> None:
        """Close the gate, once all visitors have left."""
        with self._lock:
            while self._visitors:
                self._changed.wait()
            self._is_running = True

    def end(self) -> None:
        """Open the gate."""
        with self._lock:
            self._is_running = False
            if self._visitors:
                self._changed.notify_all()

    @contextmanager
    def visiting(self) -> Generator[None]:
        """Hold the gate for somebody who looks: any number at once, and the loop's own thread."""
        with self._lock:
            self._visitors += 1
            while self._is_running:
                self._changed.wait()
        try:
            yield
        finally:
            with self._lock:
                self._visitors -= 1
                self._changed.notify_all()


@final
class _Running:
    """Closes the gate for a block; no generator, since a run does this for every native call."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.begin()

    def __exit__(self, *_: object) -> None:
        self._gate.end()

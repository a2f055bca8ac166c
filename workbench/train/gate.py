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
        self._changed = threading.Condition()
        self._running = False
        self._visitors = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """Hold the gate for the loop, around a native call."""
        with self._changed:
            while self._visitors:
                self._changed.wait()
            self._running = True
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()

    @contextmanager
    def visiting(self) -> Generator[None]:
        """Hold the gate for somebody who looks: any number at once, and the loop's own thread."""
        with self._changed:
            self._visitors += 1
            while self._running:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._visitors -= 1
                self._changed.notify_all()

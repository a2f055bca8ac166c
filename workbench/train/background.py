"""The thread that a run trains in, and how others wait for it.

In: work to do. Out: its end, or what went wrong in it, in the thread that waits. Invariant: one
training at a time; whoever waits does so on an event in short portions, never on the thread, so
that an interrupt leaves everything consistent.
"""

from __future__ import annotations

import contextvars
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Final, final

from workbench.errors import ExecutionError

__all__ = ["Background", "deferred_interrupts"]

_POLL_S: Final = 0.1
_ASYNC_POLL_S: Final = 0.02


@final
class Background:
    """Whether a training goes on, where, and how it failed."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._done = threading.Event()
        self._done.set()
        self._fault: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a training has begun and not ended."""
        return not self._done.is_set()

    def begin(self) -> None:
        """Claim the place.

        Raises
        ------
        ExecutionError
            If a training goes on.
        """
        if not self._taken.acquire(blocking=False):
            raise ExecutionError(
                "the run is training already",
                remedy="call `run.stop()` and `run.wait()` first, or make another Run",
            )
        self._done.clear()
        self._fault = None

    def end(self) -> None:
        """Give the place back, and wake those who wait."""
        self._taken.release()
        self._done.set()

    def start(self, work: Callable[[], None], end: Callable[[], None]) -> None:
        """Do ``work`` in a thread, then ``end``, and return at once.

        What was set for the caller by context variables, such as `workbench.settings`, holds there.
        """
        inherited = contextvars.copy_context()

        def train_in_background() -> None:
            try:
                inherited.run(work)
            except BaseException as fault:  # noqa: BLE001 - kept for the thread that waits
                self._fault = fault
            finally:
                end()

        threading.Thread(target=train_in_background, name="wb-train", daemon=True).start()

    def wait(self, timeout_s: float | None, interrupt: Callable[[], None]) -> None:
        """Wait for the end.

        An interrupt while waiting calls ``interrupt``, and the end is waited for.

        Raises
        ------
        TimeoutError
            If there is none after ``timeout_s`` seconds.
        """
        limit = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._done.wait(_POLL_S if limit is None else min(_POLL_S, timeout_s or 0.0)):
                if limit is not None and time.monotonic() >= limit:
                    raise TimeoutError(f"the run still trains after {timeout_s} s")
        except KeyboardInterrupt:
            interrupt()
            self._done.wait()

    async def until_done(self, interrupt: Callable[[], None]) -> None:
        """Wait as `wait` does, and let the event loop go on meanwhile.

        Being cancelled, as an interrupt of a cell does, calls ``interrupt``.
        """
        import asyncio  # 16 ms, which nobody needs who does not await

        try:
            while not self._done.is_set():
                await asyncio.sleep(_ASYNC_POLL_S)
        except asyncio.CancelledError:
            interrupt()
            raise

    def raise_fault(self) -> None:
        """Raise what went wrong in the thread, once."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault


def deferred_interrupts(interrupt: Callable[[], bool]) -> Callable[[], None]:
    """Turn keyboard interrupts into calls of ``interrupt`` until the returned function is called.

    Only the main thread gets interrupts; elsewhere nothing is done.

    Parameters
    ----------
    interrupt
        Returns whether the interrupt is to be raised after all.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        return lambda: None

    def on_interrupt(number: int, frame: object) -> None:
        if interrupt():
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    return lambda: _restore(before)


def _restore(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)

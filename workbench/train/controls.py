"""What other threads may ask of a training loop, as words that native code reads.

Invariant: asking never waits for the loop, and the loop obeys between two steps.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.errors import ExecutionError
from workbench.train.reports import Report

__all__ = ["After", "Controls", "Request"]

After = Literal["batch", "epoch"]

_WAIT_S: Final = 0.02
"""How often a paused loop looks whether it has to stop."""


@final
class Request:
    """Something to be done between two steps, and what became of it.

    Parameters
    ----------
    kind
        What it is about: of several of one kind that wait, where only the last counts, one is kept.
    action
        Does it; may return what to report.
    """

    def __init__(self, kind: str, action: Callable[[], Report | str | None]) -> None:
        self.kind = kind
        self._action: Callable[[], Report | str | None] | None = action
        self._done = threading.Event()
        self._fault: Exception | None = None
        # The thread that will do it, while there is one.
        self.thread: int | None = None

    def obey(self) -> Report | None:
        """Do it, and return what is to be reported; a fault is kept for `wait`, and reported."""
        # Done once, then forgotten: whoever keeps the request keeps nothing that the action holds.
        action, self._action = self._action, None
        try:
            said = None if action is None else action()
            return Report(said) if isinstance(said, str) else said
        except Exception as fault:  # noqa: BLE001 - the training goes on, the asker is told
            self._fault = fault
            return Report(f"`{self.kind}` was asked for and failed: {fault}", severity="error")
        finally:
            self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether it was obeyed."""
        return self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it was obeyed, and raise what went wrong.

        Raises
        ------
        TimeoutError
            If it was not obeyed after ``timeout_s`` seconds.
        ExecutionError
            If it is the calling thread that will have to obey.
        """
        if self.thread == threading.get_ident() and not self.is_done:
            raise ExecutionError(
                f"a callback waits for `{self.kind}`, which is done after the callback",
                remedy="go on without waiting, or ask in another thread",
            )
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"`{self.kind}` was not obeyed within {timeout_s} s")
        if self._fault is not None:
            raise self._fault

    def __repr__(self) -> str:
        state = "waits" if not self.is_done else "done" if self._fault is None else "failed"
        return f"<Request {self.kind!r}: {state}>"


@final
class Controls:
    """Stop and pause requests of one run, and others to be obeyed between two of its steps."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self._waiting: dict[str, Request] = {}
        self._words: list[npt.NDArray[np.int64]] = []
        self._go = threading.Event()
        self._go.set()
        self._stop: After | None = None
        self.reason = ""

    def attach(self, control: npt.NDArray[np.int64]) -> None:
        """Let requests break native calls that watch ``control[0]``; once is enough."""
        if not any(control is known for known in self._words):
            # A new list: another thread may be walking over the old one.
            self._words = [*self._words, control]
        # Whatever an earlier request left there counts no more.
        control[0] = self.stops_now or self.is_paused or self.has_requests

    def detach(self, control: npt.NDArray[np.int64] | None = None) -> None:
        """Forget the native calls that watch ``control``, or all of them."""
        kept = [] if control is None else self._words
        self._words = [known for known in kept if known is not control]

    def _break(self, word: int) -> None:
        for control in self._words:
            control[0] = word

    @property
    def stops_now(self) -> bool:
        """Whether the loop should end after this batch."""
        return self._stop == "batch"

    @property
    def stops_after_epoch(self) -> bool:
        """Whether the loop should end after this epoch at the latest."""
        return self._stop is not None

    @property
    def is_paused(self) -> bool:
        """Whether the loop should wait; a stop ends a pause."""
        return self._stop is None and not self._go.is_set()

    def request_stop(self, after: After = "batch", reason: str = "stopped by request") -> None:
        """Ask the loop to end after this batch or this epoch; the first reason is kept.

        Takes no lock: a signal handler may call it whatever the interrupted thread was doing.
        """
        self.reason = self.reason or reason
        self._stop = "batch" if "batch" in (after, self._stop) else "epoch"
        self._break(int(self.stops_now))

    def clear(self) -> None:
        """Forget a stop that was obeyed."""
        self._stop = None
        self.reason = ""
        self._break(0)

    def pause(self) -> None:
        """Ask the loop to wait after this batch."""
        self._go.clear()
        self._break(1)

    def resume(self) -> None:
        """Let a waiting loop go on."""
        self._break(int(self.stops_now))
        self._go.set()

    def wait_in_pause(self) -> None:
        """Wait a moment, or until the loop may go on."""
        self._go.wait(_WAIT_S)

    # -- requests

    def ask(self, request: Request, *, once: bool = False) -> Request:
        """Have a request obeyed between two steps, soon; takes no lock.

        Parameters
        ----------
        request
            What to do.
        once
            Whether one of its kind that waits already will do.

        Returns
        -------
        Request
            The one that will be obeyed.
        """
        if once:
            known = self._waiting.setdefault(request.kind, request)
            if known is not request:
                return known
        self._requests.append(request)
        self._break(1)
        return request

    @property
    def has_requests(self) -> bool:
        """Whether there is something to obey."""
        return bool(self._requests)

    def take_requests(self) -> Iterator[Request]:
        """Give what there is to obey, first come first served; two threads may share the work."""
        while True:
            try:
                request = self._requests.popleft()
            except IndexError:
                return
            # From here on another of its kind is a new one: this may have begun.
            if self._waiting.get(request.kind) is request:
                self._waiting.pop(request.kind, None)
            yield request

    def calm(self) -> None:
        """Let native calls run again, unless something was asked for meanwhile."""
        self._break(0)
        # Looked at after the words were written: what is asked later writes them itself.
        if self.stops_now or self.is_paused or self._requests:
            self._break(1)

"""What other threads may ask of a training loop, as words that native code reads.

Invariant: asking never waits for the loop, and the loop obeys between two steps.
"""

from __future__ import annotations

import threading
from typing import Final, Literal, final

import numpy as np
import numpy.typing as npt

After = Literal["batch", "epoch"]

_WAIT_S: Final = 0.02
"""How often a paused loop looks whether it has to stop."""


@final
class Controls:
    """Stop and pause requests of one run."""

    def __init__(self) -> None:
        self._words: list[npt.NDArray[np.int64]] = []
        self._go = threading.Event()
        self._go.set()
        self._stop: After | None = None
        self.reason = ""

    def attach(self, control: npt.NDArray[np.int64]) -> None:
        """Let requests break native calls that watch ``control[0]``; once is enough."""
        if not any(control is known for known in self._words):
            self._words.append(control)
        # Whatever an earlier request left there counts no more.
        control[0] = self.stops_now or self.is_paused

    def detach(self) -> None:
        """Forget all native calls."""
        self._words.clear()

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

    def wait_while_paused(self) -> None:
        """Wait until the loop may go on or has to stop."""
        while self.is_paused:
            self._go.wait(_WAIT_S)
        self._break(int(self.stops_now))

"""How fast a run goes, and when it will be done, as those see it who look at it now and then.

In: counts of what is done, and a clock. Out: a rate over the last seconds, and the time that is
left. Invariant: any thread may look, however often; pauses and what other processes did count for
nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, final

from workbench.train.estimate import TimeEstimate, TimeLeft

__all__ = ["Timing"]

_WINDOW_S: Final = 5.0
_APART_S: Final = 0.04
"""Looks that follow each other sooner are not measured anew: many viewers are as good as one."""


@final
class Timing:
    """The speed of a run, from readings of how far it is.

    Parameters
    ----------
    clock
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._estimate = TimeEstimate()
        self._window: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget the speed: another training begins."""
        with self._lock:
            self._estimate.restart()
            self._window.clear()

    def look(
        self,
        updates: int,
        *,
        paused_s: float,
        is_paused: bool,
        validation_s: float,
        validations: int,
    ) -> None:
        """Take a reading.

        Parameters
        ----------
        updates
            Updates of the whole run.
        paused_s
            Seconds that it was paused for in all, the pause at hand left out.
        is_paused
            Whether it is paused now.
        validation_s, validations
            Seconds of all evaluations, and how many there were.
        """
        with self._lock:
            now = self._clock()
            window = self._window
            if is_paused:
                window.clear()
                return
            if window and now - window[-1][0] < _APART_S:
                return
            self._estimate.feed(
                updates,
                now,
                paused_s=paused_s,
                validation_s=validation_s,
                validations=validations,
            )
            window.append((now, updates))
            while len(window) > 2 and now - window[1][0] >= _WINDOW_S:
                window.popleft()

    @property
    def rate(self) -> float:
        """Updates a second over the last five seconds; NaN while that is not known."""
        with self._lock:
            if len(self._window) < 2:
                return float("nan")
            (began, first), (now, last) = self._window[0], self._window[-1]
        return (last - first) / (now - began)

    def left(self, updates: int, *, validations: int, may_stop: bool) -> TimeLeft | None:
        """Return the time that ``updates`` and ``validations`` more take, if that is known."""
        with self._lock:
            return self._estimate.left(updates, validations=validations, may_stop=may_stop)

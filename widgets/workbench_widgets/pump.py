"""The thread that tells the panels of a run how it goes, so that the training thread need not.

In: a run. Out: messages to its panels, at most five a second, and 20 where somebody waits for what
a click did. Invariant: sending and drawing cost at most small shares of the time, whatever the
machine, but a page where somebody is hears something each second; when the run is over its panels
become records, and the thread ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from workbench.train.store_status import counter_of_skipped, read_status, skipped_steps
from workbench_widgets.panel_frame import (
    POINTS,
    describe_charts,
    describe_marks,
    describe_people,
    describe_status,
    joined,
)

if TYPE_CHECKING:
    from workbench.graph.tensor import Tensor
    from workbench.train.run import Run

_FASTEST_S: Final = 0.05
_PERIOD_S: Final = 0.2
_HURRY_S: Final = 0.5
"""So long after somebody did something a page is told at the fastest pace."""

_BEAT_S: Final = 1.0
"""A page that hears nothing for some of these knows that the kernel is gone."""

_SHARE: Final = 0.002
"""The processor time that sending may take, as a share of all time."""

_DRAWING_SHARE: Final = 0.005
"""The time that drawing may take in a page, as a share of all time. Often the page is on the same
machine, and often without a graphics card; a fast one is told more often."""

_SLOWEST_S: Final = 1.0
_UNATTENDED_S: Final = 2.0
"""The same where nobody has moved on any page for a while."""

_LATE_S: Final = 0.3


class Audience(Protocol):
    """A panel, as the pump sees it.

    Attributes
    ----------
    drawing_s
        How long a page takes to draw a message.
    attended_until
        When nobody is taken to be there any more, by `time.monotonic`.
    """

    drawing_s: float
    attended_until: float

    def show(self, content: dict[str, Any], floats: memoryview) -> None:
        """Send a message to the pages that show it."""
        ...

    def seal(self) -> None:
        """Become a record: the run is over."""
        ...


class Pump:
    """Messages about one run; see `tell`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._audience: list[Audience] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._settled = threading.Event()
        self._asked = False
        self._hurry_until = -float("inf")

    def add(self, panel: Audience) -> None:
        """Tell a panel too, from now on."""
        with self._lock:
            self._audience.append(panel)
            if self._thread is None:
                self._settled = threading.Event()
                self._run.store.expect(self._settled, self.hurry)
                self._thread = threading.Thread(target=self._work, name="wb-panel", daemon=True)
                self._thread.start()

    def remove(self, panel: Audience) -> None:
        """Tell a panel no more."""
        with self._lock:
            self._audience = [each for each in self._audience if each is not panel]

    def ask(self) -> None:
        """Have everything sent soon: a page was opened, or somebody did something."""
        self._asked = True
        self.hurry()

    def hurry(self) -> None:
        """Tell what changes at once for a moment: somebody waits to see what a click did."""
        self._hurry_until = time.monotonic() + _HURRY_S
        self._wake.set()

    def _panels(self) -> list[Audience]:
        with self._lock:
            return list(self._audience)

    def _work(self) -> None:
        """Tell the panels until the run is over or nobody is left."""
        run = self._run
        teller = Teller(run)
        pause = _FASTEST_S
        while True:
            before = time.monotonic()
            woken = self._wake.wait(pause)
            now = time.monotonic()
            late = 0.0 if woken else now - before - pause
            if now - before < _FASTEST_S:  # however fast somebody clicks
                time.sleep(_FASTEST_S - (now - before))
            self._wake.clear()
            asked, self._asked = self._asked, False
            panels = self._panels()
            over = not run.is_training and run.status not in ("ready", "running", "paused")
            began = time.thread_time()
            told = teller.told(everything=asked or over, late=late > _LATE_S)
            if told is not None:
                for panel in panels:
                    panel.show(*told)
            spent = time.thread_time() - began
            pause = pace(spent, panels, time.monotonic())
            if time.monotonic() < self._hurry_until:
                pause = _FASTEST_S
            if (over or not panels) and self._ends(panels if over else []):
                return

    def _ends(self, panels: list[Audience]) -> bool:
        """Seal the panels of a run that is over; return whether none was added meanwhile."""
        for panel in panels:
            panel.seal()
            self.remove(panel)
        with _pumps_lock, self._lock:
            if self._audience:
                return False
            if _pumps.get(self._run) is self:
                del _pumps[self._run]
            self._thread = None
            self._settled.set()
            return True


def pace(sending_s: float, panels: Sequence[Audience], now: float) -> float:
    """Return how long to wait between messages, in seconds, if sending one costs so much."""
    drawing_s = max((panel.drawing_s for panel in panels), default=0.0)
    wanted = max(_PERIOD_S, sending_s / _SHARE, drawing_s / _DRAWING_SHARE)
    is_attended = any(panel.attended_until > now for panel in panels)
    return min(wanted, _SLOWEST_S if is_attended else _UNATTENDED_S)


class Teller:
    """Makes the messages of a run, leaving out what has not changed."""

    def __init__(self, run: Run, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._events: object = None
        self._curves: object = None
        self._drawn = -float("inf")
        self._done = 0
        self._people: object = None
        self._status: object = None
        self._beat = -float("inf")
        self._counted = -float("inf")
        self._skipped: int | None = None
        self._leaves: object = None
        self._counter: Tensor | None = None

    def told(
        self, *, everything: bool = False, late: bool = False
    ) -> tuple[dict[str, Any], memoryview] | None:
        """Return the next message; None if there is nothing to say."""
        run, store = self._run, self._run.store
        now = self._clock()
        people = (run.history.action_count, len(run.step_history), _states(run))
        events = (store.sessions, len(store.marks), *people)
        curves = (events, store.done, store.evaluations.at.count)
        status = (curves, run.status, run.is_training, run.state.lr)
        if not everything and status == self._status and now - self._beat < _BEAT_S:
            return None
        if everything or now - self._counted >= _BEAT_S:
            # Seldom: it waits for the native call at hand, and the loop for it.
            self._skipped, self._counted = skipped_steps(run, self._skip_counter()), now
        where = read_status(run)
        described = {**describe_status(run, where), "skipped": self._skipped}
        content: dict[str, Any] = {"t": "frame", "status": described, "late": late}
        floats = memoryview(b"")
        if everything or events != self._events or self._is_longer(curves, now):
            content["charts"], arrays = describe_charts(run)
            content["marks"] = describe_marks(run, where.best)
            floats = joined(arrays)
            self._events, self._curves, self._drawn = events, curves, now
            self._done = store.done
        if everything or people != self._people:
            content |= describe_people(run)
        self._people, self._status, self._beat = people, status, now
        return content, floats

    def _skip_counter(self) -> Tensor | None:
        leaves = self._run.opt_leaves
        if leaves is not self._leaves:
            self._leaves, self._counter = leaves, counter_of_skipped(leaves)
        return self._counter

    def _is_longer(self, curves: object, now: float) -> bool:
        """Return whether the curves have grown by a pixel, or at all since a second ago."""
        if curves == self._curves:
            return False
        store = self._run.store
        grown, length = store.done - self._done, store.done - store.origin
        return grown * POINTS >= length or now - self._drawn >= _BEAT_S


def _states(run: Run) -> tuple[str, ...]:
    return tuple(version.state for version in run.step_history)


# Only those at work: a run that is over must not be held by the views that it had.
_pumps: dict[Run, Pump] = {}
_pumps_lock = threading.Lock()


def tell(run: Run, panel: Audience) -> Pump:
    """Tell a panel of a run from now on; return the one pump of the run, at work."""
    with _pumps_lock:
        pump = _pumps.get(run)
        if pump is None:
            pump = _pumps[run] = Pump(run)
        pump.add(panel)
        return pump

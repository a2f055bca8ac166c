"""A thread that writes files while the training goes on.

In: jobs.  Out: files, in the order in which the jobs were submitted.  Invariant: a job that was
taken on is done, or replaced by a later one of the same name; so a file is never ahead of one that
was submitted before it.  What goes wrong is kept for who asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, final

from workbench.errors import DataError

__all__ = ["BackgroundWriter"]

Job = Callable[[], None]

# Jobs hold copies of the parameters: more of them than this would fill the memory, not the disk.
_MOST_WAITING: Final = 2
# A small run ends many epochs in the time that a disk takes for one file: to write each of them
# would take longer than to train.
_PAUSE_S: Final = 0.1


@final
class BackgroundWriter:
    """Does one job after another in a thread of its own.

    Parameters
    ----------
    in_background
        Without it jobs are done at once, by who submits them.
    """

    def __init__(self, *, in_background: bool = True) -> None:
        self.in_background = in_background
        self._changed = threading.Condition()
        self._waiting: dict[object, Job] = {}
        self._begun: dict[object, float] = {}
        self._busy = False
        self._hurried = False
        self._thread: threading.Thread | None = None
        self._faults: dict[str, DataError] = {}

    def submit(self, job: Job, *, name: str = "", file: str = "") -> None:
        """Take on a job.

        Parameters
        ----------
        job
            What writes the file.
        file
            What is written, for `take_faults`.
        name
            A job of the same name that was not begun is given up for it, since its file would be
            overwritten; and jobs of one name are begun ten times a second at most.  A job without a
            name is never given up; where too many wait, so does who submits.
        """

        def doing() -> None:
            self._do(job, file or name)

        if not self.in_background:
            doing()
            return
        with self._changed:
            if not name:
                while len(self._waiting) >= _MOST_WAITING:
                    self._changed.wait()
            # Its place is that of the new job: what came in between may be known to that one.
            is_known = self._waiting.pop(name, None) is not None
            self._waiting[name or object()] = doing
            if is_known:
                return  # the thread pauses, and need not be woken for another job of that name
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="wb-write", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all jobs are done, without pauses between them, and end the thread."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            while self._waiting or self._busy:
                self._changed.wait()
            self._hurried = False
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def take_faults(self) -> dict[str, DataError]:
        """Return the last fault of each file since the last time this was asked."""
        with self._changed:
            faults, self._faults = self._faults, {}
        return faults

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                while True:
                    name = next(iter(self._waiting), None)
                    if name is None and self._thread is not me:
                        return
                    pause = None if name is None else self._pause(name)
                    if pause is not None and pause <= 0.0:
                        break
                    self._changed.wait(pause)
                job = self._waiting.pop(name)
                if isinstance(name, str):
                    self._begun[name] = time.monotonic()
                self._busy = True
                self._changed.notify_all()
            job()
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _pause(self, name: object) -> float:
        """Return in how many seconds a job of that name may begin."""
        if self._hurried or name not in self._begun:
            return 0.0
        return self._begun[name] + _PAUSE_S - time.monotonic()

    def _do(self, job: Job, file: str) -> None:
        try:
            job()
        except DataError as fault:
            found = fault
        except Exception as fault:  # noqa: BLE001 - somebody waits for the thread
            found = DataError(
                f"a file could not be written: {fault!r}", remedy="look at what caused it"
            )
            found.__cause__ = fault
        else:
            return
        with self._changed:
            self._faults[file] = found

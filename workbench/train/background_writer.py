"""A thread that writes files while the training goes on.

In: jobs.  Out: files, in the order of the jobs.  Invariant: a job that was taken on is done, or
replaced by a later one of the same name; what goes wrong is kept for who asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, final

from workbench.errors import DataError

__all__ = ["BackgroundWriter"]

Job = Callable[[], None]

# Jobs hold copies of the parameters: more of them than this would fill the memory, not the disk.
_MOST_WAITING: Final = 2


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
        self._busy = False
        self._thread: threading.Thread | None = None
        self._fault: DataError | None = None

    def submit(self, job: Job, *, name: str = "") -> None:
        """Take on a job.

        Parameters
        ----------
        job
            What writes the file.
        name
            A job of the same name that was not begun is given up for it: its file would be
            overwritten at once.  A job without a name is never given up; where too many wait, so
            does who submits.
        """
        if not self.in_background:
            self._do(job)
            return
        with self._changed:
            if not name:
                while len(self._waiting) >= _MOST_WAITING:
                    self._changed.wait()
            self._waiting[name or object()] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="wb-write", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all jobs are done, and end the thread."""
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait()
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def take_fault(self) -> DataError | None:
        """Return what went wrong since the last time this was asked, if anything did."""
        fault, self._fault = self._fault, None
        return fault

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                while not self._waiting:
                    if self._thread is not me:
                        return
                    self._changed.wait()
                job = self._waiting.pop(next(iter(self._waiting)))
                self._busy = True
                self._changed.notify_all()
            self._do(job)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _do(self, job: Job) -> None:
        try:
            job()
        except DataError as fault:
            self._fault = fault
        except Exception as fault:  # noqa: BLE001 - somebody waits for the thread
            self._fault = DataError(
                f"a file could not be written: {fault!r}", remedy="look at what caused it"
            )
            self._fault.__cause__ = fault

"""What a run shows of itself while it goes on: curves, evaluations, marks, and the time they took.

In: the loop's numbers, batch by batch and epoch by epoch. Out: curves and counts for any number of
readers. Invariant: one thread writes, and never waits for a reader; memory stays the same however
long the run becomes; nothing here decides anything, so that reading changes no bit of a training.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.train.reports import Said
from workbench.train.store_series import Series, Stretch
from workbench.train.store_timing import Timing

__all__ = ["Mark", "Points", "RunStore", "Table"]

Array = npt.NDArray[Any]

_MARKS: Final = 256
"""So many of the latest marks of each kind are kept."""

_SAID: Final = 256
"""So many of the latest reports of each severity are kept."""

_GREATEST: Final = float(np.finfo(np.float32).max)
_COLUMNS: Final = 64
"""So many metrics are kept; those that come later are not."""


@final
@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a batch.

    Attributes
    ----------
    kind
        ``"checkpoint"``, ``"step"`` for another version of the step, or what a caller chose.
    at
        Batches that had been run.
    text
        What it was.
    """

    kind: str
    at: int
    text: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Values that belong to certain batches: evaluations, or epochs.

    Attributes
    ----------
    at
        The batches after which, float64.
    values
        Least, greatest and mean of what each point stands for; a single value for most.
    """

    at: Array
    values: Stretch


@final
class Table:
    """Rows that come now and then, each after some batch; columns may come later than rows."""

    def __init__(self) -> None:
        self.at = Series(np.float64)
        self.columns: dict[str, Series] = {}

    def append(self, at: int, values: Mapping[str, float]) -> None:
        """Add a row; only ever from one thread."""
        count = self.at.count
        for name in values:
            if name not in self.columns and len(self.columns) < _COLUMNS:
                column = Series()
                for start in range(0, count, 4096):
                    column.extend(np.full(min(4096, count - start), np.nan, np.float32))
                self.columns = {**self.columns, name: column}
        for name, column in self.columns.items():
            value = values.get(name, math.nan)
            column.append(value if abs(value) <= _GREATEST else value * math.inf)
        # Last, since it tells readers how many rows there are.
        self.at.append(at)

    def points(self, name: str, *, most: int = 512) -> Points:
        """Return a column; rows without a value are left out."""
        count = self.at.count
        values = self.columns[name].read(0, count, most=most)
        at = self.at.read(0, count, most=most).greatest
        known = ~np.isnan(values.mean)
        kept = Stretch(
            0, values.width, values.least[known], values.greatest[known], values.mean[known]
        )
        return Points(at[known], kept)


@final
class RunStore:
    """What a run shows of itself; each `workbench.Run` has one, as ``run.store``.

    Attributes
    ----------
    origin
        Batches that had been run when it began: more than 0 in a run that was resumed.
    batches
        By name, a value for each batch since: ``"loss"``, and what the step reports.
    epochs
        A row for each epoch, with its ``train_loss``.
    evaluations
        A row for each evaluation, a column for each metric.
    validation_s
        Seconds that evaluations took in all.
    timing
        How fast it goes; kept by those who look.
    sessions
        How often a training was begun.
    """

    def __init__(self) -> None:
        self._marks: dict[str, deque[Mark]] = {}
        self._said: dict[str, deque[Said]] = {}
        self._views: list[tuple[threading.Event, Callable[[], None]]] = []
        self.sessions = 0
        self.timing = Timing()
        self._clear(0)

    def _clear(self, origin: int) -> None:
        self.origin = origin
        self.batches: dict[str, Series] = {"loss": Series()}
        self.epochs = Table()
        self.evaluations = Table()
        self.validation_s = 0.0
        self._first_epoch = 1
        self._marks.clear()

    @property
    def done(self) -> int:
        """Batches that were run, in other processes too."""
        return self.origin + self.batches["loss"].count

    @property
    def nbytes(self) -> int:
        """The memory of all series, in bytes."""
        tables = (self.epochs, self.evaluations)
        series = [column for table in tables for column in (table.at, *table.columns.values())]
        return sum(each.nbytes for each in (*self.batches.values(), *series))

    # -- the loop writes

    def begin(self, done: int) -> None:
        """Begin a training after ``done`` batches of the run; forget what was of another."""
        if done != self.done:
            self._clear(done)
        self.sessions += 1
        self.timing.restart()

    def add(self, losses: Array, series: Mapping[str, Array]) -> None:
        """Take the losses of batches that were run, and what the step reported of each."""
        before = self.batches["loss"].count
        for name, values in series.items():
            self._batch_series(name, before).extend(values)
        for name, known in self.batches.items():
            # A step that took over may no longer report what the one before it did.
            if name not in series and name != "loss":
                known.extend(np.full(len(losses), np.nan, np.float32))
        self.batches["loss"].extend(losses)

    def _batch_series(self, name: str, count: int) -> Series:
        key = name if name != "loss" else "loss of the step"
        known = self.batches.get(key)
        if known is None:
            known = Series()
            for start in range(0, count, 4096):
                known.extend(np.full(min(4096, count - start), np.nan, np.float32))
            self.batches = {**self.batches, key: known}
        return known

    def end_epoch(self, epoch: int, loss: float) -> None:
        """Take the loss of an epoch that is complete."""
        if not self.epochs.at.count:
            self._first_epoch = epoch
        self.epochs.append(self.done, {"train_loss": loss})

    def evaluated(self, values: Mapping[str, float], seconds: float) -> None:
        """Take the values of an evaluation, and how long it took."""
        self.validation_s += seconds
        self.evaluations.append(self.done, values)

    # -- anybody

    def mark(self, kind: str, text: str, *, at: int | None = None) -> None:
        """Remember that something happened, now or after ``at`` batches; any thread may."""
        kept = self._marks.setdefault(kind, deque(maxlen=_MARKS))
        kept.append(Mark(kind, self.done if at is None else at, text))

    @property
    def marks(self) -> Sequence[Mark]:
        """What was marked, the latest of each kind, first ones first."""
        found = [mark for kept in list(self._marks.values()) for mark in list(kept)]
        return sorted(found, key=lambda mark: mark.at)

    def said(self, report: Said) -> None:
        """Keep a report of the run; any thread may."""
        self._said.setdefault(report.report.severity, deque(maxlen=_SAID)).append(report)

    @property
    def reports(self) -> Sequence[Said]:
        """What the run reported, the latest of each severity, first ones first."""
        found = [said for kept in list(self._said.values()) for said in list(kept)]
        return sorted(found, key=lambda said: said.at)

    def curve(
        self, name: str, first: int = 0, stop: int | None = None, *, most: int = 1024
    ) -> Stretch:
        """Return the values of batches ``first`` to before ``stop``, counted over the whole run.

        Parameters
        ----------
        name
            One of `batches`.
        first, stop, most
            As of `Series.read`.
        """
        origin = self.origin
        read = self.batches[name].read(
            first - origin, None if stop is None else stop - origin, most=most
        )
        return Stretch(read.first + origin, read.width, read.least, read.greatest, read.mean)

    def place_of_epoch(self, epoch: int) -> int:
        """Return the batches that had been run when ``epoch`` epochs were complete."""
        place, at = epoch - self._first_epoch, self.epochs.at
        if not 0 <= place < at.count:
            return self.done
        return int(at.read(place, place + 1).greatest[0])

    # -- views that have to come to an end

    def expect(self, settled: threading.Event, wake: Callable[[], None] = lambda: None) -> None:
        """Have `settle` wait for a view that will show the end of the run.

        Parameters
        ----------
        settled
            Set once it does.
        wake
            Called when the end has come, so that it looks at once.
        """
        self._views = [*(each for each in self._views if not each[0].is_set()), (settled, wake)]

    def settle(self, timeout_s: float) -> None:
        """Wait until all views show the end of the run, but not for long."""
        limit = time.monotonic() + timeout_s
        for settled, wake in self._views:
            if not settled.is_set():
                wake()
                settled.wait(max(0.0, limit - time.monotonic()))
        self._views = []

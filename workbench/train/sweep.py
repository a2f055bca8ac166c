"""Sweep over the rows of a data set in native calls: full batches first, then the short one.

In: a routine, what moves with the batch, and how many rows there are. Out: calls that never last
long. Invariant: batch ``k`` reads the same rows and writes the same cells however the sweep was
divided into calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.backends.protocol import Bound, Moving
from workbench.graph.tensor import Tensor
from workbench.runtime.routine import Routine

Array = npt.NDArray[Any]

CALL_SECONDS: Final = 0.03
"""How long a native call is meant to last: short enough for a person who presses Stop."""


@dataclass(frozen=True, slots=True)
class Track:
    """An array along which an operand moves: ``per_batch`` elements for each batch.

    Attributes
    ----------
    node
        The operand.
    array
        Contiguous; kept alive by the sweep.
    by_rows
        Whether it advances by a batch of rows (else by one entry).
    """

    node: Tensor
    array: Array
    by_rows: bool

    def moving(self, first_row: int, first_batch: int, batch_size: int) -> Moving:
        """Return the operand's address at a batch and its stride, in bytes."""
        # An entry may be an array of its own: a matrix of counts for each batch.
        row = self.array.nbytes // len(self.array) if len(self.array) else self.array.itemsize
        stride = row * batch_size if self.by_rows else row
        start = first_row * row if self.by_rows else first_batch * row
        return Moving(self.node, self.array.ctypes.data + start, stride)

    def at(self, batch: int, rows: int, batch_size: int) -> Array:
        """Return what belongs to a batch of so many rows, as a part of the array."""
        if self.by_rows:
            return self.array[batch * batch_size : batch * batch_size + rows]
        entry: Array = self.array[batch, ...]
        return entry


@final
class Sweep:
    """The batches of one pass over a data set.

    Parameters
    ----------
    routine
        What a batch runs.
    memory
        Flat arrays of everything on the device that does not move.
    tracks
        What moves.
    rows
        Rows of the data set.
    batch_size
        Rows of a batch; the last one may be shorter.
    drop_last
        Whether a short last batch is left out.
    """

    def __init__(
        self,
        routine: Routine,
        memory: Mapping[Tensor, Array],
        tracks: Sequence[Track],
        rows: int,
        batch_size: int,
        *,
        drop_last: bool = False,
    ) -> None:
        self.full, rest = divmod(rows, batch_size)
        self.batch_size = batch_size
        self.rest = 0 if drop_last else rest
        self.batches = self.full + (self.rest > 0)
        self.control = np.zeros(8, np.int64)
        self._unheeded = np.zeros(8, np.int64)
        self._tracks = tuple(tracks)
        self._portions = np.full(self.batches, float(batch_size))
        if self.rest:
            self._portions[-1] = self.rest
        everything = {**memory, **{t.node: t.array.reshape(-1) for t in tracks}}
        self._step_seconds = 0.0
        self._whole: Bound | None = None
        self._short: Bound | None = None
        if self.full:
            moving = tuple(t.moving(0, 0, batch_size) for t in tracks)
            self._whole = routine.bind(batch_size, everything, moving)
        if self.rest:
            start = self.full * batch_size
            moving = tuple(t.moving(start, self.full, batch_size) for t in tracks)
            self._short = routine.bind(self.rest, everything, moving)

    def open(self, epoch: int, first: int) -> None:
        """Begin with batch ``first`` of an epoch: the rows are there already."""

    def close(self) -> None:
        """End a sweep, finished or not: there is nothing to let go."""

    def ready(self, batch: int) -> bool:
        """Return whether ``batch`` can be run: it always can."""
        return batch < self.batches

    def rows_of(self, batch: int) -> int:
        """Return the rows of a batch."""
        return self.batch_size if batch < self.full else self.rest

    def at(self, batch: int) -> dict[Tensor, Array]:
        """Return what moves as it is in a batch that was run: parts of the arrays."""
        rows = self.rows_of(batch)
        return {track.node: track.at(batch, rows, self.batch_size) for track in self._tracks}

    def weights(self, first: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the rows of the batches ``first`` .. ``stop - 1``."""
        return self._portions[first:stop]

    def run(self, first: int, *, most: int | None = None) -> int:
        """Run batches from ``first`` on for about `CALL_SECONDS`; return the batch to go on with.

        Returns early, after a whole batch, once ``control[0]`` is set, or after ``most`` batches.
        """
        return self._run(first, most, self.control)

    def run_one(self, first: int) -> int:
        """Run batch ``first`` whatever ``control`` says; return the batch to go on with."""
        return self._run(first, 1, self._unheeded)

    def run_all(self) -> None:
        """Run every batch whatever ``control`` says, in calls of about `CALL_SECONDS`."""
        batch = 0
        while batch < self.batches:
            batch = self._run(batch, None, self._unheeded)

    def _run(self, first: int, most: int | None, control: npt.NDArray[np.int64]) -> int:
        known, at = self._step_seconds, first
        steps = 1 if known == 0.0 else max(1, int(CALL_SECONDS / known))
        stop = min(self.batches, first + (steps if most is None else min(steps, most)))
        if at < self.full:
            assert self._whole is not None
            began = time.perf_counter()
            at += self._whole.run(min(stop, self.full) - at, control, at)
            if at > first:
                taken = (time.perf_counter() - began) / (at - first)
                # A moving mean: the first call may load pages, and other programs come and go.
                self._step_seconds = taken if known == 0.0 else 0.5 * (known + taken)
        if at == self.full < stop:
            assert self._short is not None
            at += self._short.run(1, control)
        return at

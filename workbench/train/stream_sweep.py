"""Sweep over the batches of a stream in native calls, over what its ring holds at the time.

In: a routine bound to a ring, and the feed that fills it. Out: calls that never last long.
Invariant: the same as that of a `Sweep`; how far the feed is ahead does not change a bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.graph.tensor import Tensor
from workbench.runtime.routine import Routine
from workbench.train.feed import Feed
from workbench.train.sweep import CALL_SECONDS, Track

Array = npt.NDArray[Any]


@final
class StreamSweep:
    """The batches of one epoch of a stream; has what a `Sweep` has.

    Parameters
    ----------
    routine
        What a batch runs.
    memory
        Flat arrays of everything on the device that does not move.
    tracks
        What moves, over as many batches as the ring has places.
    feed
        What fills the ring.
    given, taken
        Pairs of an array with an entry for each batch of the epoch and one with an entry for each
        place: copied before a batch runs, or after.
    """

    def __init__(
        self,
        routine: Routine,
        memory: Mapping[Tensor, Array],
        tracks: Sequence[Track],
        feed: Feed,
        given: Sequence[tuple[Array, Array]],
        taken: Sequence[tuple[Array, Array]],
    ) -> None:
        self.feed, self.given, self.taken = feed, tuple(given), tuple(taken)
        self.batch_size = feed.stream.batch_size
        self.batches = feed.stream.steps_per_epoch
        self.control = np.zeros(8, np.int64)
        self._unheeded = np.zeros(8, np.int64)
        self._step_seconds = 0.0
        self._tracks = tuple(tracks)
        everything = {**memory, **{t.node: t.array.reshape(-1) for t in tracks}}
        moving = tuple(t.moving(0, 0, self.batch_size) for t in tracks)
        self._bound = routine.bind(self.batch_size, everything, moving)

    def open(self, epoch: int, first: int) -> None:
        """Begin to read an epoch at batch ``first``."""
        self.feed.open(epoch, first)

    def close(self) -> None:
        """Read no more."""
        self.feed.close()

    def ready(self, batch: int) -> bool:
        """Wait until ``batch`` was read; return False if ``control[0]`` was set first."""
        return self.feed.wait(batch, self.control)

    def rows_of(self, batch: int) -> int:
        """Return the rows of a batch, which are the same for all."""
        return self.batch_size

    def at(self, batch: int) -> dict[Tensor, Array]:
        """Return what moves as it is in the batch that was run last: parts of the ring."""
        place, size = batch % self.feed.places, self.batch_size
        return {track.node: track.at(place, size, size) for track in self._tracks}

    def weights(self, first: int, stop: int) -> npt.NDArray[np.float64]:
        """Return the rows of the batches ``first`` .. ``stop - 1``."""
        return np.full(stop - first, float(self.batch_size))

    def run(self, first: int, *, most: int | None = None) -> int:
        """Run what is ready from ``first`` on, for about `CALL_SECONDS`; return where to go on."""
        return self._run(first, most, self.control)

    def run_one(self, first: int) -> int:
        """Run batch ``first``, which is ready, whatever ``control`` says."""
        return self._run(first, 1, self._unheeded)

    def _run(self, first: int, most: int | None, control: npt.NDArray[np.int64]) -> int:
        known = self._step_seconds
        steps = 1 if known == 0.0 else max(1, int(CALL_SECONDS / known))
        steps = min(steps, self.feed.together(first), most or steps)
        place = first % self.feed.places
        for epoch, ring in self.given:
            ring[place : place + steps] = epoch[first : first + steps]
        began = time.perf_counter()
        done = self._bound.run(steps, control, place)
        if done:
            taken = (time.perf_counter() - began) / done
            self._step_seconds = taken if known == 0.0 else 0.5 * (known + taken)
        for epoch, ring in self.taken:
            epoch[first : first + done] = ring[place : place + done]
        # The last one stays: somebody may look at it between two calls.
        self.feed.release(first + max(0, done - 1))
        return first + done

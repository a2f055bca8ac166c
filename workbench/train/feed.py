"""A ring of batches that a thread fills ahead of the training.

In: a stream.  Out: batches in one array for each of x and y, in which neighbours lie together.
Invariant: a place of the ring is written only while it is free, and by the reader at hand alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.data.stream import Rows, Stream

__all__ = ["Feed"]

Array = npt.NDArray[Any]

_RING_BYTES: Final = 8 << 20
_MOST_PLACES: Final = 64
_POLL_S: Final = 0.02
"""How often the training looks whether it has to stop while it waits for a batch."""
_GATHER_S: Final = 0.002
"""So long a wait goes on for half a ring, so that a call of native code has many batches to run."""
_LEAVE_S: Final = 0.1
"""So long a reader that is closed is waited for; it may be held up by its source."""


@final
class _Reader:
    """One thread over one epoch, or what is left of it."""

    def __init__(self, feed: Feed, epoch: int, start: int) -> None:
        self.feed = feed
        self.epoch, self.start = epoch, start
        self.filled = self.used = start
        self.wanted = 0  # the training sleeps until so many batches were read
        self.closed = False
        self.fault: BaseException | None = None
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._read, name="wb-stream", daemon=True)

    def _read(self) -> None:
        source = self.feed.stream.read(self.epoch, self.start)
        try:
            for rows in source:
                self.feed.check(rows, self.epoch, self.filled)
                if not self._put(rows):
                    break
        except BaseException as fault:  # noqa: BLE001 - raised where the batch is waited for
            with self.changed:
                self.fault = fault
                self.changed.notify_all()
        finally:
            source.close()

    def _put(self, rows: Rows) -> bool:
        """Put a batch in the next place, once it is free; return whether it is still wanted."""
        with self.changed:
            while not self.closed and self.filled - self.used >= self.feed.places:
                self.changed.wait()
            # Copied under the lock: once closed, nothing of this reader touches the ring.
            if not self.closed:
                size = self.feed.stream.batch_size
                place = self.filled % self.feed.places * size
                for ring, array in zip(self.feed.rings.values(), rows, strict=True):
                    ring[place : place + size] = array
                self.filled += 1
                if self.filled >= self.wanted:
                    self.changed.notify_all()
            return not self.closed


@final
class Feed:
    """Batches of a stream, ready before they are needed.

    Parameters
    ----------
    stream
        Where they come from.
    check
        ``check(rows, epoch, batch)`` refuses what must not enter.

    Attributes
    ----------
    places
        Batches that the ring holds.
    rings
        For each name of the batch's arrays, the ring: batches one after another.
    """

    def __init__(self, stream: Stream, check: Callable[[Rows, int, int], None]) -> None:
        self.stream, self.check = stream, check
        example = dict(zip(stream.names, stream.example, strict=True))
        batch_bytes = max(1, sum(array.nbytes for array in example.values()))
        # Three at least: one is filled while one is used, and the one before it can be looked at.
        self.places = max(3, min(_MOST_PLACES, stream.steps_per_epoch, _RING_BYTES // batch_bytes))
        self.rings: Mapping[str, Array] = {
            name: np.zeros((self.places * len(array), *array.shape[1:]), array.dtype)
            for name, array in example.items()
        }
        self._reader: _Reader | None = None

    def open(self, epoch: int, start: int) -> None:
        """Begin to read an epoch at batch ``start``."""
        self.close()
        if start < self.stream.steps_per_epoch:
            self._reader = _Reader(self, epoch, start)
            self._reader.thread.start()

    def close(self) -> None:
        """Read no more."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with reader.changed:
                reader.closed = True
                reader.changed.notify_all()
            reader.thread.join(_LEAVE_S)

    def wait(self, batch: int, control: npt.NDArray[np.int64]) -> bool:
        """Wait until ``batch`` is in the ring; return False if ``control[0]`` is set first.

        Raises what the stream raised, once the batches before it were used.
        """
        reader = self._reader
        assert reader is not None, "a stream is opened before it is waited for"
        half = min(batch + self.places // 2, self.stream.steps_per_epoch)
        with reader.changed:
            reader.wanted = half
            if reader.filled < half and reader.fault is None:
                reader.changed.wait(_GATHER_S)
            reader.wanted = 0
            while reader.filled <= batch:
                if reader.fault is not None:
                    raise reader.fault
                if control[0]:
                    return False
                reader.changed.wait(_POLL_S)
        return True

    def together(self, batch: int) -> int:
        """Return how many batches to run from ``batch`` on: they are there and lie together.

        Half a ring at most, so that the other half is filled while they run.
        """
        reader = self._reader
        assert reader is not None, "a stream is opened before it is used"
        half = self.places // 2
        return min(reader.filled - batch, self.places - batch % self.places, half)

    def release(self, batch: int) -> None:
        """Let the places of the batches before ``batch`` be filled anew."""
        reader = self._reader
        assert reader is not None, "a stream is opened before it is used"
        with reader.changed:
            reader.used = batch
            reader.changed.notify_all()

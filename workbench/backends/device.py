"""Devices: who they are, and the memory that was taken from each.

In: requests for bytes. Out: zeroed arrays of bytes. Invariant: what a device says is in use is
exactly what was requested from it and can still be reached; nothing is handed back by hand.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable
from typing import Final, final

import numpy as np
import numpy.typing as npt

from workbench.errors import DeviceMemoryError

Bytes = npt.NDArray[np.uint8]

LINE: Final = 64
"""Bytes of a cache line, on which every buffer starts."""


def aligned(raw: Bytes) -> Bytes:
    """Return ``raw`` from its first cache line on."""
    return raw[-raw.ctypes.data % LINE :]


@final
class Device:
    """One device of the machine, with a count of the memory taken from it.

    Contexts that were made apart from each other share the device, and so its counters. Get one
    with `device`.

    Attributes
    ----------
    kind
        Name of the sort of device, such as ``"cpu"``.
    ordinal
        Number of the device among those of its kind.
    """

    def __init__(self, kind: str, ordinal: int = 0) -> None:
        self.kind = kind
        self.ordinal = ordinal
        self._tickets = itertools.count()
        # One entry for each allocation that can still be reached. Entries come and go one at a
        # time, which needs no lock, so that a collection may run at any moment, in any thread.
        self._live: dict[int, int] = {}
        self._peak = 0

    def allocate(self, size: int) -> Bytes:
        """Return ``size`` zero bytes, in use until nothing refers to them any more.

        Raises
        ------
        DeviceMemoryError
            If the device has no such room.
        """
        try:
            memory = np.zeros(size, np.uint8)
        except (MemoryError, ValueError) as fault:
            raise DeviceMemoryError(
                f"{self.name} has no room for {size:,} bytes more beside the "
                f"{self.used():,} in use",
                remedy="release contexts that are no longer needed, or use a smaller batch",
            ) from fault
        ticket = next(self._tickets)
        self._live[ticket] = size
        weakref.finalize(memory, self._live.pop, ticket, None).atexit = False
        self._peak = max(self._peak, self.used())
        return memory

    def used(self) -> int:
        """Return the bytes in use now, by all contexts together."""
        return sum(list(self._live.values()))

    def peak(self) -> int:
        """Return the most bytes that were in use at once since the process, or `reset_peak`."""
        return self._peak

    def allocations(self) -> int:
        """Return how many allocations are in use."""
        return len(self._live)

    def reset_peak(self) -> int:
        """Let the peak start again from what is in use now, and return that."""
        self._peak = self.used()
        return self._peak

    def trial(self, sizes: Iterable[int]) -> int:
        """Request allocations of ``sizes`` together, let go of them, and return their total.

        Nothing was used, so the peak stays as it was.

        Raises
        ------
        DeviceMemoryError
            If the device refuses, as it would refuse the real ones.
        """
        peak = self._peak
        held: list[Bytes] = []
        try:
            held.extend(self.allocate(size) for size in sizes)
            return sum(memory.nbytes for memory in held)
        finally:
            held.clear()
            self._peak = peak

    @property
    def name(self) -> str:
        """The kind and the number, as people write them."""
        return f"{self.kind}:{self.ordinal}"

    def __repr__(self) -> str:
        return f"<Device {self.name}: {self.used():,} bytes in use>"


_devices: dict[tuple[str, int], Device] = {}
_making: Final = threading.Lock()


def device(kind: str, ordinal: int = 0) -> Device:
    """Return the device of that kind and number; every caller gets the same one."""
    with _making:
        return _devices.setdefault((kind, ordinal), Device(kind, ordinal))

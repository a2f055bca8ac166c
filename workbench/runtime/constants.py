"""Array constants in a device's memory, one copy for all contexts there.

In: array constants as routines are linked. Out: memory that holds them. Invariant: a constant is in
memory as long as some context binds it, and once; a write into it is refused silence: a lineage of
another root that reads it afterwards is told.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Final, final

from workbench.backends.device import Device
from workbench.backends.protocol import Array
from workbench.graph.tensor import Tensor
from workbench.runtime.ledger import Ledger, Record
from workbench.runtime.lifecycle import Unit
from workbench.runtime.memory import arena

_writes = itertools.count(1)
_lock: Final = threading.RLock()


@final
class Constant:
    """The memory of one array constant on one device.

    Attributes
    ----------
    array
        Flat, padded.
    """

    def __init__(self, array: Array) -> None:
        self.array = array
        # The latest write after the upload: its number, and the context that made it.
        self._latest = 0
        self._writer = ""
        # The latest write that each root has made itself, or taken over by a copy.
        self._known: weakref.WeakKeyDictionary[Unit, int] = weakref.WeakKeyDictionary()
        self._records: weakref.WeakKeyDictionary[Ledger, Record] = weakref.WeakKeyDictionary()

    def record(self, ledger: Ledger) -> Record:
        """Return what ``ledger`` knows of it."""
        return self._records.setdefault(ledger, Record())

    def wrote(self, unit: Unit) -> None:
        """Note a write by a context of ``unit``."""
        self._latest = self._known[unit.root] = next(_writes)
        self._writer = unit.name

    def take_over(self, unit: Unit) -> None:
        """Let the lineages of ``unit``'s root have what is there now as their value."""
        self._known[unit.root] = self._latest

    def is_known(self, unit: Unit) -> bool:
        """Whether what is there is the constant, or what ``unit``'s root wrote or took over."""
        return self._known.get(unit.root, 0) == self._latest

    @property
    def writer(self) -> str:
        """The context that wrote last."""
        return self._writer


_held: weakref.WeakKeyDictionary[Device, weakref.WeakValueDictionary[int, Constant]] = (
    weakref.WeakKeyDictionary()
)


def is_shared(node: Tensor) -> bool:
    """Whether ``node`` is an array constant, which no routine can write."""
    return node.op == "array"


def shared_constant(node: Tensor, device: Device) -> Constant:
    """Return the memory of ``node`` on ``device``, uploaded now if it is not there."""
    assert node.value is not None
    with _lock:
        here = _held.setdefault(device, weakref.WeakValueDictionary())
        found = here.get(node.uid)
        if found is None:
            array = arena([node], None, device)[node]
            array[: node.value.size] = node.value.reshape(-1)
            found = here[node.uid] = Constant(array)
        return found


def is_on_device(node: Tensor, device: Device) -> bool:
    """Whether the memory of the constant ``node`` is there already."""
    return node.uid in _held.get(device, ())

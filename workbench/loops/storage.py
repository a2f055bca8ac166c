"""Which memory a node that must be stored gets: the routine's or the context's.

In: a node and what is asked of it. Out: a mode. Invariant: what somebody wants to read afterwards
never lives in memory that other nodes of the routine use again.
"""

from __future__ import annotations

from workbench.graph.extent import Batch, count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.intent import intent_of
from workbench.loops.placement import Mode
from workbench.loops.settings import Settings


def storage(node: Tensor, rows: int, settings: Settings, *, observed: bool = False) -> Mode:
    """Return where ``node`` is stored if it is not virtual.

    Parameters
    ----------
    node
        A node that a routine computes.
    rows
        The batch size to reckon with.
    settings
        ``local_bytes`` is the size up to which memory of the routine is used.
    observed
        Whether its value must stay readable, beside what is declared of it.
    """
    if observed or intent_of(node).observable:
        return Mode.ON_DEVICE
    symbolic = any(isinstance(extent, Batch) for extent in node.shape)
    size = resolve(count(node.shape), rows) * node.dtype.itemsize
    return Mode.ON_DEVICE if size > settings.local_bytes and not symbolic else Mode.LOCAL

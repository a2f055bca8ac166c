"""Which inputs are row or class numbers, and how large they may be.

In: the tensors a program computes. Out: for each leaf used as an index, the extent it indexes.
Invariant: only movement of elements lies between the leaf and the look-up, so that checking the
leaf checks the look-up.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.graph.extent import Batch
from workbench.graph.tensor import Tensor, topological_order

_MOVES = frozenset({"reshape", "transpose", "slice", "flip", "broadcast", "stop_gradient"})


def index_bounds(wanted: Iterable[Tensor], leaves: Iterable[Tensor]) -> dict[Tensor, int]:
    """Return, for each of ``leaves`` used as index, the least extent that it indexes.

    Parameters
    ----------
    wanted
        Roots of the graph.
    leaves
        The inputs to tell about.
    """
    known = frozenset(leaves)  # a list would compare tensors, which has no answer
    found: dict[Tensor, int] = {}
    for node in topological_order(wanted):
        if node.op == "is_label":
            index, extent = node.operands[0], node.shape[-1]
        elif node.op == "take":
            index, extent = node.operands[1], node.operands[0].shape[0]
        elif node.op == "scatter_add":
            index, extent = node.operands[0], node.shape[0]
        else:
            continue
        leaf = _leaf_of(index)
        if leaf in known and not isinstance(extent, Batch):
            found[leaf] = min(found.get(leaf, extent), extent)
    return found


def _leaf_of(node: Tensor) -> Tensor:
    # `take` from a resident array chooses rows of data: the elements are the data's own.
    while node.op in _MOVES or node.op == "take" or (node.op == "cast" and node.dtype.is_integer):
        node = node.operands[0]
    return node

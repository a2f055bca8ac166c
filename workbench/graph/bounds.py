"""Which inputs are row or class numbers, and which values they may have.

In: the tensors a program computes. Out: for each leaf used as an index, the values that are inside.
Invariant: only movement of elements lies between the leaf and the look-up, so that checking the
leaf checks the look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError
from workbench.graph.extent import Batch, Extent
from workbench.graph.leaf import scalar_value
from workbench.graph.tensor import Tensor, topological_order

__all__ = ["Span", "index_bounds", "leaf_of", "lookup_of", "refuse_known", "refuse_outside"]

_KEEPS = frozenset({"reshape", "transpose", "flip", "broadcast", "stop_gradient"})
_MOVES = _KEEPS | {"slice"}


@final
@dataclass(frozen=True, slots=True)
class Span:
    """The values that an index may have.

    Attributes
    ----------
    extent
        How many rows or classes there are.
    from_end
        Whether -1 is the last one, as it is of rows; class numbers count from 0.
    """

    extent: int
    from_end: bool

    @property
    def least(self) -> int:
        """The least value inside."""
        return -self.extent if self.from_end else 0

    def __and__(self, other: Span) -> Span:
        """Return what is inside both."""
        return Span(min(self.extent, other.extent), self.from_end and other.from_end)


def lookup_of(node: Tensor) -> tuple[Tensor, Extent, bool] | None:
    """Return what a node looks up by: the index, the extent, whether -1 is the last.

    None if it looks nothing up.
    """
    if node.op == "is_label":
        return node.operands[0], node.shape[-1], False
    if node.op == "take":
        return node.operands[1], node.operands[0].shape[0], True
    if node.op == "scatter_add":
        return node.operands[0], node.shape[0], True
    return None


def index_bounds(wanted: Iterable[Tensor], leaves: Iterable[Tensor]) -> dict[Tensor, Span]:
    """Return, for each of ``leaves`` used as index, the values that every look-up has.

    Parameters
    ----------
    wanted
        Roots of the graph.
    leaves
        The inputs to tell about.
    """
    known = frozenset(leaves)  # a list would compare tensors, which has no answer
    found: dict[Tensor, Span] = {}
    for node in topological_order(wanted):
        looked = lookup_of(node)
        if looked is None:
            continue
        index, extent, from_end = looked
        leaf = leaf_of(index)
        if leaf in known and not isinstance(extent, Batch):
            span = Span(extent, from_end)
            found[leaf] = found[leaf] & span if leaf in found else span
    return found


def leaf_of(node: Tensor) -> Tensor:
    """Return the node whose elements ``node`` moves; itself if it computes new ones."""
    # `take` from a resident array chooses rows of data: the elements are the data's own.
    while node.op in _MOVES or node.op == "take" or (node.op == "cast" and node.dtype.is_integer):
        node = node.operands[0]
    return node


def refuse_outside(
    bounds: Mapping[Tensor, Span], data: Mapping[Tensor, tuple[str, npt.NDArray[Any]]]
) -> None:
    """Refuse arrays with a value outside of what they index.

    Parameters
    ----------
    bounds
        From `index_bounds`.
    data
        For each of its leaves a name for people, and the array; the first axis is the rows.

    Raises
    ------
    DataError
        Naming the first row that has one.
    """
    for leaf, span in bounds.items():
        name, array = data[leaf]
        if array.size and (array.min() < span.least or array.max() >= span.extent):
            raise _outside(name, array, span)


def refuse_known(op: str, index: Tensor, extent: Extent, *, from_end: bool) -> None:
    """Refuse a constant index that is outside, while the graph is written.

    Raises
    ------
    DataError
        Naming the first element that is.
    """
    leaf = index
    while leaf.op in _KEEPS or (leaf.op == "cast" and leaf.dtype.is_integer):
        leaf = leaf.operands[0]
    if leaf.op not in ("constant", "array") or isinstance(extent, Batch):
        return
    values = np.asarray(scalar_value(leaf) if leaf.value is None else leaf.value)
    span = Span(extent, from_end)
    if values.size and (values.min() < span.least or values.max() >= span.extent):
        raise _outside(f"{op}: `{leaf.label}`" if leaf.label else f"{op}: the index", values, span)


def _outside(name: str, array: npt.NDArray[Any], span: Span) -> DataError:
    flat = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    wrong = (flat < span.least) | (flat >= span.extent)
    row = int(np.flatnonzero(wrong.any(axis=1))[0])
    value = flat[row][wrong[row]][0]
    return DataError(
        f"{name}[{row}] is {value}, but the model has classes or rows 0 to {span.extent - 1}",
        remedy="number them from 0"
        if value < 0
        else f"correct the data, or give the model {int(flat.max()) + 1} or more of them",
    )

"""Values of virtual nodes, and how they are written in place of a read.

In: a value that reads virtual nodes. Out: one that does not. Invariant: a value that moves to its
reader reads the same cells there as it would have read at its own place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from workbench.assign.assignment import Assignment
from workbench.assign.expression import Reduce, Value, reads, replace_reads, substitute
from workbench.assign.index import Affine, Axis, Index, Lookup
from workbench.graph.tensor import Tensor

Body: TypeAlias = "tuple[tuple[Axis, ...], Value]"
"""What a node is at the point that its axes name."""


def as_value(statement: Assignment) -> Body:
    """Return what ``statement`` computes as one value; what it combines becomes a reduction."""
    ordered = tuple(index.axis for index in statement.index if isinstance(index, Affine))
    assert all(axis is not None for axis in ordered)
    own = tuple(axis for axis in ordered if axis is not None)
    if not statement.combine:
        return own, statement.value
    over = statement.combined_axes
    if not over:
        return own, statement.value
    return own, Reduce(statement.combine, over, statement.value, statement.target.dtype)


def expand(value: Value, values: Mapping[Tensor, Body]) -> Value:
    """Return ``value`` with every read of a node in ``values`` replaced by what it computes."""
    found: dict[int, Value] = {}
    for read in list(reads(value)):
        inner = values.get(read.node)
        if inner is None:
            continue
        axes, body = inner
        mapping: dict[Axis, Affine] = {}
        for axis, index in zip(axes, read.index, strict=True):
            assert isinstance(index, Affine), "a node whose rows are looked up is stored"
            mapping[axis] = index
        found[id(read)] = substitute(body, mapping)
    return replace_reads(value, found) if found else value


def expand_index(index: Index, values: Mapping[Tensor, Body]) -> Index:
    """Return ``index`` with a row that is looked up expanded likewise."""
    return index if isinstance(index, Affine) else Lookup(expand(index.value, values), index.extent)

"""The meaning of assignments, in numpy: each statement over its whole iteration space at once.

In: a computation and the arrays that its leaves hold. Out: the arrays of all nodes. Invariant:
statements run in order, and each sees what the ones before it wrote.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracle import philox
from tests.oracle.numpy_graph import ELEMENTWISE, rows_of
from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Reduce,
    Value,
)
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.extent import resolve, resolve_shape
from workbench.graph.tensor import Tensor

Array = npt.NDArray[Any]

COMBINE: dict[str, Any] = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


def run(
    computation: Computation, feeds: Mapping[Tensor, Array], rows: int | None = None
) -> dict[Tensor, Array]:
    """Return the values of all nodes after the last statement; a view is its source's memory."""
    rows = rows_of(feeds) if rows is None else rows
    memory: dict[Tensor, Array] = {}
    for leaf in computation.inputs:
        value = feeds.get(leaf, leaf.value)
        assert value is not None, f"{leaf!r} was not fed"
        memory[leaf] = np.array(value, leaf.dtype.numpy)
    with np.errstate(all="ignore"):
        for statement in computation.statements:
            if isinstance(statement, View):
                shape = resolve_shape(statement.target.shape, rows)
                memory[statement.target] = memory[statement.source].reshape(shape)
            else:
                _assign(statement, memory, rows)
    return memory


class _Space:
    """An iteration space: each axis is an array of positions that broadcasts against the others."""

    def __init__(self, axes: tuple[Axis, ...], rows: int | None) -> None:
        self.rows = rows
        self.shape = tuple(resolve(axis.extent, rows) for axis in axes)
        self.of = dict(zip(axes, np.indices(self.shape, sparse=True), strict=True))

    def index(self, index: Index, memory: Mapping[Tensor, Array]) -> Array:
        if isinstance(index, Affine):
            total = np.asarray(index.offset)
            for axis, coefficient in index.terms:
                total = total + coefficient * self.of[axis]
            return total
        extent = resolve(index.extent, self.rows)
        row = self.value(index.value, memory)
        return np.clip(np.where(row < 0, row + extent, row), 0, extent - 1)

    def value(self, value: Value, memory: Mapping[Tensor, Array]) -> Array:
        match value:
            case Number():
                return np.asarray(value.value, value.dtype.numpy)
            case Position():
                return self.index(value.index, memory).astype(value.dtype.numpy)
            case ExtentNumber():
                return np.asarray(resolve(value.extent, self.rows), value.dtype.numpy)
            case Read():
                return memory[value.node][tuple(self.index(i, memory) for i in value.index)]
            case Apply():
                args = [self.value(arg, memory) for arg in value.args]
                return _apply(value, args).astype(value.dtype.numpy)
            case Reduce():
                raise AssertionError("translation writes no nested reductions")


def _apply(value: Apply, args: list[Array]) -> Array:
    if value.op == "cast":
        return args[0]
    if value.op in ("uniform", "normal"):
        seed, counter, positions = args
        draw = philox.uniform if value.op == "uniform" else philox.normal
        shape = (int(positions.max(initial=-1)) + 1,)
        return draw(int(seed), int(counter), shape, value.dtype.numpy)[positions]
    return np.asarray(ELEMENTWISE[value.op](*args))


def _assign(statement: Assignment, memory: dict[Tensor, Array], rows: int | None) -> None:
    target = statement.target
    space = _Space(statement.axes, rows)
    index = tuple(space.index(one, memory) for one in statement.index)
    computed = np.broadcast_to(space.value(statement.value, memory), space.shape)
    if target not in memory:
        # Cells that no statement writes would be seen as this number, or as NaN.
        unset = np.nan if target.dtype.is_float else 113
        memory[target] = np.full(resolve_shape(target.shape, rows), unset, target.dtype.numpy)
    if not statement.combine:
        memory[target][index] = computed
        return
    wide = np.float64 if target.dtype.is_float else target.dtype.numpy
    total = memory[target].astype(wide)
    if statement.fresh:
        total[...] = _neutral(statement.combine, target)
    # A scalar target gets an axis, since `at` wants an index.
    places = index or (np.zeros((), np.int64),)
    cells = total if index else total[np.newaxis]
    everywhere = tuple(np.broadcast_to(place, space.shape) for place in places)
    COMBINE[statement.combine].at(cells, everywhere, computed)
    memory[target][...] = total


def _neutral(combine: str, target: Tensor) -> float:
    if combine == "add":
        return 0
    if target.dtype.is_float:
        return -np.inf if combine == "maximum" else np.inf
    limits = np.iinfo(target.dtype.value)
    return int(limits.min if combine == "maximum" else limits.max)

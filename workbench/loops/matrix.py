"""Whether a sum of products is a matrix product that the BLAS can do where the operands lie.

In: a statement that multiplies two tensors and adds over shared axes. Out: which axes are rows,
columns and contracted ones, and how each matrix lies in memory. Invariant: a transpose is a matter
of strides; no operand is ever copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workbench.assign.assignment import Assignment
from workbench.assign.expression import Apply, Read
from workbench.assign.index import Affine, Axis
from workbench.graph.extent import Extent, multiply
from workbench.loops.flat import Flat, flatten
from workbench.loops.settings import DEFAULT_SETTINGS, Settings
from workbench.loops.space import points


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory: strides of its rows and of its columns, one of which is 1."""

    row: Extent
    column: Extent

    @property
    def transposed(self) -> bool:
        """Whether it is stored with its columns together."""
        return self.column != 1

    @property
    def leading(self) -> Extent:
        """Elements from one stored row to the next."""
        return self.row if self.column == 1 else self.column


@dataclass(frozen=True, slots=True)
class Operand:
    """What is read or written, where it begins in memory, and how it lies there."""

    read: Read
    place: Flat
    matrix: Matrix


@dataclass(frozen=True, slots=True)
class Arrangement:
    """``c[rows, columns] = a[rows, inner] @ b[inner, columns]`` for each point of ``shared``."""

    rows: list[Axis]
    columns: list[Axis]
    inner: list[Axis]
    shared: list[Axis]
    a: Operand
    b: Operand
    c: Operand


def arrange(statement: Assignment) -> Arrangement | None:
    """Return how the BLAS would do ``statement``, or None if it cannot."""
    value = statement.value
    if statement.combine != "add" or not statement.is_identity:
        return None
    if not (isinstance(value, Apply) and value.op == "mul" and value.dtype.is_float):
        return None
    left, right = value.args
    if not (isinstance(left, Read) and isinstance(right, Read)):
        return None
    groups = _axes(statement, left, right)
    if groups is None:
        return None
    rows, columns, inner, shared = groups
    if not (rows and columns and inner):
        return None
    target = Read(statement.target, statement.index)
    c = _operand(target, rows, columns)
    if c is not None and c.matrix.transposed:
        # C is stored by columns: its transpose is computed, with the operands' roles exchanged.
        rows, columns, left, right = columns, rows, right, left
        c = _operand(target, rows, columns)
    a, b = _operand(left, rows, inner), _operand(right, inner, columns)
    if a is None or b is None or c is None or c.matrix.transposed:
        return None
    return Arrangement(rows, columns, inner, shared, a, b, c)


def _axes(
    statement: Assignment, left: Read, right: Read
) -> tuple[list[Axis], list[Axis], list[Axis], list[Axis]] | None:
    """Return the axes of rows, of columns, contracted ones and shared ones.

    None if an index is not an axis itself.
    """
    sets: list[set[Axis]] = []
    for read in (left, right):
        mine: set[Axis] = set()
        for index in read.index:
            if not isinstance(index, Affine):
                return None
            if index.axis is None and (index.terms or index.offset):
                return None
            mine |= index.axes()
        sets.append(mine)
    a, b = sets
    out = list(statement.output_axes)
    inner = list(statement.combined_axes)
    if not all(axis in a and axis in b for axis in inner):
        return None
    if not all(axis in a or axis in b for axis in out):
        return None
    return (
        [axis for axis in out if axis in a and axis not in b],
        [axis for axis in out if axis in b and axis not in a],
        inner,
        [axis for axis in out if axis in a and axis in b],
    )


def _operand(read: Read, rows: Sequence[Axis], columns: Sequence[Axis]) -> Operand | None:
    place = flatten(read.node.shape, read.index)
    row, column = _stride(place, rows), _stride(place, columns)
    if row is None or column is None or 1 not in (row, column):
        return None
    if row == 1 and column == 1 and together(columns) != 1:
        # Equal strides of 1: one extent is 1, so any leading dimension wide enough serves.
        return Operand(read, place, Matrix(together(columns), 1))
    return Operand(read, place, Matrix(row, column))


def _stride(place: Flat, axes: Sequence[Axis]) -> Extent | None:
    """Return the stride of several axes taken as one, or None if they are not contiguous."""
    strides = [place.stride(axis) for axis in axes]
    for (outer, inner), axis in zip(pairwise(strides), axes[1:], strict=True):
        if outer is None or inner is None or outer != multiply(inner, axis.extent):
            return None
    return strides[-1]


def together(axes: Sequence[Axis]) -> Extent:
    """Return the extent of several axes taken as one."""
    total: Extent = 1
    for axis in axes:
        total = multiply(total, axis.extent)
    return total


def multiplications(statement: Assignment, rows: int) -> int:
    """Return how many multiplications each matrix takes, 0 if the BLAS cannot do ``statement``."""
    found = arrange(statement)
    if found is None:
        return 0
    return math.prod(points(axes, rows) for axes in (found.rows, found.columns, found.inner))


def is_block_product(
    statement: Assignment, rows: int, settings: Settings = DEFAULT_SETTINGS
) -> bool:
    """Return whether ``statement`` is a matrix product large enough for the BLAS."""
    return multiplications(statement, rows) >= settings.min_product

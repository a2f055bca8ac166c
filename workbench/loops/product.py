"""Matrix products as block operations: which axis is a row, which a column, which flags are set.

In: a statement that multiplies two tensors and adds over shared axes. Out: a `Product` inside loops
over batch axes, or nothing where the memory order does not allow it. Invariant: no operand is ever
copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from workbench.assign.expression import Apply, Read
from workbench.assign.index import Axis, Index
from workbench.graph.extent import Extent, multiply
from workbench.graph.tensor import Tensor
from workbench.loops.expression import Expr, Var, add, apply, integer, mul
from workbench.loops.facts import points
from workbench.loops.flat import Flat
from workbench.loops.kernel import HI, LO, For, Product, Stmt
from workbench.loops.placement import product_axes
from workbench.loops.schedule import Piece


class Writer(Protocol):
    """What is needed of the kernel being written."""

    env: dict[Axis, Expr]
    written: set[int]
    rows: int

    def buffer(self, node: Tensor) -> int:
        """Return the number of the node's buffer."""
        ...

    def extent(self, extent: Extent, *, baked: int = ...) -> Expr:
        """Return an extent as an expression; up to ``baked`` it is a number in the text."""
        ...

    def flat(self, node: Tensor, index: tuple[Index, ...]) -> Flat:
        """Return where an index lands in the node's memory."""
        ...

    def offset(self, place: Flat) -> Expr:
        """Return a place as an expression, in elements."""
        ...

    def fresh(self, kind: str) -> Var:
        """Return a variable of a new name."""
        ...


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


def _group_stride(place: Flat, axes: Sequence[Axis]) -> Extent | None:
    """Return the stride of several axes taken as one, or None if they are not contiguous."""
    strides = [place.stride(axis) for axis in axes]
    for (outer, inner), axis in zip(pairwise(strides), axes[1:], strict=True):
        if outer is None or inner is None or outer != multiply(inner, axis.extent):
            return None
    return strides[-1]


def _product_of(axes: Sequence[Axis]) -> Extent:
    total: Extent = 1
    for axis in axes:
        total = multiply(total, axis.extent)
    return total


def _matrix(place: Flat, rows: Sequence[Axis], columns: Sequence[Axis]) -> Matrix | None:
    row, column = _group_stride(place, rows), _group_stride(place, columns)
    if row is None or column is None or 1 not in (row, column):
        return None
    if row == 1 and column == 1 and _product_of(columns) != 1:
        # Equal strides of 1: one extent is 1, so any leading dimension that is wide enough serves.
        return Matrix(_product_of(columns), 1)
    return Matrix(row, column)


def lower_product(piece: Piece, writer: Writer) -> tuple[tuple[Stmt, ...], Extent, int] | None:
    """Return statements, extent of the cut axis and alignment, or None if loops must do it."""
    statement = piece.statement
    value = statement.value
    assert isinstance(value, Apply)
    left, right = value.args
    assert isinstance(left, Read)
    assert isinstance(right, Read)
    groups = product_axes(statement, left, right)
    assert groups is not None
    rows, columns, inner, shared = groups
    place_a = writer.flat(left.node, left.index)
    place_b = writer.flat(right.node, right.index)
    place_c = writer.flat(statement.target, statement.index)
    c = _matrix(place_c, rows, columns)
    if c is not None and c.transposed:
        # C is stored by columns: compute its transpose, with the operands' roles exchanged.
        rows, columns, left, right, place_a, place_b = columns, rows, right, left, place_b, place_a
        c = _matrix(place_c, rows, columns)
    a, b = _matrix(place_a, rows, inner), _matrix(place_b, inner, columns)
    if a is None or b is None or c is None or c.transposed:
        return None
    for axis in (*rows, *columns, *inner):
        writer.env[axis] = integer(0)
    indices = [writer.fresh("i") for _ in shared]
    writer.env.update(dict(zip(shared, indices, strict=True)))
    m, n, k = _product_of(rows), _product_of(columns), _product_of(inner)
    offsets = [writer.offset(place) for place in (place_a, place_b, place_c)]
    numbers = [writer.buffer(node) for node in (left.node, right.node, statement.target)]
    # Nothing but 0 and 1 is written into the text: products of all sizes share one kernel.
    height, width = writer.extent(m, baked=0), writer.extent(n, baked=0)
    cut: Extent = 1
    align = 1
    if not shared:
        share = add(HI, apply("neg", LO))
        moved: tuple[Extent, Extent, Extent]
        if points(list(rows), writer.rows) > points(list(columns), writer.rows):
            cut, height, moved = m, share, (a.row, 0, c.row)
        else:
            cut, width, moved = n, share, (0, b.column, 1)
        align = 16
        offsets = [
            add(offset, mul(LO, writer.extent(stride, baked=1)))
            for offset, stride in zip(offsets, moved, strict=True)
        ]
    product = Product(
        statement.target.dtype,
        a.transposed,
        b.transposed,
        height,
        width,
        writer.extent(k, baked=0),
        numbers[0],
        offsets[0],
        writer.extent(a.leading, baked=0),
        numbers[1],
        offsets[1],
        writer.extent(b.leading, baked=0),
        numbers[2],
        offsets[2],
        writer.extent(c.leading, baked=0),
        accumulate=not statement.fresh,
    )
    writer.written.add(numbers[2])
    body: Stmt = product
    for number in range(len(shared) - 1, -1, -1):
        outermost = number == 0
        stop = HI if outermost else writer.extent(shared[number].extent)
        body = For(indices[number], LO if outermost else integer(0), stop, (body,))
    if shared:
        cut = shared[0].extent
    return (body,), cut, align

"""Matrix products as block operations: sizes, flags and offsets for the BLAS.

In: a statement that ``matrix`` can arrange. Out: a `Product` inside loops over batch axes.
Invariant: products of all sizes share one text for each choice of transposes.
"""

from __future__ import annotations

from typing import Protocol

from workbench.assign.index import Axis
from workbench.graph.extent import Extent
from workbench.graph.tensor import Tensor
from workbench.loops.expression import Expr, Var, add, apply, integer, mul
from workbench.loops.flat import Flat
from workbench.loops.kernel import HI, LO, For, Product, Stmt
from workbench.loops.matrix import arrange, together
from workbench.loops.schedule import Piece
from workbench.loops.space import points


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

    def offset(self, place: Flat) -> Expr:
        """Return a place as an expression, in elements."""
        ...

    def fresh(self, kind: str) -> Var:
        """Return a variable of a new name."""
        ...


def lower_product(piece: Piece, writer: Writer) -> tuple[tuple[Stmt, ...], Extent, int]:
    """Return statements, extent of the cut axis and alignment of the cuts."""
    statement = piece.statement
    found = arrange(statement)
    assert found is not None, "the schedule asked before"
    rows, columns, inner, shared = found.rows, found.columns, found.inner, found.shared
    a, b, c = found.a.matrix, found.b.matrix, found.c.matrix
    operands = (found.a, found.b, found.c)
    for axis in (*rows, *columns, *inner):
        writer.env[axis] = integer(0)
    indices = [writer.fresh("i") for _ in shared]
    writer.env.update(dict(zip(shared, indices, strict=True)))
    m, n, k = together(rows), together(columns), together(inner)
    offsets = [writer.offset(operand.place) for operand in operands]
    numbers = [writer.buffer(operand.read.node) for operand in operands]
    # Nothing but 0 and 1 is written into the text: products of all sizes share one kernel.
    height, width = writer.extent(m, baked=0), writer.extent(n, baked=0)
    cut: Extent = 1
    align = 1
    if not shared:
        share = add(HI, apply("neg", LO))
        moved: tuple[Extent, Extent, Extent]
        if points(rows, writer.rows) > points(columns, writer.rows):
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

"""Write the loops that combine values, into a local scalar or into a row of memory.

In: a statement that combines, and the kernel being written. Out: statements in that kernel.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from workbench.assign.assignment import NEUTRAL
from workbench.assign.expression import Position, Read, Value, walk
from workbench.assign.index import Axis, Index, Lookup
from workbench.graph.dtype import DType
from workbench.graph.extent import Batch, Extent, multiply
from workbench.graph.tensor import Tensor
from workbench.loops import expression as scalar
from workbench.loops.expression import Expr, Load, Var, add, integer, mul
from workbench.loops.flat import Flat
from workbench.loops.kernel import (
    HI,
    LO,
    Accumulate,
    Assign,
    Declare,
    Let,
    Stmt,
    Store,
    Update,
)
from workbench.loops.schedule import Piece
from workbench.loops.summation import ROW_BLOCK, block_of, cut, two_sum, unless_nan

SCATTER_WIDTH: Final = 64
"""Columns of looked-up rows that are added to together."""

__all__ = ["collapses", "combine", "combine_rows", "neutral"]


class Writer(Protocol):
    """What is needed of the kernel being written."""

    env: dict[Axis, Expr]
    scalars: dict[Tensor, Expr]

    def buffer(self, node: Tensor) -> int:
        """Return the number of the node's buffer."""
        ...

    def scratch(self, size: Extent, dtype: DType) -> int:
        """Return the number of a new buffer of each chunk's own."""
        ...

    def extent(self, extent: Extent) -> Expr:
        """Return an extent as an expression."""
        ...

    def flat(self, node: Tensor, index: tuple[Index, ...]) -> Flat:
        """Return where an access lands."""
        ...

    def offset(self, place: Flat) -> Expr:
        """Return a place as an expression, in elements."""
        ...

    def row(self, value: Value, extent: Extent) -> Expr:
        """Return a row that is looked up, as a number from 0 to ``extent`` - 1."""
        ...

    def fresh(self, kind: str, dtype: DType = ...) -> Var:
        """Return a variable of a new name."""
        ...

    def emit(self, stmt: Stmt) -> None:
        """Write a statement."""
        ...

    def open(self) -> None:
        """Begin the body of a loop."""
        ...

    def close(self, var: Var, start: Expr, stop: Expr, step: int = 1) -> None:
        """End the body of a loop and write the loop."""
        ...

    def value(self, value: Value) -> Expr:
        """Return the value of one element as an expression."""
        ...

    def finish(self, expr: Expr) -> Expr:
        """Return an expression with what it uses twice in locals."""
        ...

    def name(self, expr: Expr) -> Var:
        """Return a local that holds an expression."""
        ...

    def stored(self, buffer: int) -> None:
        """Forget locals that were loaded from a buffer."""
        ...


@contextmanager
def _loop(writer: Writer, var: Var, start: Expr, stop: Expr, step: int = 1) -> Generator[None]:
    writer.open()
    yield
    writer.close(var, start, stop, step)


@contextmanager
def _loops(writer: Writer, levels: Sequence[tuple[Axis, Extent]]) -> Generator[None]:
    """Write a loop for each axis, the first outermost, around what is written inside."""
    opened: list[tuple[Var, Expr]] = []
    for axis, extent in levels:
        var = writer.fresh("i")
        writer.env[axis] = var
        stop = writer.extent(extent)
        writer.open()
        opened.append((var, stop))
    yield
    for var, stop in reversed(opened):
        writer.close(var, integer(0), stop)


@contextmanager
def _block(writer: Writer, level: tuple[Axis, Extent], first: Var, turns: int) -> Generator[None]:
    """Write the loop over ``turns`` indices of an axis from ``first``, or over those there are."""
    axis, extent = level
    if turns == 1:
        writer.env[axis] = first
        yield
        return
    var = writer.fresh("i")
    writer.env[axis] = var
    stop = scalar.apply("minimum", add(first, integer(turns)), writer.extent(extent))
    with _loop(writer, var, first, stop):
        yield


# -- into a local scalar


def combine(
    writer: Writer, op: str, axes: Sequence[Axis], body: Value, dtype: DType, start: Expr | None
) -> Var:
    """Write the loops that combine ``body`` over ``axes``; return the local they fill."""
    places = [writer.flat(r.node, r.index) for r in _reads(writer, body)]
    levels = _levels(writer, axes, body, places)
    first = neutral(op, dtype) if start is None else start
    found = None
    if op == "add" and dtype.is_float and levels:
        found = cut([extent for _, extent in levels], block_of(body, places, *levels[-1]))
    if found is None:
        total = writer.fresh("a", dtype)
        writer.emit(Declare(total, first))
        with _loops(writer, levels):
            writer.emit(Update(total, op, writer.finish(writer.value(body))))
        return total
    position, turns = found
    total, rest = writer.fresh("a", dtype), writer.fresh("a", dtype)
    writer.emit(Declare(total, first))
    writer.emit(Declare(rest, neutral(op, dtype)))
    begin = writer.fresh("i")
    with (
        _loops(writer, levels[:position]),
        _loop(writer, begin, integer(0), writer.extent(levels[position][1]), turns),
    ):
        part = writer.fresh("a", dtype)
        writer.emit(Declare(part, neutral(op, dtype)))
        with (
            _block(writer, levels[position], begin, turns),
            _loops(writer, levels[position + 1 :]),
        ):
            writer.emit(Update(part, op, writer.finish(writer.value(body))))
        added = _named(writer, scalar.apply("add", part, rest))
        summed = _named(writer, scalar.apply("add", total, added))
        lost = _named(writer, writer.finish(two_sum(total, added, summed)))
        writer.emit(Assign(rest, unless_nan(lost)))
        writer.emit(Assign(total, summed))
    return writer.name(scalar.apply("add", total, rest))


def _reads(writer: Writer, body: Value) -> list[Read]:
    return [r for r in walk(body) if isinstance(r, Read) and r.node not in writer.scalars]


def _levels(
    writer: Writer, axes: Sequence[Axis], body: Value, places: Sequence[Flat]
) -> list[tuple[Axis, Extent]]:
    """Return the axes that need a loop, those that every access walks as one being one."""
    positions = {a for v in walk(body) if isinstance(v, Position) for a in v.index.axes()}
    writer.env.update({axis: integer(0) for axis in axes if axis.extent == 1})
    axes = [axis for axis in axes if axis.extent != 1]
    levels: list[tuple[Axis, Extent]] = []
    extent: Extent = 1
    for number, axis in enumerate(axes):
        extent = multiply(extent, axis.extent)
        following = axes[number + 1] if number + 1 < len(axes) else None
        if (
            following is not None
            and not {axis, following} & positions
            and collapses(places, axis, following)
        ):
            writer.env[axis] = integer(0)
            continue
        levels.append((axis, extent))
        extent = 1
    return levels


def collapses(places: Sequence[Flat], outer: Axis, inner: Axis) -> bool:
    """Return whether every access moves over the two axes as over one."""
    for place in places:
        a, b = place.stride(outer), place.stride(inner)
        if a is None or b is None:
            return False
        if isinstance(b, Batch) and isinstance(inner.extent, Batch):
            return False
        if a != multiply(b, inner.extent):
            return False
    return True


# -- into a row of memory


def combine_rows(writer: Writer, piece: Piece, *, outermost: bool) -> None:
    """Write a statement whose innermost loop runs along a row that it adds to."""
    statement = piece.statement
    target, last = statement.target, piece.outer[-1] if piece.outer else None
    bounds = (LO, HI) if outermost else (integer(0), writer.extent(last.extent if last else 1))
    levels = [(axis, axis.extent) for axis in piece.combined]
    found = None
    if statement.combine == "add" and target.dtype.computed.is_float:
        found = cut([extent for _, extent in levels], ROW_BLOCK)
    chosen = [index for index in statement.index if isinstance(index, Lookup)]
    if found is not None and len(chosen) == 1:
        _scatter(writer, piece, chosen[0], bounds)
        return
    if found is not None and last is not None and not chosen:
        _sum_rows(writer, piece, last, bounds, levels, found)
        return
    buffer = writer.buffer(target)
    if statement.fresh:
        assert last is not None, (
            "only a scatter has no axis of its own, and it starts from what is there"
        )
        with _row(writer, last, bounds):
            zero = neutral(statement.combine, target.dtype)
            writer.emit(Store(buffer, _cell(writer, piece), zero))
    with _loops(writer, levels), _row(writer, last, bounds):
        offset = _cell(writer, piece)
        value = writer.finish(writer.value(statement.value))
        writer.emit(Accumulate(buffer, offset, statement.combine, value))
    writer.stored(buffer)


def _sum_rows(
    writer: Writer,
    piece: Piece,
    last: Axis,
    bounds: tuple[Expr, Expr],
    levels: Sequence[tuple[Axis, Extent]],
    found: tuple[int, int],
) -> None:
    """Write a long sum of rows: blocks of it into the target, and from there into scratch."""
    statement, (position, turns) = piece.statement, found
    dtype = statement.target.dtype.computed
    part = writer.buffer(statement.target)
    total, rest = writer.scratch(last.extent, dtype), writer.scratch(last.extent, dtype)
    zero = neutral("add", dtype)
    if statement.fresh:
        with _row(writer, last, bounds):
            writer.emit(Store(part, _cell(writer, piece), zero))
    several = _if_several(writer, bounds, levels, found)
    with _row(writer, last, several) as cell:
        offset = _cell(writer, piece)
        writer.emit(Store(total, cell, _loaded(writer, part, offset, dtype)))
        writer.emit(Store(part, offset, zero))
        writer.emit(Store(rest, cell, zero))
    begin = writer.fresh("i")
    with (
        _loops(writer, levels[:position]),
        _loop(writer, begin, integer(0), writer.extent(levels[position][1]), turns),
    ):
        with (
            _block(writer, levels[position], begin, turns),
            _loops(writer, levels[position + 1 :]),
            _row(writer, last, bounds),
        ):
            offset = _cell(writer, piece)
            value = writer.finish(writer.value(statement.value))
            writer.emit(Accumulate(part, offset, "add", value))
        with _row(writer, last, several) as cell:
            offset = _cell(writer, piece)
            before = _loaded(writer, total, cell, dtype)
            left = Load(rest, cell, dtype)
            added = _named(writer, scalar.apply("add", Load(part, offset, dtype), left))
            summed = _named(writer, scalar.apply("add", before, added))
            lost = _named(writer, writer.finish(two_sum(before, added, summed)))
            writer.emit(Store(rest, cell, unless_nan(lost)))
            writer.emit(Store(total, cell, summed))
            writer.emit(Store(part, offset, zero))
    with _row(writer, last, several) as cell:
        whole = scalar.apply("add", Load(total, cell, dtype), Load(rest, cell, dtype))
        writer.emit(Store(part, _cell(writer, piece), whole))
    for buffer in (part, total, rest):
        writer.stored(buffer)


def _scatter(writer: Writer, piece: Piece, chosen: Lookup, bounds: tuple[Expr, Expr]) -> None:
    """Write a sum into rows that are looked up, any number of which may be one and the same.

    What an addition loses is kept beside each cell, for rows that are chosen only: those that are
    not cost nothing. Wide rows are added in parts, so that there is memory for a part of each.
    """
    last = piece.outer[-1] if piece.outer else None
    if last is None or (isinstance(last.extent, int) and last.extent <= SCATTER_WIDTH):
        _scatter_part(writer, piece, chosen, bounds, last.extent if last is not None else 1)
        return
    first = writer.fresh("i")
    with _loop(writer, first, *bounds, SCATTER_WIDTH):
        end = _named(writer, scalar.apply("minimum", add(first, integer(SCATTER_WIDTH)), bounds[1]))
        _scatter_part(writer, piece, chosen, (first, end), SCATTER_WIDTH)


def _scatter_part(
    writer: Writer, piece: Piece, chosen: Lookup, bounds: tuple[Expr, Expr], width: Extent
) -> None:
    statement = piece.statement
    last = piece.outer[-1] if piece.outer else None
    levels = [(axis, axis.extent) for axis in piece.combined]
    dtype = statement.target.dtype.computed
    target, rest = (
        writer.buffer(statement.target),
        writer.scratch(multiply(chosen.extent, width), dtype),
    )
    zero = neutral("add", dtype)

    def beside(column: Var) -> Expr:
        row = writer.row(chosen.value, chosen.extent)
        if last is None:
            return writer.finish(row)
        from_first = add(column, scalar.apply("neg", bounds[0]))
        return writer.finish(add(mul(row, writer.extent(width)), from_first))

    with _loops(writer, levels), _row(writer, last, bounds) as column:
        writer.emit(Store(rest, beside(column), zero))
    with _loops(writer, levels), _row(writer, last, bounds) as column:
        offset, place = _cell(writer, piece), beside(column)
        value = _named(writer, writer.finish(writer.value(statement.value)))
        before = writer.fresh("t", dtype)
        # Along a row every cell comes once. Otherwise the same one may come again: a variable says
        # that iterations are not independent.
        make = Let if last is not None else Declare
        writer.emit(make(before, Load(target, offset, dtype)))
        added = _named(writer, scalar.apply("add", value, Load(rest, place, dtype)))
        summed = _named(writer, scalar.apply("add", before, added))
        lost = _named(writer, writer.finish(two_sum(before, added, summed)))
        writer.emit(Store(rest, place, unless_nan(lost)))
        writer.emit(Store(target, offset, summed))
    with _loops(writer, levels), _row(writer, last, bounds) as column:
        offset, place = _cell(writer, piece), beside(column)
        whole = scalar.apply("add", Load(target, offset, dtype), Load(rest, place, dtype))
        writer.emit(Store(target, offset, whole))
        writer.emit(Store(rest, place, zero))
    for buffer in (target, rest):
        writer.stored(buffer)


def _if_several(
    writer: Writer,
    bounds: tuple[Expr, Expr],
    levels: Sequence[tuple[Axis, Extent]],
    found: tuple[int, int],
) -> tuple[Expr, Expr]:
    """Return the bounds of what is done for several blocks: none if the batch fills but one."""
    position, turns = found
    extent = levels[position][1]
    if position or not isinstance(extent, Batch):
        return bounds
    longer = scalar.apply("greater", writer.extent(extent), integer(turns))
    stop = writer.fresh("t")
    writer.emit(Let(stop, scalar.apply("select", longer, bounds[1], bounds[0])))
    return bounds[0], stop


@contextmanager
def _row(writer: Writer, last: Axis | None, bounds: tuple[Expr, Expr]) -> Generator[Var]:
    """Write the loop along the row, if there is an axis along it."""
    if last is None:
        yield Var("")
        return
    var = writer.fresh("i")
    writer.env[last] = var
    with _loop(writer, var, *bounds):
        yield var


def _cell(writer: Writer, piece: Piece) -> Expr:
    return writer.finish(writer.offset(writer.flat(piece.statement.target, piece.statement.index)))


def _loaded(writer: Writer, buffer: int, offset: Expr, dtype: DType) -> Var:
    """Return a local that holds an element as it is now."""
    return _named(writer, Load(buffer, offset, dtype))


def _named(writer: Writer, value: Expr) -> Var:
    """Return a new local that holds a value as it is now."""
    var = writer.fresh("t", value.dtype)
    writer.emit(Let(var, value))
    return var


def neutral(op: str, dtype: DType) -> Expr:
    """Return what combining by ``op`` starts from."""
    if op != "add" and dtype.is_integer:
        info = scalar_limits(dtype)
        return scalar.number(info[0] if op == "maximum" else info[1], dtype)
    return scalar.number(NEUTRAL[op], dtype)


def scalar_limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = dtype.itemsize * 8
    if dtype in (DType.U32, DType.U64):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

"""Whether a computation treats each row of the batch by itself.

In: a computation.  Out: yes, or no; and how many bytes a row takes.  Invariant: yes is said only
where row ``r`` of whatever is computed reads nothing of other rows, neither their values nor how
many there are nor which of them it is; so that rows may be cut into batches in any way.
"""

from __future__ import annotations

from math import prod

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import ExtentNumber, Position, Read, Reduce, Value, walk
from workbench.assign.index import Affine, Axis, Index, Lookup
from workbench.graph.extent import Batch, Shape

__all__ = ["bytes_of_a_row", "is_row_by_row"]


def is_row_by_row(program: Computation) -> bool:
    """Return whether each row of every result depends on the same row of the inputs alone.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.input("x", (wb.batch, 3))
    >>> is_row_by_row(wb.computation([wb.softmax(x)])), is_row_by_row(wb.computation([x.mean(0)]))
    (True, False)
    """
    return all(
        _keeps_rows(statement) if isinstance(statement, View) else _works_by_rows(statement)
        for statement in program.statements
    )


def bytes_of_a_row(program: Computation) -> int:
    """Return the bytes that one row of the widest result takes; 0 if nothing has rows."""
    widest = 0
    for statement in program.statements:
        shape = statement.target.shape
        if _has_rows(shape):
            sizes = [each.factor if isinstance(each, Batch) else each for each in shape]
            widest = max(widest, prod(sizes) * statement.target.dtype.numpy.itemsize)
    return widest


def _has_rows(shape: Shape) -> bool:
    return any(isinstance(extent, Batch) for extent in shape)


def _rows_come_first(shape: Shape) -> bool:
    return bool(shape) and isinstance(shape[0], Batch)


def _keeps_rows(view: View) -> bool:
    # The same elements in the same order: a row stays together if rows are the outermost axis.
    shapes = view.target.shape, view.source.shape
    return not any(map(_has_rows, shapes)) or all(map(_rows_come_first, shapes))


def _works_by_rows(statement: Assignment) -> bool:
    row = _axis_of_rows(statement.index, statement.target.shape)
    values = (*walk(statement.value), *_looked_up(statement.index))
    inner = [axis for value in values if isinstance(value, Reduce) for axis in value.axes]
    batches = {axis for axis in (*statement.axes, *inner) if isinstance(axis.extent, Batch)}
    return batches <= {row} and all(_is_of_its_row(value, row) for value in values)


def _is_of_its_row(value: Value, row: Axis | None) -> bool:
    match value:
        case ExtentNumber():
            return not isinstance(value.extent, Batch)
        case Position():
            return row not in value.index.axes()
        case Read():
            return _reads_its_row(value, row)
        case _:
            return True


def _looked_up(index: tuple[Index, ...]) -> list[Value]:
    return [v for each in index if isinstance(each, Lookup) for v in walk(each.value)]


def _axis_of_rows(index: tuple[Index, ...], shape: Shape) -> Axis | None:
    """Return the axis that counts the rows of a cell, if it is there and outermost."""
    if not _rows_come_first(shape) or _has_rows(shape[1:]):
        return None
    first = index[0]
    axis = first.axis if isinstance(first, Affine) else None
    return axis if axis is not None and axis.extent == shape[0] else None


def _reads_its_row(read: Read, row: Axis | None) -> bool:
    rest: tuple[Index, ...] = read.index
    if _has_rows(read.node.shape):
        if row is None or _axis_of_rows(read.index, read.node.shape) is not row:
            return False
        rest = read.index[1:]
    # What has no rows may not be read by the number of the row either.
    return not any(isinstance(each, Affine) and row in each.axes() for each in rest)

"""Rows chosen by numbers that are known only at run time, and the sums that undo the choice.

In: a table or updates, and integer tensors. Out: tensors. A negative index counts from the end. One
that is known to be outside is refused. Invariant: one that is computed is clamped to the rows there
are, so that no program can read or write foreign memory.
"""

from __future__ import annotations

from workbench.errors import DTypeError, ShapeError
from workbench.graph.bounds import refuse_known
from workbench.graph.dtype import DType
from workbench.graph.elementwise import cast, computed, describe
from workbench.graph.extent import Batch, Extent, as_shape, count
from workbench.graph.tensor import Operand, Tensor, as_tensor, make


def _indices(op: str, indices: Operand) -> Tensor:
    checked = as_tensor(indices, op=op)
    if checked.dtype not in (DType.I32, DType.I64):
        raise DTypeError(
            f"{op}: the indices are {describe(checked)}, not whole numbers",
            remedy="convert them: `.astype('int32')`",
        )
    return checked


def _require_rows(op: str, rows: Extent, indices: Tensor) -> None:
    if rows == 0 and count(indices.shape) != 0:
        raise ShapeError(
            f"{op}: there are no rows that the indices {describe(indices)} could choose",
            remedy="give the table a row at least",
        )


def take(table: Operand, indices: Operand) -> Tensor:
    """Return the rows of ``table`` that ``indices`` choose; the gradient adds up in the rows.

    Parameters
    ----------
    table
        Shape ``(rows, ...)``.
    indices
        int32 or int64 of any shape, from -rows to rows - 1, where -1 is the last row. Constants are
        checked here, data and inputs before a run; a computed index outside is clamped to the
        nearest row, so that it can never read foreign memory.

    Returns
    -------
    Tensor
        Shape ``indices.shape + table.shape[1:]``.

    Raises
    ------
    DataError
        If a constant index is outside.
    """
    table = as_tensor(table, op="take")
    chosen = _indices("take", indices)
    if not table.ndim:
        raise ShapeError(f"take: {describe(table)} has no rows", remedy="use a tensor with an axis")
    _require_rows("take", table.shape[0], chosen)
    refuse_known("take", chosen, table.shape[0], from_end=True)
    return make("take", (table, chosen), (*chosen.shape, *table.shape[1:]), table.dtype)


def scatter_add(rows: Extent, indices: Operand, updates: Operand) -> Tensor:
    """Return zeros of ``rows`` rows to which each row of ``updates`` was added at its index.

    Rows chosen more than once receive every addition, in the order of the updates.

    Parameters
    ----------
    rows
        Extent of the first axis of the result.
    indices
        int32 or int64; as in `take`.
    updates
        Shape ``indices.shape + tail``.

    Returns
    -------
    Tensor
        Shape ``(rows, *tail)``, of the type of sums: int64 for updates of int32 and bool.
    """
    updates = as_tensor(updates, op="scatter_add")
    updates = cast(updates, updates.dtype.summed)
    chosen = _indices("scatter_add", indices)
    if updates.shape[: chosen.ndim] != chosen.shape:
        raise ShapeError(
            f"scatter_add: the updates are {describe(updates)}, the indices {describe(chosen)}",
            remedy="give one update for each index: the first axes of both agree",
        )
    (extent,) = as_shape((rows,))
    _require_rows("scatter_add", extent, chosen)
    refuse_known("scatter_add", chosen, extent, from_end=True)
    shape = (extent, *updates.shape[chosen.ndim :])
    return computed("scatter_add", (chosen, updates), shape, updates.dtype, {"rows": extent})


def one_hot(labels: Operand, classes: int, dtype: object = "float32") -> Tensor:
    """Return 1 at the position of each label and 0 elsewhere.

    Parameters
    ----------
    labels
        int32 or int64 of any shape; a label outside 0..classes-1 gives a row of zeros.
    classes
        Extent of the new last axis.
    dtype
        Element type of the result.
    """
    return cast(is_label(_indices("one_hot", labels), classes), dtype)


def is_label(labels: Tensor, classes: Extent) -> Tensor:
    """Return, for each label and class, whether it is that class.

    The result is bool, of shape ``labels.shape + (classes,)``.
    """
    (extent,) = as_shape((classes,))
    if isinstance(extent, Batch):
        raise ShapeError(
            f"one_hot: the number of classes for {describe(labels)} is the batch",
            remedy="give a whole number",
        )
    return make("is_label", (labels,), (*labels.shape, extent), DType.BOOL, {"classes": extent})

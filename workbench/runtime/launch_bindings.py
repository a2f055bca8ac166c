"""What a launch binds: static indices and the batch size, read when a routine is run.

In: a routine, and a context with its inputs. Out: numbers, checked. Invariant: nothing was written
when a binding is refused, and a binding may be changed as soon as the run returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from workbench.errors import ExecutionError
from workbench.graph.bounds import refuse_outside
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, whole_number
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context

NARROW: Final = 2**31 - 1
"""The largest number that indices reach unless the setting `large_models` is on."""


def bound_indices(context: Context, routine: Routine) -> list[int]:
    """Return what the routine's static indices are bound to now, in their order.

    Raises
    ------
    ExecutionError
        Naming the index, the value and the range.
    """
    found: list[int] = []
    for node in routine.link.indices:
        value = routine.link.bindings.get(node)
        extent = declared_extent(node)
        assert extent is not None
        name = f"`{routine.name}`: the static index `{node.label}`"
        if value is None:
            raise ExecutionError(
                f"{name} of extent {extent} is bound to nothing",
                remedy="compile with `bindings={index: 0}`, and set `bindings[index]` before a run",
            )
        number = whole_number(value)
        if number is None or not 0 <= number < extent:
            raise ExecutionError(
                f"{name} is bound to {value!r}, and its values are 0 to {extent - 1}",
                remedy="bind it to a whole number of that range",
            )
        if number > NARROW and not context.settings_in_force().large_models:
            raise ExecutionError(
                f"{name} is bound to {number}, above {NARROW}",
                remedy="use `with wb.settings(large_models=True)`, or a smaller range",
            )
        found.append(number)
    return found


def refuse_indices(context: Context, routine: Routine) -> None:
    """Refuse row and class numbers that are outside of what they choose from.

    What was found inside is not looked at again until it is written.

    Raises
    ------
    DataError
        Naming the leaf, the first row and the value.
    """
    for node, span in routine.spans.items():
        buffer = context.buffers.get(node)
        if buffer is None:
            continue
        stamp = (buffer.record, buffer.record.set_at)
        if routine.checked.get(node) != stamp:
            refuse_outside({node: span}, {node: (f"`{node.label}`", buffer.view())})
            routine.checked[node] = stamp


def bound_rows(context: Context, routine: Routine, rows: int | None) -> int | None:
    """Return the batch size of a run: that of the routine's inputs, else the one given.

    Raises
    ------
    ExecutionError
        If two inputs disagree, or the routine depends on the batch and its size is unknown,
        negative or too large.
    """
    told = rows_of(context, routine)
    rows = rows if told is None else told
    if rows is None:
        if routine.depends_on_batch:
            raise ExecutionError(
                f"`{routine.name}` depends on the batch, whose size is bound to nothing",
                remedy="call `ctx.run(routine, rows=...)`",
            )
        return None
    if whole_number(rows) is None or rows < 0:
        raise ExecutionError(
            f"`{routine.name}`: the batch is bound to {rows!r} rows",
            remedy="give a whole number of 0 or more",
        )
    if rows > NARROW and not context.settings_in_force().large_models:
        raise ExecutionError(
            f"`{routine.name}`: the batch is bound to {rows} rows, above {NARROW}",
            remedy="use `with wb.settings(large_models=True)`, or a smaller batch",
        )
    return rows


def rows_of(context: Context, routine: Routine) -> int | None:
    """Return the batch size that the routine's inputs have in ``context``.

    Raises
    ------
    ExecutionError
        If two inputs disagree.
    """
    found: dict[int, Tensor] = {}
    buffers = context.buffers
    for node in routine.batched_inputs:
        buffer = buffers.get(node)
        for extent, actual in zip(node.shape, () if buffer is None else buffer.shape, strict=False):
            if isinstance(extent, Batch):
                found.setdefault(actual // extent.factor, node)
    if len(found) > 1:
        (a, first), (b, second) = list(found.items())[:2]
        raise ExecutionError(
            f"{routine.name}: {describe(first)} has {a} rows and {describe(second)} has {b}",
            remedy="set both to the same number of rows",
        )
    return next(iter(found), None)

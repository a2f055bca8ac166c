"""Running a routine once over the memory of a context.

In: a context and a routine compiled in its lineage. Out: the context in which the routine's outputs
hold values. Invariant: everything is checked before anything is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.errors import ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, count, resolve_shape
from workbench.graph.tensor import Tensor
from workbench.runtime.buffer import Buffer
from workbench.runtime.memory import arena
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context


def run_routine(context: Context, routine: Routine, rows: int | None) -> Context:
    """Run the routine once and return the context in which its outputs hold values.

    Parameters are those of `workbench.runtime.context.Context.run`.
    """
    context.unit.check_live()
    compiled_in = routine.unit()
    if compiled_in is not context.unit:
        context.unit.add_routine(routine)  # it will keep memory of this context ready as well
        if (
            compiled_in is not None
            and compiled_in.is_released
            and not context.unit.holds_memory_of(compiled_in)
        ):
            raise ExecutionError(
                f"{routine.name} was compiled in {compiled_in.name}, which was released",
                remedy="compile it again in a context that still lives",
            )
    if routine.backend is not context.backend:
        raise ExecutionError(
            f"{routine.name} was compiled for {routine.backend.name} in another lineage",
            remedy="compile it in this context, or run it in one made from where it was",
        )
    ready, rows = prepared(context, routine, rows)
    routine.run_once(rows, ready.arrays())
    return _after(ready, routine, rows)


def rows_of(context: Context, routine: Routine) -> int | None:
    """Return the batch size that the routine's inputs have in ``context``.

    Raises
    ------
    ExecutionError
        If two inputs disagree.
    """
    found: dict[int, Tensor] = {}
    buffers = context.buffers
    for node in routine.computation.inputs:
        for extent, actual in zip(
            node.shape, buffers[node].shape if node in buffers else (), strict=False
        ):
            if isinstance(extent, Batch):
                found.setdefault(actual // max(1, extent.factor), node)
    if len(found) > 1:
        (a, first), (b, second) = list(found.items())[:2]
        raise ExecutionError(
            f"{routine.name}: {describe(first)} has {a} rows and {describe(second)} has {b}",
            remedy="set both to the same number of rows",
        )
    return next(iter(found), None)


def prepared(context: Context, routine: Routine, rows: int | None) -> tuple[Context, int | None]:
    """Return a context with memory for the routine at the inputs' batch size, and that size."""
    # As sets: in a tuple, `in` would compare tensors, and that builds a graph.
    unwritten = set(routine.program.device) - context.initialized
    empty = [describe(node) for node in routine.computation.inputs if node in unwritten]
    if empty:
        raise ExecutionError(
            f"{routine.name}: no value was ever written to {', '.join(empty)}",
            remedy="call `ctx.set_values({tensor: array})`, or run what computes it",
        )
    told = rows_of(context, routine)
    rows = rows if told is None else told
    buffers = dict(context.buffers)
    grown: list[Tensor] = []
    for node in routine.program.device:
        if isinstance(count(node.shape), Batch):
            shape = resolve_shape(node.shape, rows)
            if node not in buffers or buffers[node].shape != shape:
                grown.append(node)
        elif node not in buffers:
            raise ExecutionError(
                f"{routine.name}: {describe(node)} has no memory in this context",
                remedy="run it in the context that `compile` returned, or a later one",
            )
    for node, array in arena(grown, rows, context.backend.device).items():
        buffers[node] = Buffer(array, resolve_shape(node.shape, rows))
    return (replace(context, buffers=buffers) if grown else context), rows


def _after(context: Context, routine: Routine, rows: int | None) -> Context:
    buffers, initialized = context.buffers, context.initialized
    written = {*routine.computation.outputs, *routine.computation.updates}
    roots = {routine.program.views.get(node, node) for node in written}
    # A view that can be read since an earlier routine is up to date after this one as well.
    views = {
        node: Buffer(buffers[root].array, resolve_shape(node.shape, rows))
        for node, root in routine.program.views.items()
        if node in written or (node in initialized and root in buffers)
    }
    return context.derived(
        f"run {routine.name}",
        buffers={**buffers, **views},
        initialized=initialized | written | roots,
    )

"""What has to hold before a routine runs, in two halves: of the lineage, and of the launch.

In: a context and a routine. Out: nothing, or the first refusal in a fixed order. Invariant: nothing
is written, allocated or noted here, so that a refusal proves that values are as they were.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from workbench.errors import ExecutionError, LostRoutineWarning
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, count
from workbench.graph.tensor import Tensor
from workbench.runtime.launch_bindings import bound_indices, bound_rows
from workbench.runtime.merging import check_still_there
from workbench.runtime.ownership import check_required
from workbench.runtime.routine import Routine
from workbench.runtime.shared_memory import refuse_overwritten

if TYPE_CHECKING:
    from workbench.runtime.context import Context

_FEW = 3
"""So many nodes are named where more would do."""


def check_runnable(context: Context, routine: Routine, rows: int | None = None) -> None:
    """Raise what `Context.run` would raise before it starts, but for gradients without a reset.

    Parameters and errors are those of `Context.run`.
    """
    check_lineage_runnable(context, routine)
    check_launch_bindings(context, routine, rows)
    refuse_overwritten(context, routine.constants, f"`{routine.name}`")


def check_lineage_runnable(context: Context, routine: Routine) -> None:
    """Check what is true of the lineage, whatever form the routine was compiled to.

    Raises
    ------
    ExecutionError
        If memory was released, the lineage is poisoned or another one, a gradient has no owner, an
        input holds no value, or a routine has to run first.
    """
    context.unit.check_live()
    _refuse_released(context, routine)
    link, ledger = routine.link, context.ledger
    if link.ledger is not ledger:
        raise ExecutionError(
            f"{routine.name} was compiled for {routine.backend.name} in another lineage",
            remedy="compile it in this context, or run it in one made from where it was",
        )
    ledger.refuse_poisoned(f"running `{routine.name}`")
    if routine.computation.requires:
        check_required(context, routine)
    if ledger.has_withdrawn or not link.required <= context.initialized:
        _refuse_unwritten(context, routine)
    if routine.transfer:
        check_still_there(context, routine)
    if routine.dispatch is None or routine.dispatch.buffers is not context.buffers:
        check_memory(context, routine)
    if not link.dependencies <= ledger.executed:
        _refuse_undone(context, routine)


def check_launch_bindings(context: Context, routine: Routine, rows: int | None = None) -> None:
    """Check what this launch binds: static indices and the batch size.

    Raises
    ------
    ExecutionError
        Naming what is bound to nothing or out of range.
    """
    bound_indices(context, routine)
    bound_rows(context, routine, rows)


def can_run(context: Context, routine: Routine) -> bool:
    """Return whether everything that has to run before the routine has run."""
    return routine.link.ledger is context.ledger and not _undone(context, routine)


def check_memory(context: Context, routine: Routine) -> None:
    """Check that the context has all memory of the routine that does not depend on the batch.

    Raises
    ------
    ExecutionError
        Naming the first node without any.
    """
    for node in routine.program.device:
        if node not in context.buffers and not isinstance(count(node.shape), Batch):
            raise ExecutionError(
                f"{routine.name}: {describe(node)} has no memory in this context",
                remedy="run it in the context that `compile` returned, or a later one",
            )


def _refuse_released(context: Context, routine: Routine) -> None:
    compiled_in = routine.unit()
    if (
        compiled_in is not context.unit
        and compiled_in is not None
        and compiled_in.is_released
        and not context.unit.holds_memory_of(compiled_in)
    ):
        raise ExecutionError(
            f"{routine.name} was compiled in {compiled_in.name}, which was released",
            remedy="compile it again in a context that still lives",
        )


def _refuse_unwritten(context: Context, routine: Routine) -> None:
    link = routine.link
    gradients = context.frontier.gradients | link.frontier.gradients
    empty: list[Tensor] = []
    for node in link.required:
        buffer = context.buffers.get(node)
        if buffer is not None and buffer.record.written:
            continue
        # A gradient is a sum: before anything was added to it, zero is its value.
        if buffer is None or node not in gradients or node in link.writes:
            empty.append(node)
    if not empty:
        return
    empty.sort(key=lambda node: node.uid)
    changed = [describe(node) for node in empty if node in link.writes]
    fault = (
        f" ({', '.join(changed)} is read before it is written: the zeros of fresh memory do not "
        "count)"
        if changed
        else ""
    )
    raise ExecutionError(
        f"{routine.name}: no value was ever written to {', '.join(map(describe, empty))}{fault}",
        remedy="call `ctx.set_values({tensor: array})`, or run or copy what computes it"
        + ("; state that begins at zero is a parameter of zeros" if changed else ""),
    )


def _undone(context: Context, routine: Routine) -> list[Routine]:
    """Return what has to run before the routine and has not; what is gone holds up nobody."""
    ledger = context.ledger
    missing = sorted(routine.link.dependencies - ledger.executed)
    found = [ledger.routines.get(number) for number in missing]
    return [each for each in found if each is not None]


def _tell_lost(context: Context, routine: Routine) -> None:
    """Warn of values that a routine was to write which is gone: nobody can run it any more.

    A node that a later routine of the lineage writes is none of them: the cell that compiled the
    lost one was run again.
    """
    ledger, writers = context.ledger, context.frontier.writers
    missing = routine.link.dependencies - ledger.executed
    lost = {number for number in missing if number not in ledger.routines}
    nodes = [node for node in routine.link.reads if writers.get(node) in lost]
    if nodes:
        listed = ", ".join(describe(n) for n in sorted(nodes, key=lambda n: n.uid)[:_FEW])
        warnings.warn(
            LostRoutineWarning(
                f"`{routine.name}` (id={routine.id}) was compiled to run after a routine that "
                f"never ran and exists no more: it reads {listed} as it is. Compile what "
                f"computes it again, then `{routine.name}`"
            ),
            stacklevel=6,
        )


def _refuse_undone(context: Context, routine: Routine) -> None:
    undone = _undone(context, routine)
    if not undone:
        _tell_lost(context, routine)
        return
    first = undone[0].link
    shared = (first.writes & (routine.link.reads | routine.link.writes)) | (
        first.reads & routine.link.writes
    )
    nodes = [describe(node) for node in sorted(shared, key=lambda node: node.uid)]
    listed = ", ".join(nodes[:_FEW]) + (f" and {len(nodes) - _FEW} more" if nodes[_FEW:] else "")
    before = ", ".join(f"`{each.name}` (id={each.id})" for each in undone)
    verb = "has" if len(undone) == 1 else "have"
    raise ExecutionError(
        f"`{routine.name}` (id={routine.id}) was compiled to run after {before}, which {verb} not "
        f"run: both use {listed}",
        remedy=f"run {before} first; or compile `{routine.name}` in a context from before it",
    )

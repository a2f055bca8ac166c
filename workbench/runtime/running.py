"""Running a routine once over the memory of a context.

In: a context and a routine compiled in its lineage. Out: the context in which the routine's outputs
hold values. Invariant: everything is checked before anything is written; what a run wrote is noted
in the ledger, and if a run fails half way, that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from workbench.backends.protocol import Array, Bound
from workbench.graph.extent import Batch, count, resolve_shape
from workbench.graph.tensor import Tensor
from workbench.runtime.accumulation import Accumulation, Key, Tally
from workbench.runtime.buffer import Buffer
from workbench.runtime.launch_bindings import bound_indices, bound_rows, refuse_indices
from workbench.runtime.ledger import Record
from workbench.runtime.memory import arena
from workbench.runtime.outcome import Phase, Reached, blames, classify
from workbench.runtime.ownership import check_reset
from workbench.runtime.routine import Routine
from workbench.runtime.runnable import check_lineage_runnable, check_memory
from workbench.runtime.shared_memory import refuse_overwritten

if TYPE_CHECKING:
    from workbench.runtime.context import Context


@final
@dataclass(slots=True, eq=False)
class Dispatch:
    """A routine over the buffers of one context, kept for the next run over the same.

    Attributes
    ----------
    buffers
        As they are after a run.
    rows
        The batch size.
    bound
        What runs.
    control
        The control words of a run.
    written
        What the ledger knows of the buffers that a run writes.
    zeroed, added
        The same of the gradients that it zeroes, and of those that it only adds to.
    indices
        Memory of its static indices.
    initialized
        Nodes that hold a value after a run.
    generation
        That of the ledger when it was told what a run writes; -1 if it was not yet.
    version
        That of the ledger's accumulation when the tallies were looked up.
    zeroed_tally, added_tally
        What the gradients that it zeroes share, and those that it only adds to; None if they differ
        in their history.
    """

    buffers: Mapping[Tensor, Buffer]
    rows: int | None
    bound: Bound
    control: Array
    written: tuple[Record, ...]
    zeroed: tuple[Record, ...]
    added: tuple[Record, ...]
    indices: tuple[Array, ...]
    initialized: frozenset[Tensor]
    generation: int = -1
    version: int = -1
    zeroed_tally: Tally | None = None
    added_tally: Tally | None = None


def run_routine(
    context: Context,
    routine: Routine,
    rows: int | None,
    *,
    timing: bool = False,
    reached: Reached | None = None,
) -> Context:
    """Run the routine once and return the context in which its outputs hold values.

    Parameters are those of `workbench.runtime.context.Context.run`; ``reached`` is told when the
    launch begins.
    """
    check_lineage_runnable(context, routine)
    link, ledger = routine.link, context.ledger
    indices = bound_indices(context, routine) if link.indices else ()
    found = bound_rows(context, routine, rows)
    if routine.constants:
        refuse_overwritten(context, routine.constants, f"`{routine.name}`")
    if routine.spans:
        refuse_indices(context, routine)
    if link.accumulating and not timing:
        check_reset(context, routine)
    dispatch = routine.dispatch
    if dispatch is None or dispatch.buffers is not context.buffers or dispatch.rows != found:
        dispatch = routine.dispatch = _dispatched(context, routine, found)
    for memory, number in zip(dispatch.indices, indices, strict=True):
        memory[0] = number
    if reached is not None:
        reached.phase = Phase.LAUNCH
    try:
        dispatch.bound.run(1, dispatch.control)
    except BaseException as failure:  # an interrupt, too, may leave values half written
        if not classify(Phase.LAUNCH, failure, blames(context.backend.device.kind)):
            ledger.condemn(routine.name, failure)
        raise
    if dispatch.generation != ledger.generation:
        ledger.enlist(routine.id, dispatch.written)
        dispatch.generation = ledger.generation
    ledger.ran(routine.id)
    if dispatch.added or (dispatch.zeroed and ledger.accumulation.version):
        _count(dispatch, ledger.accumulation, link.counted_as)
    known = context.initialized
    return context.derived(
        routine.made_by,
        buffers=dispatch.buffers,
        initialized=known if dispatch.initialized <= known else known | dispatch.initialized,
    )


def _count(dispatch: Dispatch, accumulation: Accumulation, routine: Key) -> None:
    """Note what a run did to gradients that add up from run to run."""
    if dispatch.version != accumulation.version:
        if dispatch.zeroed:
            accumulation.reset(dispatch.zeroed)
        if dispatch.added:
            accumulation.add(routine, dispatch.added)
        dispatch.zeroed_tally = accumulation.common(dispatch.zeroed)
        dispatch.added_tally = accumulation.common(dispatch.added)
        if (dispatch.zeroed_tally or not dispatch.zeroed) and (
            dispatch.added_tally or not dispatch.added
        ):
            dispatch.version = accumulation.version
        return
    if dispatch.zeroed_tally is not None:
        dispatch.zeroed_tally.runs.clear()
    if dispatch.added_tally is not None:
        runs = dispatch.added_tally.runs
        runs[routine] = runs.get(routine, 0) + 1


def lend(context: Context, routine: Routine) -> dict[Tensor, Array]:
    """Return the memory of every buffer, for a native loop that runs the routine by itself.

    For the ledger the routine has run from now on: whoever loops answers for the order.
    """
    context.unit.check_live()
    context.ledger.refuse_poisoned(f"running `{routine.name}`")
    refuse_overwritten(context, routine.constants, f"`{routine.name}`")
    buffers = context.buffers
    written = [buffers[node].record for node in routine.link.writes if node in buffers]
    context.ledger.enlist(routine.id, written)
    context.ledger.ran(routine.id)
    return context.arrays()


def prepared(
    context: Context, routine: Routine, rows: int | None = None
) -> tuple[Context, int | None]:
    """Return a context with memory for the routine at the inputs' batch size, and that size."""
    check_memory(context, routine)
    rows = bound_rows(context, routine, rows)
    buffers = dict(context.buffers)
    grown: list[Tensor] = []
    for node in routine.program.device:
        if isinstance(count(node.shape), Batch):
            shape = resolve_shape(node.shape, rows)
            if node not in buffers or buffers[node].shape != shape:
                grown.append(node)
    for node, array in arena(grown, rows, context.backend.device).items():
        buffers[node] = Buffer(array, resolve_shape(node.shape, rows))
    return (replace(context, buffers=buffers) if grown else context), rows


def _dispatched(context: Context, routine: Routine, rows: int | None) -> Dispatch:
    """Return the routine over the context's memory, with memory for what is new at this size."""
    if routine.unit() is not context.unit:
        context.unit.add_routine(routine)  # it will keep memory of this context ready as well
    ready, rows = prepared(context, routine, rows)
    computation, link = routine.computation, routine.link
    bound = routine.bind(rows, ready.arrays())
    buffers = ready.buffers
    made = {*computation.outputs, *computation.updates, *routine.stored}
    roots = {routine.program.views.get(node, node) for node in made}
    # A view that can be read since an earlier routine is up to date after this one as well.
    views = {
        node: Buffer(buffers[root].array, resolve_shape(node.shape, rows), buffers[root].record)
        for node, root in routine.program.views.items()
        if node in made or (node in context.initialized and root in buffers)
    }

    def records(nodes: frozenset[Tensor] | tuple[Tensor, ...]) -> tuple[Record, ...]:
        return tuple(buffers[node].record for node in nodes if node in buffers)

    return Dispatch(
        {**buffers, **views} if views else buffers,
        rows,
        bound,
        np.zeros(8, np.int64),
        records(link.writes),
        records(computation.zeroes),
        records(link.accumulating),
        tuple(buffers[node].array for node in link.indices),
        frozenset(made | roots | (link.writes & buffers.keys())),
    )

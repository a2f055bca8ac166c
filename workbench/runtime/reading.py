"""Reading values: stored ones are copied, virtual ones computed again in a routine for the read.

In: a context and nodes. Out: arrays. Invariant: the context, its placements and its memory stay as
they were.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from workbench.assign.from_graph import computation as computation_from
from workbench.errors import NotReadableError
from workbench.graph.extent import Batch
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.loops.preference import NO_PREFERENCES
from workbench.runtime.frontier import Frontier
from workbench.runtime.ledger import Ledger
from workbench.runtime.observe import Observability, Reading, Waiting, Waits, Walk, host_data
from workbench.runtime.shared_memory import refuse_overwritten

if TYPE_CHECKING:
    from workbench.runtime.context import Context
    from workbench.runtime.routine import Routine


def read(context: Context, nodes: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
    """Return copies of the values of several nodes; virtual ones are recomputed in one routine.

    Parameters are those of `workbench.runtime.context.Context.read`.
    """
    nodes = nodes_from("nodes", nodes)
    context.ledger.refuse_poisoned("reading values")
    verdicts = context.observabilities(nodes)
    for verdict in verdicts:
        if not verdict.is_readable:
            raise NotReadableError(verdict.problem, remedy=verdict.remedy_text)
    refuse_overwritten(context, nodes, "reading values")
    lost = [v.node for v in verdicts if v.reading is Reading.RECOMPUTABLE]
    values: dict[Tensor, npt.NDArray[Any]] = {}
    if lost:
        made = computation_from(dict.fromkeys(lost), given=stored(context))
        rows = batch_rows(context)
        # A kernel for each node: many nodes share a few texts, each of which compiles once.
        single = replace(context.settings_in_force(), fuse=False)
        bare = replace(
            context,
            placements={},
            preferences=NO_PREFERENCES,
            settings=single,
            ledger=Ledger(),
            frontier=Frontier(),
        )
        throwaway, routine = bare.compile(made, name="read", rows=rows)
        throwaway = throwaway.run(routine, rows=rows)
        values = {node: throwaway.buffers[node].view().copy() for node in lost}
    for verdict in verdicts:
        node = verdict.node
        if verdict.reading is Reading.STORED:
            values[node] = context.buffers[node].view().copy()
        elif verdict.reading is Reading.HOST_INIT:
            value = host_data(node)
            assert value is not None
            values[node] = value
    return [values[node] for node in nodes]


def batch_rows(context: Context) -> int | None:
    """Return the batch size that all values of ``context`` have, None if there is no such size."""
    sizes = {
        actual // extent.factor
        for node, buffer in context.buffers.items()
        for extent, actual in zip(node.shape, buffer.shape, strict=True)
        if isinstance(extent, Batch)
    }
    return sizes.pop() if len(sizes) == 1 else None


def stored(context: Context) -> frozenset[Tensor]:
    """Return the nodes whose memory holds a value, less what was taken back since."""
    known = context.initialized & context.buffers.keys()
    if not context.ledger.has_withdrawn:
        return known
    return frozenset(node for node in known if context.buffers[node].record.written)


def verdicts(context: Context, nodes: Iterable[Tensor]) -> list[Observability]:
    """Return how each of ``nodes`` can be read.

    What was found is remembered as long as the context exists and no run is taken back: it never
    changes, so that the thousandth question costs no more than looking its answer up. Nothing of
    its memory is kept.
    """
    nodes = nodes_from("nodes", nodes)
    walk = walk_of(context)
    return [walk.answer(node, lambda: batch_rows(context)) for node in nodes]


def walk_of(context: Context) -> Walk:
    """Return what was found in ``context`` so far, to be asked for more."""
    turn, walk = _walks.get(context, (-1, None))
    if walk is None or turn != context.ledger.turn:
        walk = Walk(stored(context), context.placements, _waiting(context))
        _walks[context] = context.ledger.turn, walk
    return walk


def _waiting(context: Context) -> Waiting:
    """Return a function that finds the routines which have to run first; it keeps no memory."""
    frontier, ledger, known = context.frontier, context.ledger, stored(context)

    def waiting(nodes: Iterable[Tensor]) -> list[Waits]:
        numbers: set[int] = set()
        for node in nodes:
            root = frontier.views.get(node, node)
            writer = frontier.writers.get(root)
            if writer is not None and (writer not in ledger.executed or root not in known):
                numbers.add(writer)
            numbers |= frontier.readers.get(root, frozenset()) - ledger.executed
        found: dict[int, Routine] = {}
        while numbers:
            number = numbers.pop()
            routine = ledger.routines.get(number)
            if routine is not None and number not in found:
                found[number] = routine
                numbers |= routine.link.dependencies - ledger.executed
        return [
            Waits(
                each.name,
                each.link.required,
                each.link.writes.union(each.outputs, each.computation.updates, each.stored),
            )
            for _, each in sorted(found.items())
        ]

    return waiting


def node_named(context: Context, name: str) -> Tensor:
    """Return the node of a name; see `workbench.runtime.context.Context.node`."""
    return walk_of(context).names.node(name)


def forget_verdicts(context: Context) -> None:
    """Forget what was found, for a context that has lost its memory."""
    _walks.pop(context, None)


_walks: Final[weakref.WeakKeyDictionary[Context, tuple[int, Walk]]] = weakref.WeakKeyDictionary()

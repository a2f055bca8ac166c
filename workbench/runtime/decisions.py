"""Decisions that a person makes for one lineage: which nodes are stored, inlined or boxed.

In: the placements and preferences of a context, and nodes. Out: the preferences of its child, which
bind what is compiled there next. Invariant: placements say what compiled routines do, so that no
decision changes them, and nothing that can be read is lost by deciding; what is stored stays
stored; what is declared of nodes, the context asked and its other children are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, final

from workbench.assign.assignment import Computation
from workbench.assign.show import node_names
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.loops.intent import intent_of
from workbench.loops.kernel import Program
from workbench.loops.placement import Mode, Placement
from workbench.loops.preference import Choice, Preferences
from workbench.loops.show import show_program
from workbench.runtime.collection import collection_paused
from workbench.runtime.compiling import as_computation, expected_rows, lowered

if TYPE_CHECKING:
    from workbench.runtime.context import Context

Nodes = Tensor | Iterable[Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A decision for each of some nodes.

    Attributes
    ----------
    materialized, inline, footprint
        Nodes to store, to compute anew at every reader, and to serve from boxes. They are applied
        in this order, so that of two requests for one node the later holds; what is stored stays
        stored.
    """

    materialized: Nodes = ()
    inline: Nodes = ()
    footprint: Nodes = ()

    def by_choice(self) -> tuple[tuple[Choice, list[Tensor]], ...]:
        """Return the nodes of each choice, in the order in which they are applied."""
        return (
            ("materialize", listed(self.materialized)),
            ("inline", listed(self.inline)),
            ("footprint", listed(self.footprint)),
        )


def listed(nodes: Nodes) -> list[Tensor]:
    """Return ``nodes`` as a list; one tensor is one node, not its rows."""
    return list(nodes_from("nodes", nodes))


@dataclass(frozen=True, slots=True)
class Decided:
    """What binds the routines that are compiled in a context.

    Attributes
    ----------
    placements
        Decisions.
    preferences
        Requests that the policy honours where it can.
    """

    placements: Mapping[Tensor, Placement]
    preferences: Preferences

    def with_choice(self, choice: Choice, nodes: Iterable[Tensor]) -> Decided:
        """Return the lineage with a choice for ``nodes``, where it has not decided yet."""
        match choice:
            case "materialize":
                chosen = [node for node in nodes if self._may_be_stored(node)]
                return Decided(self.placements, self.preferences.stored(chosen))
            case "inline":
                return Decided(self.placements, self.preferences.inlined(self._open(nodes)))
            case "footprint":
                return Decided(self.placements, self.preferences.boxed(self._open(nodes)))

    def with_vector(self, vector: Vector) -> Decided:
        """Return the lineage with all choices of ``vector``."""
        lineage = self
        for choice, nodes in vector.by_choice():
            lineage = lineage.with_choice(choice, nodes)
        return lineage

    def _may_be_stored(self, node: Tensor) -> bool:
        declared = intent_of(node).placement
        if declared is not None:
            return declared.mode is Mode.NEVER_VIRTUAL
        known = self.placements.get(node)
        return known is None or known.code != SCALAR

    def _open(self, nodes: Iterable[Tensor]) -> list[Tensor]:
        placed, final = self.placements, self.preferences.materialized
        return [
            node
            for node in nodes
            if node not in final and (node not in placed or not lies_in_memory(placed[node]))
        ]


SCALAR: Final = "40"
"""The rule for scalars of constants alone, which have no memory whatever is decided."""


def lies_in_memory(placement: Placement) -> bool:
    """Return whether a node is kept on the device: later routines of the lineage read it there."""
    return placement.mode is Mode.ON_DEVICE


def lineage_of(context: Context) -> Decided:
    """Return what binds the routines that are compiled in ``context``."""
    return Decided(context.placements, context.preferences)


def decide_reading(context: Context, choice: Choice, nodes: Nodes) -> Context:
    """Return a child of ``context`` with a choice for ``nodes``."""
    context.unit.check_live()
    decided = lineage_of(context).with_choice(choice, listed(nodes))
    return context.child(
        f"decide {choice}", placements=decided.placements, preferences=decided.preferences
    )


def decide_vector(context: Context, vector: Vector, *, skip_empty: bool) -> Context:
    """Return a child of ``context`` with all choices of ``vector``, one child for each choice."""
    for choice, nodes in vector.by_choice():
        if nodes or not skip_empty:
            context = decide_reading(context, choice, nodes)
    return context


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lowered:
    """What a routine would be, without a backend having seen it.

    Attributes
    ----------
    computation
        What it would compute.
    program
        Its kernels.
    placements
        Where each node would live.
    """

    computation: Computation
    program: Program
    placements: Mapping[Tensor, Placement]

    def text(self) -> str:
        """Return the kernels as text."""
        return show_program(self.program, node_names(self.computation))

    def __repr__(self) -> str:
        kernels, stored = len(self.program.kernels), len(self.program.device)
        return f"<Lowered: {kernels} kernels, {stored} buffers, {len(self.program.local)} local>"


@collection_paused()
def lowered_for_decisions(
    context: Context,
    wanted: Computation | Iterable[Tensor],
    vector: Vector,
    *,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
) -> Lowered:
    """Return what ``context`` would compile with ``vector`` decided; nothing is changed.

    Parameters are those of `workbench.runtime.context.Context.lowered_for_decisions`.
    """
    context.unit.check_live()
    made, expected = as_computation(wanted, updates), expected_rows(rows)
    lineage = lineage_of(context).with_vector(vector)
    fork = replace(context, placements=lineage.placements, preferences=lineage.preferences)
    return Lowered(made, *lowered(fork, made, expected))


def stored_components(context: Context, node: Tensor | None) -> int:
    """Return how many statements readers replay for ``node``, or for all virtual nodes."""
    placements = context.placements
    asked = placements if node is None else nodes_from("node", node)
    return sum(each in placements and placements[each].mode is Mode.VIRTUAL for each in asked)

"""Whether virtual nodes may move to their readers without passing a write to what they read.

In: a computation and placements. Out: the statements, updates in an order in which each reads old
state, and the placements with what may not move stored. Invariant: nothing lifts these rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.index import at
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Placement
from workbench.loops.policy import refused_virtual
from workbench.loops.settings import Settings
from workbench.loops.storage import storage


def legal(
    computation: Computation,
    placements: Mapping[Tensor, Placement],
    rows: int,
    settings: Settings,
) -> tuple[list[Statement], dict[Tensor, Placement]]:
    """Return the statements in their final order, and the placements that are possible.

    A virtual node whose move would pass a write to something it reads is stored instead (code 10).

    Raises
    ------
    PlacementError
        If such a node was declared virtual.
    """
    chosen = dict(placements)
    memory = _memory(computation)
    ordered = _order_stores(computation, chosen, memory)
    while blocked := _blocked(ordered, chosen, memory):
        for node in blocked:
            refusal = Placement(
                storage(node, rows, settings),
                "10",
                "something it reads is overwritten before its last reader runs",
            )
            if chosen[node].code == "29":
                raise refused_virtual(node, refusal)
            chosen[node] = refusal
    return ordered, chosen


def sources(statement: Statement) -> list[Tensor]:
    """Return what a statement reads, one entry for each read."""
    return (
        [statement.source] if isinstance(statement, View) else [r.node for r in statement.reads()]
    )


def _memory(computation: Computation) -> dict[Tensor, Tensor]:
    """Return, for every view, the node whose memory it is: a write to that is a write to it."""
    owners: dict[Tensor, Tensor] = {}
    for statement in computation.statements:
        if isinstance(statement, View):
            owners[statement.target] = owners.get(statement.source, statement.source)
    return owners


def _order_stores(
    computation: Computation, chosen: Mapping[Tensor, Placement], memory: Mapping[Tensor, Tensor]
) -> list[Statement]:
    """Return the statements, the final stores in an order in which each reads old state."""
    updates = set(computation.updates)
    body = [s for s in computation.statements if s.target not in updates]
    stores = {s.target: s for s in computation.statements if s.target in updates}
    leaves: dict[Tensor, frozenset[Tensor]] = {}
    for statement in body:
        if not chosen[statement.target].is_stored:
            leaves[statement.target] = _leaves(statement, chosen, leaves, memory)
    # `target` must wait for every store that still reads its old value.
    waits: dict[Tensor, set[Tensor]] = {target: set() for target in stores}
    for target, statement in stores.items():
        for leaf in _leaves(statement, chosen, leaves, memory):
            if leaf in stores and leaf is not target:
                waits[leaf].add(target)
    ordered: list[Statement] = []
    remaining = dict(stores)
    while remaining:
        ready = [t for t in remaining if not waits[t] & remaining.keys()]
        ordered.extend(remaining.pop(target) for target in ready or list(remaining)[:1])
    return body + ordered


def _leaves(
    statement: Statement,
    chosen: Mapping[Tensor, Placement],
    virtual: Mapping[Tensor, frozenset[Tensor]],
    memory: Mapping[Tensor, Tensor],
) -> frozenset[Tensor]:
    """Return whose memory a statement reads, directly or through virtual nodes."""
    found: set[Tensor] = set()
    for source in sources(statement):
        if chosen[source].is_stored:
            found.add(memory.get(source, source))
        else:
            found |= virtual.get(source, frozenset())
    return frozenset(found)


def _blocked(
    statements: Sequence[Statement],
    chosen: Mapping[Tensor, Placement],
    memory: Mapping[Tensor, Tensor],
) -> set[Tensor]:
    """Return virtual nodes some of whose leaves are written between their place and a reader's."""
    place = {s.target: i for i, s in enumerate(statements) if not chosen[s.target].is_stored}
    leaves: dict[Tensor, frozenset[Tensor]] = {}
    written: dict[Tensor, list[int]] = {}
    for position, statement in enumerate(statements):
        if not chosen[statement.target].is_stored:
            leaves[statement.target] = _leaves(statement, chosen, leaves, memory)
        else:
            owner = memory.get(statement.target, statement.target)
            if isinstance(statement, Assignment):
                written.setdefault(owner, []).append(position)
    blocked: set[Tensor] = set()
    for position, statement in enumerate(statements):
        for source in sources(statement):
            if chosen[source].is_stored:
                continue
            start = place[source]
            for leaf in leaves[source]:
                # The statement itself may overwrite what it reads only at the cell it reads.
                moved = any(start < w < position for w in written.get(leaf, ()))
                if not moved and leaf is statement.target and isinstance(statement, Assignment):
                    paths = _Paths(statements, place, chosen, memory)
                    moved = not paths.only_at_write(source, statement)
                if moved:
                    blocked.add(source)
    return blocked


@dataclass(frozen=True, slots=True)
class _Paths:
    """How virtual nodes lead to what is stored."""

    statements: Sequence[Statement]
    place: Mapping[Tensor, int]
    chosen: Mapping[Tensor, Placement]
    memory: Mapping[Tensor, Tensor]

    def only_at_write(self, node: Tensor, statement: Assignment) -> bool:
        """Return whether every path from ``node`` to the statement's target keeps the cell."""
        target = statement.target
        if not all(r.index == statement.index for r in statement.reads() if r.node is node):
            return not self.reaches(node, target)
        stack = [node]
        while stack:
            setter = self.statements[self.place[stack.pop()]]
            if not isinstance(setter, Assignment):
                return False
            own = tuple(at(axis) for axis in setter.axes[: len(setter.index)])
            for read in setter.reads():
                if self.memory.get(read.node) is target:
                    return False  # in another shape the cell is another one
                if read.node is target and read.index != own:
                    return False
                if not self.chosen[read.node].is_stored:
                    if read.index == own and not setter.combined_axes:
                        stack.append(read.node)
                    elif self.reaches(read.node, target):
                        return False
        return True

    def reaches(self, node: Tensor, target: Tensor) -> bool:
        """Return whether ``node`` reads the memory of ``target``."""
        stack, seen = [node], {node}
        while stack:
            current = stack.pop()
            if self.memory.get(current, current) is target:
                return True
            if current in self.place and not self.chosen[current].is_stored:
                for source in sources(self.statements[self.place[current]]):
                    if source not in seen:
                        seen.add(source)
                        stack.append(source)
        return False

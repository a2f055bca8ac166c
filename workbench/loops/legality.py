"""Whether virtual nodes may move to their readers without passing a write to what they read.

In: a computation and placements. Out: the statements, updates in an order in which each reads old
state, and the placements with what may not move stored. Invariant: nothing lifts these rules.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.index import at
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Placement
from workbench.loops.policy import refused_virtual
from workbench.loops.settings import Settings
from workbench.loops.storage import storage

_NONE: Final[frozenset[Tensor]] = frozenset()


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
    updates = set(computation.updates) - _made_before_read(computation, memory)
    body = [s for s in computation.statements if s.target not in updates]
    stores = {s.target: s for s in computation.statements if s.target in updates}
    leaves: dict[Tensor, frozenset[Tensor]] = {}
    for statement in body:
        if not chosen[statement.target].is_stored:
            leaves[statement.target] = _leaves(statement, chosen, leaves, memory, stores)
    # `target` must wait for every store that still reads its old value.
    waits: dict[Tensor, set[Tensor]] = {target: set() for target in stores}
    for target, statement in stores.items():
        for leaf in _leaves(statement, chosen, leaves, memory, stores):
            if leaf is not target:
                waits[leaf].add(target)
    ordered: list[Statement] = []
    remaining = dict(stores)
    while remaining:
        ready = [t for t in remaining if not waits[t] & remaining.keys()]
        ordered.extend(remaining.pop(target) for target in ready or list(remaining)[:1])
    return body + ordered


def _made_before_read(computation: Computation, memory: Mapping[Tensor, Tensor]) -> set[Tensor]:
    """Return state that is computed in place: whoever reads it at all reads its new value."""
    made: dict[Tensor, int] = {}
    for position, statement in enumerate(computation.statements):
        for source in sources(statement):
            made.setdefault(memory.get(source, source), -1)  # read before it is written, if ever
        made.setdefault(statement.target, position)
    return {target for target in computation.updates if made.get(target, -1) >= 0}


def _leaves(
    statement: Statement,
    chosen: Mapping[Tensor, Placement],
    virtual: Mapping[Tensor, frozenset[Tensor]],
    memory: Mapping[Tensor, Tensor],
    among: Container[Tensor],
) -> frozenset[Tensor]:
    """Return whose memory, of those in ``among``, a statement reads, through virtual nodes too."""
    found: set[Tensor] = set()
    for source in sources(statement):
        if not chosen[source].is_stored:
            found |= virtual.get(source, _NONE)
        elif (owner := memory.get(source, source)) in among:
            found.add(owner)
    return frozenset(found) if found else _NONE


def _blocked(
    statements: Sequence[Statement],
    chosen: Mapping[Tensor, Placement],
    memory: Mapping[Tensor, Tensor],
) -> set[Tensor]:
    """Return virtual nodes some of whose leaves are written between their place and a reader's."""
    place: dict[Tensor, int] = {}
    written: dict[Tensor, list[int]] = {}
    first_read: dict[Tensor, int] = {}
    for position, statement in enumerate(statements):
        target = statement.target
        if not chosen[target].is_stored:
            place[target] = position
        elif isinstance(statement, Assignment):
            written.setdefault(memory.get(target, target), []).append(position)
        for source in sources(statement):
            first_read.setdefault(memory.get(source, source), position)
    # Most memory is written before anybody reads it: that cannot be passed.
    late = {
        owner: positions
        for owner, positions in written.items()
        if positions[-1] >= first_read.get(owner, len(statements))
    }
    leaves: dict[Tensor, frozenset[Tensor]] = {}
    for statement in statements:
        if statement.target in place:
            leaves[statement.target] = _leaves(statement, chosen, leaves, memory, late)
    blocked: set[Tensor] = set()
    for position, statement in enumerate(statements):
        for source in sources(statement):
            start = place.get(source)
            if start is None or not leaves[source]:
                continue
            for leaf in leaves[source]:
                # The statement itself may overwrite what it reads only at the cell it reads.
                moved = any(start < w < position for w in late[leaf])
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

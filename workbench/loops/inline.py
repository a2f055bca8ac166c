"""Write virtual nodes into their readers, and drop what nobody reads.

In: a computation and placements. Out: the assignments of stored nodes only, each value reading
stored nodes only, and the placements as legality left them. Invariant: a value that moves to its
reader reads the same cells there as it would have read at its own place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.expression import Apply, Read, Value
from workbench.assign.index import Axis, at
from workbench.graph.tensor import Tensor, make_leaf
from workbench.loops.boxes import Boxes
from workbench.loops.facts import widened
from workbench.loops.placement import WIDE, Mode, Placement
from workbench.loops.policy import refused_virtual
from workbench.loops.settings import DEFAULT_SETTINGS, Settings
from workbench.loops.storage import storage
from workbench.loops.substitution import Body, as_value, expand, expand_index


@dataclass(frozen=True, slots=True)
class Inlined:
    """Statements over stored nodes, and the placements that hold after legality was checked."""

    statements: tuple[Statement, ...]
    placements: dict[Tensor, Placement]


def inline(
    computation: Computation,
    placements: Mapping[Tensor, Placement],
    rows: int,
    settings: Settings = DEFAULT_SETTINGS,
) -> Inlined:
    """Return the computation with every virtual node written into its readers.

    A virtual node whose move would pass a write to something it reads is stored instead (code 10).
    A node that is served from boxes (code 153) is computed for each reader in a leaf shaped like
    what that reads, right where the node itself would be computed.

    Parameters
    ----------
    computation
        Any computation.
    placements
        From ``decide_placements``.
    rows
        The batch size to reckon with.
    settings
        ``local_bytes`` decides where what is stored instead lives.

    Raises
    ------
    PlacementError
        If a node that was declared virtual would pass a write to something it reads.
    """
    chosen = dict(placements)
    memory = _memory(computation)
    ordered = _order_stores(computation, chosen, memory)
    while True:
        blocked = _blocked(ordered, chosen, memory)
        if not blocked:
            break
        for node in blocked:
            refusal = Placement(
                storage(node, rows, settings),
                "10",
                "something it reads is overwritten before its last reader runs",
            )
            if chosen[node].code == "29":
                raise refused_virtual(node, refusal)
            chosen[node] = refusal
    live = _live(ordered, computation)
    values: dict[Tensor, Body] = {}
    boxes = Boxes()
    # Boxes of a node come before what reads them, at the node's own place: hence lists of places.
    places: list[list[Statement]] = []
    for statement in live:
        if isinstance(statement, View):
            places.append([statement])
            continue
        expanded = replace(
            statement,
            value=expand(statement.value, values),
            index=tuple(expand_index(index, values) for index in statement.index),
        )
        placement = chosen[statement.target]
        if placement.is_stored:
            places.append([boxes.served(expanded)])
        elif placement.code == "153":
            places.append(boxes.place(expanded))
        else:
            values[statement.target] = as_value(expanded)
    statements = [statement for place in places for statement in place]
    chosen |= boxes.placements
    return Inlined(tuple(_widen_operands(statements, chosen)), chosen)


def _widen_operands(
    statements: Sequence[Statement], chosen: dict[Tensor, Placement]
) -> Iterator[Statement]:
    """Yield the statements, 16-bit operands of matrix products widened right before each.

    The BLAS wants float32 in memory. The wide copy lives for one product only, so that what is kept
    between products is kept in 16 bits.
    """
    for statement in statements:
        placement = chosen.get(statement.target)
        if isinstance(statement, View) or placement is None or placement.code != "61":
            yield statement
            continue
        product = statement.value
        assert isinstance(product, Apply)
        factors: list[Value] = []
        for factor in product.args:
            source = widened(factor)
            if source is None:
                factors.append(factor)
                continue
            node = source.node
            wide = make_leaf(WIDE, node.shape, node.dtype.computed, f"wide {node.label or node.op}")
            chosen[wide] = Placement(Mode.LOCAL, "65", "it is widened for one matrix product")
            axes = tuple(Axis(extent) for extent in node.shape)
            index = tuple(at(axis) for axis in axes)
            value = Apply("cast", (Read(node, index),), wide.dtype)
            yield Assignment(wide, index, axes, value)
            factors.append(Read(wide, source.index))
        yield replace(statement, value=Apply(product.op, tuple(factors), product.dtype))


def _sources(statement: Statement) -> list[Tensor]:
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
    for source in _sources(statement):
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
        for source in _sources(statement):
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
                for source in _sources(self.statements[self.place[current]]):
                    if source not in seen:
                        seen.add(source)
                        stack.append(source)
        return False


def _live(statements: Sequence[Statement], computation: Computation) -> list[Statement]:
    """Return the statements that something wanted depends on."""
    needed = set(computation.outputs) | set(computation.updates)
    kept: list[Statement] = []
    for statement in reversed(statements):
        if statement.target in needed:
            kept.append(statement)
            needed.update(_sources(statement))
    return kept[::-1]

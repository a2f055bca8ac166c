"""Where each node lives, and who decided so.

In: a computation and its facts. Out: one `Placement` for each node. Invariant: a decision is final
within a lineage and carries its provenance, a code and a sentence. The order of the rules is their
meaning: the first that applies decides. Legality (whether an inlining is possible at all) is
checked by ``inline`` afterwards.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import Apply, Read
from workbench.assign.from_graph import LEAVES
from workbench.graph.extent import Batch, count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.facts import Facts, gather_facts, points
from workbench.loops.matrix import arrange
from workbench.loops.settings import DEFAULT_SETTINGS, Settings

WIDE = "wide"
"""The operation of a leaf that holds a 16-bit node in float32, for one matrix product."""


class Mode(enum.Enum):
    """Where a node's value lives."""

    EFFECTIVELY_CONSTANT = "constant"
    VIRTUAL = "virtual"
    NEVER_VIRTUAL = "never virtual"
    LOCAL = "local"
    ON_DEVICE = "on device"


@dataclass(frozen=True, slots=True)
class Placement:
    """A mode with its provenance.

    Attributes
    ----------
    mode
        Where the value lives.
    code
        Number of the rule, as people cite it.
    reason
        The rule as a sentence.
    """

    mode: Mode
    code: str
    reason: str

    @property
    def is_stored(self) -> bool:
        """Whether the node has memory of its own."""
        return self.mode in (Mode.LOCAL, Mode.ON_DEVICE)

    def __str__(self) -> str:
        return f"{self.mode.value} ({self.code}: {self.reason})"


def decide_placements(
    computation: Computation,
    rows: int,
    *,
    observable: frozenset[Tensor] = frozenset(),
    decided: Mapping[Tensor, Placement] | None = None,
    settings: Settings = DEFAULT_SETTINGS,
) -> dict[Tensor, Placement]:
    """Return the placement of every node of ``computation``.

    Parameters
    ----------
    computation
        Any computation.
    rows
        The batch size to reckon with.
    observable
        Nodes that must stay readable after the run.
    decided
        Decisions of the lineage; they are final.
    settings
        Caps.
    """
    facts = gather_facts(computation, rows)
    lineage = dict(decided or {})
    chosen: dict[Tensor, Placement] = {}
    keep = observable | set(computation.outputs) | set(computation.updates)
    for statement in reversed(computation.statements):
        if isinstance(statement, View) and (
            statement.target in keep or statement.target in lineage
        ):
            keep |= {statement.source}  # whoever reads the one reads the memory of the other
    # Bottom-up, so that fan-in and inlined cost of operands are known when a node is decided.
    fanin: dict[Tensor, frozenset[Tensor]] = {}
    grown: dict[Tensor, int] = {}
    for node, fact in _in_order(computation, facts):
        if node in lineage:
            placement = lineage[node]
        else:
            fanin[node] = _fanin(node, fact, computation, chosen, fanin)
            grown[node] = _grown(fact, computation, chosen, grown)
            placement = _decide(
                node, fact, computation, rows, len(fanin[node]), grown[node], settings
            )
        if placement.mode is Mode.NEVER_VIRTUAL or (node in keep and not placement.is_stored):
            placement = _resolve_stored(node, placement, node in keep, rows, settings)
        chosen[node] = placement
        if placement.is_stored:
            fanin[node] = frozenset((node,))
            grown[node] = 0
    return chosen


def _in_order(
    computation: Computation, facts: Mapping[Tensor, Facts]
) -> list[tuple[Tensor, Facts]]:
    order = dict.fromkeys(computation.inputs)
    order.update(dict.fromkeys(statement.target for statement in computation.statements))
    return [(node, facts.get(node) or Facts()) for node in order]


def _decide(
    node: Tensor,
    fact: Facts,
    computation: Computation,
    rows: int,
    fanin: int,
    grown: int,
    settings: Settings,
) -> Placement:
    if not fact.setters:
        return Placement(Mode.ON_DEVICE, "37", "it is read here and never written here: an input")
    if node.op in LEAVES:
        return Placement(Mode.ON_DEVICE, "36", "it is state: read before it is written")
    if fact.is_constant:
        return Placement(Mode.VIRTUAL, "40", "it is a scalar of constants alone")
    statement = computation.statements[fact.setters[0]]
    if fact.viewed:
        return Placement(Mode.NEVER_VIRTUAL, "62", "it shares memory with its other shape")
    if len(fact.setters) > 1 or not (isinstance(statement, Assignment) and statement.is_identity):
        return Placement(Mode.NEVER_VIRTUAL, "4", "several statements write parts of it")
    if any(site.looked_up for site in fact.sites):
        return Placement(Mode.NEVER_VIRTUAL, "17", "its rows are chosen by another tensor")
    if is_block_product(statement, rows, settings):
        return Placement(Mode.NEVER_VIRTUAL, "61", "it is a matrix product that the BLAS computes")
    if _narrows_product(statement, computation, rows, settings):
        return Placement(
            Mode.NEVER_VIRTUAL, "64", "it keeps the result of a matrix product in 16 bits"
        )
    if fact.reduction_extent > settings.max_inline_reduction >= 0 and fact.read_by_other:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "39",
            f"it combines {fact.reduction_extent} points, more than "
            f"max_inline_reduction={settings.max_inline_reduction}",
        )
    if fact.is_complex and fact.visits > settings.max_visits:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "1",
            f"each cell is read {fact.visits} times, more than max_visits={settings.max_visits}",
        )
    if fact.is_complex and fact.places > 1 and grown > settings.max_shared_cost:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "60",
            f"{fact.places} places read it and a cell costs about {grown} multiplications, "
            f"more than max_shared_cost={settings.max_shared_cost}",
        )
    if fact.is_complex and grown > settings.max_inline_cost:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "63",
            f"inlined, a cell would cost about {grown} multiplications, more than "
            f"max_inline_cost={settings.max_inline_cost}",
        )
    if fanin > settings.max_inline_fanin >= 0 and fact.read_by_other:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "41",
            f"it would read {fanin} stored tensors, more than "
            f"max_inline_fanin={settings.max_inline_fanin}",
        )
    return Placement(Mode.VIRTUAL, "0", "nothing asks for it to be stored: readers recompute it")


def _resolve_stored(
    node: Tensor, placement: Placement, keep: bool, rows: int, settings: Settings
) -> Placement:
    if keep:
        if placement.mode is Mode.NEVER_VIRTUAL:
            return replace(placement, mode=Mode.ON_DEVICE)
        return Placement(Mode.ON_DEVICE, "38", "a person asked for its value")
    size = resolve(count(node.shape), rows) * node.dtype.itemsize
    symbolic = any(isinstance(extent, Batch) for extent in node.shape)
    mode = Mode.ON_DEVICE if size > settings.local_bytes and not symbolic else Mode.LOCAL
    return replace(placement, mode=mode)


def _fanin(
    node: Tensor,
    fact: Facts,
    computation: Computation,
    chosen: Mapping[Tensor, Placement],
    fanin: Mapping[Tensor, frozenset[Tensor]],
) -> frozenset[Tensor]:
    """Return the stored nodes that one instantiation of ``node`` would read."""
    found: frozenset[Tensor] = frozenset()
    for position in fact.setters:
        statement = computation.statements[position]
        sources = (
            [statement.source]
            if isinstance(statement, View)
            else [r.node for r in statement.reads()]
        )
        mine: set[Tensor] = set()
        for source in sources:
            if source is node:
                continue
            placement = chosen.get(source)
            stored = placement is None or placement.is_stored
            mine |= {source} if stored else fanin.get(source, frozenset())
        if len(mine) > len(found):
            found = frozenset(mine)
    return found


def _grown(
    fact: Facts,
    computation: Computation,
    chosen: Mapping[Tensor, Placement],
    grown: Mapping[Tensor, int],
) -> int:
    """Return the cost of one cell with every virtual operand inlined."""
    total = fact.cost
    for position in fact.setters:
        statement = computation.statements[position]
        if isinstance(statement, Assignment):
            total += sum(
                grown.get(read.node, 0)
                for read in statement.reads()
                if read.node in chosen and not chosen[read.node].is_stored
            )
    return total


def _narrows_product(
    statement: Assignment, computation: Computation, rows: int, settings: Settings
) -> bool:
    """Return whether ``statement`` does nothing but round the result of a BLAS product."""
    value = statement.value
    if not (isinstance(value, Apply) and value.op == "cast" and value.dtype.is_half):
        return False
    (source,) = value.args
    if not (isinstance(source, Read) and source.node.op == "einsum"):
        return False
    return any(
        setter.target is source.node
        and isinstance(setter, Assignment)
        and is_block_product(setter, rows, settings)
        for setter in computation.statements
    )


def is_block_product(
    statement: Assignment, rows: int, settings: Settings = DEFAULT_SETTINGS
) -> bool:
    """Return whether ``statement`` is a matrix product large enough for the BLAS."""
    found = arrange(statement)
    if found is None:
        return False
    sizes = (points(axes, rows) for axes in (found.rows, found.columns, found.inner))
    return math.prod(sizes) >= settings.min_product

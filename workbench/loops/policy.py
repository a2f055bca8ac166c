"""Decide where each node lives.

In: a computation, its facts, what is declared of its nodes and what a lineage decided or prefers.
Out: one `Placement` for each node. Invariant: a decision of the lineage is final; the order of the
rules is their meaning: the first that applies decides. Caps are what the default prefers, and a
preference lifts them; legality is not lifted by anything. Whether a move would pass a write is
checked by ``inline`` afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import Apply, Read, reads
from workbench.assign.from_graph import LEAVES
from workbench.errors import PlacementError
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.loops.analysis import analyse
from workbench.loops.facts import Facts
from workbench.loops.footprint import smaller_footprint
from workbench.loops.intent import intent_of
from workbench.loops.placement import Mode, Placement
from workbench.loops.preference import NO_PREFERENCES, Preferences
from workbench.loops.settings import DEFAULT_SETTINGS, Settings
from workbench.loops.storage import storage
from workbench.loops.ties import OFTEN, compared_with_an_extreme, roundings

CAPS: Final = ("39", "1", "60", "63", "41")
"""Rules of the default policy that a preference lifts, and that a smaller footprint escapes."""

PRODUCTS: Final = ("61", "64")
"""Rules for the sake of the BLAS; a preference lifts them, too."""

MOST_TERMS: Final = 4096
"""A node whose inlined value would be longer than this is stored, whatever anybody prefers."""

MOST_NESTED: Final = 1 << 14
"""So is one for one cell of which sums within sums would go over more points than this."""


@dataclass(slots=True)
class Decisions:
    """The placement of every node of a computation, and what was reckoned on the way.

    Attributes
    ----------
    facts
        What the decisions were made from.
    placements
        One for each node, operands first.
    fanin
        The stored nodes that one instantiation of a node would read.
    grown
        The cost of one cell with every virtual operand inlined, in multiplications; 0 if stored.
    terms
        How long the value is with every virtual operand inlined; 1 if stored.
    reads, length
        The same of every node as if it were virtual.
    nested
        Points that sums within sums go over for one cell if the node is virtual; 0 if none do.
    rounded
        How often a cell is rounded if the node is virtual, see `roundings`; where that matters.
    points
        The same where a single sum counts, too; 1 if there is none.
    cost
        Multiplications and additions of one cell if the node is virtual, what a sum adds up
        computed once for each point.
    """

    facts: Mapping[Tensor, Facts]
    placements: dict[Tensor, Placement] = field(default_factory=dict[Tensor, Placement])
    fanin: dict[Tensor, frozenset[Tensor]] = field(default_factory=dict[Tensor, frozenset[Tensor]])
    grown: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    terms: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    reads: dict[Tensor, frozenset[Tensor]] = field(default_factory=dict[Tensor, frozenset[Tensor]])
    cost: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    length: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    nested: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    points: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    rounded: dict[Tensor, int] = field(default_factory=dict[Tensor, int])


def decide_placements(
    computation: Computation,
    rows: int,
    *,
    observable: frozenset[Tensor] = frozenset(),
    decided: Mapping[Tensor, Placement] | None = None,
    preferences: Preferences = NO_PREFERENCES,
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
        Nodes that must stay readable after the run, beside those declared so. That stores nothing:
        it only keeps a node that is stored out of memory that others use again.
    decided
        Decisions of the lineage; they are final.
    preferences
        Nodes that the caps do not apply to.
    settings
        Caps.

    Raises
    ------
    PlacementError
        If a node was declared virtual whose readers cannot compute it.
    """
    return decide(
        computation,
        rows,
        observable=observable,
        decided=decided,
        preferences=preferences,
        settings=settings,
    ).placements


def decide(
    computation: Computation,
    rows: int,
    *,
    observable: frozenset[Tensor] = frozenset(),
    decided: Mapping[Tensor, Placement] | None = None,
    preferences: Preferences = NO_PREFERENCES,
    settings: Settings = DEFAULT_SETTINGS,
) -> Decisions:
    """Return the placements of `decide_placements` with what was reckoned on the way."""
    facts = analyse(computation, rows)
    lineage = decided or {}
    if not settings.footprint_scratch:
        preferences = replace(preferences, footprint=frozenset())
    asked = {*computation.outputs, *computation.updates}
    tied = compared_with_an_extreme(computation)
    policy = _Policy(computation, facts, rows, preferences, settings, asked, tied, Decisions(facts))
    observed = set(observable)
    for statement in reversed(computation.statements):
        if isinstance(statement, View):
            target, source = statement.target, statement.source
            intent = intent_of(target)
            # Whoever reads the one reads the memory of the other.
            if target in asked or target in lineage or _is_declared_stored(target):
                asked.add(source)
            if target in observed or intent.observable:
                observed.add(source)
    made = policy.made
    # Bottom-up, so that fan-in and inlined cost of operands are known when a node is decided.
    for node in _in_order(computation):
        fact = facts.get(node) or Facts()
        policy.reckon(node, fact)
        placement = lineage.get(node) or policy.decide(node, fact)
        if placement.mode is Mode.NEVER_VIRTUAL:
            mode = storage(node, rows, settings, observed=node in asked or node in observed)
            placement = replace(placement, mode=mode)
        elif node in asked and not placement.is_stored:
            placement = Placement(Mode.ON_DEVICE, "38", "a person asked for its value")
        made.placements[node] = placement
        if placement.is_stored or placement.code == "153":
            made.fanin[node] = frozenset((node,))
            made.grown[node] = 0
        if placement.is_stored:
            made.terms[node] = 1
    if settings.footprint_scratch:
        policy.shrink({*asked, *observed, *lineage})
    return made


def _is_declared_stored(node: Tensor) -> bool:
    declared = intent_of(node).placement
    return declared is not None and declared.mode is Mode.ON_DEVICE


def _in_order(computation: Computation) -> dict[Tensor, None]:
    order = dict.fromkeys(computation.inputs)
    order.update(dict.fromkeys(statement.target for statement in computation.statements))
    return order


@dataclass(slots=True)
class _Policy:
    """The rules, with what they look at."""

    computation: Computation
    facts: Mapping[Tensor, Facts]
    rows: int
    preferences: Preferences
    settings: Settings
    asked: set[Tensor]
    tied: frozenset[Tensor]
    made: Decisions

    def decide(self, node: Tensor, fact: Facts) -> Placement:
        if not fact.setters:
            return Placement(
                Mode.ON_DEVICE, "37", "it is read here and never written here: an input"
            )
        if node.op in LEAVES:
            return Placement(Mode.ON_DEVICE, "36", "it is state: read before it is written")
        declared = intent_of(node).placement
        stored = declared is not None and declared.mode in (Mode.ON_DEVICE, Mode.NEVER_VIRTUAL)
        if fact.is_constant and not stored:
            return Placement(Mode.VIRTUAL, "40", "it is a scalar of constants alone")
        if declared is not None and stored:
            return declared
        refusal = self.refusal(node, fact)
        if declared is not None and declared.mode is Mode.VIRTUAL:
            if refusal is not None and node not in self.asked:
                raise refused_virtual(node, refusal)
            return declared
        if refusal is not None:
            return refusal
        if node in self.preferences.footprint:
            return Placement(
                Mode.VIRTUAL, "153", "this context asked for boxes of the cells that readers need"
            )
        cap = None if node.op == "is_label" else self.cap(node, fact)
        if cap is None:
            return Placement(
                Mode.VIRTUAL, "0", "nothing asks for it to be stored: readers recompute it"
            )
        if node in self.preferences.inline:
            return Placement(
                Mode.VIRTUAL, "67", f"this context asked for it to be inlined, though {cap.reason}"
            )
        return cap

    def refusal(self, node: Tensor, fact: Facts) -> Placement | None:
        """Return why readers cannot compute ``node``, None if they can."""
        if fact.viewed:
            return Placement(Mode.NEVER_VIRTUAL, "62", "it shares memory with its other shape")
        if not fact.is_whole:
            return Placement(Mode.NEVER_VIRTUAL, "4", "several statements write parts of it")
        if any(site.looked_up for site in fact.sites):
            return Placement(Mode.NEVER_VIRTUAL, "17", "its rows are chosen by another tensor")
        if node in self.tied and self.made.rounded[node] >= OFTEN:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "69",
                "its elements are compared with the greatest or smallest of them, which another "
                "computation of it may miss by a rounding",
            )
        return too_large(self.made.length[node], self.made.nested[node])

    def cap(self, node: Tensor, fact: Facts) -> Placement | None:
        """Return why the default policy would store ``node``, None if it would not."""
        caps, grown = self.settings, self.made.grown[node]
        fanin = len(self.made.fanin[node])
        if fact.block >= caps.min_product:
            return Placement(
                Mode.NEVER_VIRTUAL, "61", "it is a matrix product that the BLAS computes"
            )
        if self._narrows_product(fact):
            return Placement(
                Mode.NEVER_VIRTUAL, "64", "it keeps the result of a matrix product in 16 bits"
            )
        if fact.reduction_extent > caps.max_inline_reduction >= 0 and fact.read_by_other:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "39",
                f"it combines {fact.reduction_extent} points, more than "
                f"max_inline_reduction={caps.max_inline_reduction}",
            )
        if fact.is_complex and fact.visits > caps.max_visits:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "1",
                f"each cell is read {fact.visits} times, more than max_visits={caps.max_visits}",
            )
        if fact.is_complex and fact.places > 1 and grown > caps.max_shared_cost:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "60",
                f"{fact.places} places read it and a cell costs about {grown} multiplications, "
                f"more than max_shared_cost={caps.max_shared_cost}",
            )
        if fact.is_complex and grown > caps.max_inline_cost:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "63",
                f"inlined, a cell would cost about {grown} multiplications, more than "
                f"max_inline_cost={caps.max_inline_cost}",
            )
        if fanin > caps.max_inline_fanin >= 0 and fact.read_by_other:
            return Placement(
                Mode.NEVER_VIRTUAL,
                "41",
                f"it would read {fanin} stored tensors, more than "
                f"max_inline_fanin={caps.max_inline_fanin}",
            )
        return None

    def _narrows_product(self, fact: Facts) -> bool:
        """Return whether a node does nothing but round the result of a BLAS product."""
        statement = self.computation.statements[fact.setters[0]]
        value = statement.value if isinstance(statement, Assignment) else None
        if not (isinstance(value, Apply) and value.op == "cast" and value.dtype.is_half):
            return False
        (source,) = value.args
        return isinstance(source, Read) and self.facts[source.node].block >= max(
            1, self.settings.min_product
        )

    def reckon(self, node: Tensor, fact: Facts) -> None:
        """Reckon what one instantiation of ``node`` would read, cost and be written with."""
        made = self.made
        found: frozenset[Tensor] = frozenset()
        grown, terms, below, points, nested = fact.cost, fact.terms, 0, 1, 0
        for position in fact.setters:
            statement = self.computation.statements[position]
            if isinstance(statement, View):
                found |= {statement.source}
                continue
            mine = self._charged(statement, node)
            for read in statement.reads():
                source, placement = read.node, made.placements.get(read.node)
                if source is not node and placement is not None and not placement.is_stored:
                    grown += made.grown.get(source, 0)
                    terms += made.terms.get(source, 0)
                    below += 0 if placement.code == "153" else made.cost[source]
                    # A box may be refused, and then its readers compute what it would hold.
                    points = max(points, made.points[source])
                    nested = max(nested, made.nested[source])
            if len(mine) > len(found):
                found = mine
        made.fanin[node] = made.reads[node] = found
        made.grown[node] = grown
        extent = fact.reduction_extent
        made.points[node] = extent * points
        made.nested[node] = extent * points if min(extent, points) > 1 else nested
        made.cost[node] = fact.cost + (extent if extent > 1 else 0) + extent * below
        made.terms[node] = made.length[node] = terms
        if self.tied:
            setters = [self.computation.statements[position] for position in fact.setters]
            counts = [roundings(s, self._rounded) for s in setters if isinstance(s, Assignment)]
            made.rounded[node] = max(counts, default=0)

    def _rounded(self, node: Tensor) -> int:
        placement = self.made.placements.get(node)
        return 0 if placement is None or placement.is_stored else self.made.rounded[node]

    def _charged(self, statement: Assignment, node: Tensor) -> frozenset[Tensor]:
        """Return the stored nodes that one instantiation reads; a choice reads one of its arms."""
        value = statement.value
        if isinstance(value, Apply) and value.op == "where" and len(value.args) == 3:
            asked, *arms = (self._stored(reads(arg), node) for arg in value.args)
            return asked | max(arms, key=len)
        return self._stored(statement.reads(), node)

    def _stored(self, found: Iterable[Read], node: Tensor) -> frozenset[Tensor]:
        charged: frozenset[Tensor] = frozenset()
        for source in {read.node for read in found} - {node}:
            placement = self.made.placements.get(source)
            stored = placement is None or placement.is_stored
            charged |= {source} if stored else self.made.fanin[source]
        return charged

    def shrink(self, wanted: set[Tensor]) -> None:
        """Keep nodes virtual that the caps store, where boxes for readers hold fewer cells.

        Readers come first: one that stays virtual cannot be served from a box.
        """
        placements = self.made.placements
        for node in reversed(list(placements)):
            placement = placements[node]
            if placement.code not in CAPS or node in wanted or intent_of(node).observable:
                continue
            found = smaller_footprint(node, self.computation, self.facts, placements, self.rows)
            if found is not None:
                needed, whole = found
                placements[node] = Placement(
                    Mode.VIRTUAL,
                    "153",
                    f"its readers need {needed} of its {whole} cells, so each gets a box of them; "
                    f"else {placement.reason}",
                )


def too_large(terms: int, points: int) -> Placement | None:
    """Return the refusal of a node whose inlined value would be too long, or nest too many sums."""
    if terms > MOST_TERMS:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "68",
            f"inlined, it would be written with {terms} terms, more than {MOST_TERMS}",
        )
    if points > MOST_NESTED:
        return Placement(
            Mode.NEVER_VIRTUAL,
            "68",
            f"inlined, sums within sums would go over {points} points, more than {MOST_NESTED}",
        )
    return None


def refused_virtual(node: Tensor, refusal: Placement) -> PlacementError:
    """Return the error for a node that was declared virtual and cannot be."""
    return PlacementError(
        f"{describe(node)} was declared virtual, but its readers cannot compute it "
        f"({refusal.code}: {refusal.reason})",
        remedy="leave where it lives to the compiler: build it without `set_virtual`",
    )

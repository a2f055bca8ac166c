"""The decisions that could be made about a computation, and what each would cost.

In: a computation and a lineage. Out: a `Candidate` for each node that could be read otherwise.
Invariant: nothing is decided here; what a flip would be refused for is found as a compile would
find it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.assign.assignment import Computation
from workbench.graph.extent import count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.facts import Facts
from workbench.loops.footprint import smaller_footprint
from workbench.loops.legality import legal
from workbench.loops.placement import Mode, Placement
from workbench.loops.policy import CAPS, PRODUCTS, Decisions, decide, too_large
from workbench.loops.preference import NO_PREFERENCES, Choice, Preferences
from workbench.loops.settings import DEFAULT_SETTINGS, Settings

ILLEGAL = ("4", "10", "17", "62", "68", "69")
"""Rules that nothing lifts: a node stored by one of them cannot be inlined."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another reading of a node.

    Attributes
    ----------
    choice
        Which.
    recompute_cost
        Operations that readers do, in all, to compute the node anew: those of one cell with
        everything virtual inlined, times the cells, times how often each is computed. For
        ``"materialize"`` it is what storing saves.
    proxy
        A rough measure that needs no model of operations: points combined into a cell, times reads
        of a cell, times stored nodes read.
    is_modeled
        Whether ``recompute_cost`` is reckoned from the node's operations; else it is the proxy.
    refused
        Why a compile would not follow the choice, None if it would.
    """

    choice: Choice
    recompute_cost: int
    proxy: int
    is_modeled: bool
    refused: Placement | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A node that could be read otherwise.

    Attributes
    ----------
    node
        The node.
    default
        How it is read if nobody decides.
    placement
        Where it lives then, and which rule says so.
    alternatives
        What could be decided instead.
    """

    node: Tensor
    default: Choice
    placement: Placement
    alternatives: tuple[Alternative, ...]

    @property
    def cost(self) -> int:
        """The greatest cost among the alternatives."""
        return max((each.recompute_cost for each in self.alternatives), default=0)


def candidates(
    computation: Computation,
    rows: int,
    *,
    decided: Mapping[Tensor, Placement] | None = None,
    preferences: Preferences = NO_PREFERENCES,
    settings: Settings = DEFAULT_SETTINGS,
) -> tuple[Candidate, ...]:
    """Return what could be decided about ``computation``, the dearest first.

    A candidate is computed here, is read by another statement, is no scalar of constants, and its
    place is up to the policy: nobody asked for it, declared it or decided about it. Parameters are
    those of `workbench.loops.policy.decide_placements`.
    """
    made = decide(computation, rows, decided=decided, preferences=preferences, settings=settings)
    _, placements = legal(computation, made.placements, rows, settings)
    updates = set(computation.updates)
    finder = _Finder(computation, made.facts, rows, made, placements, settings, updates)
    asked = {*computation.outputs, *updates, *(decided or ())}
    found = [
        candidate
        for node, placement in placements.items()
        if node not in asked and (candidate := finder.candidate(node, placement)) is not None
    ]
    return tuple(sorted(found, key=lambda each: (-each.cost, each.node.uid)))


@dataclass(frozen=True, slots=True)
class _Finder:
    """What is known while candidates are looked for."""

    computation: Computation
    facts: Mapping[Tensor, Facts]
    rows: int
    made: Decisions
    placements: Mapping[Tensor, Placement]
    settings: Settings
    updates: set[Tensor]

    def candidate(self, node: Tensor, placement: Placement) -> Candidate | None:
        fact = self.facts.get(node)
        if fact is None or not fact.setters or not fact.read_by_other:
            return None
        if fact.is_constant or node.op == "is_label":
            return None
        if placement.mode is Mode.VIRTUAL and placement.code in ("0", "67", "153"):
            default: Choice = "footprint" if placement.code == "153" else "inline"
            return Candidate(node, default, placement, (self._priced("materialize", node, fact),))
        if placement.code in (*CAPS, *PRODUCTS, *ILLEGAL):
            return Candidate(node, "materialize", placement, self._virtual(node, fact, placement))
        return None

    def _virtual(self, node: Tensor, fact: Facts, placement: Placement) -> tuple[Alternative, ...]:
        """Return how a stored node could be virtual."""
        refused = placement if placement.code in ILLEGAL else self._verdict(node, fact)
        inline = self._priced("inline", node, fact, refused)
        if placement.code in ILLEGAL or not self.settings.footprint_scratch:
            return (inline,)
        smaller = smaller_footprint(node, self.computation, self.facts, self.placements, self.rows)
        if smaller is None:
            return (inline,)
        cost = smaller[0] * self.made.cost[node]
        return inline, Alternative("footprint", cost, inline.proxy, True, refused)

    def _priced(
        self, choice: Choice, node: Tensor, fact: Facts, refused: Placement | None = None
    ) -> Alternative:
        fanin = len(self.made.reads[node])
        proxy = fact.reduction_extent * max(1, fact.visits) * max(1, fanin)
        if len(fact.setters) > 1 or fact.viewed:
            return Alternative(choice, proxy, proxy, False, refused)
        times = resolve(count(node.shape), self.rows) * max(1, fact.visits, fact.places)
        return Alternative(choice, self.made.cost[node] * times, proxy, True, refused)

    def _verdict(self, node: Tensor, fact: Facts) -> Placement | None:
        """Return why ``node`` could not be inlined, as a compile would find it."""
        refusal = too_large(self.made.length[node], self.made.nested[node])
        if refusal is not None:
            return refusal
        # Only a store into state comes after other writes, so only its source can pass one.
        statements, updates = self.computation.statements, self.updates
        if not any(statements[site.statement].target in updates for site in fact.sites):
            return None
        flipped = {**self.placements, node: Placement(Mode.VIRTUAL, "67", "flipped")}
        _, found = legal(self.computation, flipped, self.rows, self.settings)
        return found[node] if found[node].is_stored else None

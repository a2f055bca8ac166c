"""The compile frontier: who reads and writes what in a lineage, and so who has to run before whom.

In: a frontier and what a routine touches. Out: the frontier after it, and the routine's link to its
lineage. Invariant: frontiers are values; routines compiled in siblings do not depend on each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from workbench.assign.assignment import Computation, View
from workbench.assign.from_graph import LEAVES
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program
from workbench.runtime.ledger import Ledger

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """What a routine's computation says of gradients; parts as in `Computation`.

    Attributes
    ----------
    is_whole
        Whether it is a whole way back from a loss: it owns it, says into which gradients it flows,
        and needs nobody else's. Compiled again, it takes the place of the one before.
    """

    id: int
    name: str
    owned: frozenset[Tensor]
    accumulates: frozenset[Tensor]
    zeroes: frozenset[Tensor]
    is_whole: bool = False

    def __str__(self) -> str:
        return f"`{self.name}` (id={self.id})"


def is_whole(computation: Computation) -> bool:
    """Return whether a computation is a whole way back from a loss into declared gradients."""
    return bool(computation.owned and computation.accumulates) and not computation.requires


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """What the routines of one lineage leave to the next one compiled.

    Attributes
    ----------
    writers
        The latest routine that writes each node, by number.
    readers
        Routines that read each node after that one, by number.
    claims
        Of the routines that say anything of gradients, in the order of their compilation; without
        whole ones all of whose gradients a later routine resets.
    gradients
        Nodes that some routine accumulates into or zeroes as gradient.
    views
        Nodes that share the memory of another: the other.
    given
        Computed nodes that some routine reads as given, so that a write of them is seen.
    """

    writers: Mapping[Tensor, int] = field(default_factory=dict[Tensor, int])
    readers: Mapping[Tensor, frozenset[int]] = field(default_factory=dict[Tensor, frozenset[int]])
    claims: tuple[Claim, ...] = ()
    gradients: frozenset[Tensor] = frozenset()
    views: Mapping[Tensor, Tensor] = field(default_factory=dict[Tensor, Tensor])
    given: frozenset[Tensor] = frozenset()

    def superseded(self, nodes: Iterable[Tensor]) -> Frontier:
        """Return the frontier after a write from outside: what was compiled before is overtaken."""
        gone = {n for n in nodes if n in self.writers or n in self.readers}
        if not gone:
            return self
        return replace(
            self,
            writers={n: w for n, w in self.writers.items() if n not in gone},
            readers={n: r for n, r in self.readers.items() if n not in gone},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """How a routine stands in its lineage.

    Attributes
    ----------
    id
        Its number, never used again in this process.
    ledger
        That of its root.
    frontier
        As it is after this routine.
    dependencies
        Numbers of the routines that have to run before it.
    reads, writes
        Nodes on the device; views are counted as what they view.
    required
        Of the nodes read, those that need a value before a run: all but static indices.
    indices
        Static indices that it reads.
    bindings
        What they are bound to, looked up at each run.
    accumulating
        Gradients that it adds to and does not zero.
    counted_as
        Under which key its additions are counted: routines that are one way back compiled several
        times have one count.
    """

    id: int
    ledger: Ledger
    frontier: Frontier
    dependencies: frozenset[int]
    reads: frozenset[Tensor]
    writes: frozenset[Tensor]
    required: frozenset[Tensor]
    indices: tuple[Tensor, ...]
    bindings: Mapping[Tensor, int]
    accumulating: tuple[Tensor, ...]
    counted_as: int | frozenset[int]


def _is_replaced(claim: Claim, computation: Computation, *, whole: bool) -> bool:
    """Return whether what a routine claims is over with ``computation``.

    It is if the computation resets all that the routine adds to, or is its way back once more. Each
    time the gradient is that of the routine that runs, not of both.
    """
    if not claim.is_whole:
        return False
    again = whole and claim.accumulates <= computation.accumulates
    return claim.accumulates <= computation.zeroes or (again and claim.owned <= computation.owned)


def inputs_read(computation: Computation) -> frozenset[Tensor]:
    """Return the inputs whose value before a run matters: those read, and those shown unchanged."""
    inputs = frozenset(computation.inputs)
    found = inputs & frozenset(computation.outputs) - frozenset(computation.updates)
    for statement in computation.statements:
        if isinstance(statement, View):
            found |= inputs & {statement.source}
            continue
        found |= inputs & {read.node for read in statement.reads()}
        if statement.combine and not statement.fresh:
            found |= inputs & {statement.target}
    return found


def link(
    ledger: Ledger,
    before: Frontier,
    name: str,
    computation: Computation,
    program: Program,
    bindings: Mapping[Tensor, int],
    *,
    touched: tuple[frozenset[Tensor], frozenset[Tensor]] | None = None,
) -> Link:
    """Return how a routine stands that is compiled where the frontier is ``before``.

    It has to run after the latest writer of what it reads (else it reads too old a value), after
    the latest writer of what it writes (else that one's value would come last), and after the
    readers of that value (else they read too new a one). What is ``touched``, read before it is
    written and written, is that of the computation unless it is given.
    """
    number = next(_ids)
    device = frozenset(program.device)
    roots = program.views
    if touched is None:
        targets = frozenset(statement.target for statement in computation.statements)
        touched = inputs_read(computation), targets
    reads, writes = (frozenset(roots.get(n, n) for n in nodes) & device for nodes in touched)
    written_before = {before.writers[n] for n in reads | writes if n in before.writers}
    read_before = [before.readers[n] for n in writes if n in before.readers]
    indices = tuple(n for n in computation.inputs if n in reads and declared_extent(n) is not None)
    readers = {n: r for n, r in before.readers.items() if n not in writes}
    for node in reads - writes:
        readers[node] = readers.get(node, frozenset()) | {number}
    claims = before.claims
    gradients = computation.accumulates | computation.zeroes
    if gradients or computation.owned or computation.requires:
        parts = computation.owned, computation.accumulates, computation.zeroes
        whole = is_whole(computation)
        kept = (each for each in claims if not _is_replaced(each, computation, whole=whole))
        claims = (*kept, Claim(number, name, *parts, whole))
    frontier = Frontier(
        {**before.writers, **dict.fromkeys(writes, number)},
        readers,
        claims,
        before.gradients | gradients,
        {**before.views, **roots},
        before.given.union(n for n in computation.inputs if n.op not in LEAVES),
    )
    return Link(
        number,
        ledger,
        frontier,
        frozenset(written_before).union(*read_before),
        reads,
        writes,
        reads.difference(indices),
        indices,
        bindings,
        # In one order, since what is refused names the first.
        tuple(sorted(computation.accumulates - computation.zeroes, key=lambda each: each.uid)),
        frozenset(n.uid for n in computation.owned) if is_whole(computation) else number,
    )

"""Facts about the nodes of a computation, gathered in one walk; decisions come later and are cheap.

In: a computation. Out: one `Facts` for each node. Invariant: nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Reduce,
    Value,
    reads_within,
    walk,
)
from workbench.assign.from_graph import LEAVES
from workbench.assign.index import Affine, Axis, Lookup
from workbench.graph.extent import count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.matrix import multiplications
from workbench.loops.space import points

COSTS = {
    "exp": 8, "log": 8, "log1p": 10, "expm1": 10, "sin": 10, "cos": 10, "tanh": 12,
    "sigmoid": 10, "erf": 14, "gelu": 16, "silu": 12, "softplus": 14, "pow": 20, "div": 4,
    "sqrt": 4, "rsqrt": 6, "reciprocal": 4,
    "uniform": 60, "normal": 90,
}  # fmt: skip
"""Rough cost of an operation, in multiplications."""


@dataclass(frozen=True, slots=True)
class Site:
    """One read of a node.

    Attributes
    ----------
    statement
        Position of the reading statement.
    fiber
        How often this read touches one cell.
    at_write
        Whether it reads the very cell that its statement writes.
    looked_up
        Whether an index of it comes from another tensor.
    """

    statement: int
    fiber: int
    at_write: bool
    looked_up: bool


@dataclass(slots=True)
class Facts:
    """What is known of one node.

    Attributes
    ----------
    setters
        Positions of the statements that write it.
    sites
        Every read of it.
    reduction_extent
        Greatest number of points that a setter combines into one cell.
    is_constant
        A scalar set once from constants alone.
    is_complex
        Its value is an operation over something other than constants (a bare copy is not).
    viewed
        It is one side of a view.
    cost
        Rough cost of computing one cell, in multiplications.
    visits
        How often one cell is read, reads at the cell being written left out; a read by a bare copy
        counts as the reads of the copy.
    places
        How many computing statements read it, directly or through bare copies.
    terms
        How many values its setters are written with, one for each use.
    block
        Multiplications of each matrix, if it is a product that the BLAS could do; else 0.
    is_whole
        One statement writes it, every cell once.
    walked_whole
        A statement that computes something reads every cell of it.
    """

    setters: list[int] = field(default_factory=list[int])
    sites: list[Site] = field(default_factory=list[Site])
    reduction_extent: int = 1
    is_constant: bool = False
    is_complex: bool = False
    viewed: bool = False
    cost: int = 0
    visits: int = 0
    places: int = 0
    terms: int = 0
    block: int = 0
    is_whole: bool = False
    walked_whole: bool = False

    @property
    def read_by_other(self) -> bool:
        """Whether a statement other than its setters reads it."""
        return any(site.statement not in self.setters for site in self.sites)


def gather_facts(computation: Computation, rows: int) -> dict[Tensor, Facts]:
    """Return the facts of every node that is read or written.

    Parameters
    ----------
    computation
        Any computation.
    rows
        The batch size to reckon with.
    """
    facts: dict[Tensor, Facts] = {}

    def of(node: Tensor) -> Facts:
        return facts.setdefault(node, Facts())

    constants: set[Tensor] = set()
    for position, statement in enumerate(computation.statements):
        mine = of(statement.target)
        mine.setters.append(position)
        mine.is_whole = (
            len(mine.setters) == 1 and isinstance(statement, Assignment) and statement.is_identity
        )
        if isinstance(statement, View):
            mine.viewed = of(statement.source).viewed = True
            of(statement.source).sites.append(Site(position, 1, at_write=False, looked_up=False))
            continue
        over = points(statement.combined_axes, rows)
        mine.reduction_extent = max(mine.reduction_extent, over)
        mine.is_complex = mine.is_complex or over > 1 or _is_complex(statement.value, constants)
        mine.cost = max(mine.cost, value_cost(statement.value, rows) * over)
        mine.terms += sum(1 for _ in walk(statement.value))
        mine.block = max(mine.block, multiplications(statement, rows))
        if (
            not statement.target.shape
            and not statement.combine
            and _is_constant(statement.value, constants)
        ):
            constants.add(statement.target)
            mine.is_constant = True
        for read, around in reads_within(statement.value):
            _add_site(of(read.node), read, statement, around, position, rows)
        for index in statement.index:
            if isinstance(index, Lookup):
                for read, around in reads_within(index.value):
                    _add_site(of(read.node), read, statement, around, position, rows)
    for node in constants:
        facts[node].is_constant = len(facts[node].setters) == 1
    for node in reversed(list(facts)):
        _count_visits(facts[node], computation, facts)
    return facts


def _count_visits(fact: Facts, computation: Computation, facts: dict[Tensor, Facts]) -> None:
    """Add up the reads of a node; its readers come later and are counted already."""
    for site in fact.sites:
        target = computation.statements[site.statement].target
        reader = facts[target]
        is_copy = not (reader.is_complex or reader.viewed or target.op in LEAVES)
        is_copy = is_copy and len(reader.setters) == 1
        if not is_copy or reader is fact:
            fact.visits += 0 if site.at_write else site.fiber
            fact.places += 1
        elif site.at_write:
            fact.visits += reader.visits
            fact.places += reader.places
        else:
            # At another cell than the copy writes: its readers do not read this node at their own
            # cell.
            fact.visits += site.fiber * max(reader.visits, reader.places)
            fact.places += reader.places


def _add_site(
    facts: Facts,
    read: Read,
    statement: Assignment,
    around: tuple[Axis, ...],
    position: int,
    rows: int,
) -> None:
    used = {axis for index in read.index if isinstance(index, Affine) for axis in index.axes()}
    free = [axis for axis in (*statement.axes, *around) if axis not in used]
    looked_up = any(isinstance(index, Lookup) for index in read.index)
    at_write = not looked_up and _same_index(read, statement)
    facts.sites.append(Site(position, points(free, rows), at_write, looked_up))
    if not isinstance(statement.value, Read) or statement.combine:
        facts.walked_whole |= points(used, rows) >= resolve(count(read.node.shape), rows)


def _same_index(read: Read, statement: Assignment) -> bool:
    return len(read.index) == len(statement.index) and all(
        isinstance(a, Affine) and isinstance(b, Affine) and a == b
        for a, b in zip(read.index, statement.index, strict=True)
    )


def _is_constant(value: Value, constants: set[Tensor]) -> bool:
    match value:
        case Number() | ExtentNumber():
            return True
        case Read():
            return value.node in constants
        case Apply():
            return all(_is_constant(arg, constants) for arg in value.args)
        case Position() | Reduce():
            return False


def _is_complex(value: Value, constants: set[Tensor]) -> bool:
    if isinstance(value, Read):
        # Rows chosen at run time: a gather is work, not a copy that readers could repeat for
        # nothing.
        return any(isinstance(index, Lookup) for index in value.index)
    if widened(value) is not None:
        return False  # a load of 16 bits gives float32: readers repeat it for nothing
    return isinstance(value, (Apply, Reduce)) and any(
        isinstance(v, Read) and v.node not in constants for v in walk(value)
    )


def widened(value: Value) -> Read | None:
    """Return what ``value`` reads, if all it does is to widen an element of a 16-bit node."""
    if not (isinstance(value, Apply) and value.op == "cast" and not value.dtype.is_half):
        return None
    (source,) = value.args
    if not (isinstance(source, Read) and source.node.dtype.is_half):
        return None
    looked_up = any(isinstance(index, Lookup) for index in source.index)
    return source if value.dtype is source.node.dtype.computed and not looked_up else None


def value_cost(value: Value, rows: int) -> int:
    """Return the rough cost of a value, in multiplications."""
    match value:
        case Apply():
            return COSTS.get(value.op, 1) + sum(value_cost(arg, rows) for arg in value.args)
        case Reduce():
            return points(value.axes, rows) * (1 + value_cost(value.body, rows))
        case Read():
            return sum(value_cost(i.value, rows) + 1 for i in value.index if isinstance(i, Lookup))
        case Number() | Position() | ExtentNumber():
            return 0

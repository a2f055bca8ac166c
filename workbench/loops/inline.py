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
from workbench.loops.legality import legal, sources
from workbench.loops.placement import WIDE, Mode, Placement
from workbench.loops.settings import DEFAULT_SETTINGS, Settings
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
    rows, settings
        As they were given there.

    Raises
    ------
    PlacementError
        If a node that was declared virtual would pass a write to something it reads.
    """
    ordered, chosen = legal(computation, placements, rows, settings)
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


def _live(statements: Sequence[Statement], computation: Computation) -> list[Statement]:
    """Return the statements that something wanted depends on."""
    needed = set(computation.outputs) | set(computation.updates)
    kept: list[Statement] = []
    for statement in reversed(statements):
        if statement.target in needed:
            kept.append(statement)
            needed.update(sources(statement))
    return kept[::-1]

"""Which cells of a node its readers need: a diagonal, a slice, a cell that is the same for all.

In: reads with affine indices. Out: boxes, each shaped like the axes that one read walks. Invariant:
two reads that touch the same cells in the same order have equal boxes, so that they share memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import Apply, Read, Value, operands, substitute
from workbench.assign.index import Affine, Axis, Index, at
from workbench.graph.extent import Batch, Shape, count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.facts import Facts
from workbench.loops.placement import Placement
from workbench.loops.space import points


@dataclass(frozen=True, slots=True)
class Box:
    """The cells that one read touches while its axes run.

    Attributes
    ----------
    pattern
        For each axis of the node, pairs of a position in ``axes`` and a coefficient, and an offset.
    extents
        Extents of ``axes``.
    axes
        The axes of the reader that the read depends on.
    """

    pattern: tuple[tuple[tuple[tuple[int, int], ...], int], ...]
    extents: Shape
    axes: tuple[Axis, ...] = field(compare=False)

    def index(self, axes: Sequence[Axis]) -> tuple[Affine, ...]:
        """Return the index of the node at a point of the box whose axes are called ``axes``."""
        return tuple(
            Affine(tuple((axes[place], factor) for place, factor in terms), offset)
            for terms, offset in self.pattern
        )


def box_of(index: Sequence[Index]) -> Box | None:
    """Return the box of a read, None if it is none: rows are looked up, or the batch comes twice.

    Axes of extent 1 have one cell and are left out.
    """
    axes: list[Axis] = []
    pattern: list[tuple[tuple[tuple[int, int], ...], int]] = []
    for each in index:
        if not isinstance(each, Affine):
            return None
        terms: list[tuple[int, int]] = []
        for axis, factor in each.terms:
            if axis.extent == 1:
                continue
            if axis not in axes:
                axes.append(axis)
            terms.append((axes.index(axis), factor))
        pattern.append((tuple(terms), each.offset))
    extents = tuple(axis.extent for axis in axes)
    if sum(isinstance(extent, Batch) for extent in extents) > 1:
        return None
    return Box(tuple(pattern), extents, tuple(axes))


def gated_reads(value: Value) -> Iterator[tuple[Read, bool]]:
    """Yield every read with whether a ``where`` may leave its value unused."""
    stack = [(value, False)]
    while stack:
        current, gated = stack.pop()
        if isinstance(current, Read):
            yield current, gated
        below = operands(current)
        chooses = isinstance(current, Apply) and current.op == "where"
        stack.extend(
            (operand, gated or (chooses and place > 0))
            for place, operand in reversed(list(enumerate(below)))
        )


def boxes_read(
    node: Tensor,
    computation: Computation,
    facts: Mapping[Tensor, Facts],
    placements: Mapping[Tensor, Placement],
) -> set[Box] | None:
    """Return the boxes of ``node`` that stored nodes read, directly or through bare copies.

    None if a reader cannot be served from a box: it is virtual itself, several statements write it,
    or it may leave unused what it reads.
    """
    found: set[Box] = set()
    # Each entry: a node that holds cells of `node`, and which, as an index over its own axes.
    stack: list[tuple[Tensor, tuple[Axis, ...], tuple[Index, ...] | None]] = [(node, (), None)]
    while stack:
        source, own, inner = stack.pop()
        for position in dict.fromkeys(site.statement for site in facts[source].sites):
            statement = computation.statements[position]
            if isinstance(statement, View) or not facts[statement.target].is_whole:
                return None
            for read, gated in gated_reads(statement.value):
                if read.node is not source:
                    continue
                index = _through(read.index, own, inner)
                box = None if index is None or gated else box_of(index)
                if index is None or box is None:
                    return None
                if placements[statement.target].is_stored:
                    found.add(box)
                elif isinstance(statement.value, Read) and not statement.combine:
                    stack.append((statement.target, _own_axes(statement), index))
                else:
                    return None
    return found


def _through(
    index: tuple[Index, ...], own: tuple[Axis, ...], inner: tuple[Index, ...] | None
) -> tuple[Index, ...] | None:
    """Return ``inner``, an index over the axes ``own``, where these stand at ``index``."""
    if inner is None:
        return index
    mapping: dict[Axis, Affine] = {}
    for axis, each in zip(own, index, strict=True):
        if not isinstance(each, Affine):
            return None
        mapping[axis] = each
    return tuple(each.substitute(mapping) for each in inner if isinstance(each, Affine))


def cells(boxes: set[Box], rows: int) -> int:
    """Return how many cells ``boxes`` hold together."""
    return sum(points(box.axes, rows) for box in boxes)


def smaller_footprint(
    node: Tensor,
    computation: Computation,
    facts: Mapping[Tensor, Facts],
    placements: Mapping[Tensor, Placement],
    rows: int,
) -> tuple[int, int] | None:
    """Return how many cells readers need and how many there are, None if it is not fewer."""
    if facts[node].walked_whole:
        return None
    boxes = boxes_read(node, computation, facts, placements)
    whole = resolve(count(node.shape), rows)
    if not boxes or (needed := cells(boxes, rows)) >= whole:
        return None
    return needed, whole


def fill(box: Box, leaf: Tensor, template: Assignment) -> Assignment:
    """Return the assignment that computes in ``leaf`` the cells of a box of ``template``'s target.

    Parameters
    ----------
    box
        Which cells.
    leaf
        Of the box's shape.
    template
        The one assignment that computes the node.
    """
    axes = tuple(Axis(extent) for extent in box.extents)
    moved = dict(zip(_own_axes(template), box.index(axes), strict=True))
    over = {axis: Axis(axis.extent) for axis in template.combined_axes}
    mapping = {**moved, **{old: at(new) for old, new in over.items()}}
    value = substitute(template.value, mapping)
    index = tuple(at(axis) for axis in axes)
    return Assignment(leaf, index, (*axes, *over.values()), value, template.combine)


def _own_axes(template: Assignment) -> tuple[Axis, ...]:
    axes = [each.axis for each in template.index if isinstance(each, Affine)]
    return tuple(axis for axis in axes if axis is not None)

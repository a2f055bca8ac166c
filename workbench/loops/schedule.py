"""Group statements into kernels: those that share their outer axes run as one loop nest.

In: statements over stored nodes. Out: loop trees, one for each kernel, in order. Invariant: a statement moves only past
statements that touch nothing it touches, and two statements share a loop only where every
cell that both touch is touched in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.assign.assignment import Assignment, Statement, View
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.extent import Extent
from workbench.graph.tensor import Tensor
from workbench.loops.facts import points
from workbench.loops.flat import flatten
from workbench.loops.placement import DEFAULT_SETTINGS, Settings, is_block_product

SMALL = 16
"""Combining loops up to this extent are unrolled by the compiler, so the loop around them is the vector loop."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One statement with the order of its loops.

    Attributes
    ----------
    statement
        The assignment.
    outer
        Output axes, outermost first; those of extent 1 need no loop and are left out.
    combined
        Axes combined over, likewise.
    by_rows
        Whether a combining statement runs its last output axis innermost, adding whole rows.
    is_product
        Whether the BLAS computes it.
    """

    statement: Assignment
    outer: tuple[Axis, ...]
    combined: tuple[Axis, ...]
    by_rows: bool
    is_product: bool

    @property
    def shareable(self) -> int:
        """How many of the outer axes may be loops shared with other statements."""
        if self.is_product:
            return 0
        return len(self.outer) - (1 if self.by_rows else 0)


@dataclass(slots=True, eq=False)
class Loop:
    """A loop shared by everything in ``children``; ``axes`` are what each statement calls it."""

    extent: Extent
    axes: list[Axis]
    children: list[Node] = field(default_factory=list)


Node: TypeAlias = "Loop | Piece"


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The statements of one kernel, and their loops."""

    pieces: tuple[Piece, ...]
    tree: tuple[Node, ...]


def schedule(
    statements: Iterable[Statement], rows: int, settings: Settings = DEFAULT_SETTINGS
) -> list[Group]:
    """Return the kernels' loop trees, in order of launch.

    Parameters
    ----------
    statements
        Over stored nodes only.
    rows
        The batch size to reckon with.
    settings
        Caps; ``min_product`` decides which products the BLAS computes.
    """
    roots: dict[Tensor, Tensor] = {}
    groups: list[list[Piece]] = []
    for statement in statements:
        if isinstance(statement, View):
            roots[statement.target] = roots.get(statement.source, statement.source)
            continue
        piece = _piece(statement, rows, settings)
        position = _place(piece, groups, roots)
        if position is None:
            groups.append([piece])
        else:
            groups[position].append(piece)
    return [Group(tuple(group), tuple(_tree(group, 0, roots))) for group in groups]


def _piece(statement: Assignment, rows: int, settings: Settings) -> Piece:
    outer = tuple(axis for axis in statement.output_axes if axis.extent != 1)
    combined = tuple(axis for axis in statement.combined_axes if axis.extent != 1)
    product = is_block_product(statement, rows, settings)
    by_rows = bool(combined and outer and not product and _adds_rows(statement, outer, combined, rows))
    return Piece(statement, outer, combined, by_rows, product)


def _adds_rows(
    statement: Assignment, outer: Sequence[Axis], combined: Sequence[Axis], rows: int
) -> bool:
    if any(not isinstance(index, Affine) for index in statement.index):
        return True  # a scatter: cells are not known, so nothing can be held in a register
    if statement.target.shape and flatten(statement.target.shape, statement.index).stride(outer[-1]) != 1:
        return False
    small = all(isinstance(axis.extent, int) for axis in combined) and points(list(combined), rows) <= SMALL
    along_row = along_sum = 0
    for read in statement.reads():
        place = flatten(read.node.shape, read.index)
        along_row += place.stride(outer[-1]) == 1
        along_sum += place.stride(combined[-1]) == 1
    return not small and along_row >= along_sum and along_row > 0


# -- which kernel --------------------------------------------------------------------------------------------


def _accesses(piece: Piece, roots: dict[Tensor, Tensor]) -> list[tuple[Tensor, tuple[Index, ...], bool, bool]]:
    """Return (memory, index, whether written, whether under its own shape) of every access."""
    statement = piece.statement
    found = [_access(statement.target, statement.index, True, roots)]
    found += [_access(read.node, read.index, False, roots) for read in statement.reads()]
    return found


def _access(
    node: Tensor, index: tuple[Index, ...], written: bool, roots: dict[Tensor, Tensor]
) -> tuple[Tensor, tuple[Index, ...], bool, bool]:
    root = roots.get(node, node)
    return root, index, written, root is node


def _conflicts(first: Piece, second: Piece, roots: dict[Tensor, Tensor]) -> bool:
    """Return whether the order of the two matters."""
    writes_first = {n for n, _, written, _ in _accesses(first, roots) if written}
    writes_second = {n for n, _, written, _ in _accesses(second, roots) if written}
    touches_first = {n for n, _, _, _ in _accesses(first, roots)}
    touches_second = {n for n, _, _, _ in _accesses(second, roots)}
    return bool(writes_first & touches_second or writes_second & touches_first)


def _aligned(first: Piece, second: Piece, depth: int, roots: dict[Tensor, Tensor]) -> bool:
    """Return whether cells that both touch are touched in the same iteration of the first ``depth`` loops."""
    for node, index, written, own in _accesses(first, roots):
        for other, other_index, other_written, other_own in _accesses(second, roots):
            if node is not other or not (written or other_written):
                continue
            if not own or not other_own:
                return False
            for level in range(depth):
                if not _same_coordinate(index, first.outer[level], other_index, second.outer[level]):
                    return False
    return True


def _same_coordinate(
    left: tuple[Index, ...], left_axis: Axis, right: tuple[Index, ...], right_axis: Axis
) -> bool:
    return any(
        isinstance(a, Affine) and isinstance(b, Affine) and a.axis is left_axis and b.axis is right_axis
        for a, b in zip(left, right, strict=True)
    )


def _place(piece: Piece, groups: list[list[Piece]], roots: dict[Tensor, Tensor]) -> int | None:
    """Return the group that ``piece`` joins, or None if it starts a new one."""
    if piece.is_product:
        return None
    first = 0
    for position in range(len(groups) - 1, -1, -1):
        if any(_conflicts(member, piece, roots) for member in groups[position]):
            first = position
            break
    for position in range(len(groups) - 1, first - 1, -1):
        if _joins(piece, groups[position], roots):
            return position
    return None


def _joins(piece: Piece, group: list[Piece], roots: dict[Tensor, Tensor]) -> bool:
    leader = group[0]
    if not piece.outer and not leader.outer:
        return not leader.is_product
    if not piece.shareable or not all(member.shareable for member in group):
        return False
    if leader.outer[0].extent != piece.outer[0].extent:
        return False
    if not all(_aligned(member, piece, 1, roots) for member in group):
        return False
    mine = {(n, n.shape) for n, _, _, _ in _accesses(piece, roots) if n.shape}
    theirs = {(n, n.shape) for member in group for n, _, _, _ in _accesses(member, roots) if n.shape}
    return any(_leads(node, piece, roots) and any(_leads(node, m, roots) for m in group) for node, _ in mine & theirs)


def _leads(node: Tensor, piece: Piece, roots: dict[Tensor, Tensor]) -> bool:
    """Return whether ``piece`` walks ``node`` along its outermost loop."""
    return any(
        n is node and any(isinstance(i, Affine) and i.axis is piece.outer[0] for i in index)
        for n, index, _, _ in _accesses(piece, roots)
    )


# -- loops within a kernel --------------------------------------------------------------------------------------


def _tree(pieces: Sequence[Piece], depth: int, roots: dict[Tensor, Tensor]) -> list[Node]:
    nodes: list[Node] = []
    run: list[Piece] = []

    def close() -> None:
        if run:
            loop = Loop(run[0].outer[depth].extent, [p.outer[depth] for p in run])
            loop.children = _tree(list(run), depth + 1, roots)
            nodes.append(loop)
            run.clear()

    for piece in pieces:
        if piece.shareable <= depth:
            close()
            nodes.append(piece)
            continue
        extent = piece.outer[depth].extent
        if run and not (
            run[0].outer[depth].extent == extent
            and all(_aligned(member, piece, depth + 1, roots) for member in run)
        ):
            close()
        run.append(piece)
    close()
    return nodes

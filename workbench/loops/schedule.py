"""Group statements into kernels: those that share their outer axes run as one loop nest.

In: statements over stored nodes. Out: loop trees, one for each kernel, in order. Invariant: a
statement moves only past statements that touch nothing it touches, and two statements share a loop
only where every cell that both touch is touched in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from workbench.assign.assignment import Assignment, Statement, View
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.extent import Extent
from workbench.graph.tensor import Tensor
from workbench.loops.flat import flatten
from workbench.loops.matrix import is_block_product
from workbench.loops.placement import WIDE
from workbench.loops.settings import DEFAULT_SETTINGS, Settings
from workbench.loops.space import points

SMALL = 16
"""Combining loops up to this are unrolled, so that the loop around them is the vector loop."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a statement to memory.

    Attributes
    ----------
    node
        Whose memory it is.
    index
        Which cell.
    written
        Whether it is the write.
    own
        Whether the index is in the shape of ``node`` itself (else in that of a view of it).
    """

    node: Tensor
    index: tuple[Index, ...]
    written: bool
    own: bool


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
        Whether a combining statement runs its last output axis innermost, adding whole rows into
        memory: the cell is not known outside the combining loops, or their order is the faster one.
    is_product
        Whether the BLAS computes it.
    accesses
        Every access it makes, the write first.
    """

    statement: Assignment
    outer: tuple[Axis, ...]
    combined: tuple[Axis, ...]
    by_rows: bool
    is_product: bool
    accesses: tuple[Access, ...]

    @property
    def touches(self) -> frozenset[Tensor]:
        """Memory that it reads or writes."""
        return frozenset(access.node for access in self.accesses)

    @property
    def writes(self) -> frozenset[Tensor]:
        """Memory that it writes."""
        return frozenset(access.node for access in self.accesses if access.written)

    @property
    def shareable(self) -> int:
        """How many of the outer axes may be loops shared with other statements."""
        if self.is_product:
            return 0
        return max(0, len(self.outer) - (1 if self.by_rows else 0))


@dataclass(slots=True, eq=False)
class Loop:
    """A loop shared by everything in ``children``; ``axes`` are what each statement calls it."""

    extent: Extent
    axes: list[Axis]
    children: list[Node] = field(default_factory=list["Node"])


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
        ``min_product`` decides which products the BLAS computes, ``fuse`` whether statements share
        kernels.
    """
    roots: dict[Tensor, Tensor] = {}
    kernels = _Kernels(settings.fuse)
    for statement in statements:
        if isinstance(statement, View):
            roots[statement.target] = roots.get(statement.source, statement.source)
        else:
            kernels.add(_piece(statement, rows, settings, roots))
    return [Group(tuple(group), tuple(_tree(group, 0))) for group in kernels.groups]


def _piece(
    statement: Assignment, rows: int, settings: Settings, roots: dict[Tensor, Tensor]
) -> Piece:
    outer = tuple(axis for axis in statement.output_axes if axis.extent != 1)
    combined = tuple(axis for axis in statement.combined_axes if axis.extent != 1)
    product = is_block_product(statement, rows, settings)
    by_rows = bool(combined and not product and _adds_rows(statement, outer, combined, rows))
    accesses = [_access(statement.target, statement.index, True, roots)]
    accesses += [_access(read.node, read.index, False, roots) for read in statement.reads()]
    return Piece(statement, outer, combined, by_rows, product, tuple(accesses))


def _access(
    node: Tensor, index: tuple[Index, ...], written: bool, roots: dict[Tensor, Tensor]
) -> Access:
    root = roots.get(node, node)
    return Access(root, index, written, root is node)


def _adds_rows(
    statement: Assignment, outer: Sequence[Axis], combined: Sequence[Axis], rows: int
) -> bool:
    if any(not isinstance(index, Affine) for index in statement.index):
        return True  # a scatter: cells are not known, so nothing can be held in a register
    if not outer:
        return False
    if (
        statement.target.shape
        and flatten(statement.target.shape, statement.index).stride(outer[-1]) != 1
    ):
        return False
    small = (
        all(isinstance(axis.extent, int) for axis in combined) and points(combined, rows) <= SMALL
    )
    along_row = along_sum = 0
    for read in statement.reads():
        place = flatten(read.node.shape, read.index)
        row, total = place.stride(outer[-1]), place.stride(combined[-1])
        if row == 0 or total == 0:
            continue  # the same for a whole loop of the one or the other order: no traffic
        along_row += row == 1
        along_sum += total == 1
    return not small and along_row >= along_sum and along_row > 0


# -- which kernel


class _Kernels:
    """The kernels so far, with who touches what, so that no search looks at all of them."""

    def __init__(self, fuse: bool) -> None:
        self.fuse = fuse
        self.groups: list[list[Piece]] = []
        self.touching: dict[Tensor, list[int]] = {}
        self.writing: dict[Tensor, int] = {}
        self.scalars: list[int] = []

    def add(self, piece: Piece) -> None:
        """Put ``piece`` into the last kernel it can share loops with, or one of its own."""
        position = self._place(piece)
        if position is None:
            position = len(self.groups)
            self.groups.append([])
            if not piece.outer:
                self.scalars.append(position)
        self.groups[position].append(piece)
        for node in piece.touches:
            known = self.touching.setdefault(node, [])
            if not known or known[-1] != position:
                known.append(position)
        for node in piece.writes:
            self.writing[node] = max(position, self.writing.get(node, -1))

    def _place(self, piece: Piece) -> int | None:
        if piece.is_product or not self.fuse:
            return None
        # No earlier than the last kernel whose order against this statement matters.
        first = max((self.writing.get(node, -1) for node in piece.touches), default=-1)
        for node in piece.writes:
            first = max(first, max(self.touching.get(node, ()), default=-1))
        if not piece.outer:
            candidates = self.scalars[-1:]
        else:
            related = {
                p for node in piece.touches if node.shape for p in self.touching.get(node, ())
            }
            candidates = sorted((p for p in related if p >= first), reverse=True)
        if piece.statement.target.op == WIDE:
            first = max(first, len(self.groups) - 1)  # no earlier than its product needs it
        for position in candidates:
            if position >= first and _joins(piece, self.groups[position]):
                return position
        return None


def _aligned(first: Piece, second: Piece, depth: int) -> bool:
    """Return whether cells that both touch are touched in the same iteration of ``depth`` loops."""
    for mine in first.accesses:
        for other in second.accesses:
            if mine.node is not other.node or not (mine.written or other.written):
                continue
            if not mine.own or not other.own:
                return False
            for level in range(depth):
                axes = (first.outer[level], second.outer[level])
                if not _same_coordinate(mine.index, axes[0], other.index, axes[1]):
                    return False
    return True


def _same_coordinate(
    left: tuple[Index, ...], left_axis: Axis, right: tuple[Index, ...], right_axis: Axis
) -> bool:
    return any(
        isinstance(a, Affine)
        and isinstance(b, Affine)
        and a.axis is left_axis
        and b.axis is right_axis
        for a, b in zip(left, right, strict=True)
    )


def _joins(piece: Piece, group: list[Piece]) -> bool:
    leader = group[0]
    if not piece.outer and not leader.outer:
        return not leader.is_product
    if not piece.shareable or not all(member.shareable for member in group):
        return False
    if leader.outer[0].extent != piece.outer[0].extent:
        return False
    if not all(_aligned(member, piece, 1) for member in group):
        return False
    mine = _led(piece)
    return any(mine & _led(member) for member in group)


def _led(piece: Piece) -> set[Tensor]:
    """Return the nodes that ``piece`` walks along its outermost loop."""
    return {
        access.node
        for access in piece.accesses
        if any(isinstance(i, Affine) and i.axis is piece.outer[0] for i in access.index)
    }


# -- loops within a kernel
# --------------------------------------------------------------------------------------


def _tree(pieces: Sequence[Piece], depth: int) -> list[Node]:
    nodes: list[Node] = []
    run: list[Piece] = []

    def close() -> None:
        if run:
            loop = Loop(run[0].outer[depth].extent, [p.outer[depth] for p in run])
            loop.children = _tree(list(run), depth + 1)
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
            and all(_aligned(member, piece, depth + 1) for member in run)
        ):
            close()
        run.append(piece)
    close()
    return nodes

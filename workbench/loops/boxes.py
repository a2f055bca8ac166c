"""Scratch shaped like what one reader reads of a virtual node.

In: statements in order, some of them of nodes that are served from boxes. Out: the statements that
fill boxes, and the readers of the boxes. Invariant: a box holds what the node's own memory would
have held there, for it is filled where the node would have been computed.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.assign.assignment import Assignment, Statement
from workbench.assign.expression import Read, Value, replace_reads
from workbench.assign.index import at
from workbench.graph.tensor import Tensor, make_leaf
from workbench.loops.footprint import Box, box_of, fill, gated_reads
from workbench.loops.placement import BOX, Mode, Placement
from workbench.loops.substitution import Body, as_value, expand, expand_index


class Boxes:
    """The boxes of a computation while its virtual nodes are written into their readers.

    Attributes
    ----------
    placements
        Where each box lives.
    """

    def __init__(self) -> None:
        self.placements: dict[Tensor, Placement] = {}
        self._templates: dict[Tensor, Assignment] = {}
        self._bodies: dict[Tensor, Body] = {}
        self._places: dict[Tensor, list[Statement]] = {}
        self._leaves: dict[tuple[int, Box], Tensor] = {}

    def place(self, template: Assignment) -> list[Statement]:
        """Return the list that statements filling boxes of ``template``'s target will appear in."""
        node = template.target
        self._templates[node] = template
        self._bodies[node] = as_value(template)
        return self._places.setdefault(node, [])

    def served(self, statement: Assignment) -> Assignment:
        """Return ``statement`` with reads of boxed nodes replaced.

        Each becomes a read of a box, or, where none can serve it, what the node computes.
        """
        while found := self._replacements(statement):
            statement = replace(statement, value=replace_reads(statement.value, found))
        while any(read.node in self._bodies for read in statement.reads()):
            index = tuple(expand_index(each, self._bodies) for each in statement.index)
            statement = replace(statement, index=index)
        return statement

    def _replacements(self, statement: Assignment) -> dict[int, Value]:
        found: dict[int, Value] = {}
        for read, gated in gated_reads(statement.value):
            if read.node not in self._templates:
                continue
            box = None if gated or not statement.is_identity else box_of(read.index)
            if box is None:
                found[id(read)] = expand(read, self._bodies)
            else:
                index = tuple(at(axis) for axis in box.axes)
                found[id(read)] = Read(self._leaf(read.node, box), index)
        return found

    def _leaf(self, node: Tensor, box: Box) -> Tensor:
        leaf = self._leaves.get((node.uid, box))
        if leaf is None:
            label = f"cells of {node.label or node.op}"
            leaf = make_leaf(BOX, box.extents, node.dtype, label)
            self._leaves[node.uid, box] = leaf
            self.placements[leaf] = Placement(Mode.LOCAL, "153", "it holds what one reader reads")
            filled = self.served(fill(box, leaf, self._templates[node]))
            self._places[node].append(filled)
        return leaf

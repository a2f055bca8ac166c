"""Where nodes live in two contexts, side by side: what a decision changed.

In: one context or two. Out: lines that can be put in order and picked by mode, text, HTML.
Invariant: a line stands for one node of either context; nothing is compiled or run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from workbench.graph.markup import Markup, element, table
from workbench.graph.tensor import Tensor
from workbench.runtime.placement_table import HEADER, Placed, PlacementTable, Row, placement_table
from workbench.runtime.text_block import columns, counted

ABSENT: Final = "-"
COMPARED: Final = ("mode", "code", "bytes", "readable")
"""Columns that are shown for both contexts; what the node is called is the same in both."""


@dataclass(frozen=True, slots=True)
class Line:
    """A node in both contexts.

    Attributes
    ----------
    before, after
        Its rows; None in a context that does not know it.
    """

    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        """Its row in the second context if it is there, else in the first."""
        row = self.after or self.before
        assert row is not None
        return row

    @property
    def is_changed(self) -> bool:
        """Whether its mode, who decided so, its bytes or its being readable differ."""
        if self.before is None or self.after is None:
            return True
        return self.before.cells()[1:] != self.after.cells()[1:]


@final
@dataclass(frozen=True, slots=True, repr=False)
class PlacementChanges:
    """Lines in the order of the second context, then those that only the first has.

    Attributes
    ----------
    lines
        One for each node.
    """

    lines: tuple[Line, ...]

    @property
    def changed(self) -> tuple[Line, ...]:
        """The lines that differ."""
        return tuple(line for line in self.lines if line.is_changed)

    def __str__(self) -> str:
        changed = self.changed
        cells = [self._header(), *(self._cells(line) for line in changed)]
        return "\n".join([*(columns(cells) if changed else []), self._summary()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.markup().text

    def markup(self) -> Markup:
        """Return a table of all lines; those that differ are bold."""
        rows = [
            [element("b", cell) if line.is_changed else cell for cell in self._cells(line)]
            for line in self.lines
        ]
        return table(self._header(), rows, self._summary())

    def _header(self) -> tuple[str, ...]:
        return ("node", *(f"{name} {when}" for name in COMPARED for when in ("before", "after")))

    def _cells(self, line: Line) -> tuple[str, ...]:
        positions = [HEADER.index(name) for name in COMPARED]
        sides = [
            (ABSENT,) * len(HEADER) if row is None else row.cells()
            for row in (line.before, line.after)
        ]
        return (line.row.name, *(side[at] for at in positions for side in sides))

    def _summary(self) -> str:
        return f"{counted(len(self.lines), 'node')}, {len(self.changed)} of them changed"


def placement_changes(before: Placed, after: Placed) -> PlacementChanges:
    """Return how the placements of ``after`` differ from those of ``before``."""
    return table_changes(placement_table(before), placement_table(after))


def table_changes(before: PlacementTable, after: PlacementTable) -> PlacementChanges:
    """Return how ``after`` differs from ``before``."""
    known: dict[Tensor, Row] = {row.node: row for row in before.rows}
    lines = [Line(known.pop(row.node, None), row) for row in after.rows]
    return PlacementChanges((*lines, *(Line(row, None) for row in known.values())))

"""Where every node lives, as a table that can be put in order, picked from and compared.

In: one context or two. Out: lines, and the card of the chosen one. Invariant: the page has all
lines and orders them itself; taking an offer marks the lines that it changed.
"""

from __future__ import annotations

import json
from typing import Any, cast

import traitlets

from workbench.errors import PlacementError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.placement_changes import Line, PlacementChanges, placement_changes
from workbench.runtime.placement_table import PlacementTable, Row
from workbench.subject import Subject
from workbench_widgets.assets import script, style
from workbench_widgets.deciding import Deciding
from workbench_widgets.frame import Message
from workbench_widgets.wire import cut


class Placements(Deciding):
    """See `workbench.placements`."""

    _esm = script("placements")
    _css = style("card", "placements")

    lines = traitlets.Unicode().tag(sync=True)
    compared = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, subject: Subject, after: Subject | None = None) -> None:
        shown = subject if after is None else after
        self._compared_with = None if after is None else subject.context
        self._changes = placement_changes(subject.context, shown.context)
        super().__init__(shown, lines=_lines_text(self._changes), compared=after is not None)

    @property
    def _base(self) -> Context:
        """The context that the table was opened on, or has read again since."""
        return self.subject.context if self._compared_with is None else self._compared_with

    def refresh(self) -> None:
        """Compare the context with the one that the table was opened on."""
        self._changes = placement_changes(self._base, self.context)
        traits = cast("Any", self)
        with traits.hold_sync():
            traits.compared = self.context is not self._base
            traits.lines = _lines_text(self._changes)

    def node_in(self, message: Message) -> Tensor:
        """Return the node of the line that a message names."""
        number = message["line"]
        lines = self._changes.lines
        if not isinstance(number, int) or not 0 <= number < len(lines):
            raise PlacementError(
                f"the table has no line {number!r}", remedy=f"it has lines 0 to {len(lines) - 1}"
            )
        return lines[number].row.node

    def text(self) -> str:
        """Return the table, or what differs between two contexts."""
        return str(self._shown())

    def html(self) -> str:
        """Return the table."""
        return self._shown().markup().text

    def _shown(self) -> PlacementTable | PlacementChanges:
        same = self.context is self._base
        return self.context.placement_table() if same else self._changes


def placements(subject: Subject, after: Subject | None = None) -> Placements:
    """Return the view that `workbench.placements` shows."""
    return Placements(subject, after)


def _lines_text(changes: PlacementChanges) -> str:
    return json.dumps([_line_message(line) for line in changes.lines])


def _line_message(line: Line) -> list[Any]:
    return [
        cut(line.row.name),
        _side_message(line.before),
        _side_message(line.after),
        line.is_changed,
    ]


def _side_message(row: Row | None) -> list[Any] | None:
    if row is None:
        return None
    _, mode, code, reason, size, how = row.cells()
    return [mode, code, reason, row.size_bytes, size, cut(how), row.is_readable]

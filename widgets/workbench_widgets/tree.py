"""The graph of a tensor as a tree that opens, with the details of the chosen node.

In: questions of a page about places. Out: rows, details, cards. Invariant: the page is sent the
tree's form at once and everything else when it is looked at, so that size costs nothing.
"""

from __future__ import annotations

from typing import Any, Final, cast

import traitlets

from workbench.errors import GraphError
from workbench.graph.markup import Markup, preformatted
from workbench.graph.tensor import Tensor
from workbench.runtime.graph_view import GraphView
from workbench.runtime.node_title import title
from workbench.subject import Subject
from workbench_widgets.assets import script, style
from workbench_widgets.deciding import Deciding
from workbench_widgets.frame import Message
from workbench_widgets.wire import cut, detail_message, row_message

FIRST_ROWS: Final = 60
"""Sent with the form, so that the first look needs no question."""

MOST_ROWS: Final = 2000
"""Of one question; no screen is so long."""

MOST_PLACES: Final = 200
"""A larger tree goes without values into the text beside the view, which a notebook keeps."""


class Tree(Deciding):
    """See `workbench.tree`."""

    _esm = script("tree")
    _css = style("card", "value", "tree")

    label = traitlets.Unicode().tag(sync=True)
    below = traitlets.Bytes().tag(sync=True)
    first = traitlets.List(traitlets.Any()).tag(sync=True)

    def __init__(self, subject: Subject) -> None:
        self._view = GraphView(subject.root, subject.context, subject.grads)
        super().__init__(
            subject,
            label=_label(subject),
            below=self._view.below.tobytes(),
            first=self._first(),
        )
        self.answer("rows", self._send_rows)
        self.answer("find", self._send_found)
        self.answer("detail", self._send_detail)

    def refresh(self) -> None:
        """Read everything anew in the context."""
        self._view = GraphView(self.subject.root, self.context, self.subject.grads)
        traits = cast("Any", self)
        with traits.hold_sync():
            traits.label = _label(self.subject)
            traits.below = self._view.below.tobytes()
            traits.first = self._first()

    def node_in(self, message: Message) -> Tensor:
        """Return the node at the place that a message names."""
        return self._view.node_at(_whole(message["place"]))

    def _first(self) -> list[list[Any]]:
        most = min(FIRST_ROWS, len(self._view))
        return [row_message(row) for row in self._view.rows(range(most))]

    def _send_rows(self, message: Message) -> None:
        places = [_whole(place) for place in message["places"][:MOST_ROWS]]
        rows = [row_message(row) for row in self._view.rows(places)]
        self.post({"t": "rows", "req": message.get("req"), "rows": rows})

    def _send_found(self, message: Message) -> None:
        text = str(message["text"])
        places = self._view.starting(text) if message.get("starts") else self._view.find(text)
        self.post({"t": "found", "req": message.get("req"), "places": places})

    def _send_detail(self, message: Message) -> None:
        detail, buffers = detail_message(self._view.detail(_whole(message["place"])))
        self.post({"t": "detail", "req": message.get("req"), **detail}, buffers)

    def text(self) -> str:
        """Return the tree as `printf_tree` prints it; of a large one an outline.

        Of a run without values: they would be others whenever it is asked.
        """
        if len(self._view) > MOST_PLACES:
            return self._view.outline()
        return self._view.structure() if self.subject.is_live else str(self._view)

    def __repr__(self) -> str:
        # Where this is read there is no page, but a terminal: it is asked anew each time.
        return self._view.outline() if len(self._view) > MOST_PLACES else str(self._view)

    def html(self) -> str:
        """Return the text, set so that its columns stay where they are."""
        return drawing(self.text()).text


def tree(subject: Subject) -> Tree:
    """Return the view that `workbench.tree` shows."""
    return Tree(subject)


def drawing(text: str) -> Markup:
    """Return a tree that was drawn as text, in lines so close that its branches meet."""
    return preformatted(text, "line-height:1.2;overflow-x:auto;white-space:pre")


def _label(subject: Subject) -> str:
    return cut(f"graph of {title(subject.root)}")


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise GraphError(f"{number!r} is no place of a tree", remedy="name places by their number")
    return number

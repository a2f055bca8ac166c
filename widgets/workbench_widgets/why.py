"""The card of one node: where it lives, who decided so, whether it can be read, what to do.

In: a node and a context. Out: a card whose buttons do what they say. Invariant: what a button gives
is another context; the one the card was opened on stays as it is.
"""

from __future__ import annotations

from typing import Any, cast

import traitlets

from workbench.graph.tensor import Tensor
from workbench.runtime.graph_view import GraphView
from workbench.runtime.node_title import title
from workbench.runtime.offer import Applied
from workbench.subject import Subject
from workbench_widgets.assets import script, style
from workbench_widgets.deciding import Deciding
from workbench_widgets.frame import Message
from workbench_widgets.wire import cut, detail_message


class Why(Deciding):
    """See `workbench.why`."""

    _esm = script("why")
    _css = style("card", "value", "why")

    label = traitlets.Unicode().tag(sync=True)
    said = traitlets.Dict().tag(sync=True)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject, label=cut(f"why {title(subject.root)} lives where it does"))
        self.answer("value", self._send_value)
        self.refresh()

    def refresh(self) -> None:
        """Say what is so in the context."""
        cast("Any", self).said = self.said_of(self.card(self.node))

    @property
    def node(self) -> Tensor:
        """The card's node."""
        return self.subject.root

    def node_in(self, message: Message) -> Tensor:
        """Return the card's node."""
        return self.node

    def apply(self, name: str, node: Tensor | None = None) -> Applied:
        """Do what the button for ``name`` does, and return what that gave.

        Parameters
        ----------
        name
            ``"materialize"``, ``"run"``... or the setting to raise.
        node
            By default the card's.

        Raises
        ------
        ConfigurationError
            If there is no such offer.
        """
        return super().apply(name, self.node if node is None else node)

    def _send_value(self, message: Message) -> None:
        detail, buffers = detail_message(GraphView(self.node, self.context).detail(0))
        self.post({"t": "value", "req": message.get("req"), **detail}, buffers)

    def text(self) -> str:
        """Return the card as text."""
        return str(self.card(self.node))

    def html(self) -> str:
        """Return the card as a table."""
        return self.card(self.node).markup().text


def why(subject: Subject) -> Why:
    """Return the view that `workbench.why` shows."""
    return Why(subject)

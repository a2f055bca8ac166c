"""What the views of a context share: cards of its nodes, offers that are taken, and taken back.

In: messages that name a node and an offer. Out: another context, which the view goes on with.
Invariant: the context that the view was opened on is never changed, and the view can go back to it;
of a run it has copies of its values, so that the run is not touched at all.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import traitlets

from workbench.errors import ConfigurationError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.offer import Applied
from workbench.runtime.routine import Routine
from workbench.runtime.why_card import WhyCard
from workbench.subject import Subject
from workbench_widgets.frame import Frame, Message
from workbench_widgets.wire import applied_message, card_message


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where a view was before an offer was taken."""

    context: Context
    routine: Routine | None


class Deciding(Frame):
    """A view of a context in which offers about nodes can be taken.

    Attributes
    ----------
    subject
        What the view is about.
    context
        The context that is shown: the subject's, or what the latest offer gave.
    routine
        What the latest offer compiled; before, the subject's.
    """

    caption = traitlets.Unicode().tag(sync=True)
    """What was read of a run, and when; empty for a context."""

    def __init__(self, subject: Subject, **traits: Any) -> None:
        self.subject = subject
        self.context = subject.context
        self.routine = subject.routine
        self._before: list[_Stage] = []
        super().__init__(caption=subject.caption, **traits)
        self.answer("card", self._send_card)
        self.answer("apply", self._take)
        self.answer("undo", self._take_back)
        self.answer("again", self._read_again)
        self.answer("standing", self._send_standing)

    def apply(self, name: str, node: Tensor) -> Applied:
        """Take the offer ``name`` about ``node``, and show the context that it gave.

        Raises
        ------
        ConfigurationError
            If there is no such offer.
        """
        applied = self.card(node).apply(name)
        self._before.append(_Stage(self.context, self.routine))
        self.routine = applied.routine
        self.show(applied.context)
        return applied

    def undo(self) -> None:
        """Show the context from before the latest offer again.

        Raises
        ------
        ConfigurationError
            If none was taken.
        """
        if not self._before:
            raise ConfigurationError("no offer was taken yet", remedy="take one first")
        stage = self._before.pop()
        self.routine = stage.routine
        self.show(stage.context)

    def show(self, context: Context) -> None:
        """Show another context."""
        self.context = context
        self.refresh()
        self.post({"t": "shown"})

    def read_again(self) -> None:
        """Show the graph and the values that the run has now; offers that were taken are dropped.

        Of a context nothing changes, but that.

        Raises
        ------
        ConfigurationError, GraphError
            As `Subject.again` does; what is shown stays then.
        """
        subject = self.subject.again()
        self.subject, self.context, self.routine = subject, subject.context, subject.routine
        self._before = []
        traits = cast("Any", self)
        with traits.hold_sync():
            traits.caption = subject.caption
            self.refresh()

    def card(self, node: Tensor) -> WhyCard:
        """Return the card of ``node`` in the context that is shown."""
        routine = self.routine
        if routine is not None and node not in routine.placements:
            routine = None
        return WhyCard(node, self.context, routine)

    def said_of(self, card: WhyCard) -> dict[str, Any]:
        """Return what a page is told of a card."""
        return {**card_message(card), "beside": self.subject.is_live}

    @abstractmethod
    def refresh(self) -> None:
        """Make what is shown that of the context."""

    @abstractmethod
    def node_in(self, message: Message) -> Tensor:
        """Return the node that a message is about."""

    def _send_card(self, message: Message) -> None:
        self._reply(message, self.node_in(message), [])

    def _take(self, message: Message) -> None:
        node = self.node_in(message)
        self._reply(message, node, applied_message(self.apply(str(message["offer"]), node)))

    def _take_back(self, message: Message) -> None:
        node = self.node_in(message)
        self.undo()
        self._reply(message, node, [])

    def _read_again(self, message: Message) -> None:
        self.read_again()
        # To all pages that show the view, whoever asked.
        self.post({"t": "again", "req": message.get("req")})

    def _send_standing(self, message: Message) -> None:
        standing = self.subject.standing()
        if standing is not None:
            step, since, other = standing.step, standing.since, standing.is_other
            told = {"step": step, "since": since, "other": other}
            self.post({"t": "standing", "req": message.get("req"), **told})

    def _reply(self, message: Message, node: Tensor, changes: list[list[str]]) -> None:
        said = self.said_of(self.card(node))
        steps = len(self._before)
        self.post(
            {"t": "card", "req": message.get("req"), **said, "changes": changes, "steps": steps}
        )

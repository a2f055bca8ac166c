"""What every view of a notebook has: a text for where it cannot be shown, and a safe mailbox.

In: messages of a page, which may be anything.  Out: calls of the handlers that a view registered.
Invariant: no message can raise in the kernel, and what a person did wrong is said on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import anywidget

from workbench.errors import WorkbenchError
from workbench.graph.markup import element

Message: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Message], None]


class Frame(anywidget.AnyWidget):
    """A view: a small module of JavaScript, and the Python that answers it.

    A subclass sets ``_esm = script("name")`` and ``_css = style("name")``, registers handlers with
    `answer` and defines `text`, and `html` where a table or a picture says more.

    A page sends ``{"ask": name, ...}``.  What a handler refuses with a `WorkbenchError` comes back
    as ``{"t": "refused", "ask": name, "text": ...}``.
    """

    def __init__(self, **traits: Any) -> None:
        self._handlers: dict[str, Handler] = {}
        super().__init__(**traits)
        cast("Any", self).on_msg(self._receive)
        _keep_route(self)

    def answer(self, question: str, handler: Handler) -> None:
        """Have ``handler`` called with each message that asks ``question``."""
        self._handlers[question] = handler

    def post(self, content: Message, buffers: Sequence[memoryview] = ()) -> None:
        """Send a message to the pages that show the view; does nothing where there are none."""
        cast("Any", self).send(dict(content), [*buffers])

    def text(self) -> str:
        """Return what the view shows, as text: the same whenever it shows the same."""
        raise NotImplementedError  # each view says it

    def html(self) -> str:
        """Return what the view shows, as HTML without scripts, in which all names are escaped."""
        return element("pre", self.text()).text

    def _receive(self, _: object, content: object, buffers: object) -> None:
        if not isinstance(content, dict):
            return
        message = cast("dict[str, Any]", content)
        question = message.get("ask")
        handler = self._handlers.get(question) if isinstance(question, str) else None
        if handler is None:
            return
        try:
            handler(message)
        except WorkbenchError as fault:
            self.post({"t": "refused", "ask": question, "text": _said(fault)})
        except (TypeError, ValueError, KeyError, OverflowError) as fault:
            # Not what our pages send: another version's page, or somebody's script.
            said = f"`{question}` was not understood: {fault}"
            self.post({"t": "refused", "ask": question, "text": said})

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        made = cast("Any", super())._repr_mimebundle_(**options)
        if made is None:
            return None
        data, metadata = made
        return {**data, "text/plain": self.text(), "text/html": self.html()}, metadata


def _said(fault: WorkbenchError) -> str:
    return f"{fault.problem}; {fault.remedy}"


def _keep_route(widget: anywidget.AnyWidget) -> None:
    """Have a page's messages handled where the page asked, if the kernel has such a choice.

    ipykernel 7.4 sends them to the shell that last sent something: clicks on a view that a running
    cell had updated would wait for the end of that cell.  A private name, so it is only a help:
    where it is missing, a run in the background is as responsive.
    """
    comm: Any = getattr(widget, "comm", None)
    if comm is not None and hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = _as_asked


def _as_asked(_: object, asked: object) -> object:
    return asked

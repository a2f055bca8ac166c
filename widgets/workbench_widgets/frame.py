"""What every view of a notebook has: a safe mailbox, and a record for readers without a kernel.

In: messages of a page, which may be anything.  Out: calls of the handlers that a view registered;
outputs of cells.  Invariant: no message can raise in the kernel, and what a person did wrong is
said on the page.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import anywidget
import IPython
import IPython.display

from workbench.errors import WorkbenchError
from workbench.graph.markup import preformatted

Message: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Message], None]
Record: TypeAlias = dict[str, Any]


class Frame(anywidget.AnyWidget):
    """A view: a small module of JavaScript, and the Python that answers it.

    A subclass sets ``_esm = script("name")`` and ``_css = style("name")``, registers handlers with
    `answer` and defines `text`, and `html` where a table or a picture says more.

    A page sends ``{"ask": name, ...}``, with a ``"req"`` of its own where it waits for the answer.
    What a handler refuses with a `WorkbenchError` comes back as ``{"t": "refused", "ask": name,
    "req": ..., "text": ...}``.

    A notebook's file cannot show a widget without its kernel.  So pages ask for the `record` now
    and then, and put the latest one into the file when it is saved; and a view that is over is
    `seal`-ed, that is, its outputs become the record.
    """

    def __init__(self, **traits: Any) -> None:
        self._handlers: dict[str, Handler] = {}
        self._outputs: list[str] = []
        self._sealed: Record | None = None
        self._pages = 0
        super().__init__(**traits)
        self.answer("here", self._count)
        self.answer("record", self._send_record)
        self.answer("sealed", self._let_go)
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
        return preformatted(self.text()).text

    def record(self) -> Record:
        """Return what the view shows now, for a reader without a kernel, by kind of content."""
        return {"text/plain": self.text(), "text/html": self.html()}

    @property
    def is_over(self) -> bool:
        """Whether the view shows nothing but its record any more."""
        return self._sealed is not None

    def seal(self) -> None:
        """Put the record in the place of each output that shows the view, for good."""
        self._sealed = self.record()
        for name in self._outputs:
            _show(self._sealed, name, update=True)
        self._outputs = []
        if self._pages:
            self._say_sealed()
        else:
            self.close()

    # -- pages

    def _count(self, _: Message) -> None:
        self._pages += 1
        if self._sealed is not None:
            self._say_sealed()

    def _send_record(self, _: Message) -> None:
        self._say("record", self.record())

    def _say_sealed(self) -> None:
        # The outputs were replaced by name, which a page that was loaded anew, another tab, or one
        # that was closed meanwhile does not know: those do it themselves.
        self._say("sealed", self._sealed or self.record())

    def _say(self, kind: str, record: Record) -> None:
        self.post({"t": kind, "model": cast("Any", self).model_id, "record": record})

    def _let_go(self, _: Message) -> None:
        self._pages -= 1
        if self._sealed is not None and self._pages <= 0:
            self.close()

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
            self._say_no(message, _said(fault))
        except (TypeError, ValueError, KeyError, OverflowError) as fault:
            # Not what our pages send: another version's page, or somebody's script.
            self._say_no(message, f"`{question}` was not understood: {fault}")

    def _say_no(self, message: Message, said: str) -> None:
        asked = {name: message[name] for name in ("ask", "req") if name in message}
        self.post({"t": "refused", **asked, "text": said})

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        made = cast("Any", super())._repr_mimebundle_(**options)
        if made is None:
            return None
        data, metadata = made
        return {**data, "text/plain": self.text(), "text/html": self.html()}, metadata

    def _ipython_display_(self) -> None:
        if getattr(cast("Any", IPython).get_ipython(), "kernel", None) is None:
            _show({"text/plain": repr(self)}, "")
            return
        # With a name of its own an output can be replaced later, from any thread.
        name = f"workbench-{uuid.uuid4().hex}"
        bundle = None if self.is_over else self._repr_mimebundle_()
        if bundle is None:
            _show(self.record(), name)
            return
        self._outputs.append(name)
        _show(bundle[0], name)


def _show(bundle: Record, name: str, *, update: bool = False) -> None:
    # Libraries of notebooks are not typed throughout.
    display = cast("Any", IPython.display).display
    display(bundle, raw=True, display_id=name or None, update=update)


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

"""The live panel of a run: how it goes, and the means to steer it.

In: a run, and what a person does on a page. Out: messages to the page, and calls of the run's own
methods. Invariant: a panel holds nothing of the training; any number of panels and pages may show
one run, and closing them changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast, final

from workbench.errors import ConfigurationError
from workbench.train.store_text import live_lines, record_html, record_text
from workbench_widgets.assets import script, style
from workbench_widgets.frame import Frame, Handler, Message, Record
from workbench_widgets.panel_frame import describe_stretch, joined
from workbench_widgets.pump import Pump, Teller, tell

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["Panel"]

_LONGEST: Final = 10_000
_ATTENTION_S: Final = 30.0
_NOT_DONE_BY_PEOPLE: Final = ("here", "record", "pace", "attended")


@final
class Panel(Frame):
    """A run, live: state, progress and time left, curves, and controls.

    Parameters
    ----------
    run
        Ready, training or over.

    Attributes
    ----------
    drawing_s
        How long a page takes to draw a message, in seconds, as the page says.
    attended_until
        So long, by `time.monotonic`, somebody is taken to be at a page: half a minute after the
        last move there.

    Notes
    -----
    When the run is over, each output that shows the panel becomes a record: text, pictures and
    tables that need no kernel. A run that is over is shown as a record at once.
    """

    _esm = script("panel")
    _css = style("chart", "panel")

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        handlers: tuple[tuple[str, Handler], ...] = (
            ("sync", self._sync),
            ("pause", _plain(run.pause)),
            ("resume", _plain(run.resume)),
            ("stop", self._stop),
            ("rate", self._rate),
            ("follow", _plain(run.follow_schedule)),
            ("patience", self._patience),
            # What becomes of these two is among the run's reports.
            ("checkpoint", _plain(run.checkpoint)),
            ("best", _plain(run.restore_best)),
            ("version", self._version),
            ("window", self._window),
            ("pace", self._pace),
            ("attended", self._attend),
        )
        self.drawing_s = 0.0
        self.attended_until = -float("inf")
        self.pump: Pump | None = None
        for question, handler in handlers:
            self.answer(question, handler)
        if not self.is_over:
            self.pump = tell(run, self)

    # -- what the page asks

    def _receive(self, _: object, content: object, buffers: object) -> None:
        super()._receive(_, content, buffers)
        asked = cast("dict[str, Any]", content).get("ask") if isinstance(content, dict) else None
        if self.pump is not None and asked not in _NOT_DONE_BY_PEOPLE:
            self.pump.hurry()

    def _sync(self, _: Message) -> None:
        if self.pump is not None and not self.is_over:
            self.pump.ask()
            return
        told = Teller(self.run).told(everything=True)
        if told is not None:
            self.show(*told)

    def _stop(self, message: Message) -> None:
        self.run.stop(after="epoch" if message.get("after") == "epoch" else "batch")

    def _rate(self, message: Message) -> None:
        self.run.lr = _finite(message["value"])

    def _patience(self, message: Message) -> None:
        patience = _finite(message["value"])
        if patience != int(patience):
            raise ConfigurationError(
                f"the patience is {patience}, not a whole number", remedy="enter one such as 10"
            )
        self.run.patience = int(patience)

    def _version(self, message: Message) -> None:
        number = message["number"]
        for version in self.run.step_history:
            if version.number == number:
                version.restore()
                return
        raise ConfigurationError(
            f"the run has no version {str(number)[:40]}", remedy="choose one that is listed"
        )

    def _window(self, message: Message) -> None:
        chart, view = message["chart"], message["view"]
        if not (isinstance(chart, int) and isinstance(view, str) and len(view) < _LONGEST):
            raise TypeError("a view and the number of a chart are needed")
        first, last = _finite(message["first"]), _finite(message["last"])
        line, floats = describe_stretch(self.run, chart, first, last)
        if line is not None:
            answer = {"t": "window", "view": view, "chart": chart, "line": line}
            self.post({**answer, "first": first, "last": last}, [joined(floats)])

    def _pace(self, message: Message) -> None:
        self.drawing_s = min(max(_finite(message["ms"]) / 1000, 0.0), 1.0)

    def _attend(self, _: Message) -> None:
        self.attended_until = time.monotonic() + _ATTENTION_S

    # -- what the pump asks

    def show(self, content: dict[str, Any], floats: memoryview) -> None:
        """Send a message to the pages that show it."""
        self.post(content, [floats] if floats.nbytes else [])

    def seal(self) -> None:
        """Put the record in the place of each output that shows the panel."""
        self.pump = None
        super().seal()

    @property
    def is_over(self) -> bool:
        """Whether the run is."""
        run = self.run
        return super().is_over or (
            not run.is_training and run.status not in ("ready", "running", "paused")
        )

    # -- where it is shown

    def text(self) -> str:
        """Return how the run stands, on one line; of a run that goes on, nothing that changes."""
        if self.is_over:
            return record_text(self.run)
        return f"Run of {self.run.config.epochs} epochs, shown live in JupyterLab"

    def html(self) -> str:
        """Return the record of a run that is over; before that, its text."""
        return record_html(self.run) if self.is_over else super().html()

    def __repr__(self) -> str:
        # Where this is read there is no page, but a terminal or a log.
        return self.text() if self.is_over else live_lines(self.run)

    def record(self) -> Record:
        """Return how the run stands now, with its curves and its table."""
        return {"text/plain": record_text(self.run), "text/html": record_html(self.run)}


def _plain(act: Callable[[], object]) -> Handler:
    """Return a handler of a question that says nothing more."""

    def handler(_: Message) -> None:
        act()

    return handler


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:40]!r} is not a finite number")
    return float(value)

"""The bar below a panel that opens the graph and the placements of the run.

In: a run, and which section a page opens. Out: the tree or the table of the run, for the page to
put below the bar. Invariant: a section costs nothing before somebody opens it; the bar holds no run
and no training data.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from workbench.errors import ConfigurationError
from workbench.graph.markup import Content, Markup, element
from workbench.runtime.graph_view import GraphView
from workbench.subject import Subject, subject_of
from workbench_widgets.assets import script, style
from workbench_widgets.deciding import Deciding
from workbench_widgets.frame import Frame, Message, Record
from workbench_widgets.placements import Placements
from workbench_widgets.pump import tell
from workbench_widgets.tree import MOST_PLACES, Tree, drawing

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["SECTIONS", "Inspection"]

SECTIONS: Final[dict[str, Callable[[Subject], Deciding]]] = {
    "graph": Tree,
    "placements": Placements,
}
"""What can be opened, and the view of it."""

_MOST_LINES: Final = 500
"""A longer table is left out of the record, which stays in a notebook's file."""


@final
class Inspection(Frame):
    """Two sections that open: the graph of a run's step, and where its nodes live.

    Parameters
    ----------
    run
        Ready, training or over; a section can be opened once a step was compiled.

    Attributes
    ----------
    sections
        The views that were opened so far, by the names in `SECTIONS`. All pages share them.

    Notes
    -----
    When the run is over and no page ever opened a section, each output that shows the bar becomes
    text that needs no kernel. A bar of which a section was opened stays, and answers.
    """

    _esm = script("inspection")
    _css = style("inspection")

    drawing_s = 0.0
    attended_until = -float("inf")

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = weakref.ref(run)
        self.sections: dict[str, Deciding] = {}
        self._showing = dict.fromkeys(SECTIONS, 0)
        self.answer("open", self._open)
        self.answer("closed", self._close_section)
        tell(run, self)

    def section(self, name: str) -> Deciding:
        """Return the view of a section, made now if it was not yet.

        Parameters
        ----------
        name
            ``"graph"`` or ``"placements"``.

        Raises
        ------
        ConfigurationError
            If there is no such section, no step was compiled yet, or the run is gone.
        """
        make = SECTIONS.get(name)
        if make is None:
            raise ConfigurationError(
                f"there is no section `{name[:40]}`", remedy=f"open one of {', '.join(SECTIONS)}"
            )
        if name not in self.sections:
            self.sections[name] = make(self._subject())
        return self.sections[name]

    def _subject(self) -> Subject:
        run = self._run()
        if run is None:
            raise ConfigurationError(
                "the run of this view is gone",
                remedy="keep the run in a variable for as long as it is looked into",
            )
        return subject_of(run)

    def _open(self, message: Message) -> None:
        name = str(message["section"])
        is_known = name in self.sections
        view: Any = self.section(name)
        # What nobody looks at may as well be read anew; what somebody does is theirs.
        if is_known and not self._showing[name]:
            view.read_again()
        self._showing[name] += 1
        place = f"anywidget:{view.model_id}"
        self.post({"t": "opened", "req": message.get("req"), "section": name, "view": place})

    def _close_section(self, message: Message) -> None:
        name = str(message["section"])
        if self._showing.get(name):
            self._showing[name] -= 1

    # -- what the pump asks

    def show(self, content: dict[str, Any], floats: memoryview) -> None:
        """Do nothing: what the bar shows does not depend on how far the run is."""

    def seal(self) -> None:
        """Become text in each output that shows the bar, unless a section was opened."""
        if not self.sections:
            super().seal()

    # -- where it is shown

    def text(self) -> str:
        """Return what can be opened; it is the same whenever it is asked."""
        return "Graph and placements of the run, opened here in JupyterLab"

    def record(self) -> Record:
        """Return graph and placements as text that folds; of a run that goes on, if one is open.

        There are no values in it, which would be others in each repetition of a run that somebody
        stopped.
        """
        run = self._run()
        if run is None or (not self.sections and (run.is_training or run.status == "ready")):
            return super().record()
        try:
            subject = subject_of(run)
        except ConfigurationError as fault:
            return {"text/plain": fault.problem, "text/html": element("p", fault.problem).text}
        graph = GraphView(subject.root, subject.context, subject.grads)
        drawn = graph.structure() if len(graph) <= MOST_PLACES else graph.outline()
        table = subject.context.placement_table()
        listed: Content = f"{len(table.rows):,} nodes, which `wb.placements(run)` lists"
        if len(table.rows) <= _MOST_LINES:
            listed = table.markup()
        parts = (
            _folded("Graph", drawing(drawn)),
            _folded("Placements", listed),
        )
        said = f"Graph of {len(graph):,} places, and placements of {len(table.rows):,} nodes"
        return {"text/plain": said, "text/html": element("div", *parts).text}


def _folded(title: str, content: Content) -> Markup:
    return element("details", element("summary", title), content)

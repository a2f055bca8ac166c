"""The usual set of views of a run, as `workbench.watch` opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, final

import IPython
import IPython.display

from workbench_widgets.inspection import Inspection
from workbench_widgets.panel import Panel

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["Watched", "watch"]


@final
class Watched:
    """The panel of a run, and below it the bar that opens its graph and its placements.

    Parameters
    ----------
    run
        Ready, training or over.

    Attributes
    ----------
    panel
        How the run goes, and the means to steer it; its record when it is over.
    inspection
        The bar; None of a run that was over already.
    """

    def __init__(self, run: Run) -> None:
        self.panel = Panel(run)
        self.inspection = None if self.panel.is_over else Inspection(run)

    def __repr__(self) -> str:
        return repr(self.panel)

    def _ipython_display_(self) -> None:
        # Libraries of notebooks are not typed throughout.
        display = cast("Any", IPython.display).display
        display(self.panel)
        # In a terminal there is nothing that could be opened.
        is_page = getattr(cast("Any", IPython).get_ipython(), "kernel", None) is not None
        if is_page and self.inspection is not None:
            display(self.inspection)


def watch(run: Run) -> Watched:
    """Return what shows a run while it goes on, and its record when it is over."""
    return Watched(run)

"""The usual view of a run, as `workbench.watch` opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench_widgets.panel import Panel

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["watch"]


def watch(run: Run) -> Panel:
    """Return what shows a run while it goes on, and its record when it is over."""
    return Panel(run)

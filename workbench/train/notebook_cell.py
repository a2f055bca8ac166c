"""Runs that were started from a notebook's cells, so that a cell that is run again stops its own.

In: the cell that is being executed, if there is one. Out: earlier runs of that cell, stopped.
Invariant: only a run that the same cell started in an earlier execution is stopped; without a
notebook nothing is.
"""

from __future__ import annotations

import inspect
import re
import sys
import weakref
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast, final

__all__ = ["Cell", "current_cell", "register_run", "stop_earlier_runs"]

_OF_A_CELL: Final = re.compile(r"ipykernel_\d+|<ipython-input-")


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """A cell in execution.

    Attributes
    ----------
    key
        The same whenever the cell is run.
    execution
        Different each time it is run.
    """

    key: str
    execution: str


class Stoppable(Protocol):
    """What a cell may have started."""

    def stop_for_good(self, reason: str) -> None:
        """Stop after the batch at hand, and wait until that is done."""
        ...


_started: dict[str, list[tuple[str, weakref.ref[Stoppable]]]] = {}


def current_cell() -> Cell | None:
    """Return the cell that is being executed; None outside of a notebook."""
    # Asked of what is loaded already: nothing here depends on IPython.
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    get_parent = getattr(get_shell() if get_shell is not None else None, "get_parent", None)
    parent = cast("dict[str, dict[str, Any]]", get_parent() if get_parent is not None else {})
    if not parent:
        return None
    # Front ends that name no cell are told by the cell's text: its file is named after that.
    key = str(parent.get("metadata", {}).get("cellId", "")) or _file_of_cell()
    execution = str(parent.get("header", {}).get("msg_id", ""))
    return Cell(key, execution) if key and execution else None


def _file_of_cell() -> str:
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if _OF_A_CELL.search(file):
            return file
        frame = frame.f_back
    return ""


def stop_earlier_runs(cell: Cell) -> None:
    """Stop what the cell started when it was run before, and wait until that has ended."""
    for execution, reference in _started.pop(cell.key, []):
        run = reference()
        if run is None:
            continue
        if execution == cell.execution:
            _started.setdefault(cell.key, []).append((execution, reference))
        else:
            run.stop_for_good("its cell was run again")


def register_run(cell: Cell, run: Stoppable) -> None:
    """Remember what a cell started."""
    _started.setdefault(cell.key, []).append((cell.execution, weakref.ref(run)))

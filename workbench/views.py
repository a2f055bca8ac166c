"""The way from the engine up to the views of a notebook, which stand above it.

In: the name of a view and what it shows. Out: the view, or text where notebook libraries are not
installed. Invariant: nothing of a notebook is imported before a view is asked for, and nothing here
but this lookup knows that there are views.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Final, cast

from workbench.errors import ConfigurationError
from workbench.train.comparison import runs
from workbench.train.run import Run
from workbench.train.store_text import RunText

__all__ = ["open_view", "overlay", "watch"]

_NOTEBOOK_LIBRARIES: Final = frozenset({"anywidget", "ipywidgets", "traitlets", "IPython"})


def open_view(name: str, *shown: Any, otherwise: Callable[[], Any], **options: Any) -> Any:
    """Return the view ``name`` of something, made by ``workbench_widgets.<name>.<name>``.

    Parameters
    ----------
    name
        Of the module, and of the function in it.
    shown, options
        What the function is called with.
    otherwise
        Called instead where the notebook libraries are not installed; returns what shows itself as
        text and as plain HTML.
    """
    try:
        module = importlib.import_module(f"workbench_widgets.{name}")
    except ModuleNotFoundError as fault:
        if (fault.name or "").split(".")[0] not in _NOTEBOOK_LIBRARIES:
            raise
        return otherwise()
    return getattr(module, name)(*shown, **options)


def watch(run: Run) -> Any:
    """Return the usual set of views of a run: a panel, and a bar that opens graph and placements.

    The panel shows the run while it goes on, and lets a person steer it. It has the run's state,
    its progress and the time left, its curves, and means to pause and stop it, to change its rate
    and its patience, to write a checkpoint, to go back to the best parameters. Whatever is done
    there is shown as the line of code that does it. The bar below opens what `workbench.tree` and
    `workbench.placements` show of the run, and costs nothing before that.

    Parameters
    ----------
    run
        Ready, training or over; it may be watched at any time, and any number of times.

    Returns
    -------
    object
        Shows itself at the end of a cell; its parts are ``.panel`` and ``.inspection``. When the
        run is over it becomes a record, without scripts, that stays in the notebook; a bar of which
        a section was opened stays as well, and answers. Where notebook libraries are not installed
        it is a text, which tells how the run stands each time that it is shown.

    Raises
    ------
    ConfigurationError
        If ``run`` is not a run.
    """
    if not isinstance(cast("object", run), Run):
        raise ConfigurationError(
            f"a `{type(run).__name__}` cannot be watched", remedy="pass a `wb.Run`"
        )
    return open_view("watch", run, otherwise=lambda: RunText(run))


def overlay(folder: str | os.PathLike[str] = "runs") -> Any:
    """Return a view of recorded runs over each other: pick some, choose a metric, compare.

    Parameters
    ----------
    folder
        Where `RunRecord` writes. What is shown is read anew whenever the view is asked for it.

    Returns
    -------
    object
        Shows itself at the end of a cell. Where notebook libraries are not installed it is the
        table that `runs` gives.
    """
    return open_view("overlay", folder, otherwise=lambda: runs(folder))

"""The way from the engine up to the views of a notebook, which stand above it.

In: the name of a view and what it shows. Out: the view, or text where notebook libraries are not
installed. Invariant: nothing of a notebook is imported before a view is asked for, and nothing here
but this lookup knows that there are views.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

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

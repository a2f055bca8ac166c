"""The text of a function as it was written in a cell, and where in it something went wrong.

Invariant: a text that cannot be had is said to be missing, and is no error.
"""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final

import workbench_kernels
from workbench import errors

__all__ = ["fault_place", "name_of_function", "source_diff", "source_of"]

# What lies in these folders is not a person's own code.
_OURS: Final = tuple(
    str(Path(module.__file__ or "").parent) for module in (errors, workbench_kernels)
)


def name_of_function(function: object) -> str:
    """Return what a function, or another callable, is called."""
    return str(getattr(function, "__name__", "") or type(function).__name__)


def source_of(function: Callable[..., Any]) -> str:
    """Return the text of a function as it was when it was defined, without common indentation."""
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):  # made by `exec`, or a callable object
        return f"# the text of `{name_of_function(function)}` is not at hand\n"


def source_diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Return how ``after`` differs from ``before``, as a unified diff; empty if it does not."""
    lines = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    return "\n".join(lines)


def fault_place(fault: BaseException) -> tuple[int | None, str]:
    """Return the line of a person's own code at which ``fault`` was raised, and its text.

    The line is counted from 1 in its file, which for a cell is the cell; None if there is none.
    """
    found: tuple[int | None, str] = (None, "")
    trace = fault.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OURS):
            text = linecache.getline(file, trace.tb_lineno, trace.tb_frame.f_globals)
            found = trace.tb_lineno, text.strip()
        trace = trace.tb_next
    return found

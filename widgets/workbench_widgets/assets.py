"""The scripts and styles of the views, joined from files into what a notebook loads.

In: files of ``static/``.  Out: the text of one module, of one style sheet.  Invariant: a file is
in a text once, after the files that it imports.

A notebook loads a view's module from memory, where no import of a neighbour can be resolved; the
files themselves are ordinary modules, so that they can be tested and read on their own.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"

_IMPORT: Final = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w-]+)\.js";\n', re.MULTILINE)
# Only the default export is for the notebook, and two modules may have exports of one name.
_NAMED_EXPORT: Final = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def script(name: str) -> str:
    """Return ``static/<name>.js`` with everything that it imports, as one module."""
    parts: dict[str, str] = {}

    def add(module: str) -> None:
        if module in parts:
            return
        text = (STATIC / f"{module}.js").read_text(encoding="utf-8")
        for needed in _IMPORT.findall(text):
            add(needed)
        parts[module] = _NAMED_EXPORT.sub("", _IMPORT.sub("", text))

    add(name)
    return "\n".join(parts.values())


@cache
def style(*names: str) -> str:
    """Return what all views have in common, and ``static/<name>.css`` of each of ``names``."""
    files = (STATIC / f"{each}.css" for each in ("frame", *names))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)

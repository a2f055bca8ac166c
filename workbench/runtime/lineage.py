"""Which call made which context, as a tree of those that still exist.

In: a context. Out: text and HTML. Invariant: contexts are registered by weak reference only, so
that being listed here keeps none of them, nor its memory, alive.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final
from weakref import WeakSet

from workbench.graph.markup import Markup, element
from workbench.graph.tensor import printable


class Entry(Protocol):
    """What a lineage asks of a context."""

    @property
    def id(self) -> int:
        """Number of the context, never used again."""
        ...

    @property
    def made_by(self) -> str:
        """The call that made it."""
        ...

    @property
    def parent(self) -> Entry | None:
        """The context that the call was made on, None for a root."""
        ...


MOST: Final = 40
"""Of a straight line of more contexts than this, the ones in the middle are left out."""

_alive: WeakSet[Entry] = WeakSet()
_lock: Final = threading.Lock()


def register(context: Entry) -> None:
    """Let ``context`` appear in lineages as long as it exists."""
    with _lock:
        _alive.add(context)


@dataclass(frozen=True, slots=True)
class Line:
    """One or more contexts in a row that calls of the same name made.

    Attributes
    ----------
    text
        Number or numbers, and the call.
    is_here
        Whether the context asked about is the last of them.
    """

    text: str
    is_here: bool = False


@dataclass(slots=True)
class _Branch:
    """A line of contexts without forks, then the branches that start from the last of them."""

    lines: list[Line]
    below: list[_Branch]


@final
class Lineage:
    """The tree of contexts around one context: its ancestors, and what else was made of them.

    It is a picture of the moment it was asked for.
    """

    def __init__(self, context: Entry) -> None:
        children = _children(context)
        self._whole = _branch(_root(context), children, context.id)

    def __str__(self) -> str:
        lines: list[str] = []
        stack = [(self._whole, "", "")]
        while stack:
            branch, first, rest = stack.pop()
            for line in branch.lines:
                mark = "  <- this context" if line.is_here else ""
                lines.append(f"{first}{printable(line.text)}{mark}")
                first = rest
            forks = [(each, f"{rest}├─ ", f"{rest}│  ") for each in branch.below[:-1]]
            forks += [(each, f"{rest}└─ ", f"{rest}   ") for each in branch.below[-1:]]
            stack.extend(reversed(forks))
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.markup().text

    def markup(self) -> Markup:
        """Return nested lists."""
        # Inside out, without recursion: forks of forks may go deep.
        made: dict[int, Markup] = {}
        order = [self._whole]
        for branch in order:
            order.extend(branch.below)
        for branch in reversed(order):
            items = [
                element("li", element("b", line.text) if line.is_here else line.text)
                for line in branch.lines
            ]
            if branch.below:
                items.append(element("li", *(made.pop(id(each)) for each in branch.below)))
            made[id(branch)] = element("ul", *items)
        return made[id(self._whole)]


def _root(context: Entry) -> Entry:
    while context.parent is not None:
        context = context.parent
    return context


def _children(context: Entry) -> dict[int, dict[int, Entry]]:
    """Return what was made of each context and still exists, by the numbers of both."""
    with _lock:
        known = sorted(_alive, key=lambda each: each.id)
    children: dict[int, dict[int, Entry]] = {}
    for each in known:
        if each.parent is not None:
            children.setdefault(each.parent.id, {})[each.id] = each
    return children


def _branch(root: Entry, children: dict[int, dict[int, Entry]], here: int) -> _Branch:
    whole = _Branch([], [])
    stack = [(root, whole)]
    while stack:
        context, branch = stack.pop()
        row = [context]
        while len(following := list(children.get(row[-1].id, {}).values())) == 1:
            row.extend(following)
        branch.lines = _lines(row, here)
        for child in following:
            below = _Branch([], [])
            branch.below.append(below)
            stack.append((child, below))
    return whole


def _lines(row: Sequence[Entry], here: int) -> list[Line]:
    """Return a line for each run of equal calls; the context asked about ends a run."""
    runs: list[list[Entry]] = []
    for context in row:
        before = runs[-1][-1] if runs else None
        if before is not None and before.made_by == context.made_by and before.id != here:
            runs[-1].append(context)
        else:
            runs.append([context])
    lines = [_line(run, here) for run in runs]
    if len(lines) <= MOST:
        return lines
    hidden = lines[MOST // 2 : len(lines) - MOST // 2]
    shown_here = [line for line in hidden if line.is_here]
    dots = Line(f"... {len(hidden) - len(shown_here)} more lines")
    return [*lines[: MOST // 2], dots, *shown_here, *lines[len(lines) - MOST // 2 :]]


def _line(run: Sequence[Entry], here: int) -> Line:
    last = run[-1]
    numbers = f"{run[0].id}" if len(run) == 1 else f"{run[0].id}..{last.id}"
    times = "" if len(run) == 1 else f" ({len(run)} times)"
    return Line(f"{numbers}  {last.made_by}{times}", last.id == here)

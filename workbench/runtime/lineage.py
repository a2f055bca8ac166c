"""Which call made which context, as a tree of those that still exist.

In: the origin of a context. Out: text and HTML. Invariant: origins are registered by weak reference
and hold no contexts, so that being listed here keeps none of them, nor its memory, alive.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final
from weakref import WeakSet

from workbench.graph.markup import Markup, element
from workbench.graph.tensor import printable

_ids = itertools.count(1)


@final
class Origin:
    """How a context came about: the call, and the origin of the context that it was made on.

    A context holds its origin and thereby those of all its ancestors, but no ancestor itself, whose
    memory could otherwise never be freed.

    Attributes
    ----------
    id
        Number of the context, never used again.
    made_by
        The call.
    before
        The origin of the context that the call was made on, None for a root.
    first
        Number of the first of the equal calls in a row that this origin stands for.
    times
        How many they are.
    """

    __slots__ = ("__weakref__", "before", "first", "id", "made_by", "times")

    def __init__(self, made_by: str = "root", before: Origin | None = None) -> None:
        self.id = self.first = next(_ids)
        self.made_by = made_by
        self.before = before
        self.times = 1
        with _lock:
            _alive.add(self)
            if before is not None:
                before.absorb()

    def absorb(self) -> None:
        """Stand for the origin before as well, if the call was the same and nobody else holds it.

        A loop of runs would otherwise leave one origin for each of them.
        """
        before = self.before
        if before is None or before.made_by != self.made_by:
            return
        first, times, earlier = before.first, before.times, before.before
        held = weakref.ref(before)
        self.before = None
        del before
        still = held()
        if still is None:
            self.first, self.times, self.before = first, self.times + times, earlier
        else:
            self.before = still


MOST: Final = 40
"""Of a straight line of more contexts than this, the ones in the middle are left out."""

_alive: WeakSet[Origin] = WeakSet()
_lock: Final = threading.RLock()


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

    def __init__(self, origin: Origin) -> None:
        with _lock:
            children = _children()
            self._whole = _branch(_root(origin), children, origin.id)

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


def _root(origin: Origin) -> Origin:
    while origin.before is not None:
        origin = origin.before
    return origin


def _children() -> dict[int, dict[int, Origin]]:
    """Return what was made of each context and still exists, by the numbers of both."""
    children: dict[int, dict[int, Origin]] = {}
    for each in sorted(_alive, key=lambda each: each.id):
        if each.before is not None:
            children.setdefault(each.before.id, {})[each.id] = each
    return children


def _branch(root: Origin, children: dict[int, dict[int, Origin]], here: int) -> _Branch:
    whole = _Branch([], [])
    stack = [(root, whole)]
    while stack:
        origin, branch = stack.pop()
        row = [origin]
        while len(following := list(children.get(row[-1].id, {}).values())) == 1:
            row.extend(following)
        branch.lines = _lines(row, here)
        for child in following:
            below = _Branch([], [])
            branch.below.append(below)
            stack.append((child, below))
    return whole


def _lines(row: Sequence[Origin], here: int) -> list[Line]:
    """Return a line for each run of equal calls; the context asked about ends a run."""
    runs: list[list[Origin]] = []
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


def _line(run: Sequence[Origin], here: int) -> Line:
    last = run[-1]
    times = sum(each.times for each in run)
    numbers = f"{last.id}" if times == 1 else f"{run[0].first}..{last.id}"
    more = "" if times == 1 else f" ({times} times)"
    return Line(f"{numbers}  {last.made_by}{more}", last.id == here)

"""A graph as rows that a page asks for when it shows them, and the details of one node.

In: a root, a context, gradients. Out: places in the order of `tree_text`, a row for each, details.
Invariant: asking changes nothing; a row or a detail costs nothing until it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.errors import GraphError
from workbench.graph.extent import show_shape
from workbench.graph.gradient_leaf import gradients_among
from workbench.graph.tensor import Tensor, printable
from workbench.loops.placement import Placement
from workbench.runtime.collection import collection_paused
from workbench.runtime.node_title import is_literal, title, where
from workbench.runtime.observe import Observability
from workbench.runtime.show_tree import tree_text
from workbench.runtime.show_value import Reader, brief_grid
from workbench.runtime.tree_places import Place, grow, numbered
from workbench.runtime.value_summary import Summary, summarize

MOST_LINES: Final = 200

MOST_FOUND: Final = 1000
"""Of more places than this that a search finds, the first are returned."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One place of the tree.

    Attributes
    ----------
    node
        What is drawn there.
    name
        ``#<number> <title>`` as in `tree_text`, in square brackets for a reference.
    place
        Position in the tree's order, the root first.
    drawn_at
        The place where the node itself is drawn; ``place`` unless this is a reference.
    shape
        Extents as text.
    mode
        Memory mode and code, ``Virt/0``; empty if nothing was decided.
    reading
        How its value is read, in words, or why it cannot be.
    is_readable
        Whether it can be read.
    operands
        Number of places right below.
    """

    node: Tensor
    name: str
    place: int
    drawn_at: int
    shape: str
    mode: str
    reading: str
    is_readable: bool
    operands: int


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The value of a node, or why there is none.

    Attributes
    ----------
    name
        Of the node, or ``grad_`` and its name.
    observability
        Whether and how it is read.
    summary
        None if it cannot be read.
    grid
        Its first elements as text.
    """

    name: str
    observability: Observability
    summary: Summary | None
    grid: str


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """All that can be said about one node.

    Attributes
    ----------
    row
        Its row, where it is drawn.
    placement
        Where it lives and who decided, None if nothing was decided.
    value, gradient
        What it holds; ``gradient`` is None if none was given for it.
    operands, readers
        Rows of what it reads and of what reads it within this tree.
    attributes
        What else the operation needs, as names and text.
    """

    row: Row
    placement: Placement | None
    value: Shown
    gradient: Shown | None
    operands: tuple[Row, ...]
    readers: tuple[Row, ...]
    attributes: tuple[tuple[str, str], ...]


@final
class GraphView:
    """The places of a graph in a context.

    Parameters
    ----------
    root
        Any tensor.
    context
        Where values are read, as they are when they are asked for.
    grads
        Gradients by node, as ``wb.backward`` returns them.

    Attributes
    ----------
    below
        How many places are right below each place, in order: this is the tree's whole form.
    """

    @collection_paused()
    def __init__(
        self, root: Tensor, context: Reader, grads: Mapping[Tensor, Tensor] | None = None
    ) -> None:
        self.root = root
        self.context = context
        places = grow(root)
        drawn = [place.node for place in places if not place.is_reference]
        if grads is None:
            grads = gradients_among(drawn, context.placements)
        self.grads = {node: grads[node] for node in drawn if node in grads}
        self._numbers = numbered(drawn, self.grads)
        self._places = _from_the_root(places[-1])
        self._drawn_at = {
            place.node: at for at, place in enumerate(self._places) if not place.is_reference
        }
        self.below: npt.NDArray[np.int32] = np.fromiter(
            (len(place.below) for place in self._places), np.int32, len(self._places)
        )
        self._readers: dict[Tensor, list[Tensor]] | None = None
        self._verdicts: dict[Tensor, Observability] | None = None
        self._folded: list[str] | None = None

    def __len__(self) -> int:
        return len(self._places)

    # -- rows

    def rows(self, places: Iterable[int]) -> list[Row]:
        """Return the rows of ``places``.

        Raises
        ------
        GraphError
            If there is no such place.
        """
        return [self._row(self._checked(place)) for place in places]

    def find(self, text: str) -> list[int]:
        """Return the places of the nodes whose name, operation or shape contains ``text``.

        Case does not matter. References are left out: their nodes are found where they are drawn.
        """
        wanted = text.casefold().strip()
        if not wanted:
            return []
        if self._folded is None:
            self._folded = [
                ""
                if p.is_reference
                else f"{self._name(p.node)} {p.node.op} {_shape(p.node)}".casefold()
                for p in self._places
            ]
        found = (place for place, known in enumerate(self._folded) if wanted in known)
        return [place for _, place in zip(range(MOST_FOUND), found, strict=False)]

    def starting(self, text: str) -> list[int]:
        """Return the places whose title or number begins with ``text``, as typing asks for them."""
        wanted = text.casefold()
        return [
            place
            for place, each in enumerate(self._places)
            if not each.is_reference
            and (
                title(each.node).casefold().startswith(wanted)
                or f"{self._numbers[each.node]}".startswith(wanted)
            )
        ]

    def place_of(self, node: Tensor) -> int:
        """Return where ``node`` is drawn.

        Raises
        ------
        GraphError
            If it is not part of the tree.
        """
        if node not in self._drawn_at:
            raise GraphError(
                f"{node!r} is not drawn in the tree of {self.root!r}",
                remedy="open a tree of a tensor that is computed from it",
            )
        return self._drawn_at[node]

    def node_at(self, place: int) -> Tensor:
        """Return the node that is drawn, or referred to, at ``place``.

        Raises
        ------
        GraphError
            If there is no such place.
        """
        return self._places[self._checked(place)].node

    def _checked(self, place: int) -> int:
        if not 0 <= place < len(self._places):
            raise GraphError(
                f"the tree has no place {place}", remedy=f"it has places 0 to {len(self) - 1}"
            )
        return place

    def _row(self, at: int) -> Row:
        place = self._places[at]
        node = place.node
        verdict = self._verdict(node)
        name = self._name(node)
        return Row(
            node=node,
            name=f"[{name}]" if place.is_reference else name,
            place=at,
            drawn_at=self._drawn_at[node],
            shape=_shape(node),
            mode=where(self.context.placements.get(node)),
            reading=_reading(verdict),
            is_readable=verdict.is_readable,
            operands=len(place.below),
        )

    def _name(self, node: Tensor) -> str:
        return f"#{self._numbers[node]} {title(node)}"

    def _verdict(self, node: Tensor) -> Observability:
        if self._verdicts is None:
            verdicts = self.context.observabilities(self._drawn_at)
            self._verdicts = {verdict.node: verdict for verdict in verdicts}
        return self._verdicts[node]

    # -- one node

    def detail(self, place: int) -> Detail:
        """Return all about the node at ``place``; its value is read, or computed again, now.

        Raises
        ------
        GraphError
            If there is no such place.
        """
        node = self._places[self._checked(place)].node
        at = self._drawn_at[node]
        gradient = self.grads.get(node)
        wanted = [node] if gradient is None else [node, gradient]
        verdicts = self.context.observabilities(wanted)
        readable = list(dict.fromkeys(v.node for v in verdicts if v.is_readable))
        values = dict(zip(readable, self.context.read(readable), strict=True))
        names = [self._name(node), f"#{self._numbers[node] + 1} grad_{title(node)}"]
        shown = [
            self._shown(name, verdict, values.get(verdict.node))
            for name, verdict in zip(names, verdicts, strict=False)
        ]
        return Detail(
            row=self._row(at),
            placement=self.context.placements.get(node),
            value=shown[0],
            gradient=shown[1] if len(shown) > 1 else None,
            operands=tuple(self._row(self._drawn_at[p.node]) for p in self._places[at].below),
            readers=tuple(self._row(self._drawn_at[reader]) for reader in self._read_by(node)),
            attributes=_attributes(node),
        )

    def _shown(self, name: str, verdict: Observability, value: npt.NDArray[Any] | None) -> Shown:
        if value is None:
            return Shown(name, verdict, None, "")
        precision = self.context.settings_in_force().print_precision
        grid = "\n".join(brief_grid(value, precision))
        return Shown(name, verdict, summarize(value), grid)

    def _read_by(self, node: Tensor) -> list[Tensor]:
        if self._readers is None:
            self._readers = {}
            for place in self._places:
                for below in dict.fromkeys(child.node for child in place.below):
                    self._readers.setdefault(below, []).append(place.node)
        return self._readers.get(node, [])

    # -- without a page

    def outline(self, most: int = MOST_LINES) -> str:
        """Return the first places as an indented list of names and modes, without values.

        Parameters
        ----------
        most
            So many lines; what is left out is counted in one more.
        """
        lines: list[str] = []
        for place, row in zip(self._places, self.rows(range(min(most, len(self)))), strict=False):
            lines.append(" ".join(filter(None, ["  " * place.level + row.name, row.mode])))
        if len(self) > most:
            lines.append(f"... and {len(self) - most:,} places more")
        return "\n".join(lines)

    def structure(self) -> str:
        """Return the tree as `printf_tree` prints it without values: nothing is read for it."""
        return tree_text(self.context, self.root, with_value=False, with_grad=False)

    def __str__(self) -> str:
        return tree_text(self.context, self.root, grads=self.grads)

    __repr__ = __str__


def _from_the_root(root: Place) -> list[Place]:
    order: list[Place] = []
    stack = [root]
    while stack:
        place = stack.pop()
        order.append(place)
        stack.extend(reversed(place.below))
    return order


def _shape(node: Tensor) -> str:
    return f"{show_shape(node.shape)} {node.dtype}"


def _reading(verdict: Observability) -> str:
    if verdict.is_readable:
        return verdict.reading.value
    return verdict.placeholder.strip("<>")


def _attributes(node: Tensor) -> tuple[tuple[str, str], ...]:
    if is_literal(node):
        return ()
    return tuple((printable(name), printable(str(value))) for name, value in node.attributes)

"""Where every node of a lineage lives, who decided so, and whether it can be read: a table.

In: a context. Out: rows that can be put in order, text, HTML. Invariant: the table is a picture of
the moment it was asked for; nothing is compiled or run to make it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, final, get_args

import numpy.typing as npt

from workbench.errors import ConfigurationError
from workbench.graph.extent import Batch, count
from workbench.graph.markup import Markup, table
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Mode, Placement
from workbench.runtime.node_title import title
from workbench.runtime.observe import Observability
from workbench.runtime.text_block import columns, counted

Order = Literal["decided", "node", "mode", "code", "bytes", "readable"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)

HEADER: Final = ("node", "mode", "code", "who decided", "bytes", "readable")

SET_BY_HAND: Final = Placement(Mode.ON_DEVICE, "", "a person set its value; no routine uses it yet")


class Stored(Protocol):
    """Memory of one node."""

    def view(self) -> npt.NDArray[Any]:
        """Return the value in its shape, without copying."""
        ...


class Placed(Protocol):
    """What the table asks of a context."""

    @property
    def placements(self) -> Mapping[Tensor, Placement]:
        """Decisions of the lineage."""
        ...

    @property
    def buffers(self) -> Mapping[Tensor, Stored]:
        """Memory of nodes on the device."""
        ...

    def verdicts(self, nodes: Iterable[Tensor]) -> list[Observability]:
        """Return how each node can be read."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """One node.

    Attributes
    ----------
    node
        The node.
    name
        What it is called in this table; numbered where two have the same label.
    placement
        Mode, code and reason.
    size_bytes
        Bytes of its value in memory; for a batch of unknown size, bytes of one row.
    by_row
        Whether ``size_bytes`` is of one row.
    observability
        Whether and how it can be read.
    """

    node: Tensor
    name: str
    placement: Placement
    size_bytes: int
    by_row: bool
    observability: Observability

    @property
    def is_readable(self) -> bool:
        """Whether a read succeeds."""
        return self.observability.is_readable

    def cells(self) -> tuple[str, ...]:
        """Return the row as text, one for each heading."""
        verdict = self.observability
        why = verdict.placeholder.strip("<>").removeprefix("unobservable: ")
        how = verdict.reading.value if verdict.is_readable else f"no: {why}"
        size = f"{self.size_bytes:,}{' a row' if self.by_row else ''}"
        placement = self.placement
        return (self.name, placement.mode.value, placement.code, placement.reason, size, how)


_KEYS: Final[Mapping[Order, Callable[[Row], Any]]] = {
    "decided": lambda row: 0,
    "node": lambda row: row.name,
    "mode": lambda row: row.placement.mode.value,
    "code": lambda row: (len(row.placement.code), row.placement.code),
    "bytes": lambda row: -row.size_bytes,
    "readable": lambda row: (row.is_readable, row.observability.reading.value),
}


@final
@dataclass(frozen=True, slots=True, repr=False)
class PlacementTable:
    """Rows in an order.

    Attributes
    ----------
    rows
        One for each node.
    """

    rows: tuple[Row, ...]

    def ordered(self, order: Order) -> PlacementTable:
        """Return the table in another order; rows that are equal in it stay as they are.

        Parameters
        ----------
        order
            ``"decided"``: as it is; ``"node"``, ``"mode"``, ``"code"``: by that column;
            ``"bytes"``: the largest first; ``"readable"``: what cannot be read first.

        Raises
        ------
        ConfigurationError
            If there is no such order.
        """
        if order not in ORDERS:
            raise ConfigurationError(
                f"a placement table has no order `{order}`",
                remedy=f"use one of {', '.join(ORDERS)}",
            )
        return PlacementTable(tuple(sorted(self.rows, key=_KEYS[order])))

    def __str__(self) -> str:
        lines = [HEADER, *(row.cells() for row in self.rows)]
        return "\n".join([*columns(lines), self._summary()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.markup().text

    def markup(self) -> Markup:
        """Return an HTML table."""
        return table(HEADER, (row.cells() for row in self.rows), self._summary())

    def _summary(self) -> str:
        lost = sum(not row.is_readable for row in self.rows)
        return f"{counted(len(self.rows), 'node')}, {lost} of them cannot be read"


def placement_table(context: Placed, order: Order = "decided") -> PlacementTable:
    """Return the table of all nodes that ``context`` has decided about or holds values of."""
    nodes = list(dict.fromkeys([*context.placements, *context.buffers]))
    names = _distinct(nodes)
    verdicts = context.verdicts(nodes)
    rows = [
        Row(node, names[node], context.placements.get(node, SET_BY_HAND), *_size(context, node), v)
        for node, v in zip(nodes, verdicts, strict=True)
    ]
    return PlacementTable(tuple(rows)).ordered(order)


def _size(context: Placed, node: Tensor) -> tuple[int, bool]:
    buffer = context.buffers.get(node)
    if buffer is not None:
        return buffer.view().nbytes, False
    placement = context.placements.get(node)
    if placement is None or not placement.is_stored:
        return 0, False
    size = count(node.shape)
    if isinstance(size, Batch):
        return size.factor * node.dtype.itemsize, True
    return size * node.dtype.itemsize, False


def _distinct(nodes: Iterable[Tensor]) -> dict[Tensor, str]:
    names: dict[Tensor, str] = {}
    taken: dict[str, int] = {}
    for node in nodes:
        base = title(node)
        taken[base] = number = taken.get(base, 0) + 1
        names[node] = base if number == 1 else f"{base} ({number})"
    return names

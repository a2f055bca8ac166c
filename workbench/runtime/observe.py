"""Whether the value of a node can be read, and if not, which decision made it so and what to do.

In: a node, which nodes hold values, and the placements of the lineage. Out: an `Observability`.
Invariant: asking changes nothing and compiles nothing; the answer speaks of structure only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.assign.from_graph import STATE
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch
from workbench.graph.leaf import scalar_value
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor, printable
from workbench.loops.placement import Mode, Placement

CAPS = {
    "1": "max_visits",
    "39": "max_inline_reduction",
    "41": "max_inline_fanin",
    "60": "max_shared_cost",
    "63": "max_inline_cost",
}
"""Settings that could be raised to keep a node virtual, by the code of the rule that stored it."""


class Reading(enum.Enum):
    """How a value can be read, or why it cannot; the worst of several reasons is reported."""

    STORED = "stored"
    HOST_INIT = "host data"
    RECOMPUTABLE = "recomputable"
    UNOBSERVABLE_LOCAL = "unobservable: local"
    UNOBSERVABLE_ALIASED = "unobservable: its bytes are shared"
    UNOBSERVABLE_MERGE = "unobservable: it came through a merge buffer"
    LAUNCH_BOUND = "depends on what a launch binds"
    NEEDS_CONTEXT = "not present in this context"

    @property
    def is_readable(self) -> bool:
        """Whether a read succeeds."""
        return self in (Reading.STORED, Reading.HOST_INIT, Reading.RECOMPUTABLE)


@final
@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do about an unreadable node, as data that a button can act on.

    Attributes
    ----------
    action
        ``"materialize"``: store ``node`` before its routine compiles; ``"raise"``: raise
        ``setting``; ``"switch off"``: compile without ``setting``; ``"run"``: run or compile what
        computes ``node``.
    node
        The node to act on.
    setting
        Name of a setting, for ``"raise"`` and ``"switch off"``.
    """

    action: str
    node: Tensor
    setting: str = ""

    def __str__(self) -> str:
        if self.action == "materialize":
            return (
                f"compile with {describe(self.node)} among the outputs: `ctx.compile([..., t])`, "
                "or after `ctx = ctx.decide_materialized(t)`"
            )
        if self.action == "switch off":
            return f"or compile `with wb.settings({self.setting}=False)`"
        if self.action == "raise":
            return (
                f"or raise the setting `{self.setting}`, which may keep it virtual: "
                f"`with wb.settings({self.setting}=...)`"
            )
        return f"run the routine that computes {describe(self.node)}, or set its value"


@final
@dataclass(frozen=True, slots=True)
class Observability:
    """The answer to "can I read this?".

    Attributes
    ----------
    node
        What was asked about.
    reading
        How it is read, or the worst reason why it cannot be.
    path
        From ``node`` to the node at fault, both included; empty if it is readable.
    placement
        Where the node at fault lives and who decided so.
    remedies
        What to do, the surest first.
    """

    node: Tensor
    reading: Reading
    path: tuple[Tensor, ...] = ()
    placement: Placement | None = None
    remedies: tuple[Remedy, ...] = field(default=())

    @property
    def is_readable(self) -> bool:
        """Whether a read succeeds."""
        return self.reading.is_readable

    @property
    def placeholder(self) -> str:
        """What a printer shows in place of a value; empty if there is a value."""
        return self.placeholder_naming(_short(self.path[-1]) if self.path else "")

    def placeholder_naming(self, fault: str) -> str:
        """Return the placeholder with ``fault`` as the name of the node at fault."""
        if self.is_readable:
            return ""
        if self.reading is Reading.UNOBSERVABLE_LOCAL:
            what = "Local"
        elif self.reading in _WORDS:
            what = _WORDS[self.reading]
        else:
            what = "absent" if self.placement is None else "empty"
        return f"<unobservable: {f'reads {what} {fault}' if len(self.path) > 1 else what}>"

    @property
    def problem(self) -> str:
        """Why the value cannot be read, with the path and who decided; empty if it can."""
        if self.is_readable:
            return ""
        chain = " -> ".join(_short(node) for node in self.path)
        at_fault = self.path[-1]
        fault = describe(at_fault)
        via = f" (read through {chain})" if len(self.path) > 1 else ""
        if self.reading is Reading.UNOBSERVABLE_MERGE:
            return (
                f"{describe(self.node)} cannot be read: {fault} is a merge buffer, whose contents "
                f"last until the next copy{via}"
            )
        if self.placement is None:
            return f"{describe(self.node)} cannot be read: {fault} is not part of this context"
        if self.reading is Reading.LAUNCH_BOUND:
            if declared_extent(at_fault) is not None:
                return (
                    f"{describe(self.node)} cannot be read: {fault} is a static index, which has a "
                    f"value only while a routine runs{via}"
                )
            return (
                f"{describe(self.node)} cannot be read: it depends on the batch size, and the "
                "values here do not tell which"
            )
        if self.reading is Reading.NEEDS_CONTEXT:
            return f"{describe(self.node)} cannot be read: {fault} holds no value here yet{via}"
        return f"{describe(self.node)} cannot be read: {fault} is {self.placement}{via}"

    @property
    def remedy_text(self) -> str:
        """The remedies as one sentence."""
        return "; ".join(str(remedy) for remedy in self.remedies)

    def __str__(self) -> str:
        if self.is_readable:
            return f"{describe(self.node)}: {self.reading.value}"
        return f"{self.problem}\nRemedy: {self.remedy_text}"


def _short(node: Tensor) -> str:
    return printable(node.label) or node.op


def observe(
    node: Tensor,
    stored: Container[Tensor],
    placements: Mapping[Tensor, Placement],
    rows: Callable[[], int | None] = lambda: None,
) -> Observability:
    """Return how ``node`` can be read.

    Parameters
    ----------
    node
        Any tensor.
    stored
        Nodes whose buffers hold values.
    placements
        Decisions of the lineage.
    rows
        Gives the batch size that all values of the context share, None if there is no such size;
        called only if the answer depends on it.
    """
    return observe_all([node], stored, placements, rows)[0]


def observe_all(
    nodes: Iterable[Tensor],
    stored: Container[Tensor],
    placements: Mapping[Tensor, Placement],
    rows: Callable[[], int | None] = lambda: None,
) -> list[Observability]:
    """Return how each of ``nodes`` can be read; what they share is looked at once."""
    walk = Walk(stored, placements)
    return [walk.answer(node, rows) for node in nodes]


def host_data(node: Tensor) -> npt.NDArray[Any] | None:
    """Return a copy of the value that ``node`` was made with, None if it was made without one."""
    if node.op == "constant":
        return np.array(scalar_value(node), node.dtype.numpy)
    return None if node.value is None else node.value.copy()


@dataclass(frozen=True, slots=True)
class _Found:
    """What a walk from one node came to.

    Attributes
    ----------
    worst
        The worst reason against reading it, None if there is none.
    via
        The operand that the worst reason comes through, None if it is the node's own.
    needs_rows
        Whether the value depends on the batch size.
    knows_rows
        Whether something it reads has a batch axis in memory, which tells the batch size.
    """

    worst: Reading | None = None
    via: Tensor | None = None
    needs_rows: bool = False
    knows_rows: bool = False


@final
class Walk:
    """Follows virtual nodes to what they are computed from, each once, in order of operands.

    It remembers what it found, for the next question about the same context.

    Parameters
    ----------
    stored
        Nodes whose buffers hold values.
    placements
        Decisions of the lineage.
    """

    def __init__(self, stored: Container[Tensor], placements: Mapping[Tensor, Placement]) -> None:
        self.stored = stored
        self.placements = placements
        self.found: dict[Tensor, _Found] = {}

    def answer(self, node: Tensor, rows: Callable[[], int | None]) -> Observability:
        """Return how ``node`` can be read.

        Parameters
        ----------
        node
            Any tensor.
        rows
            As for `observe`.
        """
        own = _own(node, self.stored, self.placements)
        if own is not None:
            return self._verdict(node, own, (node,))
        self._visit(node)
        found = self.found[node]
        if found.worst is None:
            if found.needs_rows and not found.knows_rows and rows() is None:
                return self._verdict(node, Reading.LAUNCH_BOUND, (node,))
            return Observability(node, Reading.RECOMPUTABLE)
        path = [node]
        while (via := self.found[path[-1]].via) is not None:
            path.append(via)
        return self._verdict(node, found.worst, tuple(path))

    def _visit(self, root: Tensor) -> None:
        stack: list[tuple[Tensor, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if node in self.found:
                continue
            if expanded:
                self.found[node] = self._joined(node)
                continue
            reading = _own(node, self.stored, self.placements)
            if reading is None:
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
            elif reading.is_readable:
                self.found[node] = _Found(knows_rows=_has_batch(node))
            else:
                self.found[node] = _Found(reading)

    def _joined(self, node: Tensor) -> _Found:
        worst: Reading | None = None
        via: Tensor | None = None
        for operand in node.operands:
            theirs = self.found[operand].worst
            if theirs is not None and (worst is None or _RANKS[theirs] > _RANKS[worst]):
                worst, via = theirs, operand
        below = [self.found[operand] for operand in node.operands]
        own = _has_batch(node) or isinstance(dict(node.attributes).get("extent"), Batch)
        return _Found(
            worst,
            via,
            own or any(each.needs_rows for each in below),
            any(each.knows_rows for each in below),
        )

    def _verdict(self, node: Tensor, reading: Reading, path: tuple[Tensor, ...]) -> Observability:
        if reading.is_readable:
            return Observability(node, reading)
        fault = path[-1]
        placement = self.placements.get(fault)
        remedies = [Remedy("run", fault)]
        if reading in (
            Reading.UNOBSERVABLE_LOCAL,
            Reading.UNOBSERVABLE_ALIASED,
            Reading.LAUNCH_BOUND,
        ):
            # What a launch binds is gone afterwards: what is kept is what was asked about.
            bound = reading is Reading.LAUNCH_BOUND
            remedies = [Remedy("materialize", node if bound else fault)]
        if reading is Reading.UNOBSERVABLE_ALIASED:
            remedies.append(Remedy("switch off", fault, "buffer_aliasing"))
        if reading is Reading.UNOBSERVABLE_MERGE:
            # What was made of it in the routine that received it can be kept, the bytes cannot.
            remedies = [Remedy("materialize", path[-2] if len(path) > 1 else fault)]
        if reading is Reading.UNOBSERVABLE_LOCAL:
            cap = CAPS.get(placement.code) if placement is not None else None
            if cap is not None:
                remedies.append(Remedy("raise", fault, cap))
        return Observability(node, reading, path, placement, tuple(remedies))


_WORDS: Final = {
    Reading.UNOBSERVABLE_ALIASED: "aliased",
    Reading.UNOBSERVABLE_MERGE: "merge buffer",
    Reading.LAUNCH_BOUND: "launch-bound",
}

_RANKS: Final = {
    Reading.UNOBSERVABLE_LOCAL: 4,
    Reading.UNOBSERVABLE_ALIASED: 3,
    Reading.UNOBSERVABLE_MERGE: 2,
    Reading.LAUNCH_BOUND: 1,
    Reading.NEEDS_CONTEXT: 0,
}


def _has_batch(node: Tensor) -> bool:
    return any(isinstance(extent, Batch) for extent in node.shape)


def _own(
    node: Tensor, stored: Container[Tensor], placements: Mapping[Tensor, Placement]
) -> Reading | None:
    """Return the node's own answer, None if it depends on what it is computed from."""
    placement = placements.get(node)
    if placement is not None and placement.mode is Mode.LOCAL:
        return Reading.UNOBSERVABLE_LOCAL
    if placement is not None and placement.is_aliased:
        return Reading.UNOBSERVABLE_ALIASED
    if node.op == "merge":
        return Reading.UNOBSERVABLE_MERGE
    if node in stored:
        return Reading.STORED
    if declared_extent(node) is not None:
        return Reading.LAUNCH_BOUND
    if node.value is not None or node.op == "constant":
        return Reading.HOST_INIT
    if placement is None or placement.mode is Mode.ON_DEVICE or node.op in STATE:
        return Reading.NEEDS_CONTEXT
    return None

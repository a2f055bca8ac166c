"""Whether the value of a node can be read, and if not, which decision made it so and what to do.

In: a node, which nodes hold values, and the placements of the lineage. Out: an `Observability`.
Invariant: asking changes nothing and compiles nothing; the answer speaks of structure only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from workbench.assign.from_graph import LEAVES, STATE
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch
from workbench.graph.leaf import scalar_value
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor, printable
from workbench.loops.placement import Mode, Placement
from workbench.runtime.naming import Names
from workbench.runtime.remedy import Remedy

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


def _no_steps(_: Tensor) -> tuple[Remedy, ...]:
    return ()


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
    """

    node: Tensor
    reading: Reading
    path: tuple[Tensor, ...] = ()
    placement: Placement | None = None
    _steps: Callable[[Tensor], tuple[Remedy, ...]] = field(
        default=_no_steps, repr=False, compare=False
    )

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What to do, one after the other, so that ``node`` can be read; empty if it can."""
        return () if self.is_readable else self._steps(self.node)

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
        return "; then ".join(str(remedy) for remedy in self.remedies)

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


@final
@dataclass(frozen=True, slots=True)
class Waits:
    """A routine that has to run first.

    Attributes
    ----------
    name
        For people.
    required
        What needs a value before it runs.
    gives
        What holds a value after it ran.
    """

    name: str
    required: frozenset[Tensor]
    gives: frozenset[Tensor]


Waiting: TypeAlias = Callable[[Iterable[Tensor]], Sequence[Waits]]


def _nothing_waits(_: Iterable[Tensor]) -> Sequence[Waits]:
    return ()


class _Places(Mapping[Tensor, str]):
    """How a node is typed: by its name in the context, or by the way to it from the one asked."""

    def __init__(self, names: Names, ways: Mapping[Tensor, str]) -> None:
        self._names, self._ways = names, ways

    def __getitem__(self, node: Tensor) -> str:
        name = self._names.of(node)
        return self._ways[node] if name is None else f"ctx.node({name!r})"

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._ways)

    def __len__(self) -> int:
        return len(self._ways)


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
    waiting
        Gives the routines that have to run before some nodes can be computed once more.
    """

    def __init__(
        self,
        stored: Container[Tensor],
        placements: Mapping[Tensor, Placement],
        waiting: Waiting = _nothing_waits,
    ) -> None:
        self.stored = stored
        self.placements = placements
        self.waiting = waiting
        self.names = Names(placements)
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
        return _Found(
            worst,
            via,
            _needs_rows(node) or any(each.needs_rows for each in below),
            any(each.knows_rows for each in below),
        )

    def _verdict(self, node: Tensor, reading: Reading, path: tuple[Tensor, ...]) -> Observability:
        if reading.is_readable:
            return Observability(node, reading)
        fault = path[-1]
        return Observability(node, reading, path, self.placements.get(fault), self.remedies)

    def remedies(self, node: Tensor) -> tuple[Remedy, ...]:
        """Return the steps after which ``node`` can be read, wherever the fault is."""
        below = self._below(node)
        if self._is_unset(node):
            return (self._step("set", (node,), below),)
        if node.op == "merge":
            return (self._step("fill", (node,), below),)
        lacking = {each: None for each in below if self._is_unset(each)}
        if lacking and self._would_read(node, lacking):
            return (self._step("set", tuple(lacking), below),)
        waiting = self.waiting(below)
        needed = (each for routine in waiting for each in routine.required)
        lacking.update((each, None) for each in needed if self._is_unset(each))
        steps = [self._step("set", tuple(lacking), below)] if lacking else []
        if waiting:
            steps.append(Remedy("run", routines=tuple(each.name for each in waiting)))
        given = {*lacking, *(each for routine in waiting for each in routine.gives)}
        if not self._would_read(node, given):
            indices = tuple(each for each in below if declared_extent(each) is not None)
            # Where nothing that is read has a batch axis, nothing tells its size.
            leaves = [each for each in below if each.op in LEAVES]
            asks_rows = any(map(_needs_rows, below)) and not any(map(_has_batch, leaves))
            stored = self._step("materialize", (node,), below)
            steps.append(replace(stored, bindings=indices, asks_rows=asks_rows))
        return tuple(steps)

    def _would_read(self, node: Tensor, given: Iterable[Tensor]) -> bool:
        """Return whether ``node`` could be read if ``given`` held values as well."""
        more = {*given}
        stored = {each for each in self._below(node) if each in self.stored} | more
        rows = 1 if any(map(_has_batch, more)) else None
        return Walk(stored, self.placements).answer(node, lambda: rows).is_readable

    def _step(self, action: str, nodes: tuple[Tensor, ...], below: Mapping[Tensor, str]) -> Remedy:
        return Remedy(action, nodes, places=_Places(self.names, below))

    def _below(self, root: Tensor) -> dict[Tensor, str]:
        """Return ``root`` and what it is computed from, with the way to each."""
        found = {root: "t"}
        waiting = [root]
        for node in waiting:
            for place, operand in enumerate(node.operands):
                if operand not in found:
                    found[operand] = f"{found[node]}.operands[{place}]"
                    waiting.append(operand)
        return found

    def _is_unset(self, node: Tensor) -> bool:
        if node in self.stored or node.value is not None or declared_extent(node) is not None:
            return False
        return node.op in STATE


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


def _needs_rows(node: Tensor) -> bool:
    return _has_batch(node) or isinstance(dict(node.attributes).get("extent"), Batch)


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

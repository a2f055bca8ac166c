"""Whether the value of a node can be read, and if not, which decision made it so and what to do.

In: a node, which nodes hold values, and the placements of the lineage. Out: an `Observability`.
Invariant: asking changes nothing and compiles nothing; the answer speaks of structure only.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import final

from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
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
        ``setting``; ``"run"``: run or compile what computes ``node``.
    node
        The node to act on.
    setting
        Name of a setting, for ``"raise"``.
    """

    action: str
    node: Tensor
    setting: str = ""

    def __str__(self) -> str:
        if self.action == "materialize":
            return f"compile with {describe(self.node)} among the outputs: `ctx.compile([..., t])`"
        if self.action == "raise":
            return f"or raise the setting `{self.setting}`, which may keep it virtual"
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
        if self.is_readable:
            return ""
        fault = self.path[-1]
        what = "Local" if self.reading is Reading.UNOBSERVABLE_LOCAL else "absent"
        return f"<unobservable: reads {what} {fault.label or fault.op}>"

    @property
    def problem(self) -> str:
        """Why the value cannot be read, with the path and who decided; empty if it can."""
        if self.is_readable:
            return ""
        chain = " -> ".join(n.label or n.op for n in self.path)
        fault = describe(self.path[-1])
        if self.placement is None:
            return f"{describe(self.node)} cannot be read: {fault} is not part of this context"
        via = f" (read through {chain})" if len(self.path) > 1 else ""
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


def observe(
    node: Tensor, stored: Container[Tensor], placements: Mapping[Tensor, Placement]
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
    """
    reading = _own(node, stored, placements)
    if reading is not None:
        return _answer(node, reading, (node,), placements)
    # A virtual node: follow what it is computed from, in the order of its operands.
    worst: tuple[Reading, tuple[Tensor, ...]] | None = None
    seen = {node}
    stack: list[tuple[Tensor, ...]] = [(node, operand) for operand in reversed(node.operands)]
    while stack:
        path = stack.pop()
        current = path[-1]
        if current in seen:
            continue
        seen.add(current)
        reading = _own(current, stored, placements)
        if reading is None:
            stack.extend((*path, operand) for operand in reversed(current.operands))
        elif not reading.is_readable and (worst is None or _rank(reading) > _rank(worst[0])):
            worst = (reading, path)
    if worst is None:
        return Observability(node, Reading.RECOMPUTABLE)
    return _answer(node, worst[0], worst[1], placements)


def _rank(reading: Reading) -> int:
    return 1 if reading is Reading.UNOBSERVABLE_LOCAL else 0


def _own(
    node: Tensor, stored: Container[Tensor], placements: Mapping[Tensor, Placement]
) -> Reading | None:
    """Return the node's own answer, None if it depends on what it is computed from."""
    placement = placements.get(node)
    if placement is not None and placement.mode is Mode.LOCAL:
        return Reading.UNOBSERVABLE_LOCAL
    if node in stored:
        return Reading.STORED
    if node.value is not None:
        return Reading.HOST_INIT
    if placement is None or not node.operands:
        constant = not node.operands and node.op not in ("input", "parameter", "array")
        return None if placement is not None and constant else Reading.NEEDS_CONTEXT
    return None if placement.mode is not Mode.ON_DEVICE else Reading.NEEDS_CONTEXT


def _answer(
    node: Tensor,
    reading: Reading,
    path: tuple[Tensor, ...],
    placements: Mapping[Tensor, Placement],
) -> Observability:
    if reading.is_readable:
        return Observability(node, reading)
    fault = path[-1]
    placement = placements.get(fault)
    remedies = [Remedy("run", fault)]
    if reading is Reading.UNOBSERVABLE_LOCAL:
        remedies = [Remedy("materialize", fault)]
        cap = CAPS.get(placement.code) if placement is not None else None
        if cap is not None:
            remedies.append(Remedy("raise", fault, cap))
    return Observability(node, reading, path, placement, tuple(remedies))

"""The places of a graph that is drawn as a tree: each node once, elsewhere a reference to it.

In: a root. Out: places in order, and a number for each node. Invariant: whatever draws the tree, as
text or on a page, has the same places under the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.graph.tensor import Tensor
from workbench.runtime.node_title import is_literal


@dataclass(slots=True, eq=False)
class Place:
    """One place in the tree: a node with what it is computed from, or a reference to it."""

    node: Tensor
    level: int
    is_reference: bool = False
    below: list[Place] = field(default_factory=list["Place"])


def grow(root: Tensor) -> list[Place]:
    """Return the places of the tree, operands before what reads them; the root comes last."""
    seen: set[Tensor] = set()
    order: list[Place] = []
    stack: list[tuple[Place, bool]] = [(Place(root, 0), False)]
    while stack:
        place, expanded = stack.pop()
        if expanded:
            order.append(place)
            continue
        if place.node in seen:
            place.is_reference = True
            order.append(place)
            continue
        seen.add(place.node)
        place.below = [Place(_drawn(o), place.level + 1) for o in place.node.operands]
        stack.append((place, True))
        stack.extend((child, False) for child in reversed(place.below))
    return order


def _drawn(operand: Tensor) -> Tensor:
    """Return the number itself for a number that was only spread to a shape."""
    if operand.op == "broadcast" and not operand.label and is_literal(operand.operands[0]):
        return operand.operands[0]
    return operand


def numbered(drawn: list[Tensor], gradients: Mapping[Tensor, Tensor]) -> dict[Tensor, int]:
    """Return the number of each node; its gradient, if it shows one, has the number after it."""
    numbers: dict[Tensor, int] = {}
    following = 0
    for node in drawn:
        numbers[node] = following
        following += 2 if node in gradients else 1
    return numbers

"""Which leaves go on when a model or an optimizer changes, and which begin anew.

In: the leaves that a run has had, and a new tree. Out: leaves of that tree. Invariant: a leaf goes
on if it stands at the same path, below containers of the same types, and has the same shape and
type; otherwise it begins with the value that the tree has. A leaf that vanishes is remembered, and
goes on if it returns.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from workbench.graph.extent import resolve_shape
from workbench.graph.tensor import Tensor
from workbench.train.structure import Node, Structure
from workbench.train.trace import Leaves, as_leaves
from workbench.train.tree import unflatten

__all__ = ["Known", "followed"]

# Path, names of the containers on the way to it, shape, element type.
_Place = tuple[str, tuple[str, ...], tuple[int, ...], str]


@final
class Known:
    """All leaves that a tree of a run has had.

    Parameters
    ----------
    prefix
        What the labels of its leaves begin with.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._leaves: dict[_Place, Tensor] = {}

    def remember(self, leaves: Leaves) -> None:
        """Remember leaves, in the place of others that stood where they stand."""
        self._leaves.update(zip(_places(leaves), leaves.tensors, strict=True))

    def carried(self, tree: object) -> Leaves:
        """Return the leaves of ``tree``: known ones where there are any."""
        new = as_leaves(tree, self.prefix)
        places = zip(_places(new), new.tensors, strict=True)
        return Leaves(new.structure, tuple(self._leaves.get(at, made) for at, made in places))


def followed(opt: Leaves, before: Leaves, after: Leaves) -> Any:
    """Return a tree for the optimizer's state when the parameters change.

    What is a tree like the parameters before, such as Adam's moments, becomes one of zeros like the
    parameters after; everything else stays as it is.

    Parameters
    ----------
    opt
        The state's leaves.
    before, after
        The parameters' leaves.
    """
    nodes, pattern = opt.structure.nodes, before.structure.nodes
    made: list[Node] = []
    values: list[Any] = []
    at = leaf = 0
    size = len(before.tensors)
    while at < len(nodes):
        below = opt.tensors[leaf : leaf + size]
        if nodes[at : at + len(pattern)] == pattern and _are_like(below, before.tensors):
            made += after.structure.nodes
            values += [_zeros(tensor, below) for tensor in after.tensors]
            at, leaf = at + len(pattern), leaf + size
            continue
        made.append(nodes[at])
        if nodes[at].is_leaf:
            values.append(opt.tensors[leaf])
            leaf += 1
        at += 1
    return unflatten(Structure(tuple(made)), values)


def _are_like(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape and a.dtype.is_float == b.dtype.is_float
        for a, b in zip(left, right, strict=True)
    )


def _zeros(tensor: Tensor, below: tuple[Tensor, ...]) -> Any:
    # Moments may be of another type than the parameters, all of one.
    kinds = {leaf.dtype for leaf in below}
    dtype = kinds.pop() if len(kinds) == 1 else tensor.dtype
    return np.zeros(resolve_shape(tensor.shape, None), dtype.numpy)


def _places(leaves: Leaves) -> list[_Place]:
    shapes = [(resolve_shape(leaf.shape, None), str(leaf.dtype)) for leaf in leaves.tensors]
    ways = _ways(leaves.structure)
    return [(*way, *shape) for way, shape in zip(ways, shapes, strict=True)]


def _ways(structure: Structure) -> list[tuple[str, tuple[str, ...]]]:
    """Return for each leaf its path, and the names of the containers above it."""
    # A tree whose leaves are their own ways would have to be walked anew: nodes tell both.
    found: list[tuple[str, tuple[str, ...]]] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [("", ())]
    for node in structure.nodes:
        path, above = waiting.pop()
        if node.is_leaf:
            found.append((path, above))
            continue
        # A text among the static fields, such as an optimizer's kind, says what a leaf means.
        words = [value for _, value in node.static if isinstance(value, str)]
        inside = (*above, ".".join([node.kind.__qualname__, *words]))
        waiting.extend((f"{path}/{key!r}", inside) for key in reversed(node.keys))
    return found

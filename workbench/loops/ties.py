"""Nodes that are compared with the greatest or smallest of their own elements.

In: a computation. Out: those nodes, and how often a value is rounded on its way. Such a comparison
asks whether two computations of one element gave the same bits: where an element is computed twice,
in two kernels or in two loops of one, sums may be taken in another order and a product and a sum
rounded as one, and then no element equals the greatest. Invariant: an element that is rounded at
most once is the same bits wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.expression import Apply, Read, Reduce, Value, walk
from workbench.graph.tensor import Tensor

EXTREMES: Final = ("maximum", "minimum")
"""Combinations that give one of the elements."""

_EXACT: Final = frozenset(
    (*EXTREMES, "relu", "neg", "abs", "sign", "where", "stop_gradient", "floor", "round", "cast")
)
"""Operations of which every computation gives the same bits."""

_ONCE: Final = frozenset(("add", "sub", "mul", "div", "sqrt"))
"""Operations that round once; all others are several of these."""

OFTEN: Final = 2
"""How often a value counts as rounded if that is more than once."""


def compared_with_an_extreme(computation: Computation) -> frozenset[Tensor]:
    """Return the nodes of which an element is asked whether it equals the greatest or smallest."""
    setters = {statement.target: statement for statement in computation.statements}
    found: set[Tensor] = set()
    for statement in computation.statements:
        for value in () if isinstance(statement, View) else walk(statement.value):
            if isinstance(value, Apply) and value.op == "equal":
                operands = [arg.node for arg in value.args if isinstance(arg, Read)]
                for one, other in zip(operands, reversed(operands), strict=True):
                    extreme = _copied(other, setters)
                    if extreme is not None and any(r.node is one for r in extreme.reads()):
                        found.add(one)
    return frozenset(found)


def _copied(node: Tensor, setters: Mapping[Tensor, Statement]) -> Assignment | None:
    """Return the extreme that ``node`` is a copy of, or another shape; None if it is neither."""
    while True:
        match setters.get(node):
            case View(source=source):
                node = source
            case Assignment(combine="", value=Read(node=source)):
                node = source
            case Assignment() as statement if statement.combine in EXTREMES:
                return statement
            case _:
                return None


def roundings(statement: Assignment, of: Callable[[Tensor], int]) -> int:
    """Return how often an element that the statement sets is rounded: 0, 1, or 2 for more.

    Parameters
    ----------
    statement
        Any.
    of
        The same of a node that is read; 0 if it is stored.
    """
    if not statement.target.dtype.is_float:
        return 0
    if statement.combined_axes and statement.combine not in EXTREMES:
        return OFTEN
    mine = sum(map(_roundings, walk(statement.value)))
    return min(OFTEN, mine + sum(of(read.node) for read in statement.reads()))


def _roundings(value: Value) -> int:
    if isinstance(value, Reduce):
        return OFTEN
    if not isinstance(value, Apply) or value.op in _EXACT or not value.dtype.is_float:
        return 0
    return 1 if value.op in _ONCE else OFTEN

"""New values that are computed where they are kept, instead of elsewhere and then copied.

In: statements, and which state receives which node. Out: statements in which the state stands for
the node, as far as that is possible, and the copies that are left. Invariant: every statement reads
what it read before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from workbench.assign.assignment import Assignment, Statement, View
from workbench.assign.expression import Read, Value, replace_reads
from workbench.graph.tensor import Tensor

__all__ = ["computed_in_place"]


def computed_in_place(
    statements: Sequence[Statement], changes: Mapping[Tensor, Tensor], kept: Collection[Tensor]
) -> tuple[list[Statement], dict[Tensor, Tensor]]:
    """Return the statements with some nodes replaced by the state that receives them.

    A floating node can be, if one assignment computes it, no view shares its memory, nobody reads
    what the state held before, and neither is in ``kept``. Gradients are such: a matrix product is
    then written into the memory of the gradient. (Whole numbers may choose rows, within an index;
    those are left alone.)

    Parameters
    ----------
    statements
        What computes the new values, without the copies into the state.
    changes
        For each state leaf the node that becomes its value.
    kept
        A set of nodes that have to stay what they are, such as outputs.

    Returns
    -------
    list of Statement
        The statements.
    dict
        The changes that are still to be copied, and from where.
    """
    setters: dict[Tensor, int] = {}
    used: set[Tensor] = set(kept)
    for statement in statements:
        if isinstance(statement, View):
            used |= {statement.source, statement.target}
        else:
            setters[statement.target] = setters.get(statement.target, 0) + 1
    used |= {
        read.node
        for statement in statements
        if isinstance(statement, Assignment)
        for read in statement.reads()
        if read.node in changes
    }
    standing: dict[Tensor, Tensor] = {}
    for leaf, node in changes.items():
        free = setters.get(node) == 1 and not {leaf, node} & used
        if free and node.dtype.is_float and node not in standing:
            standing[node] = leaf
    left = {
        leaf: standing.get(node, node)
        for leaf, node in changes.items()
        if standing.get(node) is not leaf
    }
    return [_with(statement, standing) for statement in statements], left


def _with(statement: Statement, standing: Mapping[Tensor, Tensor]) -> Statement:
    if isinstance(statement, View):
        return statement
    target = standing.get(statement.target, statement.target)
    reads = [read for read in statement.reads() if read.node in standing]
    if not reads:
        return statement if target is statement.target else replace(statement, target=target)
    new: dict[int, Value] = {id(r): Read(standing[r.node], r.index) for r in reads}
    return replace(statement, target=target, value=replace_reads(statement.value, new))

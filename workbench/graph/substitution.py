"""A graph rebuilt with other tensors in the place of some of its own.

In: roots, and what stands for what. Out: the new roots. Invariant: what depends on nothing that is
replaced stays the same node, so that a graph is rebuilt only as far as it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.graph.tensor import Tensor, make, topological_order

__all__ = ["substitute"]


def substitute(roots: Iterable[Tensor], standing: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """Return ``roots`` with each key of ``standing`` replaced by its value, all at once.

    Parameters
    ----------
    roots
        Any tensors.
    standing
        For each tensor the one that takes its place, of the same shape and type. What a value reads
        is left as it is.

    Examples
    --------
    >>> from workbench.graph.leaf import parameter
    >>> p, q = parameter([1.0], "p"), parameter([2.0], "q")
    >>> [changed] = substitute([p + q], {p: q, q: p})
    >>> [operand.label for operand in changed.operands]
    ['q', 'p']
    """
    wanted = list(roots)
    done = {node: new for node, new in standing.items() if node is not new}
    if not done:
        return wanted
    for node in topological_order(wanted, frozenset(done)):
        if node in done:
            continue
        operands = tuple(done.get(operand, operand) for operand in node.operands)
        if all(new is old for new, old in zip(operands, node.operands, strict=True)):
            continue
        done[node] = make(
            node.op, operands, node.shape, node.dtype, dict(node.attributes), label=node.label
        )
    return [done.get(root, root) for root in wanted]

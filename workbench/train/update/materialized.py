"""Everything that a tensor is computed from, kept to be looked at.

In: a tensor. Out: declarations. Invariant: what somebody has declared already stays as it is.
"""

from __future__ import annotations

from workbench.graph.tensor import Tensor, topological_order
from workbench.loops.intent import intent_of, set_materialized

__all__ = ["every_non_literal_materialized"]


def every_non_literal_materialized(node: Tensor) -> None:
    """Declare that ``node`` and all it is computed from are stored, but for literals.

    Their values can then be read after a run of any routine that is compiled from now on. Numbers
    and arrays of the program, and nodes of which something is declared already, stay as they are.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.parameter([1.0, -2.0], "x")
    >>> activation = wb.relu(x * 3.0)
    >>> loss = activation.sum()
    >>> every_non_literal_materialized(loss)
    >>> ctx, routine = wb.Context.interpreter().compile([loss])
    >>> print(routine.placements[activation])
    on device (28: it was declared materialized)
    """
    for each in topological_order([node]):
        if intent_of(each).placement is None:
            set_materialized(each)

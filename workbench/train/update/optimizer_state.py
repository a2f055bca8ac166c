"""Where an optimizer's memory of its parameters lies: one set of leaves, found by what it is for.

In: a kind of optimizer and the parameters that it steps. Out: state leaves. Invariant: asked again
for the same, the same leaves are returned for as long as the parameters live, so that an update
that is built again continues where the one before it was.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Final, final

from workbench.graph.dtype import DType
from workbench.graph.extent import Shape
from workbench.graph.leaf import state
from workbench.graph.tensor import Tensor

__all__ = ["OptimizerState", "optimizer_state"]


@final
class OptimizerState:
    """The leaves of one kind of optimizer over one set of parameters, each begins at zero."""

    def __init__(self) -> None:
        self._leaves: dict[tuple[str, int], Tensor] = {}

    def leaf(self, slot: str, owner: int, label: str, shape: Shape, dtype: DType) -> Tensor:
        """Return the leaf of a slot.

        Parameters
        ----------
        slot
            What the rule calls it.
        owner
            Number of the parameter that it belongs to; -1 for one that belongs to all of them.
        label, shape, dtype
            Of the leaf, where it is made by this call.
        """
        found = self._leaves.get((slot, owner))
        if found is None:
            # Two threads may both be here: the first leaf stays.
            found = self._leaves.setdefault((slot, owner), state(label, shape, dtype.value))
        return found


# By identity numbers: a weak dictionary would compare tensors, and a comparison builds a graph.
_Key = tuple[str, tuple[int, ...]]
_states: Final[dict[_Key, OptimizerState]] = {}


def optimizer_state(kind: str, params: Sequence[Tensor]) -> OptimizerState:
    """Return what an optimizer of a kind remembers of exactly these parameters, in any order.

    Another set of parameters has another state: a count of updates and a moment are of use
    together only.
    """
    key = kind, tuple(sorted(param.uid for param in params))
    found = _states.get(key)
    if found is None:
        made = OptimizerState()
        found = _states.setdefault(key, made)
        if found is made:
            for param in params:
                weakref.finalize(param, _states.pop, key, None).atexit = False
    return found

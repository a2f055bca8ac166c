"""Where the gradients of parameters lie: one state leaf for each, found by its parameter.

In: a parameter. Out: its gradient leaf. Invariant: a parameter has one such leaf for as long as it
lives, whichever loss writes it; looking for one makes none.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Final

from workbench.errors import GradientError
from workbench.graph.elementwise import describe
from workbench.graph.leaf import state
from workbench.graph.tensor import Tensor

__all__ = ["gradient_of", "gradients_among", "name_of"]

# By identity number: a weak dictionary would compare tensors, and a comparison builds a graph.
_leaves: Final[dict[int, Tensor]] = {}


def gradient_of(param: Tensor) -> Tensor:
    """Return the state leaf that holds the gradient of ``param`` on the device.

    `grad_update` writes it, optimizers and norms read it, and so may you: ``ctx.get_values``. It
    begins at zero, in the shape of the parameter and the type that it is computed in: float32 for
    one that is stored in 16 bits.

    Raises
    ------
    GradientError
        If ``param`` is not of a floating type.
    """
    if not param.dtype.is_float:
        raise GradientError(
            f"{describe(param)} cannot have a gradient: its type is not floating",
            remedy="differentiate by floating tensors only",
        )
    found = _leaves.get(param.uid)
    if found is None:
        made = state(f"grad_{name_of(param)}", param.shape, param.dtype.computed)
        # Two threads may both be here: the first leaf stays.
        found = _leaves.setdefault(param.uid, made)
        if found is made:
            weakref.finalize(param, _leaves.pop, param.uid, None).atexit = False
    return found


def gradients_among(nodes: Iterable[Tensor], held: Mapping[Tensor, object]) -> dict[Tensor, Tensor]:
    """Return the gradient leaf of each of ``nodes`` that has one among the keys of ``held``."""
    known = ((node, _leaves.get(node.uid)) for node in nodes)
    return {node: leaf for node, leaf in known if leaf is not None and leaf in held}


def name_of(param: Tensor) -> str:
    """Return the label of a parameter, or its number if it has none."""
    return param.label or f"parameter{param.uid}"

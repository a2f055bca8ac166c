"""The length of a whole tree of gradients, as one number to watch or to clip by."""

from __future__ import annotations

from typing import TypeVar

from workbench.arguments import number_from
from workbench.errors import TracingError
from workbench.graph.elementwise import cast
from workbench.graph.tensor import Tensor
from workbench.train.tree import flatten, map_tree
from workbench.train.update.norm import clip_factor, norm_of

__all__ = ["clip_gradients", "global_norm"]

P = TypeVar("P")


def global_norm(tree: object) -> Tensor:
    """Return the square root of the sum of the squares of all elements of a tree of tensors.

    Parameters
    ----------
    tree
        Such as gradients, from `loss_and_gradients`. Those of a scaled loss have a scaled norm.

    Returns
    -------
    Tensor
        Shape ``()``; float64 if a leaf is, else float32.

    Raises
    ------
    TracingError
        If the tree holds something else than floating tensors, or nothing.

    Examples
    --------
    >>> import numpy as np, workbench as wb
    >>> grads = {"w": wb.parameter(np.float32([3.0]), "w"), "b": wb.parameter(np.float32(4.0), "b")}
    >>> ctx, routine = wb.Context.interpreter().compile([global_norm(grads)])
    >>> float(ctx.run(routine).get_values(routine.outputs[0]))
    5.0
    """
    leaves, _ = flatten(tree)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.dtype.is_float]
    if not tensors or len(tensors) < len(leaves):
        raise TracingError(
            f"the tree has {len(leaves)} leaves, {len(tensors)} of them floating tensors",
            remedy="call it in a step, with gradients",
        )
    return norm_of(tensors)


def clip_gradients(grads: P, max_norm: float) -> tuple[P, Tensor]:
    """Return gradients whose global norm is at most ``max_norm``, and their norm before.

    For a step of the loop; `clip_by_global_norm` is the same among code builders.

    Parameters
    ----------
    grads
        Tree of tensors, from `loss_and_gradients`; those of a scaled loss have a scaled norm.
    max_norm
        Finite, 0 or more.

    Raises
    ------
    ConfigurationError
        If ``max_norm`` is negative or not finite.
    TracingError
        If the tree holds something else than floating tensors, or nothing.
    """
    bound = number_from("max_norm", max_norm, 0.0)
    norm = global_norm(grads)
    factor = clip_factor(norm, bound)

    def scaled(leaf: Tensor) -> Tensor:
        return leaf * cast(factor, leaf.dtype)

    clipped: P = map_tree(scaled, grads)
    return clipped, norm

"""The length of a whole tree of gradients, as one number to watch or to clip by."""

from __future__ import annotations

from workbench.errors import TracingError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import cast, sqrt, square
from workbench.graph.reduction import sum_
from workbench.graph.tensor import Tensor
from workbench.train.tree import flatten

__all__ = ["global_norm"]


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
    wide = any(tensor.dtype is DType.F64 for tensor in tensors)
    dtype = DType.F64 if wide else DType.F32
    total: Tensor | None = None
    for tensor in tensors:
        squares = square(cast(tensor, dtype))
        # Rows first: they run side by side, where one long sum would be one thread's work.
        part = sum_(sum_(squares, -1)) if tensor.ndim > 1 else sum_(squares)
        total = part if total is None else total + part
    assert total is not None
    return sqrt(total)

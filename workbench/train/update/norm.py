"""One number about all gradients: their norm, whether they are finite, and clipping by the norm.

In: a loss whose gradients are on the device. Out: a state leaf with the number, and the computation
that writes it. Invariant: gradients are read and never written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

from workbench.arguments import number_from
from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation
from workbench.graph.dtype import DType
from workbench.graph.elementwise import cast, logical_and, sqrt, square, where
from workbench.graph.gradient_leaf import gradient_of
from workbench.graph.leaf import state
from workbench.graph.reduction import sum_
from workbench.graph.tensor import Tensor
from workbench.train.update.gradient import stepped_params
from workbench.train.update.scalar import scalar_of

__all__ = [
    "Clipping",
    "clip_by_global_norm",
    "clip_factor",
    "grad_checksum",
    "grad_l2_norm",
    "is_finite_sum",
    "norm_of",
    "total_of",
    "widest",
]


_BOUND: Final = 3e38
"""Just below the greatest float32: a comparison with it tells finite numbers from the others."""


def widest(tensors: Iterable[Tensor]) -> DType:
    """Return the type to sum in: float64 if one of the tensors is, else float32."""
    return DType.F64 if any(t.dtype is DType.F64 for t in tensors) else DType.F32


def total_of(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of all elements of one tensor or more, which are of one type."""
    parts: list[Tensor] = [
        # Rows first: they run side by side, where one long sum would be one thread's work.
        sum_(sum_(tensor, -1)) if tensor.ndim > 1 else sum_(tensor)
        for tensor in tensors
    ]
    # In pairs, so that the sum of a thousand tensors is ten deep.
    while len(parts) > 1:
        parts = [
            parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i]
            for i in range(0, len(parts), 2)
        ]
    return parts[0]


def is_finite_sum(total: Tensor) -> Tensor:
    """Return whether a sum of elements is finite, and so each of them, a bool of shape ``()``.

    Infinities of one sign stay, those of both make NaN, and so does a NaN.
    """
    return logical_and(total < _BOUND, total > -_BOUND)


def norm_of(tensors: Sequence[Tensor]) -> Tensor:
    """Return the root of the sum of the squares of all elements of some tensors.

    Its gradient at 0, where the root has none, is 0.
    """
    dtype = widest(tensors)
    total = total_of([square(cast(tensor, dtype)) for tensor in tensors])
    nothing = total == 0.0
    return where(nothing, total, sqrt(where(nothing, 1.0, total)))


def clip_factor(norm: Tensor, bound: float) -> Tensor:
    """Return what gradients of that norm are multiplied by, so that they are not above ``bound``.

    A comparison with NaN is false, and infinity as a divisor gives 0: a norm that is NaN leaves
    gradients as they are, an infinite one makes nothing of them.
    """
    above = norm > bound
    return where(above, bound / where(above, norm, 1.0), 1.0)


def grad_checksum(
    loss: Tensor, params: Iterable[Tensor] | None = None, *, label: str = "gradient checksum"
) -> tuple[Tensor, Computation]:
    """Return a number that is finite only if all gradients are, and the computation that sets it.

    It is the sum of all their elements. A sum of large finite elements may overflow: a step is then
    skipped that need not have been.

    Parameters
    ----------
    loss, params
        The parameters are the given ones, or `trainable_params` of the loss.
    label
        Name of the number for people.

    Raises
    ------
    GradientError
        If there are no parameters.
    """
    leaves = [gradient_of(param) for param in stepped_params(loss, params)]
    dtype = widest(leaves)
    flag = state(label, (), dtype)
    total = total_of([cast(leaf, dtype) for leaf in leaves])
    return flag, computation([], {flag: total}, name="grad_checksum")


def grad_l2_norm(
    loss: Tensor,
    params: Iterable[Tensor] | None = None,
    *,
    grad_unscale: Tensor | float | None = None,
    label: str = "gradient norm",
) -> tuple[Tensor, Computation]:
    """Return the global norm of the gradients, and the computation that sets it.

    Parameters
    ----------
    loss, params
        The parameters are the given ones, or `trainable_params` of the loss.
    grad_unscale
        What the norm is multiplied by, the reciprocal of a loss scale: the gradients themselves may
        still be scaled.
    label
        Name of the norm for people.

    Raises
    ------
    GradientError
        If there are no parameters.
    """
    leaves = [gradient_of(param) for param in stepped_params(loss, params)]
    value = norm_of(leaves)
    if grad_unscale is not None:
        value = value * cast(scalar_of(grad_unscale, "grad_unscale"), value.dtype)
    norm = state(label, (), value.dtype)
    return norm, computation([], {norm: value}, name="grad_l2_norm")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Clipping:
    """What clips by the global norm.

    Attributes
    ----------
    grad_norm
        The norm before clipping; it can be read.
    grad_scale
        What to multiply gradients by, from 0 to 1: pass it to an update as ``grad_scale``; it can
        be read.
    computation
        What sets the two; run it between gradients and update.
    """

    grad_norm: Tensor
    grad_scale: Tensor
    computation: Computation


def clip_by_global_norm(
    loss: Tensor,
    *,
    max_norm: float,
    grad_unscale: Tensor | float | None = None,
    params: Iterable[Tensor] | None = None,
    label: str = "gradient norm",
) -> Clipping:
    """Return what makes an update use gradients of a norm of at most ``max_norm``.

    Gradients are multiplied as the update reads them, and stay as they are. A norm that is NaN
    clips nothing: gate the update as well. An infinite norm makes the gradients count nothing, so
    that only weight decay acts.

    Parameters
    ----------
    loss, params, grad_unscale, label
        See `grad_l2_norm`.
    max_norm
        Finite, 0 or more; 0 clips everything away.

    Raises
    ------
    ConfigurationError
        If ``max_norm`` is negative or not finite.
    GradientError
        If there are no parameters.
    """
    bound = number_from("max_norm", max_norm, 0.0)
    norm, code = grad_l2_norm(loss, params, grad_unscale=grad_unscale, label=label)
    factor = clip_factor(norm, bound)
    scale = state(f"{label} clipping", (), factor.dtype, 1.0)
    clip = computation([], {scale: factor}, name="clip_by_global_norm")
    return Clipping(norm, scale, code + clip)

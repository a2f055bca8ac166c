"""Mixed precision: 16-bit forward and backward, float32 masters, and a loss scale that adapts.

In: an optimizer state. Out: a `MixedState` around it, which `default_step` understands. Invariant:
a step whose gradients are not all finite changes neither parameters nor the optimizer's state, bit
for bit: it is a selection on the device, not a branch on the host.

The scheme is that of Micikevicius et al., "Mixed precision training", ICLR 2018: gradients of a
scaled loss, divided by the scale before they are applied; the scale halves when they overflow and
doubles after a long run of steps in which they do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final
from typing import cast as typing_cast

import numpy as np

from workbench.arguments import choice_from, number_from, whole_from
from workbench.errors import ConfigurationError, GradientError, TracingError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.elementwise import (
    cast,
    describe,
    where,
)
from workbench.graph.gradient import backward_from
from workbench.graph.tensor import Tensor
from workbench.train.optimizer import OptState, apply
from workbench.train.tree import Leaf, Structure, flatten, paths, static, unflatten
from workbench.train.update.loss_scale import ScalePolicy
from workbench.train.update.norm import is_finite_sum, total_of
from workbench.train.update.twin import cast_twin

__all__ = [
    "MixedState",
    "choose",
    "mixed_apply",
    "mixed_bf16",
    "mixed_f16",
    "mixed_gradients",
    "narrow",
]

P = TypeVar("P")

F16_SCALE = 65536.0
F16_GREATEST_SCALE = 16777216.0
F16_GROWTH_INTERVAL = 2000

BF16_GROWTH_INTERVAL = 1_000_000_000
"""Never, so that ``good`` counts the steps: the scale has nowhere to grow."""


# Compared by identity: element-wise equality of two arrays has no truth value.
@final
@dataclass(frozen=True, slots=True, eq=False)
class MixedState:
    """An optimizer state with the state of a loss scale; itself a parameter tree.

    Attributes
    ----------
    inner
        The optimizer's own state, over float32 masters.
    scale
        What the loss is multiplied by; a power of two, float32 of shape ``()``.
    good
        Steps with finite gradients since the scale last changed, int64.
    skipped
        Steps that were skipped in all, int64.
    last_loss
        The loss of the last step that was not skipped, float32; NaN before there is one.
    dtype
        ``"bfloat16"`` or ``"float16"``: what parameters and inputs are narrowed to.
    growth_interval
        After so many good steps the scale doubles.
    least, greatest
        Bounds of the scale.
    gradient
        What the gradients of the narrowed parameters are rounded to; empty if they are not.
    """

    inner: OptState
    scale: Any = 1.0
    good: Any = 0
    skipped: Any = 0
    last_loss: Any = math.nan
    dtype: str = static("bfloat16")
    growth_interval: int = static(F16_GROWTH_INTERVAL)
    least: float = static(1.0)
    greatest: float = static(1.0)
    gradient: str = static("")


def mixed_bf16(opt: OptState) -> MixedState:
    """Return ``opt`` for steps whose forward and backward are stored in bfloat16.

    bfloat16 has float32's range, so that the loss scale stays 1.
    """
    return _mixed(opt, "bfloat16", 1.0, BF16_GROWTH_INTERVAL, 1.0)


def mixed_f16(
    opt: OptState,
    *,
    scale: float = F16_SCALE,
    growth_interval: int = F16_GROWTH_INTERVAL,
    greatest: float = F16_GREATEST_SCALE,
    gradient: str = "",
) -> MixedState:
    """Return ``opt`` for steps whose forward and backward are stored in float16.

    Parameters
    ----------
    opt
        From `sgd`, `momentum` or `adam` of float32 parameters.
    scale
        The first loss scale, a power of two that is at least 1.
    growth_interval
        After so many steps with finite gradients the scale doubles.
    greatest
        The scale never grows beyond this; a power of two.
    gradient
        ``"float16"`` rounds the gradients of the narrowed parameters to 16 bits, as other engines
        store them: beyond 65504 they are infinite then. By default they stay float32.

    Raises
    ------
    ConfigurationError
        If the scale or the interval is out of range, or ``opt`` is not a plain optimizer state.
    """
    choice_from("gradient", gradient, ("", "float16"))
    made = _mixed(opt, "float16", scale, growth_interval, greatest)
    return replace(made, gradient=gradient)


def _mixed(
    opt: OptState, dtype: str, scale: float, growth_interval: int, greatest: float
) -> MixedState:
    given = typing_cast("object", opt)  # checked all the same: it comes from a person
    if not isinstance(given, OptState):
        raise ConfigurationError(
            f"mixed precision goes around a plain optimizer state, not a `{type(given).__name__}`",
            remedy="wrap what `sgd`, `momentum` or `adam` returned; with accumulation, write "
            "`wb.accumulate(wb.mixed_f16(opt), params, steps)`",
        )
    scale, greatest = number_from("scale", scale, 1.0), number_from("greatest", greatest, 1.0)
    # A power of two: multiplying by it and dividing by it again changes no digit.
    if not (1.0 <= scale <= greatest < math.inf and _is_power(scale) and _is_power(greatest)):
        raise ConfigurationError(
            f"the loss scale is {scale} with {greatest} as its greatest value",
            remedy="use powers of two, the scale from 1 up to its greatest value, such as 65536",
        )
    growth_interval = whole_from("growth_interval", growth_interval, 1)
    return MixedState(
        opt,
        np.float32(scale),
        np.int64(0),
        np.int64(0),
        np.float32(math.nan),
        dtype,
        growth_interval,
        1.0,
        greatest,
    )


def _is_power(scale: float) -> bool:
    return math.frexp(scale)[0] == 0.5


def narrow(tree: P, dtype: object) -> P:
    """Return a tree of tensors with its floating leaves converted to ``dtype``.

    Use it in ``eval_batch`` to evaluate at the precision that was trained at::

        def eval_batch(params, x, y):
            logits = model(wb.narrow(params, "bfloat16"), wb.narrow(x, "bfloat16"))
            return {"loss": wb.cross_entropy(logits, y)}
    """
    target = as_dtype(dtype)
    leaves, structure = flatten(tree)
    made = [
        cast(leaf, target) if isinstance(leaf, Tensor) and leaf.dtype.is_float else leaf
        for leaf in leaves
    ]
    narrowed: P = unflatten(structure, made)
    return narrowed


def mixed_gradients(
    params: P,
    opt: MixedState,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[P, Tensor, Tensor], Tensor],
) -> tuple[Tensor, P]:
    """Return the float32 loss, and the gradients of its scaled value by the float32 masters.

    Parameters are those of `default_step`; ``params`` are the masters. Floating inputs are
    narrowed, targets are not.
    """
    masters, structure = flatten(params)
    tensors = _tensors(masters, structure)
    twins = [cast_twin(leaf, opt.dtype, gradient=opt.gradient or None) for leaf in tensors]
    narrow_x = cast(x, opt.dtype) if x.dtype.is_float else x
    loss = _scalar(loss_fn(unflatten(structure, twins), narrow_x, y))
    if not isinstance(opt.scale, Tensor):
        raise TracingError(
            f"`opt.scale` is a `{type(opt.scale).__qualname__}`, not a tensor",
            remedy="a step is graph code: let `fit` call it, or make the leaves of `opt` with "
            "`wb.parameter`",
        )
    # The scale as cotangent of the loss: the gradients of their product, which itself may overflow.
    scale = cast(opt.scale, loss.dtype.computed)
    gradient = backward_from(scale, loss, tensors)
    scaled = [gradient[master] for master in tensors]
    return cast(loss, DType.F32), unflatten(structure, scaled)


def _tensors(leaves: list[Leaf], structure: Structure) -> list[Tensor]:
    tensors: list[Tensor] = []
    for leaf, path in zip(leaves, paths(structure), strict=True):
        if not isinstance(leaf, Tensor):
            raise TracingError(
                f"the parameter `{path}` is a `{type(leaf).__qualname__}`, not a tensor",
                remedy="let `fit` call the step, or make the leaves with `wb.parameter`",
            )
        tensors.append(leaf)
    return tensors


def _scalar(loss: object) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TracingError(
            f"the loss function returned a `{type(loss).__qualname__}`, not a tensor",
            remedy="return the loss alone, such as `wb.cross_entropy(model(params, x), y)`",
        )
    if loss.shape != () or not loss.dtype.is_float:
        raise GradientError(
            f"the loss is {describe(loss)}, not a floating scalar",
            remedy="reduce it first: `loss.mean()` or `loss.sum()`",
        )
    return loss


def mixed_apply(
    params: P,
    scaled: P,
    opt: MixedState,
    lr: Tensor | float,
    raw: Tensor,
    *,
    trained: Container[Tensor] | None = None,
) -> tuple[Tensor, P, MixedState]:
    """Return loss, parameters and state after an update by scaled gradients, if all are finite.

    Parameters
    ----------
    params
        The float32 masters.
    scaled
        Gradients of the scaled loss.
    opt
        The state.
    lr
        The learning rate.
    raw
        The loss, unscaled; a skipped step reports the last one that was not skipped, NaN if
        there was none.
    trained
        A set of the masters to step; by default all.
    """
    leaves, structure = flatten(scaled)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    finite = is_finite_sum(total_of(tensors))
    unscale = 1.0 / opt.scale
    grads = unflatten(structure, [g * cast(unscale, g.dtype) for g in tensors])
    new_params, new_inner = apply(params, grads, opt.inner, lr, trained=trained)
    kept = choose(finite, new_params, params)
    inner = choose(finite, new_inner, opt.inner)
    return where(finite, raw, opt.last_loss), kept, _advance(opt, finite, raw, inner)


def _advance(opt: MixedState, finite: Tensor, raw: Tensor, inner: OptState) -> MixedState:
    """Return the state with its scale adapted."""
    policy = ScalePolicy(
        growth_interval=opt.growth_interval, least=opt.least, greatest=opt.greatest
    )
    scale, good = policy.advanced_on_device(opt.scale, opt.good, finite)
    return replace(
        opt,
        inner=inner,
        scale=scale,
        good=good,
        skipped=where(finite, opt.skipped, opt.skipped + 1),
        last_loss=where(finite, raw, opt.last_loss),
    )


def choose(condition: Tensor, new: P, old: P) -> P:
    """Return ``new`` where the condition holds, else ``old``, leaf by leaf.

    Parameters
    ----------
    condition
        bool, shape ``()``.
    new, old
        Trees of tensors, of one structure.
    """
    chosen, structure = flatten(new)
    kept, _ = flatten(old)
    leaves = [a if a is b else where(condition, a, b) for a, b in zip(chosen, kept, strict=True)]
    result: P = unflatten(structure, leaves)
    return result

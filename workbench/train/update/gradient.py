"""Which parameters a loss trains, and where their gradients lie.

In: a loss. Out: its parameters, and for each one state leaf that holds its gradient from one
routine to the next. Invariant: a parameter has one such leaf, whichever loss and routine writes it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Final

from workbench.errors import GradientError
from workbench.graph.elementwise import describe
from workbench.graph.gradient import reached_gradients
from workbench.graph.leaf import scalar, state
from workbench.graph.tensor import Tensor, topological_order

__all__ = [
    "gradient_of",
    "loss_params",
    "name_of",
    "reached_params",
    "stepped_params",
    "trainable_params",
]

_gradients: Final[dict[int, Tensor]] = {}


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
    found = _gradients.get(param.uid)
    if found is None:
        made = state(f"grad_{name_of(param)}", param.shape, param.dtype.computed)
        # Two threads may both be here: the first leaf stays.
        found = _gradients.setdefault(param.uid, made)
        weakref.finalize(param, _gradients.pop, param.uid, None)
    return found


def name_of(param: Tensor) -> str:
    """Return the label of a parameter, or its number if it has none."""
    return param.label or f"parameter{param.uid}"


def loss_params(loss: Tensor) -> tuple[Tensor, ...]:
    """Return the parameters that ``loss`` reads: what has to be initialised and saved."""
    return tuple(node for node in topological_order([loss]) if node.op == "parameter")


def trainable_params(loss: Tensor) -> tuple[Tensor, ...]:
    """Return the parameters that a gradient of ``loss`` reaches, in the order of `loss_params`.

    A parameter behind `stop_gradient` is none of them: no gradient, no step, no weight decay. There
    are none if ``loss`` is no floating scalar.
    """
    if loss.shape != () or not loss.dtype.is_float:
        return ()
    return reached_params(loss, loss_params(loss))


def reached_params(loss: Tensor, params: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return those of ``params`` that a gradient of the floating scalar ``loss`` reaches."""
    floating = [param for param in params if param.dtype.is_float]
    found = reached_gradients(scalar(1.0, loss.dtype.computed), loss, floating)
    return tuple(param for param in floating if param in found)


def stepped_params(loss: Tensor, params: Iterable[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the parameters that an update of ``loss`` is about.

    Parameters
    ----------
    loss
        A floating scalar.
    params
        The parameters, if they are others than `trainable_params`; any floating leaves.

    Raises
    ------
    GradientError
        If the loss is no floating scalar, or there are no such parameters, saying why.
    """
    if loss.shape != () or not loss.dtype.is_float:
        raise GradientError(
            f"the loss is {describe(loss)}, not a floating scalar, so it trains nothing",
            remedy="reduce it first: `loss.mean()` or `loss.sum()`",
        )
    chosen = trainable_params(loss) if params is None else tuple(dict.fromkeys(params))
    if chosen:
        return chosen
    if params is not None:
        raise GradientError(
            "the list of parameters is empty", remedy="leave it out, or name some parameters"
        )
    known = loss_params(loss)
    if known:
        names = ", ".join(f"`{name_of(param)}`" for param in known)
        reason = f"no gradient reaches its parameters {names}: they are behind `stop_gradient`, or "
        reason += "only comparisons and indices read them"
    else:
        reason = "it reads no parameter: leaves made with `wb.input` or `wb.constant` are none"
    raise GradientError(
        f"the loss {describe(loss)} trains nothing: {reason}",
        remedy="make the leaves to train with `wb.parameter`, or name them: `params=[...]`",
    )

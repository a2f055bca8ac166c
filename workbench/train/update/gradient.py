"""Which parameters a loss reads, and which of them it trains.

In: a loss. Out: its parameters, all of them or those that it trains. Invariant: what is behind
`stop_gradient` is read and initialised, and never trained.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.errors import GradientError
from workbench.graph.elementwise import describe
from workbench.graph.gradient import reached_gradients
from workbench.graph.gradient_leaf import name_of
from workbench.graph.leaf import scalar
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor, topological_order

__all__ = ["loss_params", "reached_params", "stepped_params", "trainable_params"]


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
    chosen = (
        trainable_params(loss)
        if params is None
        else tuple(dict.fromkeys(nodes_from("params", params)))
    )
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

"""Forward and backward as a computation that leaves gradients on the device.

In: a loss. Out: computations that write, add to or reset the gradient leaves of its parameters.
Invariant: what a computation declares about gradients (which it owns, adds to and resets) is what
its updates do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workbench.arguments import whole_from
from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation, with_stores
from workbench.errors import GradientError, GraphError
from workbench.graph.elementwise import broadcast_to, cast, describe
from workbench.graph.gradient import reached_gradients
from workbench.graph.gradient_leaf import gradient_of
from workbench.graph.leaf import scalar
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor, topological_order
from workbench.train.update.gradient import stepped_params
from workbench.train.update.scalar import scalar_of

__all__ = ["filter_out_grad_zeroing", "forward", "grad_update", "zero_params_grads"]


def forward(loss: Tensor) -> Computation:
    """Return the computation of ``loss``, which can be read afterwards."""
    return computation([loss], name=f"{loss.label or loss.op} fwd")


def grad_update(
    loss: Tensor,
    *,
    accum_steps: int | None = None,
    accum_loss: Tensor | None = None,
    loss_scale: Tensor | float | None = None,
    params: Iterable[Tensor] | None = None,
) -> Computation:
    """Return the computation of ``loss`` and of its gradients, which stay on the device.

    The gradients are in the leaves that `gradient_of` returns. Join it with an update:
    ``grad_update(loss) + sgd_update(loss, learning_rate=0.1)``.

    Parameters
    ----------
    loss
        A floating tensor of shape ``()``.
    accum_steps
        If given, the computation is one micro-step of so many: gradients are added to what is
        there, each as the share ``1 / accum_steps``, so that afterwards their sum is the mean. Run
        `zero_params_grads` before the first and an update after the last.
    accum_loss
        From `loss_accumulator`: what the loss is added to. Whoever reads the sum once an epoch does
        not wait for each step.
    loss_scale
        What the gradients are multiplied by, from the loss backwards, so that small ones survive 16
        bits; pass its reciprocal to the update as ``grad_unscale``.
    params
        What to differentiate by, if it is not `trainable_params`.

    Raises
    ------
    ConfigurationError
        If ``accum_steps`` is not a whole number from 1 on.
    GradientError
        If the loss is no floating scalar, or trains nothing.
    GraphError
        If ``accum_loss`` is no state of shape ``()``.
    """
    share = 1.0
    if accum_steps is not None:
        share = 1.0 / whole_from("accum_steps", accum_steps, 1)
    trained = stepped_params(loss, params)
    seed = scalar(share, loss.dtype.computed)
    if loss_scale is not None:
        given = cast(scalar_of(loss_scale, "the loss scale"), seed.dtype)
        seed = given if accum_steps is None else given * share
    found = reached_gradients(seed, loss, trained)
    stores: dict[Tensor, Tensor] = {}
    for param in trained:
        leaf = gradient_of(param)
        new = found.get(param)
        if new is None:
            raise GradientError(
                f"no gradient of {describe(loss)} reaches {describe(param)}",
                remedy="leave it out of `params`, or use it in the forward computation",
            )
        stores[leaf] = new if accum_steps is None else leaf + new
    leaves = frozenset(stores)
    if accum_loss is not None:
        if accum_loss.op != "state" or accum_loss.shape != ():
            raise GraphError(
                f"accum_loss is {describe(accum_loss)}, to which no loss can be added",
                remedy="make it with `wb.loss_accumulator()`",
            )
        stores[accum_loss] = accum_loss + cast(loss, accum_loss.dtype)
    made = computation([loss], stores, name=f"{loss.label or loss.op} gradient update")
    return replace(
        made,
        owned=frozenset([loss]),
        accumulates=leaves,
        zeroes=leaves if accum_steps is None else frozenset(),
        accumulation_runs=accum_steps or 1,
    )


def zero_params_grads(loss: Tensor, params: Iterable[Tensor] | None = None) -> Computation:
    """Return the computation that sets the gradients of the parameters to zero.

    Run it before the first of the micro-steps of ``grad_update(loss, accum_steps=...)``.

    Parameters
    ----------
    loss, params
        The parameters are the given ones, or `trainable_params` of the loss.

    Raises
    ------
    GradientError
        If there are none.
    """
    leaves = [gradient_of(param) for param in stepped_params(loss, params)]
    stores = {leaf: broadcast_to(scalar(0.0, leaf.dtype), leaf.shape) for leaf in leaves}
    made = computation([], stores, name="zero_params_grads")
    return replace(made, zeroes=frozenset(leaves))


def filter_out_grad_zeroing(grads: Iterable[Tensor], part: Computation) -> Computation:
    """Return ``part`` without its zeroing of ``grads``: what it writes is added to what is there.

    `grad_update` with and without ``accum_steps`` differ by this and by the share of a step.

    Parameters
    ----------
    grads
        Gradient leaves, from `gradient_of`.
    part
        A computation that zeroes all of them.

    Raises
    ------
    GraphError
        If it does not zero one of them, naming it.
    """
    wanted = dict.fromkeys(nodes_from("grads", grads))
    for leaf in wanted:
        if leaf not in part.zeroes:
            raise GraphError(
                f"`{part.name}` does not zero {describe(leaf)}",
                remedy="name gradients that it writes, from `wb.gradient_of(param)`",
            )
    stores = dict(part.stores())
    removed = {leaf: stores.pop(leaf) for leaf in wanted}
    rest = topological_order([*part.outputs, *stores.values()])
    for leaf in set(removed) & part.accumulates:
        if removed[leaf] in set(rest):
            raise GraphError(
                f"`{part.name}` reads the gradient {describe(leaf)} after it has computed it",
                remedy="filter the computation of the gradients first, then join the update",
            )
        stores[leaf] = leaf + removed[leaf]
    return replace(with_stores(part, stores), zeroes=part.zeroes - set(wanted))

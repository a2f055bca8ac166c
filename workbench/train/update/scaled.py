"""Steps with a loss scale: skipped on the host, or gated on the device.

In: routines or a loss, and a `LossScaler`. Out: contexts after a step, or one computation of
all. Invariant: a step whose gradients are not finite changes neither parameters nor buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from workbench.arguments import whole_from
from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation
from workbench.graph.leaf import state
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.routine import Routine
from workbench.train.update.grad_update import grad_update
from workbench.train.update.loss_scale import LossScaler
from workbench.train.update.norm import grad_checksum, is_finite_sum
from workbench.train.update.optimizer_update import sgd_update

__all__ = ["UpdateBuilder", "gated_scaled_update", "gated_step", "scaled_step", "scaled_update"]


UpdateBuilder: TypeAlias = Callable[..., Computation]
"""`sgd_update` or one of its kin: from a loss and options to a computation."""


def scaled_step(
    ctx: Context, gradients: Routine, update: Routine, *, flag: Tensor, scaler: LossScaler
) -> tuple[Context, bool]:
    """Run gradients and, if they are finite, the update; return the context, and whether it ran.

    The host reads ``flag`` after the gradients, and so waits for them: `gated_scaled_update` does
    not.

    Parameters
    ----------
    ctx
        Where both routines were compiled.
    gradients
        Of ``grad_update(loss, loss_scale=scaler.scale)`` and the checksum.
    update
        Of an update with ``grad_unscale=scaler.unscale``.
    flag
        From `grad_checksum`.
    scaler
        Moves by what the flag says.
    """
    ctx = ctx.run(gradients)
    finite = math.isfinite(float(ctx.get_values(flag)))
    if finite:
        ctx = ctx.run(update)
    return scaler.update(ctx, finite=finite), finite


def scaled_update(
    loss: Tensor, scaler: LossScaler, *, update: UpdateBuilder = sgd_update, **options: Any
) -> Computation:
    """Return an update by gradients that carry the scale of ``scaler``.

    Parameters
    ----------
    loss
        Whose parameters are updated.
    scaler
        What the gradients were scaled by.
    update
        `sgd_update` or one of its kin.
    **options
        What it takes.
    """
    return update(loss, grad_unscale=scaler.unscale, **options)


def gated_scaled_update(
    loss: Tensor, scaler: LossScaler, *, update: UpdateBuilder = sgd_update, **options: Any
) -> tuple[Tensor, Computation]:
    """Return a whole scaled step that skips itself, and the sum of its checksums.

    Gradients, checksum, gate and update are one computation. The sum is finite as long as all
    checksums since its last reset were, so that the host need look at it now and then only, see
    `gated_step`.

    Parameters
    ----------
    loss
        Whose parameters are updated.
    scaler
        Whose scale is applied.
    update
        `sgd_update` or one of its kin.
    **options
        What it takes.
    """
    params = options.get("params")
    chosen = None if params is None else list(nodes_from("params", params))
    if chosen is not None:
        options["params"] = chosen
    flag, check = grad_checksum(loss, chosen)
    window = state("checksums", (), flag.dtype)
    watch = computation([], {window: window + flag})
    gate = is_finite_sum(flag)
    gradients = grad_update(loss, loss_scale=scaler.scale, params=chosen)
    step = scaled_update(loss, scaler, update=update, update_gate=gate, **options)
    return window, gradients + check + watch + step


def gated_step(
    ctx: Context,
    routine: Routine,
    *,
    window: Tensor,
    scaler: LossScaler,
    step: int,
    check_interval: int,
) -> tuple[Context, bool]:
    """Run a gated step, and after every ``check_interval`` of them look whether one was skipped.

    Parameters
    ----------
    ctx
        Where the routine was compiled.
    routine
        Of the computation of `gated_scaled_update`.
    window
        The sum of checksums; it is reset after a look.
    scaler
        Moves when there is a look, by all steps since the last.
    step
        Number of the step, from 0.
    check_interval
        Steps between two looks, 1 or more.

    Returns
    -------
    Context
        After the step.
    bool
        False if there was a look and a step had been skipped.

    Raises
    ------
    ConfigurationError
        If ``check_interval`` is less than 1.
    """
    interval = whole_from("check_interval", check_interval, 1)
    ctx = ctx.run(routine)
    if (step + 1) % interval:
        return ctx, True
    finite = math.isfinite(float(ctx.get_values(window)))
    ctx = ctx.set_values({window: 0.0})
    return scaler.update(ctx, finite=finite, steps=interval), finite

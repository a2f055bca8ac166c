"""Optimizer steps as computations, over gradients that lie on the device.

In: a loss whose gradients were computed. Out: a computation that updates its parameters and what
the optimizer remembers of them. Invariant: a closed gate leaves all of it bit by bit as it was: old
and new are selected from, not mixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, Unpack

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation
from workbench.errors import ConfigurationError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import cast, where
from workbench.graph.gradient_leaf import gradient_of, name_of
from workbench.graph.tensor import Tensor
from workbench.train.update.adaptive import Adam, Lion, RmsProp
from workbench.train.update.gradient import stepped_params
from workbench.train.update.optimizer_state import optimizer_state
from workbench.train.update.rule import Rule, Sgd, updated
from workbench.train.update.scalar import as_gate, rate_of, scalar_of

__all__ = [
    "UpdateOptions",
    "adam_update",
    "adamw_update",
    "lion_update",
    "optimizer_update",
    "rmsprop_update",
    "sgd_one",
    "sgd_update",
]

_SLOTS = {"m": "momentum", "v": "variance"}


class UpdateOptions(TypedDict, total=False):
    """What every update takes.

    Attributes
    ----------
    learning_rate
        A number, or a floating tensor of shape ``()`` such as `host_scalar` makes.
    grad_unscale
        What gradients are multiplied by as they are read, before anything else: the reciprocal of a
        loss scale. The stored gradients stay scaled: an update reads them and writes none.
    grad_scale
        What gradients are multiplied by as they are read, see `clip_by_global_norm`; it does not
        touch weight decay.
    update_gate
        A scalar that is true, or not 0, where the step is to be made. The others leave parameters
        and buffers as they were, whatever the gradients hold.
    params
        What to update, if it is not `trainable_params` of the loss.
    """

    learning_rate: Tensor | float
    grad_unscale: Tensor | float | None
    grad_scale: Tensor | float | None
    update_gate: Tensor | None
    params: Iterable[Tensor] | None


def checked_options(name: str, options: UpdateOptions) -> UpdateOptions:
    """Return the options of the function ``name`` if it has them, and a rate is among them.

    Raises
    ------
    ConfigurationError
        If one is unknown, or ``learning_rate`` is missing.
    """
    known = list(UpdateOptions.__annotations__)
    for given in options:
        if given not in known:
            named = "learning_rate" if given in ("lr", "rate", "eta") else ""
            raise ConfigurationError(
                f"`{name}` has no argument `{given}`",
                remedy=f"pass `{named}=`" if named else f"pass one of {', '.join(known)}",
            )
    if "learning_rate" not in options:
        raise ConfigurationError(
            f"`{name}` needs `learning_rate`", remedy="pass it, such as `learning_rate=0.001`"
        )
    return options


def optimizer_update(
    loss: Tensor,
    rule: Rule,
    *,
    learning_rate: Tensor | float,
    grad_unscale: Tensor | float | None = None,
    grad_scale: Tensor | float | None = None,
    update_gate: Tensor | None = None,
    params: Iterable[Tensor] | None = None,
    name: str = "",
) -> Computation:
    """Return the computation that updates the parameters of ``loss`` by ``rule``.

    What the rule remembers lies in leaves that are the computation's ``updates`` beside the
    parameters; a rule that counts its updates has the count among them. They belong to the kind of
    rule and the set of parameters: the same call again, with another rate, another loss or other
    numbers, returns the same leaves, and so continues in a lineage in which they hold values. In a
    context that does not know them they begin at zero.

    Parameters
    ----------
    loss
        Whose parameters are updated.
    rule
        What to do with each.
    learning_rate, grad_unscale, grad_scale, update_gate, params
        See `UpdateOptions`.
    name
        For people.

    Raises
    ------
    GradientError
        If the loss is no floating scalar, or there are no parameters.
    ShapeError
        If the rate, a factor or the gate is no scalar.
    """
    return _steps(
        stepped_params(loss, params),
        rule,
        name or f"{type(rule).__name__.lower()}_update",
        learning_rate=learning_rate,
        grad_unscale=grad_unscale,
        grad_scale=grad_scale,
        update_gate=update_gate,
    )


def _steps(
    chosen: Iterable[Tensor],
    rule: Rule,
    name: str,
    *,
    learning_rate: Tensor | float,
    grad_unscale: Tensor | float | None,
    grad_scale: Tensor | float | None,
    update_gate: Tensor | None,
) -> Computation:
    gate = None if update_gate is None else as_gate(update_gate)
    unscale = None if grad_unscale is None else scalar_of(grad_unscale, "grad_unscale")
    scale = None if grad_scale is None else scalar_of(grad_scale, "grad_scale")
    stores: dict[Tensor, Tensor] = {}

    def store(leaf: Tensor, new: Tensor) -> None:
        stores[leaf] = new if gate is None else where(gate, new, leaf)

    params = list(chosen)
    memory = optimizer_state(type(rule).__name__, params)
    count = memory.leaf("updates", -1, "updates", (), DType.I64) if rule.counts else None
    pace = rule.pace(rate_of(learning_rate), None if count is None else count + 1)
    if count is not None:
        store(count, count + 1)
    for param in params:
        gradient = gradient_of(param)
        if unscale is not None:
            # As it is read: a second update finds the gradient as the first one did.
            gradient = gradient * cast(unscale, gradient.dtype)
        slots = {
            slot: memory.leaf(
                slot,
                param.uid,
                f"{_SLOTS[slot]}_{name_of(param)}",
                param.shape,
                param.dtype.computed,
            )
            for slot in rule.slots
        }
        new, after = updated(rule, param, gradient, slots, pace, scale)
        store(param, new)
        for slot, kept in slots.items():
            store(kept, after[slot])
    return computation([], stores, name=name)


def sgd_one(
    param: Tensor,
    *,
    learning_rate: Tensor | float,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    grad_unscale: Tensor | float | None = None,
    grad_scale: Tensor | float | None = None,
    update_gate: Tensor | None = None,
) -> Computation:
    """Return the gradient descent step of one parameter; see `sgd_update`.

    Raises
    ------
    GradientError
        If it is not of a floating type.
    """
    return _steps(
        [param],
        Sgd(momentum, nesterov, weight_decay),
        "sgd_one",
        learning_rate=learning_rate,
        grad_unscale=grad_unscale,
        grad_scale=grad_scale,
        update_gate=update_gate,
    )


def sgd_update(
    loss: Tensor,
    *,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    **options: Unpack[UpdateOptions],
) -> Computation:
    """Return a step of gradient descent for each parameter of ``loss``; see `Sgd`.

    Parameters
    ----------
    loss
        Whose parameters are updated, by the gradients that `grad_update` left.
    momentum
        The share of a buffer of gradients that is kept, in ``[0, 1)``; 0 for no buffer.
    nesterov
        Whether the step looks one step ahead.
    weight_decay
        The share of the parameter that is added to its gradient.
    **options
        ``learning_rate`` and the rest of `UpdateOptions`.
    """
    rule = Sgd(momentum, nesterov, weight_decay)
    return optimizer_update(loss, rule, name="sgd_update", **checked_options("sgd_update", options))


def adam_update(
    loss: Tensor,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    **options: Unpack[UpdateOptions],
) -> Computation:
    """Return a step of Adam for each parameter of ``loss``; see `Adam`.

    Parameters
    ----------
    loss
        Whose parameters are updated, by the gradients that `grad_update` left.
    b1, b2
        Decay rates of the moments.
    eps
        Added to the root.
    weight_decay
        The share of the parameter that is added to its gradient.
    nesterov
        Whether the step looks one step ahead.
    **options
        ``learning_rate`` and the rest of `UpdateOptions`.
    """
    rule = Adam(b1, b2, eps, weight_decay, nesterov=nesterov)
    return optimizer_update(
        loss, rule, name="adam_update", **checked_options("adam_update", options)
    )


def adamw_update(
    loss: Tensor,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    nesterov: bool = False,
    **options: Unpack[UpdateOptions],
) -> Computation:
    """Return a step of AdamW for each parameter of ``loss``; see `Adam`.

    Parameters are those of `adam_update`; weight decay is ``lr * weight_decay`` of the parameter
    itself.
    """
    rule = Adam(b1, b2, eps, weight_decay, decoupled=True, nesterov=nesterov)
    return optimizer_update(
        loss, rule, name="adamw_update", **checked_options("adamw_update", options)
    )


def rmsprop_update(
    loss: Tensor,
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    **options: Unpack[UpdateOptions],
) -> Computation:
    """Return a step of RMSprop for each parameter of ``loss``; see `RmsProp`.

    Parameters
    ----------
    loss
        Whose parameters are updated, by the gradients that `grad_update` left.
    decay
        Decay rate of the mean squares.
    eps
        Added to the root.
    momentum, nesterov, weight_decay
        As for `sgd_update`.
    **options
        ``learning_rate`` and the rest of `UpdateOptions`.
    """
    rule = RmsProp(decay, eps, momentum, nesterov, weight_decay)
    return optimizer_update(
        loss, rule, name="rmsprop_update", **checked_options("rmsprop_update", options)
    )


def lion_update(
    loss: Tensor,
    *,
    b1: float = 0.9,
    b2: float = 0.99,
    weight_decay: float = 0.0,
    **options: Unpack[UpdateOptions],
) -> Computation:
    """Return a step of Lion for each parameter of ``loss``; see `Lion`.

    Parameters
    ----------
    loss
        Whose parameters are updated, by the gradients that `grad_update` left.
    b1, b2
        How much of the past the direction looks at, and how much is kept.
    weight_decay
        With the rate, the share of itself that a parameter loses.
    **options
        ``learning_rate`` and the rest of `UpdateOptions`.
    """
    return optimizer_update(
        loss,
        Lion(b1, b2, weight_decay),
        name="lion_update",
        **checked_options("lion_update", options),
    )

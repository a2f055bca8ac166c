"""Optimizers over parameter trees: what `fit` and its steps use.

In: parameters, gradients, an `OptState` and a learning rate.  Out: new parameters and a new state,
as tensors; nothing is computed here.  Invariant: the formulas are those of `workbench.train.update`
(``rule`` and ``adaptive``), which the code builders use as well.
"""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from workbench.errors import ConfigurationError, DTypeError, ShapeError, TracingError
from workbench.graph.dtype import as_dtype
from workbench.graph.elementwise import describe
from workbench.graph.extent import resolve_shape
from workbench.graph.tensor import Tensor
from workbench.train.tree import Leaf, Structure, flatten, paths, require_same, static, unflatten
from workbench.train.update.adaptive import Adam, Lion, RmsProp
from workbench.train.update.rule import Rule, Sgd, Slots, Velocity, updated
from workbench.train.update.scalar import rate_of

__all__ = ["OptState", "adam", "adamw", "apply", "lion", "momentum", "rmsprop", "sgd"]

P = TypeVar("P")


# Compared by identity: element-wise equality of two arrays has no truth value.
@final
@dataclass(frozen=True, slots=True, eq=False)
class OptState:
    """What an optimizer remembers from one step to the next; itself a parameter tree.

    Attributes
    ----------
    kind
        ``"sgd"``, ``"momentum"``, ``"adam"``, ``"adamw"``, ``"rmsprop"`` or ``"lion"``.
    m
        A tree like the parameters: the velocity of momentum, the first moments of Adam and Lion,
        the buffer of SGD and RMSprop; else None.
    v
        A tree like the parameters: the second moments of Adam, the mean squares of RMSprop; else
        None.
    t
        How many updates were made, int64 of shape ``()``.  SGD, RMSprop and Lion do not count.
    b1, b2
        Decay rates of the moments, in ``[0, 1)``; ``b2`` is RMSprop's only one.
    eps
        What Adam and RMSprop add to the root of the second moments.
    mu
        The share of its velocity or buffer that momentum keeps, in ``[0, 1)``.
    weight_decay
        See the function that made the state.
    nesterov
        Whether the step looks one step ahead.
    """

    kind: str = static("sgd")
    m: Any = None
    v: Any = None
    t: Any = 0
    b1: float = static(0.0)
    b2: float = static(0.0)
    eps: float = static(0.0)
    mu: float = static(0.0)
    weight_decay: float = static(0.0)
    nesterov: bool = static(False)

    def rule(self) -> Rule:
        """Return the formula of this optimizer.

        Raises
        ------
        ConfigurationError
            If the kind is unknown.
        """
        match self.kind:
            case "sgd":
                return Sgd(self.mu, self.nesterov, self.weight_decay)
            case "momentum":
                return Velocity(self.mu)
            case "adam" | "adamw":
                decoupled = self.kind == "adamw"
                return Adam(self.b1, self.b2, self.eps, self.weight_decay, decoupled, self.nesterov)
            case "rmsprop":
                return RmsProp(self.b2, self.eps, self.mu, self.nesterov, self.weight_decay)
            case "lion":
                return Lion(self.b1, self.b2, self.weight_decay)
            case _:
                raise ConfigurationError(
                    f"the optimizer kind `{self.kind}` is unknown",
                    remedy=f"use one of {', '.join(_KINDS)}",
                )


_KINDS: Final = ("adam", "adamw", "lion", "momentum", "rmsprop", "sgd")


def sgd(
    params: object, *, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> OptState:
    """Return the state of gradient descent: ``p - lr * g``, or `Sgd` with its options.

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.
    momentum
        The share of a buffer of gradients that is kept, in ``[0, 1)``. Unlike the velocity of
        `momentum`, the buffer does not hold the rate: a new rate acts on past gradients too.
    nesterov
        Whether the step looks one step ahead.
    weight_decay
        The share of the parameter that is added to its gradient.

    Raises
    ------
    ConfigurationError
        If a hyper-parameter is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    rule = Sgd(momentum, nesterov, weight_decay)
    zeros = _zeros(params)  # refuses what has no gradient
    return OptState(
        kind="sgd",
        m=zeros if rule.momentum else None,
        t=_no_steps(),
        mu=rule.momentum,
        weight_decay=rule.weight_decay,
        nesterov=rule.nesterov,
    )


def momentum(params: object, mu: float = 0.9) -> OptState:
    """Return the state of gradient descent with momentum: ``v = mu * v - lr * g``, then ``p + v``.

    The velocity stands in the field ``m`` and begins at zero.

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.
    mu
        The share of the velocity that is kept, in ``[0, 1)``.

    Raises
    ------
    ConfigurationError
        If ``mu`` is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    return OptState(kind="momentum", m=_zeros(params), t=_no_steps(), mu=Velocity(mu).mu)


def adam(
    params: object,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> OptState:
    """Return the state of Adam; both moments begin at zero.

    With ``t`` counted from 1::

        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.
    b1, b2
        Decay rates of the moments, in ``[0, 1)``.
    eps
        Added to the root; 0 or more.
    weight_decay
        The share of the parameter that is added to its gradient; `adamw` decays otherwise.
    nesterov
        Whether the step looks one step ahead.

    Raises
    ------
    ConfigurationError
        If a hyper-parameter is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    rule = Adam(b1, b2, eps, weight_decay, nesterov=nesterov)
    return OptState(
        kind="adam",
        m=_zeros(params),
        v=_zeros(params),
        t=_no_steps(),
        b1=rule.b1,
        b2=rule.b2,
        eps=rule.eps,
        weight_decay=rule.weight_decay,
        nesterov=rule.nesterov,
    )


def adamw(
    params: object,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    nesterov: bool = False,
) -> OptState:
    """Return the state of AdamW: Adam, before whose step a parameter loses a share of itself.

    The share is ``lr * weight_decay``; the moments do not see it. Parameters and errors are those
    of `adam`.
    """
    state = adam(params, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, nesterov=nesterov)
    return replace(state, kind="adamw")


def rmsprop(
    params: object,
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> OptState:
    """Return the state of RMSprop: ``v = decay * v + (1 - decay) * g * g``, step ``g / sqrt(v)``.

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.
    decay
        Decay rate of the mean squares, in ``[0, 1)``.
    eps
        Added to the root; 0 or more.
    momentum, nesterov, weight_decay
        As for `sgd`; the buffer holds steps before the rate.

    Raises
    ------
    ConfigurationError
        If a hyper-parameter is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    rule = RmsProp(decay, eps, momentum, nesterov, weight_decay)
    return OptState(
        kind="rmsprop",
        m=_zeros(params) if rule.momentum else None,
        v=_zeros(params),
        t=_no_steps(),
        b2=rule.decay,
        eps=rule.eps,
        mu=rule.momentum,
        weight_decay=rule.weight_decay,
        nesterov=rule.nesterov,
    )


def lion(
    params: object, *, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 0.0
) -> OptState:
    """Return the state of Lion: a step is the rate in the direction of an averaged gradient's sign.

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.
    b1
        How much of the past the direction looks at, in ``[0, 1)``.
    b2
        How much of the past is kept for the next step, in ``[0, 1)``.
    weight_decay
        With the rate, the share of itself that a parameter loses.

    Raises
    ------
    ConfigurationError
        If a hyper-parameter is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    rule = Lion(b1, b2, weight_decay)
    return OptState(
        kind="lion",
        m=_zeros(params),
        t=_no_steps(),
        b1=rule.b1,
        b2=rule.b2,
        weight_decay=rule.weight_decay,
    )


def apply(
    params: P,
    grads: P,
    opt: OptState,
    lr: Tensor | float,
    *,
    trained: Container[Tensor] | None = None,
) -> tuple[P, OptState]:
    """Return the parameters and the state after one update, as tensors.

    Parameters
    ----------
    params
        Tree of tensors.
    grads
        The gradients, a tree of the same structure, each of its parameter's shape and type.
    opt
        The state, from `sgd`, `adam` or another such function of these parameters.
    lr
        The learning rate: a number, or a floating tensor of shape ``()``.
    trained
        A set of the parameters to step; the others keep their value and their moments, without
        weight decay. By default all.

    Raises
    ------
    ConfigurationError
        If the optimizer's kind is unknown.
    TracingError
        If the trees differ in structure, or one of their leaves is no tensor.
    DTypeError, ShapeError
        If a gradient does not fit its parameter, or the rate is no floating scalar.
    """
    rule = opt.rule()
    leaves, structure = flatten(params)
    p = _tensors(leaves, structure, "params")
    g = _like(structure, grads, "grads")
    for parameter, gradient in zip(p, g, strict=True):
        _check_fit(parameter, gradient)
    count = _count(opt) + 1 if rule.counts else None
    pace = rule.pace(rate_of(lr, "lr"), count)
    slots = {name: _like(structure, getattr(opt, name), f"opt.{name}") for name in rule.slots}
    stepped: list[Tensor] = []
    kept: list[Slots] = []
    for number, (parameter, gradient) in enumerate(zip(p, g, strict=True)):
        mine: Slots = {name: tensors[number] for name, tensors in slots.items()}
        new, after = parameter, mine
        if trained is None or parameter in trained:
            new, after = updated(rule, parameter, gradient, mine, pace)
        stepped.append(new)
        kept.append(after)
    changed: dict[str, Any] = {
        name: unflatten(structure, [after[name] for after in kept]) for name in rule.slots
    }
    after_all = replace(opt, **changed) if changed else opt
    if count is not None:
        after_all = replace(after_all, t=count)
    return unflatten(structure, stepped), after_all


def _tensors(leaves: list[Leaf], structure: Structure, what: str) -> list[Tensor]:
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if len(tensors) == len(leaves):
        return tensors
    path, wrong = next(
        (path, leaf)
        for path, leaf in zip(paths(structure), leaves, strict=True)
        if not isinstance(leaf, Tensor)
    )
    place = f"{what}.{path}" if path else what
    raise TracingError(
        f"`{place}` is a `{type(wrong).__qualname__}`, not a tensor",
        remedy="an update is graph code: let `fit` call the step, or make the leaves with "
        "`wb.parameter`",
    )


def _like(structure: Structure, tree: object, what: str) -> list[Tensor]:
    leaves, found = flatten(tree)
    require_same(structure, found, what=f"`{what}`, which goes with the parameters,")
    return _tensors(leaves, found, what)


def _check_fit(parameter: Tensor, gradient: Tensor) -> None:
    problem = f"the gradient is {describe(gradient)}, its parameter {describe(parameter)}"
    if gradient.shape != parameter.shape:
        # Broadcasting would hide it: a scalar gradient fits every parameter.
        raise ShapeError(problem, remedy="give each parameter a gradient of its own shape")
    if gradient.dtype is not parameter.dtype:
        raise DTypeError(problem, remedy=f"convert it: `.astype('{parameter.dtype}')`")


def _count(opt: OptState) -> Tensor:
    if not isinstance(opt.t, Tensor):
        raise TracingError(
            f"`opt.t` is a `{type(opt.t).__qualname__}`, not a tensor",
            remedy="an update is graph code: let `fit` call the step, or make the leaves of `opt` "
            "with `wb.parameter`",
        )
    return opt.t


def _no_steps() -> NDArray[np.int64]:
    return np.zeros((), np.int64)


def _zeros(params: object) -> Any:
    leaves, structure = flatten(params)
    zeros = [_zero(leaf, path) for leaf, path in zip(leaves, paths(structure), strict=True)]
    return unflatten(structure, zeros)


def _zero(leaf: Leaf, path: str) -> NDArray[Any]:
    shape: tuple[int, ...] = ()
    if isinstance(leaf, Tensor):
        shape, dtype = resolve_shape(leaf.shape, None), leaf.dtype.numpy
    elif isinstance(leaf, (np.ndarray, np.generic)):
        shape, dtype = leaf.shape, leaf.dtype
    else:
        # Python's own numbers get the type that they have as parameters: float32, int64 or bool.
        dtype = as_dtype(type(leaf)).numpy
    if dtype.kind != "f":
        where = f"the parameter `{path}`" if path else "the parameter"
        raise DTypeError(
            f"{where} is {dtype}, which has no gradient",
            remedy="make it floating, or keep it out of the parameters and close the step over it",
        )
    return np.zeros(shape, dtype.newbyteorder("="))

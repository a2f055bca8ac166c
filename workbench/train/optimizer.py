"""Optimizers, written in the graph's own operations.

In: parameters, gradients, an `OptState` and a learning rate.  Out: new parameters and a new state,
as tensors; nothing is computed here.  Invariant: what a step needs once, such as Adam's bias
corrections, is a float64 scalar, and each element costs no division beyond the rule's own.

Adam is Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1, with
epsilon outside the root and after the bias correction.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from workbench.errors import ConfigurationError, DTypeError, ShapeError, TracingError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.elementwise import describe, sqrt, square
from workbench.graph.extent import resolve_shape
from workbench.graph.leaf import constant
from workbench.graph.tensor import Tensor
from workbench.train.tree import Leaf, Structure, flatten, paths, require_same, static, unflatten

__all__ = ["OptState", "adam", "apply", "momentum", "sgd"]

P = TypeVar("P")


# Compared by identity: element-wise equality of two arrays has no truth value.
@final
@dataclass(frozen=True, slots=True, eq=False)
class OptState:
    """What an optimizer remembers from one step to the next; itself a parameter tree.

    Attributes
    ----------
    kind
        ``"sgd"``, ``"momentum"`` or ``"adam"``.
    m
        A tree like the parameters: the velocity of momentum, the first moments of Adam; else None.
    v
        A tree like the parameters: the second moments of Adam; else None.
    t
        How many updates were made, int64 of shape ``()``.  Plain SGD does not count.
    b1, b2
        Decay rates of Adam's moments, in ``[0, 1)``.
    eps
        What Adam adds to the root of the second moments.
    mu
        The share of its velocity that momentum keeps, in ``[0, 1)``.
    """

    kind: str = static("sgd")
    m: Any = None
    v: Any = None
    t: Any = 0
    b1: float = static(0.0)
    b2: float = static(0.0)
    eps: float = static(0.0)
    mu: float = static(0.0)


def sgd(params: object) -> OptState:
    """Return the state of plain gradient descent: ``p - lr * g``.

    Parameters
    ----------
    params
        The parameter tree; its leaves are of floating types.

    Raises
    ------
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    _zeros(params)  # refuses what has no gradient
    return OptState(kind="sgd", t=_no_steps())


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
    return OptState(kind="momentum", m=_zeros(params), t=_no_steps(), mu=_share(mu, "mu"))


def adam(params: object, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> OptState:
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

    Raises
    ------
    ConfigurationError
        If a hyper-parameter is out of range.
    DTypeError
        If a leaf is not of a floating type, naming its path.
    """
    if not 0.0 <= eps < math.inf:
        raise ConfigurationError(
            f"eps is {eps}; it is finite and not negative", remedy="use a small number such as 1e-8"
        )
    return OptState(
        kind="adam",
        m=_zeros(params),
        v=_zeros(params),
        t=_no_steps(),
        b1=_share(b1, "b1"),
        b2=_share(b2, "b2"),
        eps=float(eps),
    )


def apply(params: P, grads: P, opt: OptState, lr: Tensor | float) -> tuple[P, OptState]:
    """Return the parameters and the state after one update, as tensors.

    Parameters
    ----------
    params
        Tree of tensors.
    grads
        The gradients, a tree of the same structure, each of its parameter's shape and type.
    opt
        The state, from `sgd`, `momentum` or `adam` of these parameters.
    lr
        The learning rate: a number, or a floating tensor of shape ``()``.

    Raises
    ------
    ConfigurationError
        If the optimizer's kind is unknown.
    TracingError
        If the trees differ in structure, or one of their leaves is no tensor.
    DTypeError, ShapeError
        If a gradient does not fit its parameter, or the rate is no floating scalar.
    """
    if opt.kind not in _RULES:
        raise ConfigurationError(
            f"the optimizer kind `{opt.kind}` is unknown",
            remedy=f"use one of {', '.join(sorted(_RULES))}",
        )
    leaves, structure = flatten(params)
    p = _tensors(leaves, structure, "params")
    g = _like(structure, grads, "grads")
    for parameter, gradient in zip(p, g, strict=True):
        _check_fit(parameter, gradient)
    return _RULES[opt.kind](p, g, opt, _rate(lr), structure)


# -- the rules

Rule = Callable[[list[Tensor], list[Tensor], OptState, Tensor, Structure], tuple[Any, OptState]]


def _sgd(
    p: list[Tensor], g: list[Tensor], opt: OptState, lr: Tensor, structure: Structure
) -> tuple[Any, OptState]:
    stepped = [x - lr.astype(x.dtype) * dx for x, dx in zip(p, g, strict=True)]
    return unflatten(structure, stepped), opt


def _momentum(
    p: list[Tensor], g: list[Tensor], opt: OptState, lr: Tensor, structure: Structure
) -> tuple[Any, OptState]:
    velocity = [
        opt.mu * before - lr.astype(dx.dtype) * dx
        for before, dx in zip(_like(structure, opt.m, "opt.m"), g, strict=True)
    ]
    stepped = [x + dx for x, dx in zip(p, velocity, strict=True)]
    after = replace(opt, m=unflatten(structure, velocity), t=_count(opt) + 1)
    return unflatten(structure, stepped), after


def _adam(
    p: list[Tensor], g: list[Tensor], opt: OptState, lr: Tensor, structure: Structure
) -> tuple[Any, OptState]:
    t = _count(opt) + 1
    # Once a step, in float64: 1 - 0.999**t keeps three digits of a float32 in the first steps.
    steps = t.astype(DType.F64)
    pace = lr / (1.0 - opt.b1**steps)
    unbias = 1.0 / sqrt(1.0 - opt.b2**steps)
    first = [
        opt.b1 * m + (1.0 - opt.b1) * dx
        for m, dx in zip(_like(structure, opt.m, "opt.m"), g, strict=True)
    ]
    second = [
        opt.b2 * v + (1.0 - opt.b2) * square(dx)
        for v, dx in zip(_like(structure, opt.v, "opt.v"), g, strict=True)
    ]
    # sqrt(v / c) = sqrt(v) * (1 / sqrt(c)): the corrections leave one division for each element.
    stepped = [
        x - pace.astype(x.dtype) * m / (sqrt(v) * unbias.astype(x.dtype) + opt.eps)
        for x, m, v in zip(p, first, second, strict=True)
    ]
    after = replace(opt, m=unflatten(structure, first), v=unflatten(structure, second), t=t)
    return unflatten(structure, stepped), after


_RULES: Final[dict[str, Rule]] = {"adam": _adam, "momentum": _momentum, "sgd": _sgd}


# -- what the rules stand on


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


def _rate(lr: Tensor | float) -> Tensor:
    if not isinstance(lr, Tensor):
        return constant(float(lr), dtype=DType.F64)
    if lr.shape != () or not lr.dtype.is_float:
        raise ShapeError(
            f"the learning rate is {describe(lr)}, not a floating scalar",
            remedy="pass a number, or a floating tensor of shape ()",
        )
    return lr.astype(DType.F64)


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


def _share(value: float, name: str) -> float:
    # Written so that NaN is refused as well.
    if not 0.0 <= value < 1.0:
        raise ConfigurationError(
            f"{name} is {value}; it lies in [0, 1)",
            remedy="use a number such as 0.9; nearer to 1 remembers longer",
        )
    return float(value)

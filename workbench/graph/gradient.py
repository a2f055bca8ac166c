"""Reverse-mode differentiation, from graph to graph.

In: a scalar loss and the tensors to differentiate by. Out: one cotangent tensor for each.
Invariant: nothing is computed here; the result is more graph, which the later stages treat like any
other.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias, cast

from workbench.errors import GradientError, UnreachedParameterWarning
from workbench.graph.elementwise import add, broadcast_to, describe
from workbench.graph.leaf import scalar
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor, topological_order

Rule: TypeAlias = Callable[[Tensor, Tensor], "tuple[Tensor | None, ...]"]

_rules: dict[str, Rule] = {}

_noted: Final[ContextVar[dict[Tensor, Tensor] | None]] = ContextVar("noted gradients", default=None)


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule ``(node, cotangent) -> cotangents of the operands`` for ``ops``.

    A rule builds graph from the node, its operands and the cotangent of its value. It returns None
    for an operand that no cotangent flows to.
    """

    def register(function: Rule) -> Rule:
        for op in ops:
            _rules[op] = function
        return function

    return register


def operations_with_rules() -> frozenset[str]:
    """Return the names of all operations that can be differentiated."""
    return frozenset(_rules)


def backward(
    loss: Tensor, params: Iterable[Tensor], stop: Iterable[Tensor] | None = None
) -> dict[Tensor, Tensor]:
    """Return the gradient of ``loss`` by each of ``params``, as tensors.

    A gradient has the shape and type of its parameter; that of a 16-bit parameter is float32.

    Parameters
    ----------
    loss
        A floating tensor of shape ``()``.
    params
        Any tensors that ``loss`` may depend on.
    stop
        Tensors that cotangents reach and do not pass; by default ``params`` themselves. With the
        parameters of several unrolled steps, the default gives each step its own gradient, and
        ``stop=()`` differentiates through the steps.

    Raises
    ------
    GradientError
        If the loss is not a floating scalar, or an operation on the way has no rule.

    Warns
    -----
    UnreachedParameterWarning
        For a parameter that no gradient of the loss reaches; its gradient is zero.
    """
    if loss.shape != () or not loss.dtype.is_float:
        raise GradientError(
            f"the loss is {describe(loss)}, not a floating scalar",
            remedy="reduce it first: `loss.mean()` or `loss.sum()`",
        )
    return backward_from(scalar(1.0, loss.dtype.computed), loss, params, stop)


def backward_from(
    cotangent: Tensor, root: Tensor, params: Iterable[Tensor], stop: Iterable[Tensor] | None = None
) -> dict[Tensor, Tensor]:
    """Return what ``cotangent``, given at ``root``, becomes at each of ``params``.

    Parameters and errors are those of `backward`; ``cotangent`` has the shape and type of ``root``,
    float32 for a 16-bit one.
    """
    wanted = nodes_from("params", params)
    frontier = wanted if stop is None else nodes_from("stop", stop)
    cotangents = _flow(cotangent, root, wanted, frozenset(frontier))
    gradients: dict[Tensor, Tensor] = {}
    for param in wanted:
        found = cotangents.get(param)
        if found is None:
            _warn_unreached(param, root)
            found = broadcast_to(scalar(0.0, param.dtype.computed), param.shape)
        gradients[param] = found
    noted = _noted.get()
    if noted is not None:
        noted.update(gradients)
    return gradients


@contextmanager
def gradients_noted() -> Generator[dict[Tensor, Tensor]]:
    """Give a dictionary that has, after the block, the gradients that were made in it.

    For whoever calls a person's function that differentiates: it is not said what by. Of two
    gradients by one tensor the later is kept.
    """
    made: dict[Tensor, Tensor] = {}
    token = _noted.set(made)
    try:
        yield made
    finally:
        _noted.reset(token)


def reached_gradients(
    cotangent: Tensor, root: Tensor, params: Iterable[Tensor]
) -> dict[Tensor, Tensor]:
    """Return what `backward_from` does, for those of ``params`` only that a gradient reaches."""
    wanted = nodes_from("params", params)
    cotangents = _flow(cotangent, root, wanted, frozenset(wanted))
    return {param: cotangents[param] for param in wanted if param in cotangents}


def _flow(
    cotangent: Tensor, root: Tensor, wanted: Sequence[Tensor], frontier: frozenset[Tensor]
) -> dict[Tensor, Tensor]:
    """Return the cotangents of all nodes that one flows to on its way from root to ``wanted``."""
    if cotangent.shape != root.shape or cotangent.dtype is not root.dtype.computed:
        raise GradientError(
            f"the cotangent is {describe(cotangent)} and the root {describe(root)}",
            remedy=f"give a cotangent of the root's shape, in {root.dtype.computed}",
        )
    for param in wanted:
        if not param.dtype.is_float:
            raise GradientError(
                f"{describe(param)} cannot have a gradient: its type is not floating",
                remedy="differentiate by floating tensors only",
            )
    order = topological_order([root], frontier)
    # Only nodes on a path to a wanted tensor need a cotangent: the others cost graph for nothing.
    reaches = {param.uid for param in wanted}
    for node in order:
        if node not in frontier and any(operand.uid in reaches for operand in node.operands):
            reaches.add(node.uid)
    cotangents: dict[Tensor, Tensor] = {root: cotangent}
    for node in reversed(order):
        flowing = cotangents.get(node)
        if flowing is None or node in frontier or not node.operands or node.uid not in reaches:
            continue
        for operand, part in zip(node.operands, _apply(node, flowing), strict=True):
            if part is None or operand.uid not in reaches:
                continue
            before = cotangents.get(operand)
            cotangents[operand] = part if before is None else add(before, part)
    return cotangents


def _apply(node: Tensor, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    found = _rules.get(node.op)
    if found is None:
        raise GradientError(
            f"the operation `{node.op}` of {node!r} has no gradient rule",
            remedy=f"register one with `@rule({node.op!r})`, or pass the tensor through "
            "`stop_gradient`",
        )
    parts = found(node, cotangent)
    fits = len(parts) == len(node.operands) and all(
        part is None or (part.shape == operand.shape and part.dtype is operand.dtype.computed)
        for part, operand in zip(parts, node.operands, strict=True)
    )
    if not fits:
        wanted = ", ".join(describe(operand) for operand in node.operands)
        given = ", ".join("None" if part is None else describe(part) for part in parts)
        raise GradientError(
            f"the gradient rule of `{node.op}` returned ({given}) for the operands ({wanted})",
            remedy="return one cotangent of its shape and type, or None, for each operand",
        )
    return parts


def _warn_unreached(param: Tensor, root: Tensor) -> None:
    warnings.warn(
        UnreachedParameterWarning(
            f"no gradient of {root!r} reaches {describe(param)}: its gradient is zero. "
            "Use the parameter in the forward computation, or leave it out of the step"
        ),
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """Return how many frames above `_warn_unreached` the code outside this module is."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        level, frame = level + 1, frame.f_back
    return level  # for `warnings.warn`, to which level 1 is the frame that calls it


def value_and_grad(
    function: Callable[..., Tensor],
) -> Callable[..., tuple[Tensor, dict[Tensor, Tensor]]]:
    """Return a function that gives the loss of ``function``, and its gradients.

    Gradients are by the first argument: a tensor, or a dict, list, tuple or dataclass of such;
    numbers in it are left alone. Gradients come keyed by tensor.

    Examples
    --------
    >>> from workbench.graph.leaf import parameter
    >>> w = parameter([1.0, 2.0], "w")
    >>> loss, gradients = value_and_grad(lambda p: (p["w"] * 3.0).sum())({"w": w})
    >>> gradients[w].shape
    (2,)
    """

    def both(params: object, *rest: object) -> tuple[Tensor, dict[Tensor, Tensor]]:
        leaves = list(_leaves(params))
        if not leaves:
            raise GradientError(
                f"there is no tensor in the first argument, a `{type(params).__name__}`",
                remedy="pass a tensor, or a dict, list, tuple or dataclass of tensors",
            )
        loss = function(params, *rest)
        return loss, backward(loss, leaves)

    return both


def _leaves(tree: object) -> Iterator[Tensor]:
    entries: Iterable[object] = ()
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        entries = cast("Mapping[object, object]", tree).values()
    elif isinstance(tree, (list, tuple)):
        entries = cast("Sequence[object]", tree)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        entries = [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    for entry in entries:
        yield from _leaves(entry)

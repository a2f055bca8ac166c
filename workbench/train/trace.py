"""Trace a person's functions once into graphs.

In: a step, an evaluation or a forward function, and trees of arrays. Out: leaves, outputs and
updates. Invariant: what a step returns for a parameter becomes that parameter's next value;
whatever a function does to Python values happens once, while tracing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy.typing as npt

from workbench.assign.from_graph import LEAVES
from workbench.errors import DataError, GraphError, TracingError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.elementwise import cast as convert
from workbench.graph.extent import batch
from workbench.graph.gradient import gradients_noted
from workbench.graph.indexing import take
from workbench.graph.leaf import input as input_leaf
from workbench.graph.leaf import parameter
from workbench.graph.tensor import Tensor
from workbench.train.ratio import taken_apart, unrounded
from workbench.train.statistic import Statistic
from workbench.train.step import StepResult
from workbench.train.tree import Structure, flatten, paths, require_same, unflatten

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Leaves:
    """A tree of arrays as parameters of a graph.

    Attributes
    ----------
    structure
        Of the tree.
    tensors
        One for each leaf, labelled by its path.
    """

    structure: Structure
    tensors: tuple[Tensor, ...]

    @property
    def tree(self) -> Any:
        """The tree with tensors as leaves."""
        return unflatten(self.structure, self.tensors)


def as_leaves(tree: object, prefix: str = "") -> Leaves:
    """Return the leaves of ``tree`` as new parameters that start with its values."""
    leaves, structure = flatten(tree)
    tensors: list[Tensor] = []
    for leaf, path in zip(leaves, paths(structure), strict=True):
        if isinstance(leaf, Tensor):
            if leaf.value is None:
                raise TracingError(
                    f"`{prefix}{path}` is {leaf!r}, which holds no value",
                    remedy="pass arrays, or parameters made with `wb.parameter`",
                )
            leaf = leaf.value
        tensors.append(
            parameter(leaf, f"{prefix}{path}" if path else prefix.rstrip(".") or "params")
        )
    return Leaves(structure, tuple(tensors))


def rate_dtype(params: Leaves) -> DType:
    """Return the type of the learning rate: float64 for parameters that all are, else float32.

    So a step may be written ``p - lr * g`` without a conversion.
    """
    floats = [leaf.dtype for leaf in params.tensors if leaf.dtype.is_float]
    return DType.F64 if floats and all(dtype is DType.F64 for dtype in floats) else DType.F32


@dataclass(frozen=True, slots=True)
class Rows:
    """A resident data array and the leaf that stands for it.

    Attributes
    ----------
    leaf
        Input of the whole array's shape, or of one batch.
    batch
        What a function is called with: the rows of one batch.
    """

    leaf: Tensor
    batch: Tensor


def chosen_rows(label: str, array: Array, order: Tensor) -> Rows:
    """Return the rows of ``array`` that ``order`` chooses, as a tensor."""
    leaf = input_leaf(f"all {label}", array.shape, as_dtype(array.dtype))
    return Rows(leaf, take(leaf, order).named(label))


def following_rows(label: str, array: Array) -> Rows:
    """Return a batch of rows that lie together, as an input."""
    leaf = input_leaf(label, (batch, *array.shape[1:]), as_dtype(array.dtype))
    return Rows(leaf, leaf)


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step as a graph.

    Attributes
    ----------
    loss
        Scalar.
    updates
        The next value of every parameter and every part of the optimizer's state.
    metrics
        Further scalars by name, float32.
    portion
        What a batch counts, a scalar: the sum of its rows' weights. None if they have none.
    gradients
        Those that the step made on its way, by what they are by.
    """

    loss: Tensor
    updates: Mapping[Tensor, Tensor]
    metrics: Mapping[str, Tensor]
    portion: Tensor | None
    gradients: Mapping[Tensor, Tensor]


def trace_step(
    step: Callable[..., object],
    params: Leaves,
    opt: Leaves,
    x: Tensor,
    y: Tensor,
    lr: Tensor,
    weights: Tensor | None = None,
) -> TracedStep:
    """Return what ``step(params, opt, x, y, lr)`` computes, or the same with ``weights``.

    Raises
    ------
    TracingError
        If it does not return a `StepResult`, or one with trees of another structure.
    GraphError
        If a new value has another shape or type than the old one.
    DataError
        If rows have weights and the step has no such parameter, or needs them and there are none.
    """
    takes = _takes_weights(step, given=weights is not None)
    if weights is not None and not takes:
        name = getattr(step, "__name__", type(step).__name__)
        raise DataError(
            f"the rows have weights, and the step `{name}` has no parameter `weights`",
            remedy=f"write it as `{name}(params, opt, x, y, lr, weights)` and use them in its "
            "loss, or leave the weights out of the data set",
        )
    extra = {} if weights is None else {"weights": weights}
    with gradients_noted() as gradients:
        result = step(params.tree, opt.tree, x, y, lr, **extra)
    if not isinstance(result, StepResult):
        raise TracingError(
            f"the step returned a `{type(result).__name__}`, not a StepResult",
            remedy="return `wb.StepResult(loss, params, opt)`, as `wb.default_step(...)` does",
        )
    loss = _scalar("the step's loss", result.loss)
    updates: dict[Tensor, Tensor] = {}
    for what, before, after in (("params", params, result.params), ("opt", opt, result.opt)):
        leaves, structure = flatten(after)
        require_same(before.structure, structure, what=f"the {what} that the step returned")
        for old, new, path in zip(before.tensors, leaves, paths(structure), strict=True):
            updates[old] = _successor(f"{what}.{path}", old, new)
    changed = {old: new for old, new in updates.items() if old is not new}
    metrics = {name: _metric(name, value) for name, value in _named(result.metrics).items()}
    portion = None if weights is None else weights.sum()
    return TracedStep(loss, changed, metrics, portion, gradients)


def _takes_weights(function: Callable[..., object], *, given: bool) -> bool:
    """Return whether a person's function takes the weights of rows, by its signature.

    Raises
    ------
    DataError
        If it needs them and there are none.
    """
    try:
        signature = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a callable of compiled code tells nothing
        return given
    wanted = signature.get("weights")
    if not given and wanted is not None and wanted.default is wanted.empty:
        raise DataError(
            f"`{getattr(function, '__name__', type(function).__name__)}` takes `weights`, and the "
            "rows have none",
            remedy="pass them: `wb.data.Dataset(x, y, weights=...)`",
        )
    return wanted is not None or any(p.kind is p.VAR_KEYWORD for p in signature.values())


def _named(metrics: object) -> dict[str, object]:
    if not isinstance(metrics, Mapping):
        raise TracingError(
            f"the step's metrics are a `{type(metrics).__name__}`, not named scalars",
            remedy='pass a dict such as `{"gradient_norm": wb.global_norm(grads)}`',
        )
    named = {str(name): value for name, value in cast("Mapping[object, object]", metrics).items()}
    if "loss" in named:
        raise TracingError(
            "the step has a metric called `loss`, the name of what it reports as its loss",
            remedy="give the metric another name",
        )
    return named


def _metric(name: str, value: object) -> Tensor:
    # Multiplied even where it is computed: a view of a parameter would be no place to write to.
    return convert(_scalar(f"the step's metric `{name}`", value) * 1.0, DType.F32)


def _successor(path: str, old: Tensor, new: object) -> Tensor:
    if not isinstance(new, Tensor):
        raise TracingError(
            f"`{path}` came back from the step as a `{type(new).__name__}`, not a tensor",
            remedy="return tensors computed from the step's arguments",
        )
    if new.shape != old.shape or new.dtype is not old.dtype:
        raise GraphError(
            f"`{path}` was {old!r} and came back from the step as {new!r}",
            remedy="give the new value the old one's shape and type: `reshape` or `.astype(...)`",
        )
    return new


def _scalar(what: str, value: object) -> Tensor:
    if not isinstance(value, Tensor) or value.shape != () or not value.dtype.is_float:
        raise TracingError(
            f"{what} is {value!r}, not a floating tensor of shape ()",
            remedy="reduce it: `.mean()`",
        )
    # What counts rows or sums them up does not fit 16 bits.
    value = unrounded(value)
    # A leaf is not computed, so no launch would write it to where the loop looks.
    return value * 1.0 if value.op in LEAVES else value


def trace_metrics(
    eval_batch: Callable[..., object],
    params: Leaves,
    x: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
) -> dict[str, Tensor | Statistic]:
    """Return the named means and statistics that ``eval_batch(params, x, y)`` returns for a batch.

    It is called with ``weights`` too where rows have them and it has such a parameter.

    Raises
    ------
    TracingError
        If it returns anything but a mapping from names to floating scalars and statistics.
    DataError
        If it needs weights and there are none.
    """
    takes = _takes_weights(eval_batch, given=weights is not None)
    extra = {"weights": weights} if takes and weights is not None else {}
    result = eval_batch(params.tree, x, y, **extra)
    kind = type(result).__name__
    if not isinstance(result, Mapping) or not result:
        raise TracingError(
            f"the evaluation returned a `{kind}`, not named means",
            remedy='return a dict such as `{"loss": ..., "accuracy": ...}` of means over the rows',
        )
    means = cast("Mapping[str, object]", result)
    return {
        str(name): value
        if isinstance(value, Statistic)
        else taken_apart(_scalar(f"the metric `{name}`", value))
        for name, value in means.items()
    }


def trace_forward(forward: Callable[..., object], params: Leaves, x: Tensor) -> Tensor:
    """Return what ``forward(params, x)`` computes: one row of output for each row of ``x``.

    Raises
    ------
    TracingError
        If it does not return a tensor whose first axis is the batch.
    """
    result = forward(params.tree, x)
    if not isinstance(result, Tensor) or not result.shape or result.shape[0] != batch:
        raise TracingError(
            f"the forward function returned {result!r}, which has not one row for each of x",
            remedy="keep the batch as first axis",
        )
    return result

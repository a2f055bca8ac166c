"""One training step as a person writes it: loss, gradients, new parameters.

In: parameters, optimizer state, a batch and the learning rate, all tensors.  Out: a `StepResult` of
tensors.  Invariant: a step is graph code; it runs once to build a graph, and the graph runs for
every batch.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar, cast, final

from workbench.errors import TracingError
from workbench.graph.elementwise import where
from workbench.graph.gradient import backward
from workbench.graph.tensor import Tensor
from workbench.train.accumulate import AccumulatedState, accumulated_apply
from workbench.train.optimizer import OptState, apply
from workbench.train.precision import MixedState, choose, mixed_apply, mixed_gradients
from workbench.train.tree import flatten, paths, unflatten
from workbench.train.update.gradient import reached_params

__all__ = ["StepResult", "apply_gradients", "default_step", "loss_and_gradients"]

P = TypeVar("P")
State: TypeAlias = OptState | MixedState | AccumulatedState


@final
@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step returns.

    Attributes
    ----------
    loss
        The mean loss over the rows of the batch before the update, a tensor of shape ``()``.
    params
        The new parameters, in the structure of the ones that were given.
    opt
        The new optimizer state, in the structure of the one that was given.
    metrics
        Other numbers of the step by name, floating tensors of shape ``()``, such as the norm of its
        gradients. ``run.series`` holds them for each batch of the epoch at hand, the history holds
        their means over the rows of each epoch as ``train_<name>``: a short last batch weighs what
        its rows weigh.
    """

    loss: Tensor
    params: Any
    opt: Any
    metrics: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])

    def with_metrics(self, **metrics: Tensor) -> "StepResult":
        """Return this result with further metrics.

        Examples
        --------
        In a step: ``return wb.apply_gradients(params, grads, opt, lr, loss).with_metrics(
        gradient_norm=wb.global_norm(grads))``.
        """
        return replace(self, metrics={**self.metrics, **metrics})


def default_step(
    params: object,
    opt: State,
    x: Tensor,
    y: Tensor,
    lr: Tensor | float,
    loss_fn: Callable[..., Tensor],
    *,
    weights: Tensor | None = None,
) -> StepResult:
    """Return the result of one plain step: loss and gradients in one pass, then the optimizer.

    With a `MixedState` the step is one of mixed precision (see `mixed_bf16` and `mixed_f16`), with
    an `AccumulatedState` it updates only when a window of batches is complete (see `accumulate`).

    Parameters
    ----------
    params
        Tree of tensors.
    opt
        The optimizer's state, from `sgd`, `adam` or another of their kin, of these parameters.
    x, y
        The batch, rows along axis 0.
    lr
        The learning rate: a number, or a floating tensor of shape ``()``.
    loss_fn
        ``loss_fn(params, x, y)``, the mean loss over the rows as a tensor of shape ``()``; with
        weights ``loss_fn(params, x, y, weights)``.
    weights
        What each row of the batch counts, shape ``(rows,)``, as the step was given it.

    Notes
    -----
    With weights a loss is a mean that they weigh, such as
    ``(wb.cross_entropy_rows(logits, y) * weights).sum() / weights.sum()``. A window of accumulated
    batches divides by the sum of its weights then, and so does the mean loss of an epoch. A batch
    whose weights are all 0 has the loss 0 and changes nothing.

    Raises
    ------
    TracingError
        If a parameter is no tensor, or ``loss_fn`` returns none.
    GradientError
        If the loss is not a floating scalar, or an operation has no gradient rule.
    """
    inner = opt.inner if isinstance(opt, AccumulatedState) else opt

    def loss_of(params: object, x: Tensor, y: Tensor) -> Tensor:
        return loss_fn(params, x, y) if weights is None else loss_fn(params, x, y, weights)

    if isinstance(inner, MixedState):
        loss, grads = mixed_gradients(params, inner, x, y, loss_of)
    else:
        loss, grads = loss_and_gradients(loss_of, params, x, y)
    portion = None if weights is None else weights.sum()
    trained = reached_params(loss, [p for p in flatten(params)[0] if isinstance(p, Tensor)])
    return apply_gradients(
        params, grads, opt, lr, loss, portion=portion, trained=frozenset(trained)
    )


def loss_and_gradients(
    loss_fn: Callable[[P, Tensor, Tensor], Tensor], params: P, x: Tensor, y: Tensor
) -> tuple[Tensor, P]:
    """Return the loss and its gradients, a tree in the structure of ``params``.

    For a step that changes gradients before it applies them; parameters and errors are those of
    `default_step`.
    """
    leaves, structure = flatten(params)
    for path, leaf in zip(paths(structure), leaves, strict=True):
        if not isinstance(leaf, Tensor):
            raise TracingError(
                f"the parameter `{path}` is a `{type(leaf).__qualname__}`, not a tensor",
                remedy="let `fit` call the step, or make the leaves with `wb.parameter`",
            )
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    loss = cast("object", loss_fn(params, x, y))
    if not isinstance(loss, Tensor):
        raise TracingError(
            f"the loss function returned a `{type(loss).__qualname__}`, not a tensor",
            remedy="return the loss alone, such as `wb.cross_entropy(model(params, x), y)`",
        )
    gradient = backward(loss, tensors)
    return loss, unflatten(structure, [gradient[tensor] for tensor in tensors])


def apply_gradients(
    params: P,
    grads: P,
    opt: State,
    lr: Tensor | float,
    loss: Tensor,
    *,
    portion: Tensor | None = None,
    trained: Container[Tensor] | None = None,
) -> StepResult:
    """Return the result of a step whose gradients are at hand.

    The second half of `default_step`, for a step that clips or otherwise changes gradients first.

    Parameters
    ----------
    params, grads
        Trees of tensors, of one structure; with a `MixedState`, gradients of the scaled loss.
    opt
        The optimizer's state.
    lr
        The learning rate: a number, or a floating tensor of shape ``()``.
    loss
        What the step reports as its loss, shape ``()``.
    portion
        What the loss was divided by, shape ``()``: by default the rows of the batch. It is how much
        the batch counts in a window of accumulated batches; of 0, neither its loss nor its
        gradients are looked at, which are 0 divided by 0.
    trained
        A set of the parameters to step; the others keep their value, weight decay included. By
        default all: `default_step` leaves out those that no gradient of the loss reaches.
    """
    if isinstance(opt, AccumulatedState):
        return StepResult(
            *accumulated_apply(params, grads, opt, lr, loss, portion=portion, trained=trained)
        )
    if isinstance(opt, MixedState):
        result = StepResult(*mixed_apply(params, grads, opt, lr, loss, trained=trained))
    else:
        result = StepResult(loss, *apply(params, grads, opt, lr, trained=trained))
    if portion is None:
        return result
    counts = portion > 0.0
    return StepResult(
        where(counts, result.loss, 0.0),
        choose(counts, result.params, params),
        choose(counts, result.opt, opt),
    )

"""Softmax and the losses, written in the operations below them; they need no rules of their own.

In: logits, predictions, labels. Out: tensors. Invariant: no exponential overflows, and no gradient
is computed from a difference of large numbers.
"""

from __future__ import annotations

from workbench.errors import DTypeError, ShapeError
from workbench.graph.bounds import refuse_known
from workbench.graph.dtype import DType
from workbench.graph.elementwise import (
    cast,
    common_dtype,
    describe,
    exp,
    log,
    require_float,
    square,
    stop_gradient,
    sub,
    where,
)
from workbench.graph.indexing import is_label
from workbench.graph.reduction import (
    max_,
    mean,
    normalize_axes,
    require_elements,
    sum_,
)
from workbench.graph.tensor import Axes, Operand, Tensor, as_tensor, as_tensors


def _shifted(op: str, x: Operand, axis: Axes) -> Tensor:
    """Return ``x - max(x)``, the maximum taken as a constant: it cancels in what follows."""
    x = as_tensor(x, op=op)
    require_float(op, x)
    axes = normalize_axes(op, x, axis)
    require_elements(op, x, axes)
    return x - max_(stop_gradient(x), axes, keepdims=True)


def softmax(x: Operand, axis: Axes = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""
    grown = exp(_shifted("softmax", x, axis))
    return grown / sum_(grown, axis, keepdims=True)


def log_softmax(x: Operand, axis: Axes = -1) -> Tensor:
    """Return ``x - logsumexp(x)`` along ``axis``."""
    shifted = _shifted("log_softmax", x, axis)
    return shifted - log(sum_(exp(shifted), axis, keepdims=True))


def cross_entropy_rows(logits: Operand, labels: Operand) -> Tensor:
    """Return ``log(sum(exp(logits))) - logits[label]`` of each row, in nats; never below 0.

    Parameters
    ----------
    logits
        Shape ``(..., classes)``, floating.
    labels
        int32 or int64 of shape ``(...,)``, from 0 to classes - 1. Constants are checked here, data
        and inputs before a run. A computed label that is outside of the classes has the loss of a
        logit as great as the greatest.

    Raises
    ------
    DataError
        If a constant label is outside.
    """
    scores = as_tensor(logits, op="cross_entropy")
    truth = as_tensor(labels, op="cross_entropy")
    require_float("cross_entropy", scores)
    if truth.dtype not in (DType.I32, DType.I64):
        raise DTypeError(
            f"cross_entropy: the labels are {describe(truth)}, not whole numbers",
            remedy="pass class numbers as int32; for one-hot rows write "
            "`-(t * wb.log_softmax(x)).sum(-1)`",
        )
    if not scores.ndim or scores.shape[:-1] != truth.shape:
        raise ShapeError(
            f"cross_entropy: the logits are {describe(scores)}, the labels {describe(truth)}",
            remedy="give one label for each row of logits: shapes (rows, classes) and (rows,)",
        )
    refuse_known("cross_entropy", truth, scores.shape[-1], from_end=False)
    # Losses are float32: a 16-bit one would be scaled out of its range.
    scores = cast(scores, scores.dtype.computed)
    # Both terms are differences to the greatest logit. Of logits near 1e8 they are known to eight
    # units, and so would be what is left when one such number is taken from another.
    shifted = _shifted("cross_entropy", scores, -1)
    chosen = where(is_label(truth, scores.shape[-1]), shifted, 0.0)
    return log(sum_(exp(shifted), -1)) - sum_(chosen, -1)


def cross_entropy(logits: Operand, labels: Operand) -> Tensor:
    """Return the mean over rows of `cross_entropy_rows`."""
    return mean(cross_entropy_rows(logits, labels))


def mse(prediction: Operand, target: Operand) -> Tensor:
    """Return the mean over all elements of ``(prediction - target)**2``; shapes agree exactly.

    Raises
    ------
    ShapeError
        If the shapes differ: a silent broadcast of (n,) against (n, 1) would average n * n
        differences.
    """
    left, right = as_tensors((prediction, target), "mse")
    if left.shape != right.shape:
        raise ShapeError(
            f"mse: the prediction is {describe(left)}, the target {describe(right)}",
            remedy="`reshape` one of them, so that both shapes are the same",
        )
    common_dtype("mse", (left, right))
    require_float("mse", left)
    # Losses are float32: a 16-bit one would be scaled out of its range.
    wide = (cast(left, left.dtype.computed), cast(right, right.dtype.computed))
    return mean(square(sub(*wide)))

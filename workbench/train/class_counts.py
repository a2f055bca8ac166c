"""Metrics that count classes: precision, recall, F1, the confusion matrix, the best few.

In: scores and labels of one batch.  Out: a `Statistic`, or a mean over rows.  Invariant: what is
divided is the counts over all rows, and it is divided once.

Scores have one more axis than the labels, the classes, of which the greatest is predicted; or they
have the labels' shape, and what lies above a threshold is predicted to be positive.  A row with a
score that is NaN is predicted to be of no class at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, final

import numpy as np

from workbench.arguments import whole_from
from workbench.errors import ConfigurationError, DTypeError, ShapeError
from workbench.graph.contraction import einsum
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe, where
from workbench.graph.indexing import is_label
from workbench.graph.leaf import iota
from workbench.graph.reduction import sum_
from workbench.graph.tensor import Tensor
from workbench.train.metric import Counter
from workbench.train.ratio import predicted, share_of
from workbench.train.statistic import Gathered, Statistic

__all__ = ["confusion_matrix", "f1", "precision", "recall", "top_k"]

# Rows that were predicted to be of a class and are, that were predicted to be, and that are of it.
Ratio: TypeAlias = Callable[[int, int, int], Counter]

_LETTERS: Final = "bcdefgh"


def precision(
    scores: Tensor, labels: Tensor, *, positive: int | None = None, threshold: float = 0.0
) -> Statistic:
    """Return the share of the rows predicted to be of a class that are of it.

    Parameters
    ----------
    scores
        Floating, of the shape ``labels.shape + (classes,)``, or for two classes of the labels'.
    labels
        Class numbers; with scores of the same shape, 1 is positive and all else negative.
    positive
        The class to look at.  By default the mean over all classes that occur or are predicted; of
        two classes told by a threshold, the positive one.
    threshold
        What scores of the labels' shape have to exceed: 0 for logits, 0.5 for probabilities.

    Raises
    ------
    ShapeError
        If the shapes do not fit together.
    DTypeError
        If the scores are not floating, or the labels of several classes not whole numbers.
    ConfigurationError
        If there is no class ``positive``.

    Notes
    -----
    A class that occurs but is never predicted has the precision 0.  A row with a score of NaN is
    predicted to be of no class: it lowers the recall of its own, and the precision of none.
    """
    return _ratio(scores, labels, positive, threshold, lambda hit, said, _: Counter(hit, said))


def recall(
    scores: Tensor, labels: Tensor, *, positive: int | None = None, threshold: float = 0.0
) -> Statistic:
    """Return the share of the rows of a class that are predicted to be of it.

    Parameters and errors are those of `precision`.  A class that is predicted but never occurs has
    the recall 0.
    """
    return _ratio(scores, labels, positive, threshold, lambda hit, _, real: Counter(hit, real))


def f1(
    scores: Tensor, labels: Tensor, *, positive: int | None = None, threshold: float = 0.0
) -> Statistic:
    """Return ``2 TP / (2 TP + FP + FN)``, the harmonic mean of precision and recall.

    Parameters and errors are those of `precision`.  In a mean over classes each has its own F1.
    """

    def ratio(hit: int, said: int, real: int) -> Counter:
        return Counter(2 * hit, said + real)

    return _ratio(scores, labels, positive, threshold, ratio)


def confusion_matrix(scores: Tensor, labels: Tensor, *, threshold: float = 0.0) -> Statistic:
    """Return how many rows of each class (rows) were predicted to be of which (columns).

    Its value is an int64 array of shape ``(classes, classes)``, to be looked at rather than
    monitored.  Parameters and errors are those of `precision`.  A row with a score of NaN is in no
    column.
    """
    told = _told(scores, labels, threshold)
    axes = _LETTERS[: told.real.ndim - 1]
    # A matrix product of 0 and 1: exact in float64 up to 2**53 rows, in float32 up to 2**24.
    real, said = told.real.astype(DType.F64), told.said.astype(DType.F64)
    counts = einsum(f"{axes}i,{axes}j->ij", real, said)
    return Statistic(lambda all_: all_.total("counts").astype(np.int64), {"counts": counts})


def top_k(logits: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """Return the share of rows whose label is among the ``k`` greatest logits.

    Of equal logits the first is the greater, so that ``k=1`` is the accuracy.  A row in which a
    logit is NaN is no hit, and neither is one whose label is no class.

    Parameters
    ----------
    logits
        Floating, of the shape ``labels.shape + (classes,)``.
    labels
        Class numbers.
    k
        At least 1.

    Raises
    ------
    ConfigurationError
        If ``k`` is below 1.
    """
    k = whole_from("k", k, 1)
    classes = _classes(logits, labels)
    own = is_label(labels, classes)
    # Chosen, not multiplied: infinity times 0 would be NaN.
    chosen = sum_(where(own, logits, 0.0), -1, keepdims=True)
    position = iota(logits.shape, logits.ndim - 1)
    place = sum_(where(own, position, 0), -1, keepdims=True)
    ahead = (logits > chosen) | ((logits == chosen) & (position < place))
    rank = sum_(ahead.astype(DType.I32), -1)
    known = (predicted(logits) >= 0) & (labels >= 0) & (labels < classes)
    return share_of((rank < k) & known, logits.dtype.computed)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """For each row and class, whether the row is of it, and whether it was said to be; bool."""

    real: Tensor
    said: Tensor
    classes: int
    binary: bool


def _told(scores: Tensor, labels: Tensor, threshold: float) -> _Told:
    if not scores.dtype.is_float:
        raise DTypeError(
            f"the scores are {describe(scores)}, not floating",
            remedy="pass logits or probabilities, not predicted classes",
        )
    if scores.shape == labels.shape:
        positive = labels if labels.dtype is DType.BOOL else labels == 1
        real, said = positive.astype(DType.I32), (scores > threshold).astype(DType.I32)
        said = where(scores == scores, said, -1)
        return _Told(is_label(real, 2), is_label(said, 2), 2, binary=True)
    classes = _classes(scores, labels)
    said = predicted(scores)
    return _Told(is_label(labels, classes), is_label(said, classes), classes, binary=False)


def _classes(scores: Tensor, labels: Tensor) -> int:
    """Return the extent of the scores' last axis, which the labels number."""
    if scores.ndim != labels.ndim + 1 or scores.shape[:-1] != labels.shape:
        raise ShapeError(
            f"the scores are {describe(scores)}, the labels {describe(labels)}",
            remedy="give one label for each row of scores: shapes (rows, classes) and (rows,)",
        )
    if labels.dtype not in (DType.I32, DType.I64):
        raise DTypeError(
            f"the labels are {describe(labels)}, not whole numbers",
            remedy="pass class numbers as int32",
        )
    classes = scores.shape[-1]
    if not isinstance(classes, int):
        raise ShapeError(
            f"the classes of the scores {describe(scores)} are the batch",
            remedy="keep the batch as first axis, the classes as last",
        )
    return classes


def _ratio(
    scores: Tensor, labels: Tensor, positive: int | None, threshold: float, ratio: Ratio
) -> Statistic:
    """Return a ratio of counts of one class, or its mean over all classes."""
    told = _told(scores, labels, threshold)
    if positive is not None and not 0 <= positive < told.classes:
        raise ConfigurationError(
            f"positive is {positive}, and there are the classes 0 to {told.classes - 1}",
            remedy="name one of them, or None for the mean over all",
        )
    chosen = 1 if told.binary and positive is None else positive

    def finish(gathered: Gathered) -> float:
        hit, said, real = (gathered.total(name).tolist() for name in ("hit", "said", "real"))
        counts = list(zip(hit, said, real, strict=True))
        if chosen is not None:
            return ratio(*counts[chosen]).ratio
        met = [ratio(*of_class).ratio for of_class in counts if of_class[1] or of_class[2]]
        return sum(met) / len(met) if met else 0.0

    rows = tuple(range(told.real.ndim - 1))
    parts = {"hit": told.real & told.said, "said": told.said, "real": told.real}
    return Statistic(finish, {n: sum_(p.astype(DType.I32), rows) for n, p in parts.items()})

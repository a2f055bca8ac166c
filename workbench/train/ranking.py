"""The area under the ROC curve: how well scores put positive rows above negative ones.

In: a score and a label for each row.  Out: a `Statistic` that keeps both.  Invariant: the value is
that of all rows at once; ranks within a batch say nothing about it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.train.statistic import Gathered, Statistic

__all__ = ["area_under_curve", "auc"]

_TWO = 2


def auc(scores: Tensor, labels: Tensor) -> Statistic:
    """Return the probability that a positive row has a higher score than a negative one.

    A tie counts half.  It is NaN if all rows are of one class, or a score is NaN.

    Parameters
    ----------
    scores
        Floating, shape ``(rows,)``, or the logits of two classes, shape ``(rows, 2)``.
    labels
        Shape ``(rows,)``; 1 is positive and all else negative.

    Raises
    ------
    ShapeError
        If the shapes do not fit together.
    DTypeError
        If the scores are not floating.
    """
    if not scores.dtype.is_float:
        raise DTypeError(
            f"the scores are {describe(scores)}, not floating",
            remedy="pass logits or probabilities, not predicted classes",
        )
    if labels.ndim != 1 or scores.shape not in (labels.shape, (*labels.shape, _TWO)):
        raise ShapeError(
            f"the scores are {describe(scores)}, the labels {describe(labels)}",
            remedy="use shapes (rows,) or (rows, 2) and (rows,)",
        )
    # Only the order counts, and the difference of two logits orders like the probability.
    # In float64 a difference of two numbers makes no ties that they do not have.
    wide = scores.astype(DType.F64)
    score = wide if scores.ndim == 1 else wide[:, 1] - wide[:, 0]
    positive = labels if labels.dtype is DType.BOOL else labels == 1

    def finish(gathered: Gathered) -> float:
        kept = gathered.per_row
        return area_under_curve(kept["score"], kept["positive"] != 0)

    return Statistic(finish, per_row={"score": score, "positive": positive.astype(DType.I32)})


def area_under_curve(scores: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> float:
    """Return the share of pairs of a positive and a negative row in which the former is higher.

    Ties count half.  ``O(rows * log(rows))``; NaN if there is no such pair, or a score is NaN.

    Parameters
    ----------
    scores, positive
        Shape ``(rows,)``.

    Examples
    --------
    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, True, False, True]))
    0.875
    """
    if np.isnan(scores).any():
        return float("nan")
    levels, level_of = np.unique(scores, return_inverse=True)
    higher = np.bincount(level_of[positive], minlength=len(levels))
    lower = np.bincount(level_of[~positive], minlength=len(levels))
    pairs = int(higher.sum()) * int(lower.sum())
    if not pairs:
        return float("nan")
    # Twice the pairs won, in whole numbers: below plus half of the equal ones.
    won = int(np.dot(higher, 2 * np.cumsum(lower) - lower))
    return won / (2 * pairs)

"""Metrics of predicted numbers: absolute error and the share of variance explained.

In: predictions and targets of one batch.  Out: a mean over rows, or a `Statistic`.  Invariant: the
variance is put together from each batch's own, so that a mean far from 0 costs no digits.
"""

import numpy as np

from workbench.errors import ShapeError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import abs_, describe, require_float, square, sub
from workbench.graph.reduction import mean, min_, sum_
from workbench.graph.tensor import Tensor
from workbench.train.statistic import Gathered, Statistic

__all__ = ["mae", "r2"]


def mae(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the mean of ``|prediction - target|`` over all elements; shapes agree exactly.

    It is float32, float64 for numbers of that type, and NaN if one of them is.

    Raises
    ------
    ShapeError
        If the shapes differ.
    """
    _check("mae", prediction, target)
    # A difference of two 16-bit numbers need not be one.
    said, real = (each.astype(each.dtype.computed) for each in (prediction, target))
    return mean(abs_(sub(said, real)))


def r2(prediction: Tensor, target: Tensor) -> Statistic:
    """Return ``1 - sum((target - prediction)**2) / sum((target - mean(target))**2)``.

    Of several outputs, the mean over them.  A target that never varies has 1 if it is predicted
    exactly and 0 if not; of fewer than two rows, or with a number that is NaN, the value is NaN.

    Parameters
    ----------
    prediction, target
        Floating, of one shape ``(rows, ...)``.

    Raises
    ------
    ShapeError
        If the shapes differ.

    Notes
    -----
    Sums are float64.  Variances of batches are put together by the formula of T. F. Chan, G. H.
    Golub and R. J. LeVeque, 1979.
    """
    _check("r2", prediction, target)
    said, real = prediction.astype(DType.F64), target.astype(DType.F64)
    # Differences to the least: equal numbers have none, while their mean is rounded.
    least = min_(real, 0)
    above = real - least
    centre = mean(above, 0)
    parts = {
        "residual": sum_(square(real - said), 0),
        "mean": least + centre,
        "spread": sum_(square(above - centre), 0),
    }
    return Statistic(_explained, parts)


def _explained(gathered: Gathered) -> float:
    rows = gathered.rows
    total = int(rows.sum())
    if total <= 1:
        return float("nan")
    means = gathered.per_batch["mean"].reshape(len(rows), -1)
    weights = rows[:, np.newaxis].astype(np.float64)
    means = means - means[:1]
    centre = (means * weights).sum(axis=0) / total
    spread = gathered.total("spread").reshape(-1)
    spread = spread + (weights * (means - centre) ** 2).sum(axis=0)
    residual = gathered.total("residual").reshape(-1)
    varies = spread != 0.0
    missed = np.where(np.isnan(residual), np.nan, residual != 0.0)
    share = np.where(varies, residual / np.where(varies, spread, 1.0), missed)
    return float(np.mean(1.0 - share))


def _check(op: str, prediction: Tensor, target: Tensor) -> None:
    require_float(op, prediction)
    if prediction.shape != target.shape:
        raise ShapeError(
            f"{op}: the prediction is {describe(prediction)}, the target {describe(target)}",
            remedy="`reshape` one of them, so that both shapes are the same",
        )

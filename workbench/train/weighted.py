"""Means over rows that weigh more or less, for ``eval_batch`` functions.

In: a value and a weight for each row of a batch.  Out: a `Statistic`.  Invariant: the sum of the
weighted values over all rows is divided once, by the sum of all weights.
"""

from __future__ import annotations

from workbench.errors import ShapeError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe, where
from workbench.graph.tensor import Tensor
from workbench.train.statistic import Gathered, Statistic

__all__ = ["weighted_mean"]


def weighted_mean(values: Tensor, weights: Tensor) -> Statistic:
    """Return ``sum(values * weights) / sum(weights)`` over all rows; 0.0 where all weigh nothing.

    Parameters
    ----------
    values
        A number or truth value for each row, shape ``(rows,)``, such as `cross_entropy_rows` gives.
    weights
        What each row counts, shape ``(rows,)``.

    Raises
    ------
    ShapeError
        If one of them has not one entry for each row.

    Examples
    --------
    Rows of a data set with weights come with them to an evaluation that has such a parameter:

    >>> import workbench as wb
    >>> def measure(params, x, y, weights):
    ...     return {"loss": weighted_mean(wb.square(x @ params["w"] - y), weights)}
    >>> params = {"w": wb.zeros(1)}
    >>> run = wb.Run(params, wb.sgd(params), wb.Config(1, 2, 0.1, 0))
    >>> rows = wb.data.Dataset([[1.0], [2.0], [3.0]], [0.0, 0.0, 3.0], weights=[3.0, 0.0, 1.0])
    >>> wb.evaluate(run, rows, measure)
    {'loss': 2.25}
    """
    for name, tensor in (("values", values), ("weights", weights)):
        if len(tensor.shape) != 1 or tensor.shape != weights.shape:
            raise ShapeError(
                f"weighted_mean: the {name} are {describe(tensor)}, not one number for each row",
                remedy="reduce the other axes first, such as with `.mean(1)`",
            )
    wide = weights.astype(DType.F64)
    # A row that weighs nothing may hold anything, NaN too.
    counted = where(wide > 0.0, values.astype(DType.F64) * wide, 0.0)
    parts = {"sum": counted.sum(), "weight": wide.sum()}
    return Statistic(_divided, parts)


def _divided(gathered: Gathered) -> float:
    weight = float(gathered.total("weight"))
    return float(gathered.total("sum")) / weight if weight else 0.0

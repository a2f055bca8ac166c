"""Perplexity: the exponential of the mean cross-entropy.

In: logits and labels of one batch.  Out: a `Statistic`.  Invariant: the exponential is taken once,
of the mean over all rows; the mean of the batches' perplexities would be another number.
"""

import numpy as np

from workbench.errors import ShapeError
from workbench.graph.composite import cross_entropy_rows
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe
from workbench.graph.reduction import sum_
from workbench.graph.tensor import Tensor
from workbench.train.statistic import Gathered, Statistic

__all__ = ["perplexity"]


def perplexity(logits: Tensor, labels: Tensor) -> Statistic:
    """Return ``exp`` of the mean over all labels of `cross_entropy_rows`.

    Parameters
    ----------
    logits
        Floating, shape ``(rows, ..., classes)``.
    labels
        Class numbers, shape ``(rows, ...)``.

    Raises
    ------
    ShapeError
        If the shapes do not fit together.
    """
    of_row = 1
    for extent in labels.shape[1:]:
        if not isinstance(extent, int):
            raise ShapeError(
                f"the labels {describe(labels)} have the batch twice",
                remedy="keep the batch as first axis only",
            )
        of_row *= extent

    def finish(gathered: Gathered) -> float:
        labels_in_all = int(gathered.rows.sum()) * of_row
        with np.errstate(over="ignore"):
            return float(np.exp(gathered.total("nats") / max(labels_in_all, 1)))

    nats = cross_entropy_rows(logits, labels).astype(DType.F64)
    return Statistic(finish, {"nats": sum_(nats)})

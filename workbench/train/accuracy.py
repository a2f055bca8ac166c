"""The share of rows that were classified rightly, as graph code for one batch."""

from __future__ import annotations

from workbench.errors import ShapeError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe, logical_and
from workbench.graph.tensor import Tensor
from workbench.train.ratio import predicted, share_of

__all__ = ["accuracy"]


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the share of rows whose greatest logit is at the label.

    Of equal logits the first is the greatest.  A row in which a logit is NaN is no hit.  Hits are
    counted in whole numbers and divided once: of a batch here, of all rows in an evaluation.

    Parameters
    ----------
    logits
        Shape ``labels.shape + (classes,)``.
    labels
        Integer, shape ``(rows,)``.

    Returns
    -------
    Tensor
        Shape ``()``, float32; float64 for logits of that type.

    Raises
    ------
    ShapeError
        If there is not one label for each row of logits.
    """
    if logits.shape[:-1] != labels.shape or not logits.ndim:
        raise ShapeError(
            f"accuracy: the logits are {describe(logits)}, the labels {describe(labels)}",
            remedy="give one label for each row of logits: shapes (rows, classes) and (rows,)",
        )
    said = predicted(logits)
    # Compared in a type that holds all class numbers.
    wide = DType.F64 if labels.dtype.is_float else DType.I64
    hit = logical_and(said >= 0, said.astype(wide) == labels.astype(wide))
    return share_of(hit, logits.dtype.computed if logits.dtype.is_float else DType.F32)

"""Metrics of one batch as graph code, for ``eval_batch`` functions."""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.graph.reduction import argmax, mean
from workbench.graph.tensor import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the share of rows whose greatest logit is at the label.

    Parameters
    ----------
    logits
        Shape ``(rows, classes)``.
    labels
        Integer, shape ``(rows,)``.
    """
    hit = argmax(logits, -1).astype(labels.dtype) == labels
    return mean(hit.astype(logits.dtype if logits.dtype.is_float else DType.F32))

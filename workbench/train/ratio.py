"""Means over rows, taken apart: a sum and how many elements it is of.

In: a scalar that a person's function returned for a batch.  Out: a `Statistic` where the scalar is
a sum over the batch divided by its size, else the scalar in the type that it was computed in.
Invariant: a mean over all rows is divided once, so that a count of hits is exact however the rows
were cut into batches, and in whatever type the scores are.
"""

from __future__ import annotations

import numpy as np

from workbench.graph.dtype import DType
from workbench.graph.elementwise import div, stop_gradient, where
from workbench.graph.extent import Batch, Extent, count, resolve
from workbench.graph.leaf import extent_value
from workbench.graph.reduction import argmax, max_, sum_
from workbench.graph.tensor import Tensor
from workbench.train.statistic import Gathered, Statistic

__all__ = ["predicted", "share_of", "taken_apart", "unrounded"]


def unrounded(value: Tensor) -> Tensor:
    """Return a floating tensor as it was before it was rounded to 16 bits, if it was."""
    while value.op == "cast" and value.dtype.is_half:
        wide = value.operands[0]
        if not wide.dtype.is_float or wide.dtype.is_half:
            break
        value = wide
    return value


def taken_apart(metric: Tensor) -> Tensor | Statistic:
    """Return a mean over a batch as its sum, to be divided when all batches are there.

    What is no mean over the rows comes back as it is, but for a last rounding to 16 bits.

    Parameters
    ----------
    metric
        Floating, shape ``()``.
    """
    metric = unrounded(metric)
    if metric.op != "div":
        return metric
    total, divisor = metric.operands
    extent = divisor.attribute("extent") if divisor.op == "extent" else None
    if total.op == "cast" and total.operands[0].dtype in (DType.I32, DType.I64):
        total = total.operands[0]
    if not isinstance(extent, Batch) or total.op != "sum":
        return metric

    def finish(gathered: Gathered) -> float:
        elements = resolve(extent, int(gathered.rows.sum()))
        with np.errstate(invalid="ignore", over="ignore"):
            return float(gathered.total("sum") / elements)

    return Statistic(finish, {"sum": total})


def share_of(hits: Tensor, dtype: DType) -> Tensor:
    """Return which share of ``hits`` is true, shape ``()``: a whole number divided once.

    Parameters
    ----------
    hits
        Truth values.
    dtype
        The type of the share, float32 or float64.
    """
    extent: Extent = count(hits.shape)
    return div(sum_(hits.astype(DType.I32)).astype(dtype), extent_value(extent, dtype))


def predicted(scores: Tensor) -> Tensor:
    """Return the class of the greatest score along the last axis, int64; -1 where one is NaN.

    What is not a number tells no class: such a row is no hit, whatever its label.
    """
    if not scores.dtype.is_float:
        return argmax(scores, -1)
    greatest = max_(stop_gradient(scores), -1)
    return where(greatest == greatest, argmax(scores, -1), -1)

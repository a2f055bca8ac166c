"""Sums, means, extremes and positions of extremes over any axes.

In: tensors and axes. Out: tensors without these axes, or with extent 1 there. Invariant: a reducing
node drops its axes; ``keepdims`` is a reshape behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import ShapeError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import (
    cast,
    computed,
    describe,
    div,
    equal,
    exp,
    isfinite,
    log,
    logical_or,
    not_equal,
    require_float,
    require_number,
    stop_gradient,
    where,
)
from workbench.graph.extent import Extent, Shape, count, whole_number
from workbench.graph.leaf import extent_value, iota
from workbench.graph.tensor import Axes, Operand, Tensor, as_tensor, builder, make


def normalize_axes(op: str, x: Tensor, axis: Axes) -> tuple[int, ...]:
    """Return ``axis`` as sorted positions counted from 0.

    Raises
    ------
    ShapeError
        If an axis is no whole number, outside the tensor or named twice.
    """
    if axis is None:
        return tuple(range(x.ndim))
    entries: tuple[object, ...] = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    positions: list[int] = []
    for entry in entries:
        number = whole_number(entry)
        if number is None or not -x.ndim <= number < x.ndim:
            raise ShapeError(
                f"{op}: axis {entry!r} is outside {describe(x)}",
                remedy=f"use axes from {-x.ndim} to {x.ndim - 1}"
                if x.ndim
                else "use no axis: it has none",
            )
        positions.append(number % x.ndim)
    if len(set(positions)) < len(positions):
        raise ShapeError(
            f"{op}: axis {axis} names one axis of {describe(x)} twice",
            remedy="name each axis once",
        )
    return tuple(sorted(positions))


def keep_axes(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return ``shape`` with extent 1 at ``axes``."""
    return tuple(1 if position in axes else extent for position, extent in enumerate(shape))


def drop_axes(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return ``shape`` without ``axes``."""
    return tuple(extent for position, extent in enumerate(shape) if position not in axes)


def require_elements(op: str, x: Tensor, axes: Sequence[int]) -> None:
    """Refuse a tensor without elements along ``axes``: it has no greatest one."""
    if count(x.shape[a] for a in axes) == 0:
        raise ShapeError(
            f"{op}: {describe(x)} has no elements along its axes {tuple(axes)}",
            remedy="give these axes an extent of 1 or more",
        )


def _reduce(op: str, x: Tensor, axes: tuple[int, ...], *, keepdims: bool) -> Tensor:
    kept = drop_axes(x.shape, axes)
    reduced = computed(op, (x,), kept, x.dtype, {"axes": axes}) if axes else x
    return _keep(reduced, x.shape, axes) if keepdims else reduced


def _keep(reduced: Tensor, shape: Shape, axes: Sequence[int]) -> Tensor:
    return reshape_to(reduced, keep_axes(shape, axes))


def reshape_to(x: Tensor, shape: Shape) -> Tensor:
    """Return ``x`` in ``shape``, which is known to have as many elements."""
    return x if x.shape == shape else make("reshape", (x,), shape, x.dtype, {"shape": shape})


def _extreme(op: str, x: Operand, axis: Axes, *, keepdims: bool) -> Tensor:
    x = as_tensor(x, op=op)
    require_number(op, x)
    axes = normalize_axes(op, x, axis)
    require_elements(op, x, axes)
    return _reduce(op, x, axes, keepdims=keepdims)


@builder
def sum_(x: Operand, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the sum over ``axis`` (all axes if None).

    Sums of int32 and bool are int64 and those of uint32 are uint64, as in numpy, so that counts do
    not wrap around; sums of floats are of their own type.
    """
    x = as_tensor(x, op="sum")
    x = cast(x, x.dtype.summed)
    return _reduce("sum", x, normalize_axes("sum", x, axis), keepdims=keepdims)


@builder
def max_(x: Operand, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the greatest element; NaN if there is one. Ties share the cotangent equally."""
    return _extreme("max", x, axis, keepdims=keepdims)


@builder
def min_(x: Operand, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the least element; NaN if there is one. Ties share the cotangent equally."""
    return _extreme("min", x, axis, keepdims=keepdims)


@builder
def mean(x: Operand, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return the mean over ``axis`` (all axes if None); of no elements it is NaN, as in numpy."""
    x = as_tensor(x, op="mean")
    require_float("mean", x)
    if x.dtype.is_half:  # the sum may not fit the type that its quotient does
        return cast(mean(cast(x, DType.F32), axis, keepdims=keepdims), x.dtype)
    axes = normalize_axes("mean", x, axis)
    extent: Extent = count(x.shape[a] for a in axes)
    return div(_reduce("sum", x, axes, keepdims=keepdims), extent_value(extent, x.dtype))


@builder
def argmax(x: Operand, axis: int | None = -1, *, keepdims: bool = False) -> Tensor:
    """Return the int64 position of the first greatest element along ``axis``.

    The first NaN is the greatest, as in numpy. No gradient flows through positions.

    Parameters
    ----------
    x
        Numbers.
    axis
        One axis; None counts through all elements in row-major order.
    keepdims
        Whether the result keeps the axis (all axes, for None) with extent 1.
    """
    x = as_tensor(x, op="argmax")
    require_number("argmax", x)
    if axis is None:
        kept = keep_axes(x.shape, range(x.ndim))
        flat = argmax(reshape_to(x, (x.size,)), 0)
        return reshape_to(flat, kept) if keepdims else flat
    axes = normalize_axes("argmax", x, axis)
    if len(axes) != 1:
        raise ShapeError(
            f"argmax: {axis} is not one axis of {describe(x)}",
            remedy="name one axis, or None for the position among all elements",
        )
    require_elements("argmax", x, axes)
    # The first position that holds the greatest element, or NaN: numpy's choice.
    blocked = stop_gradient(x)
    top = max_(blocked, axes, keepdims=True)
    hit = logical_or(equal(blocked, top), not_equal(blocked, blocked))
    last = extent_value(x.shape[axes[0]], DType.I64)
    return min_(where(hit, iota(x.shape, axes[0]), last), axes, keepdims=keepdims)


def logsumexp(x: Operand, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` over ``axis`` without overflow; rows of -inf give -inf."""
    x = as_tensor(x, op="logsumexp")
    require_float("logsumexp", x)
    axes = normalize_axes("logsumexp", x, axis)
    require_elements("logsumexp", x, axes)
    top = max_(stop_gradient(x), axes, keepdims=True)
    # inf - inf is NaN: a row whose greatest element is infinite is not shifted.
    top = where(isfinite(top), top, 0.0)
    total = log(sum_(exp(x - top), axes, keepdims=True)) + top
    return total if keepdims else reshape_to(total, drop_axes(x.shape, axes))


# The names that people write; Python's own functions of these names are not used in this module.
sum = sum_
max = max_
min = min_

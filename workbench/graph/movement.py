"""Operations that move elements and compute nothing: shape, order, parts and joins.

In: tensors and positions. Out: tensors. Invariant: the batch axis is moved whole; its rows are not
counted, cut, reversed or joined, for their number is known only when a routine runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from workbench.errors import DTypeError, ShapeError
from workbench.graph.elementwise import describe
from workbench.graph.extent import (
    Batch,
    Extent,
    as_shape,
    count,
    divide,
    extents,
    show_shape,
    whole_number,
)
from workbench.graph.reduction import normalize_axes, reshape_to
from workbench.graph.tensor import Axes, Operand, Tensor, as_tensor, as_tensors, builder, make


@builder
def reshape(x: Operand, shape: object) -> Tensor:
    """Return the same elements, in the same row-major order, in another shape.

    Parameters
    ----------
    x
        Any tensor.
    shape
        Extents; one may be -1 and is then worked out.
    """
    x = as_tensor(x, op="reshape")
    given = extents(shape)
    open_positions = [i for i, extent in enumerate(given) if extent == -1]
    if len(open_positions) > 1:
        raise ShapeError(
            f"reshape: {show_shape(given)} has more than one -1",
            remedy="leave one extent open at most",
        )
    known = [extent for extent in given if extent != -1]
    if any(not isinstance(extent, Batch) and extent < 0 for extent in known):
        raise ShapeError(
            f"reshape: {show_shape(given)} has a negative extent",
            remedy="use extents of 0 or more, and -1 for one to be worked out",
        )
    target = given
    if open_positions:
        missing = divide(x.size, count(known))
        if missing is None:
            raise ShapeError(
                f"reshape: the {x.size} elements of {describe(x)} do not divide into "
                f"{show_shape(given)}",
                remedy="choose extents whose product divides the number of elements",
            )
        target = tuple(missing if extent == -1 else extent for extent in given)
    if count(target) != x.size:
        raise ShapeError(
            f"reshape: {describe(x)} has {x.size} elements, "
            f"{show_shape(target)} has {count(target)}",
            remedy="keep the number of elements, or leave one extent open with -1",
        )
    return reshape_to(x, target)


@builder
def transpose(x: Operand, axes: Sequence[int] | None = None) -> Tensor:
    """Return ``x`` with its axes permuted; reversed if ``axes`` is None."""
    x = as_tensor(x, op="transpose")
    natural = tuple(range(x.ndim))
    order = natural[::-1]
    if axes is not None:
        named = [whole_number(axis) for axis in axes]
        order = tuple(a % x.ndim for a in named if a is not None and -x.ndim <= a < x.ndim)
        if len(order) < len(named) or sorted(order) != list(natural):
            raise ShapeError(
                f"transpose: {tuple(axes)} is not a permutation of the {x.ndim} axes of "
                f"{describe(x)}",
                remedy="name each axis once",
            )
    if order == natural:
        return x
    return make("transpose", (x,), tuple(x.shape[a] for a in order), x.dtype, {"axes": order})


@builder
def expand_dims(x: Operand, axis: int) -> Tensor:
    """Return ``x`` with an axis of extent 1 put in at ``axis``."""
    x = as_tensor(x, op="expand_dims")
    position = _new_axis("expand_dims", x, axis)
    return reshape_to(x, (*x.shape[:position], 1, *x.shape[position:]))


def _new_axis(op: str, x: Tensor, axis: int) -> int:
    number = whole_number(axis)
    if number is None or not -x.ndim - 1 <= number <= x.ndim:
        raise ShapeError(
            f"{op}: {describe(x)} has no place for a new axis {axis!r}",
            remedy=f"use an axis from {-x.ndim - 1} to {x.ndim}",
        )
    return number % (x.ndim + 1)


@builder
def flip(x: Operand, axis: Axes = None) -> Tensor:
    """Return ``x`` with the order of elements along ``axis`` reversed (all axes if None)."""
    x = as_tensor(x, op="flip")
    axes = normalize_axes("flip", x, axis)
    for position in axes:
        if isinstance(x.shape[position], Batch):
            raise ShapeError(
                f"flip: the batch axis {position} of {describe(x)} cannot be reversed",
                remedy="name the axes to reverse, or reverse the rows where data are fed",
            )
    return make("flip", (x,), x.shape, x.dtype, {"axes": axes}) if axes else x


@builder
def slice_(x: Operand, begin: Sequence[int], size: Sequence[Extent]) -> Tensor:
    """Return the block of extents ``size`` that starts at ``begin``.

    The batch axis can only be taken whole.
    """
    x = as_tensor(x, op="slice")
    start, target = _offsets("slice", x, begin), extents(size)
    if not len(start) == len(target) == x.ndim:
        raise ShapeError(
            f"slice: begin {start} and size {show_shape(target)} do not name the {x.ndim} axes of "
            f"{describe(x)}",
            remedy="give one number for each axis to both",
        )
    for first, extent, have in zip(start, target, x.shape, strict=True):
        if isinstance(have, Batch) or isinstance(extent, Batch):
            if first != 0 or extent != have:
                raise ShapeError(
                    f"slice: the batch axis of {describe(x)} cannot be cut to {extent} rows at "
                    f"{first}",
                    remedy="take the batch axis whole, with `:`; choose rows where data are fed",
                )
        elif first < 0 or extent < 0 or first + extent > have:
            raise ShapeError(
                f"slice: {first}:{first + extent} is outside an axis of extent {have} of "
                f"{describe(x)}",
                remedy=f"stay within 0:{have}",
            )
    if target == x.shape:
        return x
    return make("slice", (x,), target, x.dtype, {"begin": start, "size": target})


def _offsets(op: str, x: Tensor, begin: Sequence[int]) -> tuple[int, ...]:
    numbers = tuple(whole_number(first) for first in begin)
    found = tuple(number for number in numbers if number is not None)
    if len(found) < len(numbers):
        raise ShapeError(
            f"{op}: {tuple(begin)} of {describe(x)} are not all whole numbers",
            remedy="use Python integers",
        )
    return found


@builder
def pad(x: Operand, before: Sequence[int], shape: object) -> Tensor:
    """Return zeros of ``shape`` with ``x`` put in at offset ``before``; the transpose of `slice_`.

    The batch axis cannot be padded.
    """
    x = as_tensor(x, op="pad")
    start, target = _offsets("pad", x, before), as_shape(shape)
    fits = len(start) == len(target) == x.ndim and all(
        (first == 0 and have == room)
        if isinstance(have, Batch) or isinstance(room, Batch)
        else 0 <= first <= room - have
        for first, have, room in zip(start, x.shape, target, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"pad: {describe(x)} at {start} does not fit into {show_shape(target)}",
            remedy="name each axis, keep the batch whole, and leave room for the operand",
        )
    if x.shape == target:
        return x
    return make("pad", (x,), target, x.dtype, {"before": start, "shape": target})


@builder
def getitem(x: Tensor, key: object) -> Tensor:
    """Return ``x[key]`` for whole numbers, slices of step 1 or -1, ``...`` and ``None``.

    Rows chosen by a tensor of numbers are `wb.take`.
    """
    keys = _complete(x, key)
    begin: list[int] = []
    size: list[Extent] = []
    shape: list[Extent] = []
    flipped: list[int] = []
    axis = 0
    for entry in keys:
        if entry is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        if isinstance(entry, slice):
            start, length, backwards = _range(x, cast("slice[object]", entry), extent)
            if backwards:
                flipped.append(axis)
            begin.append(start)
            size.append(length)
            shape.append(length)
        else:
            begin.append(_position(x, entry, extent))
            size.append(1)
        axis += 1
    block = slice_(x, begin, size)
    return reshape_to(flip(block, flipped) if flipped else block, tuple(shape))


def _complete(x: Tensor, key: object) -> list[object]:
    """Return one entry for each axis of ``x``, and None for each axis that is new."""
    keys: list[object] = list(cast("tuple[object, ...]", key)) if isinstance(key, tuple) else [key]
    for entry in keys:
        if isinstance(entry, Tensor):
            raise ShapeError(
                f"getitem: {describe(x)} was indexed by {describe(entry)}",
                remedy="use `wb.take(x, indices)` for rows, `wb.where(mask, x, 0)` for a mask",
            )
    dots = [place for place, entry in enumerate(keys) if entry is Ellipsis]
    named = len([entry for entry in keys if entry is not None and entry is not Ellipsis])
    if len(dots) > 1 or named > x.ndim:
        raise ShapeError(
            f"getitem: {named} indices and {len(dots)} `...` for {describe(x)}",
            remedy=f"use at most {x.ndim} indices and one `...`",
        )
    place = dots[0] if dots else len(keys)
    keys[place : place + 1] = [slice(None)] * (x.ndim - named)
    return keys


def _position(x: Tensor, entry: object, extent: Extent) -> int:
    value = whole_number(entry)
    if isinstance(extent, Batch) or value is None:
        raise ShapeError(
            f"getitem: `{entry!r}` cannot choose from an axis of extent {extent} of {describe(x)}",
            remedy="use whole numbers on axes of known extent, slices `a:b`, `...` or `None`; "
            "rows chosen by numbers are `wb.take(x, indices)`",
        )
    if not -extent <= value < extent:
        raise ShapeError(
            f"getitem: {value} is outside an axis of extent {extent} of {describe(x)}",
            remedy=f"use {-extent} to {extent - 1}" if extent else "the axis has no elements",
        )
    return value % extent


def _range(x: Tensor, entry: slice[object], extent: Extent) -> tuple[int, Extent, bool]:
    """Return the first element, the number of elements and whether they come in reverse."""
    if isinstance(extent, Batch):
        if entry.start in (None, 0) and entry.stop is None and entry.step in (None, 1):
            return 0, extent, False
        raise ShapeError(
            f"getitem: the batch axis of {describe(x)} cannot be cut by `{entry}`",
            remedy="take the batch axis whole, with `:`; choose rows where data are fed",
        )
    try:
        start, stop, step = cast("slice[int]", entry).indices(extent)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"getitem: `{entry}` cannot cut {describe(x)}: {error}",
            remedy="use whole numbers, and step 1 or -1",
        ) from None
    if step not in (1, -1):
        raise ShapeError(
            f"getitem: step {step} in {describe(x)}",
            remedy="use step 1 or -1; for every n-th element, `reshape` and take a slice",
        )
    length = max(0, (stop - start) * step)
    return (start if step == 1 else start - length + 1), length, step == -1


def concat(tensors: Tensor | Sequence[Operand], axis: int = 0) -> Tensor:
    """Return the tensors joined along ``axis``; all other extents and the types agree."""
    return _join("concat", _given("concat", tensors), axis)


def _given(op: str, tensors: Tensor | Sequence[Operand]) -> list[Tensor]:
    # One tensor is one operand: its rows are not what is joined.
    operands = as_tensors([tensors] if isinstance(tensors, Tensor) else list(tensors), op)
    if not operands:
        raise ShapeError(f"{op}: there is nothing to join", remedy="pass at least one tensor")
    for t in operands:
        if t.dtype is not operands[0].dtype:
            raise DTypeError(
                f"{op}: {describe(operands[0])} and {describe(t)} differ in type",
                remedy=f"convert one: `.astype('{operands[0].dtype}')`",
            )
    return operands


def _join(op: str, operands: Sequence[Tensor], axis: int) -> Tensor:
    first = operands[0]
    positions = normalize_axes(op, first, axis)
    if len(positions) != 1:
        raise ShapeError(
            f"{op}: {axis} is not one axis of {describe(first)}", remedy="name the axis to join"
        )
    position = positions[0]
    total = 0
    for t in operands:
        if t.ndim != first.ndim or any(
            a != b
            for place, (a, b) in enumerate(zip(t.shape, first.shape, strict=True))
            if place != position
        ):
            raise ShapeError(
                f"{op}: {describe(first)} and {describe(t)} differ off axis {position}",
                remedy="make all extents but the joined one equal",
            )
        extent = t.shape[position]
        if len(operands) == 1:
            return t
        if isinstance(extent, Batch):
            raise ShapeError(
                f"{op}: the batch axis of {describe(t)} cannot be joined",
                remedy="join another axis, or join the rows where data are fed",
            )
        total += extent
    shape = (*first.shape[:position], total, *first.shape[position + 1 :])
    return make("concat", operands, shape, first.dtype, {"axis": position})


def stack(tensors: Tensor | Sequence[Operand], axis: int = 0) -> Tensor:
    """Return the tensors, all of one shape and type, joined along a new axis."""
    operands = _given("stack", tensors)
    first = operands[0]
    for t in operands:
        if t.shape != first.shape:
            raise ShapeError(
                f"stack: {describe(first)} and {describe(t)} differ in shape",
                remedy="`broadcast_to` one shape, or join along an axis they have with `concat`",
            )
    position = _new_axis("stack", first, axis)
    return _join("stack", [expand_dims(t, position) for t in operands], position)


__all__ = [
    "concat",
    "expand_dims",
    "flip",
    "getitem",
    "pad",
    "reshape",
    "reshape_to",
    "slice_",
    "stack",
    "transpose",
]

"""Flat offsets: where in a buffer an access lands, as strides of axes.

In: a node and an index for each of its axes. Out: the stride of every axis, in elements. Invariant:
nodes are stored row-major without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.assign.expression import Position, Read, Value, walk
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.extent import Batch, Extent, Shape, multiply


@dataclass(frozen=True, slots=True)
class Flat:
    """``sum(stride * axis) + sum(stride * constant) + sum(stride * looked-up row)``.

    Attributes
    ----------
    strides
        Elements that one step of each axis moves, in the order of first use.
    offsets
        Constant parts: (constant, stride).
    lookups
        Rows chosen at run time: (value, extent to clamp to, stride).
    """

    strides: tuple[tuple[Axis, int, Extent], ...]
    offsets: tuple[tuple[int, Extent], ...]
    lookups: tuple[tuple[Value, Extent, Extent], ...]

    def stride(self, axis: Axis) -> Extent | None:
        """Return the stride of ``axis``: 0 if unused, None if it is no single extent."""
        used = [(c, stride) for a, c, stride in self.strides if a is axis]
        if any(c < 0 and isinstance(stride, Batch) for c, stride in used):
            return None  # the batch, walked backwards
        found: list[Extent] = [multiply(stride, c) for c, stride in used]
        if self.lookups and any(_mentions(value, axis) for value, _, _ in self.lookups):
            return None
        if len(found) > 1:
            return None
        return found[0] if found else 0


def _mentions(value: Value, axis: Axis) -> bool:
    for part in walk(value):
        if isinstance(part, Position) and axis in part.index.axes():
            return True
        if isinstance(part, Read) and any(
            isinstance(i, Affine) and axis in i.axes() for i in part.index
        ):
            return True
    return False


def row_major(shape: Shape) -> list[Extent]:
    """Return the stride of each axis of a row-major array, in elements."""
    strides: list[Extent] = []
    current: Extent = 1
    for extent in reversed(shape):
        strides.append(current)
        current = multiply(current, extent)
    return strides[::-1]


def flatten(shape: Shape, index: tuple[Index, ...], skip: int = 0) -> Flat:
    """Return where ``index`` lands in a node of ``shape``, the first ``skip`` axes left out."""
    strides: list[tuple[Axis, int, Extent]] = []
    offsets: list[tuple[int, Extent]] = []
    lookups: list[tuple[Value, Extent, Extent]] = []
    for one, stride in zip(index[skip:], row_major(shape[skip:]), strict=True):
        if isinstance(one, Affine):
            strides.extend((axis, coefficient, stride) for axis, coefficient in one.terms)
            if one.offset:
                offsets.append((one.offset, stride))
        else:
            lookups.append((one.value, one.extent, stride))
    return Flat(tuple(strides), tuple(offsets), tuple(lookups))

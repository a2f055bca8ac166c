"""Single elements of values, and points for plots.

In: a node and positions. Out: numbers and arrays of points. Invariant: everything is read and
written as whole values are; a position outside the value is refused, negative ones count from the
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from workbench.errors import ShapeError
from workbench.graph.elementwise import describe
from workbench.graph.extent import show_shape, whole_number
from workbench.graph.tensor import Tensor

if TYPE_CHECKING:
    from workbench.runtime.context import Context

Position: TypeAlias = "int | Sequence[int]"


def value_at(context: Context, node: Tensor, position: Position) -> Any:
    """Return one element; parameters are those of `Context.get_value`."""
    value = context.get_values(node)
    return value[_checked(node, value.shape, position)]


def with_value_at(context: Context, node: Tensor, position: Position, number: float) -> Context:
    """Return a context with one element changed; parameters are those of `Context.set_value`."""
    value = context.get_values(node)
    value[_checked(node, value.shape, position)] = number
    return context.set_values({node: value})


def points(
    context: Context, node: Tensor, components: Sequence[int], axis: int
) -> npt.NDArray[Any]:
    """Return an array of shape ``(points, components)``.

    Parameters
    ----------
    context, node
        What to read.
    components
        Positions along ``axis``, one for each coordinate of a point.
    axis
        The axis that holds the coordinates. Every position along all other axes is a point, in
        row-major order.
    """
    value = context.get_values(node)
    if not -value.ndim <= axis < value.ndim:
        raise ShapeError(
            f"{describe(node)} has no axis {axis} to take points from",
            remedy="use one of its axes"
            if value.ndim
            else "read a number with `ctx.get_values(node)`",
        )
    last = np.moveaxis(value, axis, -1)
    for component in components:
        _checked(node, (last.shape[-1],), component)
    return last.reshape(-1, last.shape[-1])[:, list(components)]


def _checked(node: Tensor, shape: tuple[int, ...], position: Position) -> tuple[int, ...]:
    given: tuple[object, ...] = tuple(position) if isinstance(position, Sequence) else (position,)
    numbers = tuple(whole_number(each) for each in given)
    fits = len(numbers) == len(shape) and all(
        number is not None and -extent <= number < extent
        for number, extent in zip(numbers, shape, strict=False)
    )
    if not fits:
        shown = ", ".join(map(repr, given))
        raise ShapeError(
            f"{describe(node)} has no element at ({shown}): its positions are below "
            f"{show_shape(shape)}",
            remedy="give a whole number for each axis, within its extent",
        )
    return tuple(number for number in numbers if number is not None)

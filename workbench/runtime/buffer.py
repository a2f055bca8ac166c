"""A buffer: the memory of one node in a context, and which arrays fit the node.

In: nodes and arrays. Out: views in the node's shape. Invariant: a buffer is as long as its shape at
least; what lies beyond is padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.backends.protocol import Array
from workbench.errors import DTypeError, ShapeError
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, show_shape
from workbench.graph.tensor import Tensor
from workbench.runtime.constants import Constant
from workbench.runtime.ledger import Record


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one node in a context.

    Attributes
    ----------
    array
        Flat, padded.
    shape
        The node's shape with the batch as it was when the value was set.
    record
        What the ledger knows of its bytes; a view shares that of what it views.
    constant
        The array constant of the device whose memory this is, if it is not the context's own.
    lent
        Whether it is memory of somebody else's to be read: a write gives the node its own.
    """

    array: Array
    shape: tuple[int, ...]
    record: Record = field(default_factory=Record, compare=False)
    constant: Constant | None = field(default=None, compare=False)
    lent: bool = False

    def view(self) -> Array:
        """Return the value in its shape, without copying."""
        size = math.prod(self.shape)
        return self.array[:size].reshape(self.shape)


def rows_for(node: Tensor, shape: tuple[int, ...]) -> int | None:
    """Return the batch size with which ``node`` has ``shape``, None if it has no batch axis."""
    for extent, actual in zip(node.shape, shape, strict=True):
        if isinstance(extent, Batch):
            return actual // extent.factor
    return None


def check_fits(node: Tensor, array: npt.NDArray[Any]) -> None:
    """Check that ``node`` can hold ``array``.

    Raises
    ------
    ShapeError, DTypeError
        With both shapes, or both types.
    """
    fits = len(array.shape) == len(node.shape) and all(
        actual % extent.factor == 0 if isinstance(extent, Batch) else actual == extent
        for extent, actual in zip(node.shape, array.shape, strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{describe(node)} was given an array of shape {show_shape(array.shape)}",
            remedy=f"give an array of shape {show_shape(node.shape)}",
        )
    if not np.can_cast(array.dtype, node.dtype.numpy, "same_kind"):
        raise DTypeError(
            f"{describe(node)} was given an array of type {array.dtype}",
            remedy=f"convert it: `array.astype('{node.dtype}')`",
        )

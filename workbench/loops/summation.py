"""How long sums of floats are added up: in blocks, with what each addition of a block loses.

A sum that is added up one after the other loses a rounding at each step: of 2**24 equal numbers
a float32 loses two digits. So a long one is cut into blocks. Within a block the additions are
plain, and the optimiser may make a vector of them. What the addition of a block sum loses (TwoSum:
D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B) is added to the next block sum
(W. Kahan, 1965). So the error is that of one block, however many there are.

Invariant: where blocks begin depends on indices alone, so that a sum has the same bits on every
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workbench.assign.expression import Apply, Position, Reduce, Value, walk
from workbench.assign.index import Axis
from workbench.graph.dtype import DType
from workbench.graph.extent import Batch, Extent
from workbench.loops.expression import LIBM, Expr, apply, number
from workbench.loops.flat import Flat

__all__ = ["ROW_BLOCK", "block_of", "cut", "two_sum", "unless_nan"]

VECTOR_BLOCK: Final = 512
"""Terms of a block where the optimiser adds in vectors: chains of 16 to 64 in each of its lanes."""

SCALAR_BLOCK: Final = 32
"""Terms of a block that is one chain."""

ROW_BLOCK: Final = 32
"""Rows that are added to a row of memory one after the other: every cell is one chain."""

_WIDEST_VECTOR: Final = 64
"""Terms that the optimiser adds at once at the most: four vectors of 16. Fewer may be one chain."""

_DRAWS: Final = frozenset(("uniform", "normal"))


def block_of(body: Value, places: Sequence[Flat], innermost: Axis, extent: Extent) -> int:
    """Return how many terms of a sum are a block.

    Parameters
    ----------
    body
        The term.
    places
        Where it reads.
    innermost, extent
        The axis of the innermost loop, and how often that runs.
    """
    vectors = (
        (isinstance(extent, Batch) or extent >= _WIDEST_VECTOR)
        and all(place.stride(innermost) in (0, 1) for place in places)
        and not any(map(_is_scalar, walk(body)))
    )
    return VECTOR_BLOCK if vectors else SCALAR_BLOCK


def _is_scalar(part: Value) -> bool:
    """Return whether a part of a term keeps it out of vectors."""
    if isinstance(part, Apply):
        return part.op in _DRAWS or (part.op in LIBM and part.dtype is DType.F64)
    return isinstance(part, (Reduce, Position))


def cut(extents: Sequence[Extent], block: int) -> tuple[int, int] | None:
    """Return which of several nested loops is cut into blocks, and into how many turns each.

    Loops inside of it are whole in each block. None if all loops together are one block.
    """
    size = 1
    for position in range(len(extents) - 1, -1, -1):
        extent = extents[position]
        if isinstance(extent, Batch) or size * extent > block:
            return position, max(1, block // size)
        size = max(1, size * extent)  # no terms at all are a block, too
    return None


def two_sum(total: Expr, part: Expr, summed: Expr) -> Expr:
    """Return what ``summed``, the rounded sum of ``total`` and ``part``, lacks of the exact one."""
    of_part = apply("sub", summed, total)
    of_total = apply("sub", summed, of_part)
    return apply("add", apply("sub", total, of_total), apply("sub", part, of_part))


def unless_nan(rest: Expr) -> Expr:
    """Return what an addition lost, and 0 for NaN: infinity has lost nothing."""
    return apply("select", apply("equal", rest, rest), rest, number(0.0, rest.dtype))

"""Which numbers are written into the text of a kernel, and which it is passed at launch.

A kernel is known by its text. What is passed may take any value, and the same machine code serves;
what is written is known to the optimiser.
"""

from __future__ import annotations

import math
from typing import Final

from workbench.graph.dtype import DType
from workbench.loops.expression import Number

__all__ = ["BAKED", "is_textual"]

BAKED: Final = 16
"""Extents, strides and whole constants up to this are written; larger ones are passed."""

_TEXTUAL: Final = frozenset((0.0, 0.5, 1.0, 2.0, 3.0, 4.0, math.inf))


def is_textual(number: Number) -> bool:
    """Return whether a constant of the program is written into the text of its kernel.

    Those that expressions are full of are, of either sign: the optimiser drops a factor of 1. It
    gains nothing from a factor of 0.9, which would give each rate that is tried a kernel of its
    own, to be compiled and to be kept.
    """
    if number.dtype is DType.BOOL:
        return True
    if number.dtype.is_integer:
        return -BAKED <= number.value <= BAKED
    return abs(number.value) in _TEXTUAL or math.isnan(number.value)

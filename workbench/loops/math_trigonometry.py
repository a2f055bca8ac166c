"""sin and cos in float32.

In: a float32 expression. Out: an expression of primitives without a branch. Invariant: the result
lies between -1 and 1 for every finite argument and is NaN for the others; the stated error, in
units in the last place of the exact result, holds whether or not a backend fuses products into
sums.

The argument is reduced in float64 to ``x = n pi + r`` with ``|r| <= pi / 2``; there the sine is
one odd polynomial, and the parity of ``n`` is its sign. The cosine is reduced to ``x = (n + 1/2)
pi - r``.
"""

from __future__ import annotations

import math

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr
from workbench.loops.math_bits import nearest_whole
from workbench.loops.math_terms import (
    bitcast,
    bits,
    cast,
    compare,
    f32,
    f64,
    i32,
    keeping_zero,
    magnitude,
    minus,
    plus,
    polynomial,
    select,
    times,
)

# pi in two parts; the first has 26 significant bits, so that its product with a whole number up to
# 2**27 is exact.
PI_HIGH = 3.1415926218032837
PI_LOW = 3.178650954705639e-08
# Neighbouring float32 numbers are 32 apart from here on: more than five turns.
LARGEST = 2.0**28

# (sin(r) - r) / r**3 in r**2, minimax for the relative error of sin (5e-10).
SIN_TAIL = (-0.166666672, 0.00833335053, -0.00019843092, 2.76268884e-06, -2.54983039e-08)


def _signed_sine(r: Expr, word: Expr) -> Expr:
    """Return ``(-1)**n sin(r)``; ``n`` is in the low bits of an int64."""
    r = cast(r, DType.F32)
    square = times(r, r)
    cube = times(square, r)
    # The largest term keeps its own sum: one rounding less where |r| is near pi / 2.
    tail = times(cube, times(square, polynomial(square, SIN_TAIL[1:])))
    sine = plus(plus(times(cube, f32(SIN_TAIL[0])), tail), r)
    sign = bits("shift_left", cast(word, DType.I32), i32(31))
    return bitcast(bits("bit_xor", bitcast(sine, DType.I32), sign), DType.F32)


def _reducible(x: Expr) -> Expr:
    """Return ``x``, 0 for what is too large, NaN for infinity, as a float64."""
    fits = compare("less_equal", magnitude(x), f32(LARGEST))
    return cast(select(fits, x, minus(x, x)), DType.F64)


def sin(x: Expr) -> Expr:
    """Return the sine of ``x`` radians.

    Error: 2.0 ULP for ``|x| <= 2**28``; a larger argument counts as 0.
    """
    wide = _reducible(x)
    word, n = nearest_whole(times(wide, f64(1 / math.pi)))
    r = minus(minus(wide, times(n, f64(PI_HIGH))), times(n, f64(PI_LOW)))
    return keeping_zero(x, _signed_sine(r, word))


def cos(x: Expr) -> Expr:
    """Return the cosine of ``x`` radians.

    Error: 2.0 ULP for ``|x| <= 2**28``; a larger argument counts as 0.
    """
    wide = _reducible(x)
    word, n = nearest_whole(minus(times(wide, f64(1 / math.pi)), f64(0.5)))
    n = plus(n, f64(0.5))
    r = plus(minus(times(n, f64(PI_HIGH)), wide), times(n, f64(PI_LOW)))
    return _signed_sine(r, word)

"""pow in float32, through logarithm and exponential to base 2 with a float64 in between.

In: two float32 expressions. Out: an expression of primitives without a branch. Invariant: the special cases
are those of the C standard (annex F), which numpy follows.
"""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr
from workbench.loops.math_terms import (
    INFINITY,
    NAN,
    at_least,
    at_most,
    bitcast,
    bits,
    cast,
    compare,
    f32,
    f64,
    i32,
    logic,
    magnitude,
    minus,
    over,
    plus,
    polynomial,
    select,
    times,
    unary,
)

SQRT_HALF_BITS = 0x3F3504F3
ONE_BITS = 0x3F800000
MANTISSA_BITS = 0x007FFFFF
SMALLEST_NORMAL = 2.0**-126
# Adding 1.5 * 2**52 rounds a float64 to a whole number and leaves that number in the low bits.
ROUNDING = 6755399441055744.0

# log2((1 + s) / (1 - s)) / s in s**2 for |s| <= 0.172, minimax for the relative error (4e-12).
LOG2_SERIES = (
    2.8853900817900926,
    0.9617966733332745,
    0.5770835866863043,
    0.41167261037436537,
    0.34073220931193654,
)
# (2**r - 1) / r for |r| <= 1/2, minimax for the relative error of 2**r (1.3e-8).
EXP2_TAIL = (
    0.693147182,
    0.240225941,
    0.0555036627,
    0.00962538365,
    0.00133878109,
    0.000133680762,
)


def _log2(x: Expr) -> Expr:
    """Return log2 of a float32 that is not negative, as a float64 (relative error 1e-11)."""
    denormal = compare("less", x, f32(SMALLEST_NORMAL))
    normal = select(denormal, times(x, f32(2.0**23)), x)
    word = plus(bitcast(normal, DType.I32), i32(ONE_BITS - SQRT_HALF_BITS))
    exponent = bits("shift_right", word, i32(23))
    k = minus(exponent, select(denormal, i32(127 + 23), i32(127)))
    mantissa = plus(bits("bit_and", word, i32(MANTISSA_BITS)), i32(SQRT_HALF_BITS))
    m = cast(bitcast(mantissa, DType.F32), DType.F64)
    s = over(minus(m, f64(1.0)), plus(m, f64(1.0)))
    value = plus(cast(k, DType.F64), times(s, polynomial(times(s, s), LOG2_SERIES)))
    value = select(compare("greater", x, f32(0.0)), value, f64(-INFINITY))
    return select(compare("less", x, f32(INFINITY)), value, cast(x, DType.F64))


def _exp2(t: Expr) -> Expr:
    """Return 2 to the power of a float64, as a float32; zero and infinity beyond its range."""
    bounded = at_most(130.0, at_least(-152.0, t))
    shifted = plus(times(bounded, f64(0.5)), f64(ROUNDING))
    half = minus(shifted, f64(ROUNDING))
    r = cast(minus(bounded, plus(half, half)), DType.F32)
    n = cast(bitcast(shifted, DType.I64), DType.I32)
    scale = bitcast(plus(bits("shift_left", n, i32(23)), i32(ONE_BITS)), DType.F32)
    return times(times(plus(times(r, polynomial(r, EXP2_TAIL)), f32(1.0)), scale), scale)


def power(x: Expr, y: Expr) -> Expr:
    """Return ``x`` to the power ``y``."""
    size = magnitude(x)
    value = _exp2(times(cast(y, DType.F64), _log2(size)))
    # One to any power and anything to the power 0 is 1, even with NaN; but NaN to another stays.
    is_one = compare("equal", y, f32(0.0))
    is_one = logic("logical_or", is_one, compare("equal", size, f32(1.0)))
    value = select(is_one, f32(1.0), value)

    half = times(y, f32(0.5))
    whole = compare("equal", unary("floor", y), y)
    odd = logic("logical_and", whole, compare("not_equal", unary("floor", half), half))
    sign = bits("bit_and", bitcast(x, DType.I32), i32(0x80000000))
    sign = select(odd, sign, i32(0))
    value = bitcast(bits("bit_or", bitcast(value, DType.I32), sign), DType.F32)

    negative = logic(
        "logical_and",
        compare("less", x, f32(0.0)),
        compare("greater", x, f32(-INFINITY)),
    )
    return select(logic("logical_and", negative, logic("logical_not", whole)), f32(NAN), value)

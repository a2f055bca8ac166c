"""pow in float32, through logarithm and exponential to base 2 with a float64 in between.

In: two float32 expressions. Out: an expression of primitives without a branch. Invariant: the
special cases are those of the C standard (annex F), which numpy follows.
"""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr
from workbench.loops.math_bits import nearest_whole, power_of_two, sign_bit, split_any, with_sign
from workbench.loops.math_terms import (
    INFINITY,
    NAN,
    at_least,
    at_most,
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

# log2((1 + s) / (1 - s)) / s in s**2 for |s| <= 0.172; relative error 4e-12.
LOG2_SERIES = (
    2.8853900817900926,
    0.9617966733332745,
    0.5770835866863043,
    0.41167261037436537,
    0.34073220931193654,
)
# (2**r - 1) / r for |r| <= 1/2; relative error of 2**r 1.3e-8.
EXP2_TAIL = (
    0.693147182,
    0.240225941,
    0.0555036627,
    0.00962538365,
    0.00133878109,
    0.000133680762,
)
# 2**t is 0 in float32 below the first bound and infinite above the second.
UNDERFLOW = -152.0
OVERFLOW = 130.0


def _log2(x: Expr) -> Expr:
    """Return log2 of a float32 that is not negative, as a float64 (relative error 4e-12)."""
    k, narrow = split_any(x)
    m = cast(narrow, DType.F64)
    s = over(minus(m, f64(1.0)), plus(m, f64(1.0)))
    value = plus(times(s, polynomial(times(s, s), LOG2_SERIES)), cast(k, DType.F64))
    value = select(compare("greater", x, f32(0.0)), value, f64(-INFINITY))
    return select(compare("less", x, f32(INFINITY)), value, cast(x, DType.F64))


def _exp2(t: Expr) -> Expr:
    """Return 2 to the power of a float64, as a float32."""
    t = at_most(OVERFLOW, at_least(UNDERFLOW, t))
    word, whole = nearest_whole(t)
    r = cast(minus(t, whole), DType.F32)
    n = cast(word, DType.I32)
    # Two factors, since 2**n alone may be too large or too small for a normal number.
    half = bits("shift_right", n, i32(1))
    value = plus(times(r, polynomial(r, EXP2_TAIL)), f32(1.0))
    return times(times(value, power_of_two(half)), power_of_two(minus(n, half)))


def power(x: Expr, y: Expr) -> Expr:
    """Return ``x`` to the power ``y``. Error: 1.5 ULP, denormal operands and results included."""
    size = magnitude(x)
    value = _exp2(times(cast(y, DType.F64), _log2(size)))
    # One to any power and anything to the power 0 is 1, even with a NaN.
    exponent_is_zero = compare("equal", y, f32(0.0))
    is_one = logic("logical_or", exponent_is_zero, compare("equal", size, f32(1.0)))
    value = select(is_one, f32(1.0), value)

    half = times(y, f32(0.5))
    whole = compare("equal", unary("floor", y), y)
    odd = logic("logical_and", whole, compare("not_equal", unary("floor", half), half))
    value = with_sign(value, select(odd, sign_bit(x), i32(0)))

    negative = compare("less", x, f32(0.0))
    finite = compare("greater", x, f32(-INFINITY))
    fraction = logic("logical_not", whole)
    no_power = logic("logical_and", logic("logical_and", negative, finite), fraction)
    return select(no_power, f32(NAN), value)

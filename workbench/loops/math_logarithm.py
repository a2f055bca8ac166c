"""log and log1p in float32.

In: a float32 expression. Out: an expression of primitives without a branch. Invariant: the stated
error holds whether or not a backend fuses products into sums; NaN stays NaN. Errors are in units
in the last place of the exact result, the largest over all float32 numbers.

Both write the argument as ``2**k (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)`` by taking bits
apart, as musl's ``logf`` does, and add ``k ln 2`` to a polynomial in ``f``.
"""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr
from workbench.loops.math_bits import ONE_BITS, split, split_any
from workbench.loops.math_terms import (
    INFINITY,
    NAN,
    bitcast,
    bits,
    cast,
    compare,
    f32,
    i32,
    keeping_zero,
    minus,
    plus,
    polynomial,
    select,
    times,
)

# ln 2 in two parts; the first has 16 significant bits, so that its product with k is exact.
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.4286068203094173e-06

# (log(1 + f) - f + f**2 / 2) / f**3, minimax for the relative error of log(1 + f) (6e-9).
LOG_TAIL = (
    0.333333313,
    -0.250008225,
    0.200012594,
    -0.166233212,
    0.142009825,
    -0.131597549,
    0.127667874,
    -0.0764206126,
)


def _from_parts(k: Expr, f: Expr) -> Expr:
    """Return ``k ln 2 + log(1 + f)``, ``k`` being an int32; the smallest terms are added first."""
    k = cast(k, DType.F32)
    square = times(f, f)
    tail = times(times(square, f), polynomial(f, LOG_TAIL))
    tail = plus(tail, times(k, f32(LN2_LOW)))
    tail = minus(tail, times(square, f32(0.5)))
    return plus(plus(tail, f), times(k, f32(LN2_HIGH)))


def _with_edges(x: Expr, zero: float, value: Expr) -> Expr:
    """Return ``value``, or what holds at and below ``zero``, at infinity and of NaN."""
    below = select(compare("equal", x, f32(zero)), f32(-INFINITY), f32(NAN))
    value = select(compare("greater", x, f32(zero)), value, below)
    return select(compare("less", x, f32(INFINITY)), value, x)


def log(x: Expr) -> Expr:
    """Return the natural logarithm. Error: 0.9 ULP, denormal arguments included."""
    k, m = split_any(x)
    return _with_edges(x, 0.0, _from_parts(k, minus(m, f32(1.0))))


def log1p(x: Expr) -> Expr:
    """Return ``log(1 + x)``. Error: 1.5 ULP.

    What ``1 + x`` loses to rounding is found exactly (Knuth's two-sum), scaled, and added to ``f``.
    """
    one = f32(1.0)
    u = plus(one, x)
    x_kept = minus(u, one)
    lost = plus(minus(x, x_kept), minus(one, minus(u, x_kept)))
    k, m = split(u)
    # 2**(1 - k), which unlike 2**-k is never less than 2**-127, the bits of which are 0.
    scale = bitcast(minus(i32(ONE_BITS + (1 << 23)), bits("shift_left", k, i32(23))), DType.F32)
    # Halved is the scale, not what was lost, which may be no larger than the least normal number.
    f = plus(minus(m, one), times(lost, times(scale, f32(0.5))))
    return keeping_zero(x, _with_edges(x, -1.0, _from_parts(k, f)))

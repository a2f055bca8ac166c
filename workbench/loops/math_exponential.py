"""exp and its relatives in float32: exp, expm1, sigmoid, silu, softplus.

In: a float32 expression. Out: an expression of primitives without a branch. Invariant: the stated
error holds whether or not a backend fuses products into sums; NaN stays NaN. Errors are in units
in the last place of the exact result, the largest over all float32 numbers.

All share one reduction: ``x = 2 n ln 2 + r`` with whole ``n`` and ``|r| <= ln 2``, so that
``exp(x) = 2**n exp(r) 2**n``. Scaling twice by ``2**n`` instead of once by ``2**2n`` keeps both
factors normal numbers over the whole range, down to results that are denormal and up to overflow.
The polynomials are minimax for the stated relative error (Remez), their coefficients rounded to
float32 one at a time, the others fitted again after each.
"""

from __future__ import annotations

from workbench.loops.expression import Expr
from workbench.loops.math_bits import nearest_whole, power_of_half, power_of_two
from workbench.loops.math_terms import (
    at_least,
    at_most,
    compare,
    f32,
    keeping_zero,
    magnitude,
    minus,
    over,
    plus,
    polynomial,
    select,
    times,
    unary,
)

HALF_LOG2_E = 0.7213475204444817
# 2 ln 2 in two parts; the first has 16 significant bits, so that its product with n is exact.
TWO_LN2_HIGH = 1.38629150390625
TWO_LN2_LOW = 2.8572136406188345e-06

# exp(x) is 0 in float32 below the first bound and infinite above the second.
UNDERFLOW = -104.0
OVERFLOW = 89.0
# x exp(x) is 0 in float32 from here down.
PRODUCT_UNDERFLOW = -110.0
# expm1(x) is -1 in float32 from here down.
EXPM1_IS_MINUS_ONE = -18.0

# (exp(r) - 1 - r) / r**2 for |r| <= ln 2; relative error of exp(r) 1.7e-8.
EXP_TAIL = (
    0.500000358,
    0.16666615,
    0.0416611582,
    0.00833601411,
    0.00141069933,
    0.000196344641,
)
# The same function; relative error of expm1(r) 1.8e-9.
EXPM1_TAIL = (
    0.5,
    0.166666731,
    0.0416666865,
    0.00833258964,
    0.00138877914,
    0.000201000803,
    2.50736557e-05,
)
# (log(1 + e) / e - 1) / e for 0 <= e <= 1; relative error of log(1 + e) 5e-9.
LOG1P_TAIL = (
    -0.499999344,
    0.333305508,
    -0.249589309,
    0.196969047,
    -0.153591216,
    0.106859945,
    -0.0577107146,
    0.0202257242,
    -0.00332246302,
)


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Return ``n`` in the low bits of an int32, and ``r``."""
    word, n = nearest_whole(times(x, f32(HALF_LOG2_E)))
    return word, minus(minus(x, times(n, f32(TWO_LN2_HIGH))), times(n, f32(TWO_LN2_LOW)))


def _exp_factors(x: Expr) -> tuple[Expr, Expr]:
    """Return two normal numbers of which exp of ``x`` is the product; the second is ``2**n``."""
    word, r = _reduced(x)
    scale = power_of_two(word)
    exp_r = plus(plus(times(times(r, r), polynomial(r, EXP_TAIL)), r), f32(1.0))
    return times(exp_r, scale), scale


def _exp_within(x: Expr) -> Expr:
    """Return exp of a float32 that is NaN or between -104 and 89."""
    return times(*_exp_factors(x))


def exp(x: Expr) -> Expr:
    """Return e to the power ``x``. Error: 1.7 ULP, denormal results included."""
    return _exp_within(at_most(OVERFLOW, at_least(UNDERFLOW, x)))


def _exp_of_minus_magnitude(x: Expr) -> Expr:
    """Return ``exp(-|x|)``, which never overflows; the error is that of `exp`."""
    return _exp_within(at_least(UNDERFLOW, unary("neg", magnitude(x))))


def expm1(x: Expr) -> Expr:
    """Return ``exp(x) - 1`` without cancellation. Error: 1.6 ULP."""
    word, r = _reduced(at_most(OVERFLOW, at_least(EXPM1_IS_MINUS_ONE, x)))
    scale = power_of_two(word)
    expm1_r = plus(times(times(r, r), polynomial(r, EXPM1_TAIL)), r)
    # 4**n (expm1(r) + 1) - 1, with one factor 2**n drawn out so that nothing overflows early.
    drawn_out = plus(times(expm1_r, scale), minus(scale, power_of_half(word)))
    return keeping_zero(x, times(drawn_out, scale))


def _sigmoid_parts(x: Expr) -> tuple[Expr, Expr]:
    """Return numerator and denominator of the sigmoid, both written with ``exp(-|x|)``."""
    e = _exp_of_minus_magnitude(x)
    return select(compare("less", x, f32(0.0)), e, f32(1.0)), plus(e, f32(1.0))


def sigmoid(x: Expr) -> Expr:
    """Return ``1 / (1 + exp(-x))``. Error: 3.5 ULP, denormal results included."""
    return over(*_sigmoid_parts(x))


def silu(x: Expr) -> Expr:
    """Return ``x * sigmoid(x)``, with the limit -0 at minus infinity.

    Error: 4.1 ULP, denormal results included.
    """
    bound = at_least(PRODUCT_UNDERFLOW, x)
    factor, scale = _exp_factors(at_least(PRODUCT_UNDERFLOW, unary("neg", magnitude(x))))
    # x times exp(x) is normal where exp(x) alone is not. Below the bound it is 0; at minus
    # infinity, 0 times that would be NaN.
    product = times(times(bound, factor), scale)
    numerator = select(compare("less", x, f32(0.0)), product, bound)
    return over(numerator, plus(times(factor, scale), f32(1.0)))


def softplus(x: Expr) -> Expr:
    """Return ``log(1 + exp(x))`` as ``max(x, 0) + log(1 + exp(-|x|))``. Error: 2.5 ULP."""
    e = _exp_of_minus_magnitude(x)
    log1p_e = plus(times(times(e, e), polynomial(e, LOG1P_TAIL)), e)
    return plus(at_least(0.0, x), log1p_e)

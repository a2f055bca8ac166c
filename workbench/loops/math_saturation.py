"""Functions that level off, in float32: tanh, erf and gelu.

In: a float32 expression. Out: an expression of primitives without a branch. Invariant: the stated
error holds whether or not a backend fuses products into sums; NaN stays NaN. Errors are in units
in the last place of the exact result, the largest over all float32 numbers.

What such a function lacks to its limit decays exponentially. Each is therefore written with one
exponential of a negative number, from which the result keeps its relative precision at both ends.
"""

from __future__ import annotations

from workbench.loops.expression import Expr
from workbench.loops.math_bits import (
    nearest_whole,
    power_of_half,
    power_of_two,
    sign_bit,
    with_sign,
)
from workbench.loops.math_terms import (
    at_least,
    at_most,
    f32,
    magnitude,
    minus,
    over,
    plus,
    polynomial,
    times,
)

TWO_LOG2_E = 2.8853900817779268
# ln 2 / 2 in two parts; the first has 16 significant bits, so that its product with n is exact.
HALF_LN2_HIGH = 0.3465728759765625
HALF_LN2_LOW = 7.143034101547087e-07

# tanh and erf are 1 in float32 from here on.
TANH_IS_ONE = 9.02
ERF_IS_ONE = 3.93
# gelu(-x) is 0 in float32 from here on, and so is 2**-127 as `power_of_half` makes it.
GELU_IS_ZERO = 16.0
MOST_HALVINGS = 127.0

# (expm1(2 r) / 2 - r) / r**2 for |r| <= ln 2 / 4; relative error of expm1(2 r) 1.5e-8.
EXPM1_HALF_TAIL = (0.99999994, 0.666661501, 0.333341986, 0.133877128, 0.0442767628)
# (1 - 2**-f) / f for |f| <= 1/2; relative error 3e-9.
HALVING = (
    0.693147182,
    -0.240226507,
    0.0555039719,
    -0.0096180914,
    0.00133479689,
    -0.000154503505,
    1.14695549e-05,
)
# -log2(1 - erf(a)) / a for 0 <= a <= 3.93; relative error of erf 6e-9.
ERF_HALVINGS = (
    1.62790704,
    0.918447375,
    0.148280442,
    -0.0276483949,
    -0.000194183522,
    0.00236083963,
    -0.000884974841,
    0.000160769399,
    -1.22273159e-05,
)
# -log2(P(-a)), P the normal distribution function, for 0 <= a <= 6; relative error 7e-8. The last
# coefficient must be positive: beyond 6 the polynomial then grows faster than the function.
GELU_HALVINGS = (
    1.0,
    1.15110648,
    0.459196329,
    0.0525249392,
    -0.00707868161,
    0.000111719804,
    0.000224729651,
    -6.03441695e-05,
    8.19191246e-06,
    -6.00106148e-07,
    1.87694891e-08,
)


def _halved(halvings: Expr) -> tuple[Expr, Expr]:
    """Return ``s`` and ``t`` with ``2**-halvings = s - s t``, for 0 <= halvings <= 127."""
    word, n = nearest_whole(halvings)
    fraction = minus(halvings, n)
    return power_of_half(word), times(fraction, polynomial(fraction, HALVING))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent. Error: 2.7 ULP.

    It is ``h / (h + 1)`` with ``h = expm1(2 |x|) / 2``, and ``2 |x| = n ln 2 + 2 r``.
    """
    a = at_most(TANH_IS_ONE, magnitude(x))
    word, n = nearest_whole(times(a, f32(TWO_LOG2_E)))
    r = minus(minus(a, times(n, f32(HALF_LN2_HIGH))), times(n, f32(HALF_LN2_LOW)))
    h_r = plus(times(times(r, r), polynomial(r, EXPM1_HALF_TAIL)), r)
    scale = power_of_two(word)
    h = plus(times(h_r, scale), minus(times(scale, f32(0.5)), f32(0.5)))
    return with_sign(over(h, plus(h, f32(1.0))), sign_bit(x))


def erf(x: Expr) -> Expr:
    """Return the error function. Error: 2.7 ULP."""
    a = at_most(ERF_IS_ONE, magnitude(x))
    scale, t = _halved(times(a, polynomial(a, ERF_HALVINGS)))
    return with_sign(plus(times(scale, t), minus(f32(1.0), scale)), sign_bit(x))


def gelu(x: Expr) -> Expr:
    """Return ``x (1 + erf(x / sqrt(2))) / 2``, with the limit -0 at minus infinity.

    It is ``max(x, 0) - |x| P(-|x|)``. Error: 7.5 ULP of the result, or of 0.1 where the result is
    smaller than that. The relative error is 5e-6 from -6 up; below, where the result is between
    -6e-9 and 0, it grows.
    """
    a = at_most(GELU_IS_ZERO, magnitude(x))
    scale, t = _halved(at_most(MOST_HALVINGS, polynomial(a, GELU_HALVINGS)))
    # Starting from -0 rather than 0 gives small negative results their sign.
    return minus(at_least(-0.0, x), times(a, minus(scale, times(scale, t))))

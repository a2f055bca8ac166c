"""The float64 functions that the C library lacks, composed from those that it has.

In: a float64 expression. Out: an expression of primitives and calls. Invariant: no intermediate
overflows where the result does not; NaN stays NaN.
"""

from __future__ import annotations

from workbench.loops.expression import Expr
from workbench.loops.math_terms import (
    at_least,
    compare,
    f64,
    magnitude,
    over,
    plus,
    select,
    times,
    unary,
)

# exp(x), and with it the sigmoid and the normal distribution function of x, are 0 from here down.
UNDERFLOW = -746.0


def _sigmoid_parts(x: Expr) -> tuple[Expr, Expr]:
    """Return numerator and denominator of the sigmoid, written with ``exp(-|x|)`` on both sides."""
    e = unary("exp", unary("neg", magnitude(x)))
    return select(compare("less", x, f64(0.0)), e, f64(1.0)), plus(e, f64(1.0))


def sigmoid(x: Expr) -> Expr:
    """Return ``1 / (1 + exp(-x))``."""
    return over(*_sigmoid_parts(x))


def silu(x: Expr) -> Expr:
    """Return ``x * sigmoid(x)``, with the limit -0 at minus infinity."""
    numerator, denominator = _sigmoid_parts(x)
    return over(times(at_least(UNDERFLOW, x), numerator), denominator)


def softplus(x: Expr) -> Expr:
    """Return ``log(1 + exp(x))`` as ``max(x, 0) + log1p(exp(-|x|))``."""
    return plus(at_least(0.0, x), unary("log1p", unary("exp", unary("neg", magnitude(x)))))


def gelu(x: Expr) -> Expr:
    """Return ``x (1 + erf(x / sqrt(2))) / 2``, with the limit -0 at minus infinity."""
    e = unary("erf", times(x, f64(2.0**-0.5)))
    return times(at_least(UNDERFLOW, x), plus(times(e, f64(0.5)), f64(0.5)))

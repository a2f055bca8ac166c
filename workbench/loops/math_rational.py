"""Functions that level off, as a quotient of polynomials, in float32: tanh, erf, gelu.

In: a float32 expression. Out: an expression of primitives without a branch. Invariant: the result is the
same whether or not a backend fuses products into sums, up to the stated error; NaN stays NaN.

Each is ``x P(x**2) / Q(x**2)`` up to where the function is 1 in float32. All coefficients are positive, so
that no sum cancels.
"""

from __future__ import annotations

from workbench.loops.expression import Expr
from workbench.loops.math_terms import at_least, at_most, f32, over, plus, polynomial, times

# tanh and erf are 1 in float32 from here on.
TANH_IS_ONE = 9.02
ERF_IS_ONE = 3.93

# tanh(x) = x P(x**2) / Q(x**2) for |x| <= 9.02, minimax for the relative error (6e-8).
TANH_P = (1.0, 0.133797184, 0.00349403429, 2.05834767e-05, 1.33190676e-08)
TANH_Q = (1.0, 0.467130333, 0.025871072, 0.000328309223, 7.76201716e-07)
# erf(x) = x P(x**2) / Q(x**2) for |x| <= 3.93, minimax for the relative error (6e-8).
ERF_P = (1.12837911, 0.190783858, 0.0527902916, 0.00377961085, 0.000284808717, 2.04197158e-06)
ERF_Q = (1.0, 0.502410531, 0.114257537, 0.0149974404, 0.0011652133, 3.8004091e-05)


def _levelling(x: Expr, p: tuple[float, ...], q: tuple[float, ...]) -> Expr:
    """Return ``x P(x**2) / Q(x**2)``, which lies between -1 and 1."""
    square = times(x, x)
    return over(times(x, polynomial(square, p)), polynomial(square, q))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent."""
    bounded = at_most(TANH_IS_ONE, at_least(-TANH_IS_ONE, x))
    return at_most(1.0, at_least(-1.0, _levelling(bounded, TANH_P, TANH_Q)))


def erf(x: Expr) -> Expr:
    """Return the error function."""
    bounded = at_most(ERF_IS_ONE, at_least(-ERF_IS_ONE, x))
    return at_most(1.0, at_least(-1.0, _levelling(bounded, ERF_P, ERF_Q)))


def gelu(x: Expr) -> Expr:
    """Return ``x (1 + erf(x / sqrt(2))) / 2``."""
    e = erf(times(x, f32(2.0**-0.5)))
    bounded = at_least(-6.0, x)
    return times(bounded, plus(times(e, f32(0.5)), f32(0.5)))

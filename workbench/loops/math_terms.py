"""The vocabulary in which the functions of `expand_math` are written down.

In: expressions and Python numbers. Out: expressions. Invariant: nothing here chooses an algorithm;
each function stands for one or two operations of the loop IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.graph.dtype import DType
from workbench.loops.expression import Apply, Expr, Number, number

INFINITY = float("inf")
NAN = float("nan")


def f32(value: float) -> Number:
    """Return a float32 constant."""
    return number(value, DType.F32)


def f64(value: float) -> Number:
    """Return a float64 constant."""
    return number(value, DType.F64)


def i32(value: int) -> Number:
    """Return an int32 constant; the values from 2**31 to 2**32 - 1 stand for bit patterns."""
    return Number(value - (1 << 32) if value >= 1 << 31 else value, DType.I32)


def like(value: float, x: Expr) -> Number:
    """Return a constant of the element type of ``x``."""
    return number(value, x.dtype)


def plus(left: Expr, right: Expr) -> Expr:
    """Return ``left + right``."""
    return Apply("add", (left, right), left.dtype)


def minus(left: Expr, right: Expr) -> Expr:
    """Return ``left - right``."""
    return Apply("sub", (left, right), left.dtype)


def times(left: Expr, right: Expr) -> Expr:
    """Return ``left * right``."""
    return Apply("mul", (left, right), left.dtype)


def over(left: Expr, right: Expr) -> Expr:
    """Return ``left / right``."""
    return Apply("div", (left, right), left.dtype)


def unary(op: str, x: Expr) -> Expr:
    """Return an operation that keeps the type of its one operand."""
    return Apply(op, (x,), x.dtype)


def magnitude(x: Expr) -> Expr:
    """Return ``|x|`` of a float."""
    return Apply("abs", (x,), x.dtype)


def compare(op: str, left: Expr, right: Expr) -> Expr:
    """Return the truth value of a comparison."""
    return Apply(op, (left, right), DType.BOOL)


def logic(op: str, *args: Expr) -> Expr:
    """Return the truth value that ``op`` makes of truth values."""
    return Apply(op, args, DType.BOOL)


def select(condition: Expr, left: Expr, right: Expr) -> Expr:
    """Return ``left`` where ``condition`` holds, else ``right``."""
    return Apply("select", (condition, left, right), left.dtype)


def cast(x: Expr, dtype: DType) -> Expr:
    """Return the value of ``x`` as ``dtype``."""
    return Apply("cast", (x,), dtype)


def bitcast(x: Expr, dtype: DType) -> Expr:
    """Return the bits of ``x`` read as ``dtype``, which is as wide."""
    return Apply("bitcast", (x,), dtype)


def bits(op: str, left: Expr, right: Expr) -> Expr:
    """Return an operation on bits: ``bit_and``, ``bit_or``, ``bit_xor`` or a shift."""
    return Apply(op, (left, right), left.dtype)


def at_least(bound: float, x: Expr) -> Expr:
    """Return the greater of ``bound`` and ``x``; NaN stays NaN.

    The order of the operands is that of the one machine instruction which this becomes.
    """
    limit = like(bound, x)
    return select(compare("greater", limit, x), limit, x)


def at_most(bound: float, x: Expr) -> Expr:
    """Return the lesser of ``bound`` and ``x``; NaN stays NaN."""
    limit = like(bound, x)
    return select(compare("less", limit, x), limit, x)


def keeping_zero(x: Expr, value: Expr) -> Expr:
    """Return ``value``, or ``x`` where it is a zero, whose sign a sum with +0 would lose."""
    return select(compare("equal", x, like(0.0, x)), x, value)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return ``c[0] + c[1] x + c[2] x**2 + ...`` by Horner's rule, which fuses well."""
    total: Expr = like(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        total = plus(times(total, x), like(coefficient, x))
    return total

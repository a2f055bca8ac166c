"""Elementwise operations of the graph as expressions of the loop IR's primitives.

In: the name of an operation and its operands. Out: one expression without a branch. Invariant: a
sub-expression that is used twice is one Python object, which the lowering turns into a local.

float32 functions are polynomials and bit operations that vectorise in every renderer; float64
functions are calls of the C library. The algorithms are in the files ``math_*.py``. The errors that
they state hold in IEEE 754's arithmetic, and for normal numbers also where subnormal numbers count
as 0, which is how the processor runs compiled routines: no result is made from one that is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from workbench.errors import CompileError
from workbench.graph.dtype import DType
from workbench.loops import (
    math_double,
    math_exponential,
    math_half,
    math_logarithm,
    math_power,
    math_random,
    math_saturation,
    math_trigonometry,
)
from workbench.loops.expression import COMPARE, LOGIC, Apply, Expr
from workbench.loops.math_terms import (
    at_least,
    cast,
    compare,
    like,
    magnitude,
    minus,
    over,
    plus,
    select,
    times,
    unary,
)

Rule: TypeAlias = Callable[[tuple[Expr, ...], DType], Expr]


def expand(op: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    """Return the expression for one elementwise operation of the graph.

    Parameters
    ----------
    op
        Any name in `EXPANDED`.
    args
        The operands. Those of ``uniform`` and ``normal`` are seed, counter and the element's
        position, all int64.
    dtype
        The element type of the result.

    Raises
    ------
    CompileError
        If the operation is unknown.

    Examples
    --------
    >>> from workbench.loops.expression import Var
    >>> expand("square", (Var("x", DType.F32),), DType.F32).op
    'mul'
    """
    rule = EXPANDED.get(op)
    if rule is None:
        raise CompileError(
            f"`{op}` of {dtype} has no expansion into scalar expressions",
            remedy=f"use one of {', '.join(sorted(EXPANDED))}, or add a rule to `EXPANDED`",
        )
    return rule(args, dtype)


def _same(args: tuple[Expr, ...], dtype: DType) -> Expr:
    return args[0]


def _neg(args: tuple[Expr, ...], dtype: DType) -> Expr:
    (x,) = args
    return unary("neg", x) if dtype.is_float else minus(like(0, x), x)


def _abs(args: tuple[Expr, ...], dtype: DType) -> Expr:
    (x,) = args
    if dtype.is_float:
        return magnitude(x)
    return select(compare("less", x, like(0, x)), minus(like(0, x), x), x)


def _sign(args: tuple[Expr, ...], dtype: DType) -> Expr:
    (x,) = args
    zero = like(0, x)
    # Adding 0 makes +0 of both zeros, as numpy does, and keeps NaN.
    neither = plus(x, zero) if dtype.is_float else zero
    negative = select(compare("less", x, zero), minus(zero, like(1, x)), neither)
    return select(compare("greater", x, zero), like(1, x), negative)


def _square(args: tuple[Expr, ...], dtype: DType) -> Expr:
    (x,) = args
    return times(x, x)


def _relu(args: tuple[Expr, ...], dtype: DType) -> Expr:
    return at_least(0, args[0])


def _reciprocal(args: tuple[Expr, ...], dtype: DType) -> Expr:
    return over(like(1, args[0]), args[0])


def _rsqrt(args: tuple[Expr, ...], dtype: DType) -> Expr:
    return over(like(1, args[0]), unary("sqrt", args[0]))


def _cast(args: tuple[Expr, ...], dtype: DType) -> Expr:
    if dtype.is_half:
        return math_half.narrow(_cast(args, DType.F32), dtype)
    return args[0] if args[0].dtype is dtype else cast(args[0], dtype)


def _where(args: tuple[Expr, ...], dtype: DType) -> Expr:
    return select(*args)


def _uniform(args: tuple[Expr, ...], dtype: DType) -> Expr:
    seed, counter, position = args
    return math_random.uniform(seed, counter, position, dtype)


def _normal(args: tuple[Expr, ...], dtype: DType) -> Expr:
    seed, counter, position = args
    return math_random.normal(seed, counter, position, dtype)


def _primitive(op: str) -> Rule:
    """Return the rule of an operation that the loop IR has itself."""
    return lambda args, dtype: Apply(op, args, dtype)


def _by_type(narrow: Callable[[Expr], Expr], wide: Callable[[Expr], Expr]) -> Rule:
    """Return the rule of a function of one operand that has a form for each floating type."""
    return lambda args, dtype: (narrow if dtype is DType.F32 else wide)(args[0])


def _library(op: str, narrow: Callable[[Expr], Expr]) -> Rule:
    """Return the rule of a function that float64 takes from the C library."""
    return _by_type(narrow, lambda x: unary(op, x))


def _pow(args: tuple[Expr, ...], dtype: DType) -> Expr:
    x, y = args
    return math_power.power(x, y) if dtype is DType.F32 else Apply("pow", (x, y), dtype)


EXPANDED: dict[str, Rule] = {
    "stop_gradient": _same,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "square": _square,
    "relu": _relu,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "exp": _library("exp", math_exponential.exp),
    "log": _library("log", math_logarithm.log),
    "log1p": _library("log1p", math_logarithm.log1p),
    "expm1": _library("expm1", math_exponential.expm1),
    "sin": _library("sin", math_trigonometry.sin),
    "cos": _library("cos", math_trigonometry.cos),
    "tanh": _library("tanh", math_saturation.tanh),
    "erf": _library("erf", math_saturation.erf),
    "sigmoid": _by_type(math_exponential.sigmoid, math_double.sigmoid),
    "silu": _by_type(math_exponential.silu, math_double.silu),
    "softplus": _by_type(math_exponential.softplus, math_double.softplus),
    "gelu": _by_type(math_saturation.gelu, math_double.gelu),
    "pow": _pow,
    "where": _where,
    "cast": _cast,
    "uniform": _uniform,
    "normal": _normal,
    **{op: _primitive(op) for op in ("add", "sub", "mul", "div", "maximum", "minimum")},
    **{op: _primitive(op) for op in ("floor", "round", "sqrt", "select", *COMPARE, *LOGIC)},
}

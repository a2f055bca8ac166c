"""Scalar expressions of the loop IR: typed, tiny, and the same for every renderer.

In: what assignments compute for one element. Out: expressions that a renderer prints and the
reference interpreter evaluates. Invariant: every expression knows its element type, and operands of
one operation agree as `OPERATIONS` says; integers wrap in their own width; nothing here can raise
or branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from workbench.graph.dtype import DType

FLOAT_UNARY = ("neg", "abs", "floor", "round", "sqrt")
LIBM = ("exp", "log", "sin", "cos", "tanh", "erf", "expm1", "log1p", "pow")
ARITHMETIC = ("add", "sub", "mul", "div", "maximum", "minimum")
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
COMPARE = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
LOGIC = ("logical_and", "logical_or", "logical_not")


@dataclass(frozen=True, slots=True)
class Number:
    """A constant. For floats ``value`` is exact in ``dtype``; it may be inf or nan."""

    value: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Var:
    """A loop index, an extent passed to the kernel, or a local scalar."""

    name: str
    dtype: DType = DType.I64


@dataclass(frozen=True, slots=True)
class Load:
    """The element at flat ``offset`` of the kernel's buffer number ``buffer``."""

    buffer: int
    offset: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation over scalars; the result has type ``dtype``.

    ``cast`` converts values (floats are cut toward zero), ``bitcast`` reinterprets bits of one
    width, ``select`` takes (condition, if true, if false), ``shift_right`` is arithmetic for signed
    integers, ``maximum`` and ``minimum`` give NaN if either operand is NaN, ``round`` rounds halves
    to even. The operations in ``LIBM`` are calls of the C library and only for float64: float32
    ones are expanded by ``workbench.loops.expand_math``.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: DType


Expr: TypeAlias = "Number | Var | Load | Apply"


def number(value: float, dtype: DType) -> Number:
    """Return a constant, rounded to ``dtype``."""
    if dtype is DType.F32:
        return Number(float(dtype.numpy.type(value)), dtype)
    return Number(float(value) if dtype.is_float else int(value), dtype)


def apply(op: str, *args: Expr, dtype: DType | None = None) -> Expr:
    """Return ``op`` over ``args``; the type is that of the first operand, bool for a comparison."""
    if dtype is None:
        dtype = DType.BOOL if op in COMPARE or op in LOGIC else args[-1].dtype
    return Apply(op, args, dtype)


def integer(value: int) -> Number:
    """Return an int64 constant, as offsets use."""
    return Number(value, DType.I64)


def add(left: Expr, right: Expr) -> Expr:
    """Return ``left + right``; a zero disappears when the operands are integers."""
    if left.dtype.is_integer:
        if isinstance(left, Number) and isinstance(right, Number):
            return Number(int(left.value) + int(right.value), left.dtype)
        if isinstance(left, Number) and left.value == 0:
            return right
        if isinstance(right, Number) and right.value == 0:
            return left
    return Apply("add", (left, right), left.dtype)


def mul(left: Expr, right: Expr) -> Expr:
    """Return ``left * right``; factors 0 and 1 disappear when the operands are integers."""
    if left.dtype.is_integer:
        if isinstance(left, Number) and isinstance(right, Number):
            return Number(int(left.value) * int(right.value), left.dtype)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Number) and one.value == 1:
                return other
            if isinstance(one, Number) and one.value == 0:
                return one
    return Apply("mul", (left, right), left.dtype)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the operands of an expression."""
    match expr:
        case Apply():
            return expr.args
        case Load():
            return (expr.offset,)
        case Number() | Var():
            return ()

"""What the operations of the kernel language emit.

Fourth file of the front end: each function here emits operands of the kinds that a signature
wanted, or makes a function that does.

Invariant: no emitted instruction traps, whatever the values.
"""

from collections.abc import Sequence
from typing import Any

from workbench_kernels.emit import CONTRACT, Emitter
from workbench_kernels.kinds import FLOATS, I64, Buffer, Scalar
from workbench_kernels.signatures import Emit, Operands


def by_name(method: str) -> Emit:
    """Emit a call of the LLVM intrinsic ``method``."""
    return lambda e, values, _: e.math(method, values)


def contracting(method: str) -> Emit:
    """Emit the float instruction ``method``, which may be contracted with its neighbours."""
    return lambda e, values, _: getattr(e.builder, method)(*values, flags=CONTRACT)


def wrapping(method: str) -> Emit:
    """Emit the instruction ``method``, which wraps around."""
    return lambda e, values, _: getattr(e.builder, method)(*values)


def either(floating: str, integer: str) -> Emit:
    """Emit the float instruction, or the index one, which may not overflow."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        if kinds[0] in FLOATS:
            return getattr(e.builder, floating)(*values, flags=CONTRACT)
        return getattr(e.builder, integer)(*values, flags=("nsw",))

    return emit


def negative(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    """Emit a value with its sign turned."""
    if kinds[0] in FLOATS:
        return e.builder.fneg(values[0])
    return e.builder.sub(e.constant(I64, 0), values[0], flags=("nsw",))


def compare(sign: str) -> Emit:
    """Emit a comparison; of a NaN only "differs" is true."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        kind = scalar_kind(kinds)
        if kind.is_float:
            # Only "differs" is true of a NaN, as in IEEE 754 and numpy.
            ask = e.builder.fcmp_unordered if sign == "!=" else e.builder.fcmp_ordered
        else:
            ask = e.builder.icmp_signed if kind.is_signed else e.builder.icmp_unsigned
        return ask(sign, *values)

    return emit


def extreme(name: str, sign: str) -> Emit:
    """Emit the larger or smaller operand, NaN if either is NaN."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        if scalar_kind(kinds).is_float:
            # The sign of a zero is left open: with it the whole costs one or three instructions.
            return e.math(name, values, flags=("nsz",))
        return e.builder.select(compare(sign)(e, values, kinds), *values)

    return emit


def scalar_kind(kinds: Operands) -> Scalar:
    """Return the kind of the first operand, a scalar."""
    kind = kinds[0]
    assert isinstance(kind, Scalar)
    return kind


def division(wanted: str, *, floor: bool) -> Emit:
    """Emit a quotient or remainder that never traps: by zero they are 0 and ``a``."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        builder, kind = e.builder, scalar_kind(kinds)
        a, b = values
        zero, one = e.constant(kind, 0), e.constant(kind, 1)
        by_zero = builder.icmp_unsigned("==", b, zero)
        unsafe = by_zero
        if kind.is_signed:
            # The one quotient that does not fit wraps to `a`, as `a / 1` is.
            lowest = builder.icmp_unsigned("==", a, e.constant(kind, -(1 << (kind.bits - 1))))
            by_minus_one = builder.icmp_unsigned("==", b, e.constant(kind, -1))
            unsafe = builder.or_(by_zero, builder.and_(lowest, by_minus_one))
        divisor = builder.select(unsafe, one, b)
        quotient = (builder.sdiv if kind.is_signed else builder.udiv)(a, divisor)
        remainder = (builder.srem if kind.is_signed else builder.urem)(a, divisor)
        if floor and kind.is_signed:
            inexact = builder.icmp_unsigned("!=", remainder, zero)
            opposite = builder.icmp_signed("<", builder.xor(remainder, divisor), zero)
            down = builder.and_(inexact, opposite)
            quotient = builder.select(down, builder.sub(quotient, one), quotient)
            remainder = builder.select(down, builder.add(remainder, divisor), remainder)
        if wanted == "quotient":
            return builder.select(by_zero, zero, quotient)
        return builder.select(by_zero, a, remainder)

    return emit


def high_product(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    """Emit the upper half of a product of twice the width."""
    kind = scalar_kind(kinds)
    double = e.ir.IntType(2 * kind.bits)
    widen = e.builder.sext if kind.is_signed else e.builder.zext
    product = e.builder.mul(*(widen(value, double) for value in values))
    high = e.builder.lshr(product, e.ir.Constant(double, kind.bits))
    return e.builder.trunc(high, e.type_of(kind))


def absolute(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    """Emit the magnitude of an integer; that of the lowest one wraps to itself."""
    kind, value = scalar_kind(kinds), values[0]
    if not kind.is_signed:
        return value
    zero = e.constant(kind, 0)
    is_negative = e.builder.icmp_signed("<", value, zero)
    return e.builder.select(is_negative, e.builder.sub(zero, value), value)


def is_finite(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    """Emit whether a float is neither infinite nor NaN."""
    infinity = e.constant(scalar_kind(kinds), float("inf"))
    return e.builder.fcmp_ordered("<", e.math("fabs", values), infinity)


def fill_with_zeros(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    """Emit zeros over a range of a buffer."""
    assert isinstance(kinds[0], Buffer)
    e.zero_fill(kinds[0], *values)


def copy_block(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    """Emit a copy between two buffers."""
    target, to, source, at, count = values
    assert isinstance(kinds[0], Buffer)
    assert isinstance(kinds[2], Buffer)
    e.copy((kinds[0], target, to), (kinds[2], source, at), count)


def load_element(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    """Emit a read of an element."""
    assert isinstance(kinds[0], Buffer)
    return e.load(kinds[0], *values)


def store_element(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    """Emit a write of an element."""
    assert isinstance(kinds[0], Buffer)
    e.store(kinds[0], *values)

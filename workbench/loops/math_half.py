"""Rounding of float32 values to the 16-bit types, to nearest even, without leaving float32.

In: a float32 expression. Out: the float32 expression of the value that bfloat16 or float16 would
hold. Invariant: storing the result in 16 bits and loading it again changes nothing, so that a value
is the same whether it was stored or recomputed in its reader.
"""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.loops.expression import Apply, Expr
from workbench.loops.math_terms import (
    INFINITY,
    bitcast,
    compare,
    f32,
    i32,
    magnitude,
    minus,
    plus,
    select,
)

SIGN = 0x80000000
F16_LEAST_NORMAL = 2.0**-14
F16_OVERFLOW = 65520.0
"""The least magnitude that rounds to infinity: half a unit above the greatest, 65504."""

F16_UNIT_SHIFT = 0.75
"""In [0.5, 1) float32 has units of 2**-24, those of the subnormal float16 numbers."""


def narrow(x: Expr, dtype: DType) -> Expr:
    """Return float32 ``x`` rounded to ``dtype`` (bfloat16 or float16), still as float32.

    NaN stays NaN, infinities and the sign of zero stay. Round half to even.
    """
    if dtype is DType.BF16:
        return select(compare("equal", x, x), _cut(x, 16), x)
    size = magnitude(x)
    normal = _cut(x, 13)
    shifted = minus(plus(size, f32(F16_UNIT_SHIFT)), f32(F16_UNIT_SHIFT))
    sign = _bits("bit_and", bitcast(x, DType.I32), i32(SIGN))
    small = bitcast(_bits("bit_or", bitcast(shifted, DType.I32), sign), DType.F32)
    infinite = bitcast(_bits("bit_or", bitcast(f32(INFINITY), DType.I32), sign), DType.F32)
    finite = select(compare("less", size, f32(F16_LEAST_NORMAL)), small, normal)
    rounded = select(compare("less", size, f32(F16_OVERFLOW)), finite, infinite)
    return select(compare("equal", x, x), rounded, x)


def _cut(x: Expr, bits: int) -> Expr:
    """Return ``x`` with the last ``bits`` of its fraction rounded away, halves to even."""
    pattern = bitcast(x, DType.I32)
    odd = _bits("bit_and", _bits("shift_right", pattern, i32(bits)), i32(1))
    # Half a unit, less one unless the kept part is odd: then a tie is carried upwards.
    carried = plus(pattern, plus(odd, i32((1 << (bits - 1)) - 1)))
    return bitcast(_bits("bit_and", carried, i32(0x100000000 - (1 << bits))), DType.F32)


def _bits(op: str, left: Expr, right: Expr) -> Expr:
    return Apply(op, (left, right), left.dtype)

"""Sign, exponent and mantissa of a float, taken apart and put together by integer operations.

In: float expressions. Out: expressions. Invariant: no conversion between float and integer can
leave the integer's range, whatever the argument, NaN and infinity included; what comes of those is
unspecified, and the callers let it show nowhere.
"""

from __future__ import annotations

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr
from workbench.loops.math_terms import (
    bitcast,
    bits,
    compare,
    f32,
    f64,
    i32,
    minus,
    plus,
    select,
    times,
)

ONE_BITS = 0x3F800000
SIGN_BIT = 0x80000000
MANTISSA_BITS = 0x007FFFFF
SQRT_HALF_BITS = 0x3F3504F3
SMALLEST_NORMAL = 2.0**-126
# A sum with 1.5 * 2**p is rounded to a whole number, which its low bits then hold; p is the number
# of bits after the point: 23 of float32, 52 of float64.
ROUND_F32 = 1.5 * 2.0**23
ROUND_F64 = 1.5 * 2.0**52


def nearest_whole(x: Expr) -> tuple[Expr, Expr]:
    """Return the whole number next to ``x``, in the low bits of a word and as a float.

    The word is int32 for a float32, which must stay below 2**22, and int64 for a float64 (2**51).
    Its high bits are not those of the number; they fall away when it is shifted into an exponent.
    """
    narrow = x.dtype is DType.F32
    rounding = f32(ROUND_F32) if narrow else f64(ROUND_F64)
    shifted = plus(x, rounding)
    return bitcast(shifted, DType.I32 if narrow else DType.I64), minus(shifted, rounding)


def power_of_two(word: Expr) -> Expr:
    """Return ``2**n`` as a float32, for ``n`` in the low bits of an int32, from -126 to 127."""
    return bitcast(plus(bits("shift_left", word, i32(23)), i32(ONE_BITS)), DType.F32)


def power_of_half(word: Expr) -> Expr:
    """Return ``2**-n`` as a float32, for ``n`` in the low bits of an int32; 0 for n = 127."""
    return bitcast(minus(i32(ONE_BITS), bits("shift_left", word, i32(23))), DType.F32)


def split(x: Expr) -> tuple[Expr, Expr]:
    """Return ``k`` (int32) and ``m`` with ``x = 2**k m`` and ``sqrt(1/2) <= m < sqrt(2)``.

    ``x`` is a positive normal float32.
    """
    word = plus(bitcast(x, DType.I32), i32(ONE_BITS - SQRT_HALF_BITS))
    k = minus(bits("shift_right", word, i32(23)), i32(127))
    mantissa = plus(bits("bit_and", word, i32(MANTISSA_BITS)), i32(SQRT_HALF_BITS))
    return k, bitcast(mantissa, DType.F32)


def split_any(x: Expr) -> tuple[Expr, Expr]:
    """Return ``k`` and ``m`` as `split` does, of a positive float32 that may be denormal."""
    denormal = compare("less", x, f32(SMALLEST_NORMAL))
    k, m = split(select(denormal, times(x, f32(2.0**23)), x))
    return plus(k, select(denormal, i32(-23), i32(0))), m


def sign_bit(x: Expr) -> Expr:
    """Return an int32 with the sign bit of a float32 and no other."""
    return bits("bit_and", bitcast(x, DType.I32), i32(SIGN_BIT))


def with_sign(size: Expr, sign: Expr) -> Expr:
    """Return ``size``, a float32 that is not negative, with the sign bit ``sign``."""
    return bitcast(bits("bit_or", bitcast(size, DType.I32), sign), DType.F32)

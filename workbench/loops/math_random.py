"""Random numbers as expressions: Philox4x32-10, uniform and normal.

In: seed, counter and position (int64 expressions). Out: a float. Invariant: the value depends on
these three numbers and on nothing else, so that any element of any draw can be computed at once
and alone.

The generator is that of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
3" (SC 2011): ten rounds, the key raised by Weyl constants between them.
"""

from __future__ import annotations

import math

from workbench.graph.dtype import DType
from workbench.loops.expression import Expr, Number
from workbench.loops.math_logarithm import log
from workbench.loops.math_terms import (
    bits,
    cast,
    f32,
    f64,
    magnitude,
    minus,
    plus,
    polynomial,
    times,
    unary,
)

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)

# sin(2 pi w) / w in w**2 for |w| <= 1/4, minimax for the relative error (3e-8).
SIN_TURNS = (6.28318548, -41.3417664, 81.6086349, -76.7279816, 40.8759117)


def _u32(value: int) -> Number:
    return Number(value & 0xFFFFFFFF, DType.U32)


def _words(value: Expr) -> tuple[Expr, Expr]:
    """Return the low and the high 32 bits of an int64."""
    high = bits("shift_right", value, Number(32, DType.I64))
    return cast(value, DType.U32), cast(high, DType.U32)


def _products(word: Expr, multiplier: int) -> tuple[Expr, Expr]:
    """Return the low and the high half of the 64-bit product."""
    product = times(cast(word, DType.U64), Number(multiplier, DType.U64))
    high = bits("shift_right", product, Number(32, DType.U64))
    return cast(product, DType.U32), cast(high, DType.U32)


def philox(
    counter: tuple[Expr, Expr, Expr, Expr], key: tuple[Expr, Expr]
) -> tuple[Expr, Expr, Expr, Expr]:
    """Return the four random words (uint32) of one counter under one key, all uint32.

    The words share most of their operands, ten rounds deep: walk them by identity, never as trees.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for step in range(ROUNDS):
        if step:
            k0, k1 = plus(k0, _u32(WEYL[0])), plus(k1, _u32(WEYL[1]))
        low0, high0 = _products(c0, MULTIPLIERS[0])
        low1, high1 = _products(c2, MULTIPLIERS[1])
        c0 = bits("bit_xor", bits("bit_xor", high1, c1), k0)
        c2 = bits("bit_xor", bits("bit_xor", high0, c3), k1)
        c1, c3 = low1, low0
    return c0, c1, c2, c3


def _random_words(seed: Expr, counter: Expr, position: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    return philox((*_words(position), *_words(counter)), _words(seed))


def _top(word: Expr, count: int) -> Expr:
    """Return the ``count`` highest bits of a uint32 as an int32, which converts to floats fast."""
    return cast(bits("shift_right", word, _u32(32 - count)), DType.I32)


def _uniform32(word: Expr) -> Expr:
    return times(cast(_top(word, 24), DType.F32), f32(2.0**-24))


def _uniform64(first: Expr, second: Expr) -> Expr:
    """Return 27 bits of ``first`` and 26 of ``second`` as one number in [0, 1)."""
    high = times(cast(_top(first, 27), DType.F64), f64(2.0**26))
    return times(plus(high, cast(_top(second, 26), DType.F64)), f64(2.0**-53))


def uniform(seed: Expr, counter: Expr, position: Expr, dtype: DType) -> Expr:
    """Return a number in [0, 1): a multiple of 2**-24 (float32) or of 2**-53 (float64)."""
    first, second, _, _ = _random_words(seed, counter, position)
    return _uniform32(first) if dtype is DType.F32 else _uniform64(first, second)


def normal(seed: Expr, counter: Expr, position: Expr, dtype: DType) -> Expr:
    """Return a standard normal number (Box and Muller 1958).

    It is ``sqrt(-2 log(1 - u1)) cos(2 pi u2)`` of two uniform numbers.
    """
    words = _random_words(seed, counter, position)
    if dtype is DType.F32:
        u1, u2 = _uniform32(words[0]), _uniform32(words[1])
        logarithm = log(minus(f32(1.0), u1))
        # cos(2 pi u) = sin(2 pi (|u - 1/2| - 1/4)), where both differences are exact.
        w = minus(magnitude(minus(u2, f32(0.5))), f32(0.25))
        cosine = times(w, polynomial(times(w, w), SIN_TURNS))
        return times(unary("sqrt", times(logarithm, f32(-2.0))), cosine)
    u1, u2 = _uniform64(words[0], words[1]), _uniform64(words[2], words[3])
    radius = unary("sqrt", times(unary("log", minus(f64(1.0), u1)), f64(-2.0)))
    return times(radius, unary("cos", times(u2, f64(2 * math.pi))))

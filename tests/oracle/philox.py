"""Philox4x32-10 and the numbers made from it, written once more in numpy.

In: a 64-bit seed, a 64-bit counter and 64-bit positions. Out: arrays. Source: Salmon, Moraes, Dror
and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), section 3.3; the constants are
theirs.
"""

import numpy as np
import numpy.typing as npt

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)

Words = npt.NDArray[np.uint64]  # each below 2**32, so that products fit


def philox(counter: list[Words], key: tuple[int, int]) -> list[Words]:
    """Return the four random words of each counter (four words) under a key (two words)."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(10):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> _HALF) ^ c1 ^ np.uint64(k0),
            second & _LOW,
            (first >> _HALF) ^ c3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF


def words(seed: int, counter: int, positions: npt.NDArray[np.int64]) -> list[Words]:
    """Return the words that belong to each position of a draw."""
    place = positions.astype(np.uint64)
    low, high = (np.full(place.shape, half, np.uint64) for half in _halves(counter))
    return philox([place & _LOW, place >> _HALF, low, high], _halves(seed))


def _unit32(word: Words) -> npt.NDArray[np.float32]:
    return (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def _unit64(first: Words, second: Words) -> npt.NDArray[np.float64]:
    high = (first >> np.uint64(5)).astype(np.float64) * 2.0**26
    return (high + (second >> np.uint64(6)).astype(np.float64)) * 2.0**-53


def uniform(
    seed: int, counter: int, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> npt.NDArray[np.floating]:
    """Return numbers in [0, 1), addressed by row-major position."""
    drawn = words(seed, counter, np.arange(int(np.prod(shape)), dtype=np.int64))
    flat = _unit32(drawn[0]) if np.dtype(dtype) == np.float32 else _unit64(drawn[0], drawn[1])
    return flat.reshape(shape)


def normal(
    seed: int, counter: int, shape: tuple[int, ...], dtype: npt.DTypeLike
) -> npt.NDArray[np.floating]:
    """Return ``sqrt(-2 log(1 - u1)) cos(2 pi u2)``, computed in float64 and rounded once."""
    drawn = words(seed, counter, np.arange(int(np.prod(shape)), dtype=np.int64))
    if np.dtype(dtype) == np.float32:
        u1, u2 = _unit32(drawn[0]).astype(np.float64), _unit32(drawn[1]).astype(np.float64)
    else:
        u1, u2 = _unit64(drawn[0], drawn[1]), _unit64(drawn[2], drawn[3])
    radius = np.sqrt(-2.0 * np.log(1.0 - u1))
    return (radius * np.cos(2.0 * np.pi * u2)).astype(dtype).reshape(shape)

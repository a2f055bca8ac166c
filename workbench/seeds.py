"""Seeds and the random streams they address: everything random starts from one integer.

A run has one base seed.  An epoch's seed, the seed of a split or of an initialisation are
*derived* from it, never drawn, so that adding a consumer of randomness shifts none of the
others.  In come integers of 64 bits (read as signed or unsigned, the same bits are the same
seed); out go seeds in ``[0, 2**63)``, row orders and numpy generators.

Invariant: nothing here has state.  The same arguments give the same bits, in any order of calls
and in any process.  Two layers carry that promise:

* Seeds are mixed by the finaliser of splitmix64 (Steele, Lea and Flood, "Fast splittable
  pseudorandom number generators", OOPSLA 2014) in exact 64-bit arithmetic.
* Streams are those of numpy's ``Philox`` bit generator, Philox4x64-10 (Salmon et al., "Parallel
  random numbers: as easy as 1, 2, 3", SC 2011).  It is counter-based: a block of output is a
  function of a key and a counter, so any position can be reached at once.
"""

# So that a mention of `numpy.random`, which numpy loads when it is first asked for, loads nothing.
from __future__ import annotations

import threading
from operator import index
from typing import Final, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from workbench.arguments import refusal
from workbench.errors import ConfigurationError, WorkbenchError

__all__ = ["derive", "epoch_seed", "generator", "mix", "permutation", "seed_from"]

_WORD: Final = (1 << 64) - 1
_NON_NEGATIVE: Final = (1 << 63) - 1

_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB

# The multiplier of Knuth's MMIX generator; it spreads neighbouring epochs over the 64 bits.
_EPOCH_STRIDE: Final = 6364136223846793005

# FNV-1a with a start value of this project's lineage: the textbook's offset basis has one digit
# more (14695981039346656037), and stored seeds depend on the shorter one.
_TAG_START: Final = 1469598103934665603
_TAG_PRIME: Final = 1099511628211

_NO_WORDS: Final = np.zeros(4, np.uint64)
_kept = threading.local()


def mix(z: SupportsIndex) -> int:
    """Return ``z`` with its 64 bits scrambled, as a signed integer.

    The map is a bijection of the 64-bit words with ``mix(0) == 0``::

        z ^= z >> 30;  z *= 0xBF58476D1CE4E5B9
        z ^= z >> 27;  z *= 0x94D049BB133111EB
        z ^= z >> 31

    Parameters
    ----------
    z
        An integer in ``[-2**63, 2**64)``; ``z`` and ``z + 2**64`` are the same word.

    Returns
    -------
    int
        The scrambled word, read as signed: in ``[-2**63, 2**63)``.

    Raises
    ------
    ConfigurationError
        If ``z`` does not fit in 64 bits or is not an integer.

    Examples
    --------
    >>> mix(1), mix(-1)
    (6238072747940578789, -5417735806833148549)
    """
    word = _scramble(_word(z, "z"))
    return word - (1 << 64) if word > _NON_NEGATIVE else word


def epoch_seed(base: SupportsIndex, epoch: SupportsIndex) -> int:
    """Return the seed of one epoch of a run.

    Parameters
    ----------
    base
        The run's seed, an integer in ``[-2**63, 2**64)``.
    epoch
        The epoch, counted from 0.

    Returns
    -------
    int
        ``mix(base + 6364136223846793005 * (epoch + 1))`` without its sign bit, in ``[0, 2**63)``.

    Raises
    ------
    ConfigurationError
        If ``base`` does not fit in 64 bits or ``epoch`` is negative.

    Examples
    --------
    >>> epoch_seed(3, 0), epoch_seed(3, 1)
    (6334580324429587790, 7281245869814955957)
    """
    turn = _position(epoch, "epoch") + 1
    return _scramble((_word(base, "base") + _EPOCH_STRIDE * turn) & _WORD) & _NON_NEGATIVE


def derive(base: SupportsIndex, tag: str) -> int:
    """Return the seed that ``base`` gives to the purpose named ``tag``.

    Parameters
    ----------
    base
        The run's seed, an integer in ``[-2**63, 2**64)``.
    tag
        What the randomness is for, such as ``"split"`` or ``"init"``.  Its UTF-8 bytes are
        hashed by 64-bit FNV-1a.

    Returns
    -------
    int
        ``mix(base + hash(tag))`` without its sign bit, in ``[0, 2**63)``.

    Raises
    ------
    ConfigurationError
        If ``base`` does not fit in 64 bits.

    Examples
    --------
    >>> derive(5, "init"), derive(5, "split")
    (1712075193739807133, 7186243181731852987)
    """
    return _scramble((_word(base, "base") + _hash_tag(tag)) & _WORD) & _NON_NEGATIVE


def permutation(seed: SupportsIndex, n: SupportsIndex) -> NDArray[np.int64]:
    """Return the numbers ``0 .. n - 1`` in the order that ``seed`` stands for.

    Each row is given a key whose upper bits are raw Philox output and whose lower bits are the
    row itself; the rows are then read in the order of their keys.  Only the raw stream is used,
    which numpy promises to keep, whereas the methods of ``Generator`` may change with a release.
    With ``b`` bits needed to write ``n - 1``, the upper ``64 - b`` are random: two rows share
    them (and then keep their natural order) with probability ``2**(b - 64)``.

    Parameters
    ----------
    seed
        An integer in ``[-2**63, 2**64)``.
    n
        How many rows there are; 0 gives an empty order.

    Returns
    -------
    NDArray[np.int64]
        The order, shape ``(n,)``.

    Raises
    ------
    ConfigurationError
        If ``seed`` does not fit in 64 bits, or ``n`` is negative or above ``2**32``.

    Examples
    --------
    >>> sorted(permutation(7, 5).tolist())
    [0, 1, 2, 3, 4]
    """
    rows = _position(n, "n")
    if rows > 1 << 32:
        raise ConfigurationError(
            f"n is {rows}; an order has at most {1 << 32} rows",
            remedy="order blocks of rows rather than single rows.",
        )
    row_bits = np.uint64((1 << max(rows - 1, 0).bit_length()) - 1)
    keys = _raw(_word(seed, "seed"), rows)
    keys &= ~row_bits
    keys |= np.arange(rows, dtype=np.uint64)
    keys.sort()
    keys &= row_bits
    return keys.view(np.int64)


def _raw(key: int, count: int) -> NDArray[np.uint64]:
    """Return the first words of the Philox stream of ``key``.

    To make a new Philox, even one of a given key, numpy asks the system for entropy first, which
    takes longer than to order a thousand rows: each thread keeps one, and sets it back.
    """
    philox: np.random.Philox | None = getattr(_kept, "philox", None)
    if philox is None:
        philox = _kept.philox = np.random.Philox(key=0)
    philox.state = {
        "bit_generator": "Philox",
        "state": {"counter": _NO_WORDS, "key": np.array([key, 0], np.uint64)},
        "buffer": _NO_WORDS,
        "buffer_pos": len(_NO_WORDS),
        "has_uint32": 0,
        "uinteger": 0,
    }
    return philox.random_raw(count)


def generator(
    base: SupportsIndex, purpose: str, *, epoch: SupportsIndex = 0, step: SupportsIndex = 0
) -> np.random.Generator:
    """Return the numpy generator at one address of a run's random streams.

    The Philox key is ``derive(base, purpose)``; the two upper words of the 256-bit counter are
    ``epoch`` and ``step``.  An address therefore holds ``2**128`` blocks of its own, and no two
    addresses of one purpose overlap.

    Parameters
    ----------
    base
        The run's seed, an integer in ``[-2**63, 2**64)``.
    purpose
        What the numbers are for, such as ``"dropout"``.
    epoch, step
        The position in the run, both counted from 0.

    Returns
    -------
    numpy.random.Generator
        A new generator at the beginning of that address.

    Raises
    ------
    ConfigurationError
        If ``base`` does not fit in 64 bits, or ``epoch`` or ``step`` is negative.

    Examples
    --------
    >>> first = generator(7, "noise", epoch=2).normal(size=3)
    >>> again = generator(7, "noise", epoch=2).normal(size=3)
    >>> bool((first == again).all())
    True
    """
    counter = np.array([0, 0, _position(step, "step"), _position(epoch, "epoch")], np.uint64)
    return np.random.Generator(np.random.Philox(key=derive(base, purpose), counter=counter))


def _scramble(z: int) -> int:
    z = ((z ^ (z >> 30)) * _MIX_1) & _WORD
    z = ((z ^ (z >> 27)) * _MIX_2) & _WORD
    return z ^ (z >> 31)


def _hash_tag(tag: str) -> int:
    state = _TAG_START
    for byte in tag.encode():
        state = ((state ^ byte) * _TAG_PRIME) & _WORD
    return state


def seed_from(name: str, value: object) -> int:
    """Return ``value`` if it is an integer of 64 bits, signed or not.

    A wider integer is refused rather than cut: two different seeds must not silently be one.

    Raises
    ------
    ConfigurationError
        If it is none.
    """
    number = _within(value, -(1 << 63), _WORD)
    if number is None:
        raise refusal(
            name,
            "an integer of 64 bits",
            value,
            remedy=f"pass `{name}` as an integer from -2**63 up to 2**64 - 1",
        )
    return number


def _word(value: object, name: str) -> int:
    """Return ``value`` as an unsigned 64-bit word."""
    return seed_from(name, value) & _WORD


def _position(value: object, name: str) -> int:
    number = _within(value, 0, _NON_NEGATIVE)
    if number is None:
        must = "a count from 0 to below 2**63"
        raise refusal(name, must, value, remedy=f"pass `{name}` as {must}")
    return number


def _within(value: object, least: int, most: int) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = index(cast("SupportsIndex", value))
    except (TypeError, WorkbenchError):
        return None
    return number if least <= number <= most else None

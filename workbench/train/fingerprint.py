"""A fingerprint of arrays that costs little more than reading them.

In: pieces of memory, names and texts.  Out: 64 hexadecimal digits.  Invariant: a change of any one
bit, or of any 32 bits that lie together, changes the fingerprint; any other accident does with a
chance of all but about ``2**-60``.  It tells damage, not malice.

Each block of `BLOCK_WORDS` 64-bit words is reduced to two sums modulo ``2**64`` of its words and of
their upper halves, each with a fixed odd random weight for each place: the multilinear hash of
Lemire and Kaser ("Strongly universal string hashing is fast", The Computer Journal 57, 2014).  The
second sum is what catches changes of two sign bits, which cancel in the first.  The sums and all
names and shapes go through SHA-256.  SHA-256 over the arrays themselves took as long as writing
them to a disk.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK_WORDS", "Fingerprint", "Sums"]

BLOCK_WORDS: Final = 16384
"""Words of 8 bytes that are reduced together: they fit in a core's own cache."""

_BLOCK_BYTES: Final = 8 * BLOCK_WORDS
_HALF: Final = np.uint64(32)
# What is left of an array after its blocks goes in as it is, if it is no longer than this.
_SHORT_BYTES: Final = 1 << 14
# Weights go into files by what they make of them: the key is part of the format.
_KEY: Final = 0x776F726B62656E63

Words = npt.NDArray[np.uint64]


@lru_cache(maxsize=1)
def _weights() -> tuple[Words, Words]:
    # Numpy promises to keep the raw stream of Philox.
    words = np.random.Philox(key=_KEY).random_raw(2 * BLOCK_WORDS) | np.uint64(1)
    return words[:BLOCK_WORDS], words[BLOCK_WORDS:]


@final
class Sums:
    """The sums of one array, taken piece by piece.

    Every piece but the last is a whole number of blocks.
    """

    __slots__ = ("_length", "_scratch", "_sums")

    def __init__(self) -> None:
        self._sums: list[bytes] = []
        self._length = 0
        self._scratch = np.zeros(0, np.uint64)

    def add(self, octets: memoryview | bytes) -> None:
        """Add the next bytes."""
        self._length += len(octets)
        whole = len(octets) // _BLOCK_BYTES * _BLOCK_BYTES
        if whole:
            self._reduce(np.frombuffer(octets[:whole], "<u8"), BLOCK_WORDS)
        rest = bytes(octets[whole:])
        if len(rest) <= _SHORT_BYTES:
            self._sums.append(rest)
        else:
            words = np.frombuffer(rest + bytes(-len(rest) % 8), "<u8")
            self._reduce(words, len(words))

    def _reduce(self, octets: npt.NDArray[Any], block: int) -> None:
        words = octets.astype(np.uint64, copy=False)
        if len(self._scratch) < len(words):
            self._scratch = np.zeros(len(words), np.uint64)
        upper = np.right_shift(words, _HALF, out=self._scratch[: len(words)])
        low, high = _weights()
        sums = np.empty((len(words) // block, 2), "<u8")
        sums[:, 0] = words.reshape(-1, block) @ low[:block]
        sums[:, 1] = upper.reshape(-1, block) @ high[:block]
        self._sums.append(sums.tobytes())

    def octets(self) -> bytes:
        """Return the sums of all blocks, what was too short for one, and the length."""
        return b"".join([*self._sums, self._length.to_bytes(8, "little")])


@final
class Fingerprint:
    """The fingerprint of a text and of named arrays; the order in which they come is no matter.

    Parameters
    ----------
    text
        What goes with the arrays.
    """

    __slots__ = ("_entries", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._entries: list[tuple[str, str, bytes]] = []

    def add(self, name: str, what: str, sums: Sums) -> None:
        """Add an array: its name, its type and shape as text, its sums."""
        self._entries.append((name, what, sums.octets()))

    def text(self) -> str:
        """Return the fingerprint as 64 hexadecimal digits."""
        digest = hashlib.sha256(_framed(self._text.encode()))
        for name, what, sums in sorted(self._entries):
            for part in (name.encode(), what.encode(), sums):
                digest.update(_framed(part))
        return digest.hexdigest()


def _framed(octets: bytes) -> bytes:
    """Put the length before the bytes, so that no two lists of parts read alike."""
    return len(octets).to_bytes(8, "little") + octets

"""How the rows of an epoch are ordered and cut into batches.

Arithmetic alone: nothing here touches the rows.  Invariant: the batches of an epoch cover every
row once, and only the last one may be shorter than the others.
"""

from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from workbench.arguments import truth_from, whole_from
from workbench.errors import ConfigurationError
from workbench.seeds import epoch_seed, permutation

__all__ = ["batch_count", "batch_end", "row_order"]


def batch_count(n: SupportsIndex, batch: SupportsIndex) -> int:
    """Return how many batches ``n`` rows make: ``ceil(n / batch)``, and 0 without rows.

    Raises
    ------
    ConfigurationError
        If ``batch`` is below 1 or ``n`` is negative.

    Examples
    --------
    >>> batch_count(10, 4)
    3
    """
    rows, size = _check(n, batch)
    return -(-rows // size)


def batch_end(n: SupportsIndex, batch: SupportsIndex, number: SupportsIndex) -> int:
    """Return the row after the last one of batch ``number``, counted from 0.

    The batch starts at ``number * batch``, so the short last batch of ``n`` rows ends at ``n``.

    Raises
    ------
    ConfigurationError
        If ``batch`` is below 1, ``n`` is negative, or there is no batch of that number.

    Examples
    --------
    >>> [batch_end(10, 4, number) for number in range(3)]
    [4, 8, 10]
    """
    rows, size = _check(n, batch)
    count, place = -(-rows // size), whole_from("number", number)
    if not 0 <= place < count:
        raise ConfigurationError(
            f"there is no batch {place}: {rows} rows in batches of {size} make {count}",
            remedy="count the batches from 0 up to batch_count(n, batch).",
        )
    return min((place + 1) * size, rows)


def row_order(
    n: SupportsIndex, *, seed: SupportsIndex, epoch: SupportsIndex, shuffle: bool = True
) -> NDArray[np.int64]:
    """Return the order in which an epoch visits its rows, shape ``(n,)``.

    Parameters
    ----------
    n
        How many rows there are.
    seed
        The run's base seed; the order is the permutation under ``epoch_seed(seed, epoch)``.
    epoch
        The epoch, counted from 0.
    shuffle
        Without it the rows keep their order.

    Raises
    ------
    ConfigurationError
        If ``n`` or ``epoch`` is negative.

    Examples
    --------
    >>> row_order(5, seed=3, epoch=0, shuffle=False).tolist()
    [0, 1, 2, 3, 4]
    """
    if not truth_from("shuffle", shuffle):
        return np.arange(whole_from("n", n, 0), dtype=np.int64)
    return permutation(epoch_seed(seed, epoch), n)


def _check(n: SupportsIndex, batch: SupportsIndex) -> tuple[int, int]:
    return whole_from("n", n, 0), whole_from("batch", batch, 1)

"""Bring features to a mean of 0 and a spread of 1."""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.data.admit import admit
from workbench.errors import DataError

__all__ = ["standardize"]

# Keeps a constant feature at 0 instead of dividing by its spread of 0.
_EPSILON: Final = 1e-8


def standardize(x: ArrayLike, *, reference: ArrayLike | None = None) -> NDArray[Any]:
    """Return ``(x - mean) / (sqrt(variance) + 1e-8)`` with statistics per feature.

    Parameters
    ----------
    x
        Features, shape ``(n, ...)``.
    reference
        The rows that mean and variance are taken from, of the same features; ``x`` itself when
        left out.  Pass the training rows when scaling held-out ones: statistics of the whole
        set leak the held-out rows into the training.

    Returns
    -------
    NDArray
        The scaled features in their own shape, float64 for float64 and float32 otherwise.  The
        variance is that of the population (divided by ``n``); sums are float64.  A NaN in a
        feature of ``reference`` makes that whole feature NaN.

    Raises
    ------
    DataError
        If the features of ``x`` and ``reference`` differ, or ``reference`` has no rows while
        ``x`` has some.

    Examples
    --------
    >>> standardize([[0.0], [2.0], [4.0]]).ravel().round(4).tolist()
    [-1.2247, 0.0, 1.2247]
    """
    rows = admit(x, "x", None)
    basis = rows if reference is None else admit(reference, "reference", None)
    if rows.shape[1:] != basis.shape[1:]:
        raise DataError(
            f"a row of x has shape {rows.shape[1:]} and a row of reference {basis.shape[1:]}",
            remedy="take the statistics from rows of the same features.",
        )
    result = np.dtype(np.float64 if rows.dtype == np.float64 else np.float32)
    if not len(rows):
        return np.empty(rows.shape, result)
    if not len(basis):
        raise DataError(
            "reference has no rows to take statistics from",
            remedy="pass the training rows as reference.",
        )
    # Differences to the first row, which of near numbers are exact. The mean of equal numbers far
    # from 0 is rounded, and by that a constant feature would lie off its own mean.
    first = basis[0].astype(np.float64)
    around = basis - first
    spread = np.sqrt(around.var(axis=0))
    scaled: NDArray[Any] = (rows - first - around.mean(axis=0)) / (spread + _EPSILON)
    return scaled.astype(result, copy=False)

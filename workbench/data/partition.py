"""Cut one data set into a part to train on and a part held out."""

import math

from workbench.arguments import number_from
from workbench.data.dataset import Dataset
from workbench.errors import DataError
from workbench.seeds import derive, permutation

__all__ = ["split", "split_at"]


def split_at(n: int, fraction: float) -> int:
    """Return how many of ``n`` rows train: ``int(n * fraction)``, but one at least on each side."""
    return min(max(math.floor(n * fraction), 1), n - 1)


def split(dataset: Dataset, fraction: float, *, seed: int) -> tuple[Dataset, Dataset]:
    """Return ``(train, held_out)``, drawn by a seed of their own.

    The rows are put in the order of the permutation under ``derive(seed, "split")``; the first
    ``int(n * fraction)`` of them train.  Both parts get at least one row.

    Parameters
    ----------
    dataset
        At least two rows.
    fraction
        The share that trains, strictly between 0 and 1.
    seed
        The run's base seed; splitting takes nothing from the streams of the training itself.

    Raises
    ------
    ConfigurationError
        If ``fraction`` is not strictly between 0 and 1.
    DataError
        If there are fewer than two rows.

    Examples
    --------
    >>> train, held_out = split(Dataset([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]), 0.75, seed=1)
    >>> train.n, held_out.n
    (3, 1)
    """
    fraction = number_from("fraction", fraction, 0.0, open_end=True, below=1.0, example="0.8")
    n = dataset.n
    if n < 2:
        raise DataError(
            f"{n} rows cannot be split into two parts",
            remedy="split a data set of at least two rows.",
        )
    cut = split_at(n, fraction)
    order = permutation(derive(seed, "split"), n)
    return dataset.take(order[:cut]), dataset.take(order[cut:])

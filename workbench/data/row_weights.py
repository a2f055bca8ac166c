"""How much each row counts in training, from its class."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.errors import DataError

__all__ = ["class_weights"]


def class_weights(
    y: ArrayLike, weights: Mapping[int, float] | Literal["balanced"] = "balanced"
) -> NDArray[np.float64]:
    """Return a weight for each row that depends on its class alone.

    Parameters
    ----------
    y
        Labels, integers of shape ``(n,)``.
    weights
        The weight of each class, or ``"balanced"``: ``n / (classes * rows of the class)``, over the
        classes that occur, so that each of them counts alike and the mean weight is 1.

    Returns
    -------
    NDArray
        float64 of shape ``(n,)``, for ``Dataset(x, y, weights=...)``.

    Raises
    ------
    DataError
        If ``y`` is not one integer a row, or a class that occurs has no weight.

    Examples
    --------
    >>> class_weights([0, 0, 0, 1]).round(4).tolist()
    [0.6667, 0.6667, 0.6667, 2.0]
    >>> class_weights([0, 2, 0], {0: 1.0, 2: 0.5}).tolist()
    [1.0, 0.5, 1.0]
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iub":
        raise DataError(
            f"y has dtype {labels.dtype} and shape {labels.shape}, which are not labels of rows",
            remedy="pass one integer for each row.",
        )
    classes, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if weights == "balanced":
        table = len(labels) / (len(classes) * counts) if len(labels) else np.zeros(0)
        return table[places]
    table_of: object = weights
    if isinstance(table_of, str):  # another word
        raise DataError(
            f"the weights of the classes are {weights!r}",
            remedy='pass a weight for each class, such as {0: 1.0, 1: 3.0}, or "balanced".',
        )
    missing = [int(label) for label in classes if int(label) not in weights]
    if missing:
        raise DataError(
            f"class {missing[0]} occurs in {int(counts[classes == missing[0]][0])} rows and has no "
            "weight",
            remedy=f"give a weight to each of {[int(label) for label in classes]}.",
        )
    return np.array([weights[int(label)] for label in classes], np.float64)[places]

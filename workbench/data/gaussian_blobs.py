"""Made-up data: one round cloud of points for each class."""

from typing import Final

import numpy as np

from workbench.arguments import number_from, whole_from
from workbench.data.dataset import Dataset
from workbench.seeds import generator

__all__ = ["blobs"]

# With the default spread, clouds in a cube of this half side seldom touch.
_HALF_SIDE: Final = 5.0


def blobs(
    n: int = 360,
    classes: int = 3,
    *,
    features: int = 4,
    spread: float = 0.8,
    seed: int = 0,
) -> Dataset:
    """Return points drawn around one centre for each class.

    Centres are uniform in the cube ``[-5, 5] ** features``; a point is its centre plus normal
    noise.  Row ``i`` belongs to class ``i % classes``, so classes differ by one row at most.

    Parameters
    ----------
    n
        How many rows; 0 is allowed.
    classes, features
        How many of each, at least 1.
    spread
        Standard deviation of the noise in every feature, finite and not negative.
    seed
        The base seed.  The same arguments give the same rows, and more rows begin with the same
        ones.

    Returns
    -------
    Dataset
        ``x`` float32, shape ``(n, features)``; ``y`` int32, shape ``(n,)``.

    Raises
    ------
    ConfigurationError
        If an argument is out of its range.

    Examples
    --------
    >>> blobs(90, 3, features=2, seed=1)
    Dataset: 90 rows, x float32 (2,), y int32 ()
    """
    n, classes = whole_from("n", n, 0), whole_from("classes", classes, 1)
    features, spread = whole_from("features", features, 1), number_from("spread", spread, 0.0)
    places = generator(seed, "blobs/centres").uniform(-_HALF_SIDE, _HALF_SIDE, (classes, features))
    noise = generator(seed, "blobs/noise").normal(0.0, spread, (n, features))
    y = np.arange(n, dtype=np.int32) % np.int32(classes)
    return Dataset(
        places[y] + noise,
        y,
        names=tuple(f"blob {number}" for number in range(classes)),
        source=f"made up: {classes} normal blobs in {features} features, "
        f"spread {spread}, seed {seed}",
    )

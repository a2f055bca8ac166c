"""The data set that comes with the package: handwritten digits of 8 x 8 pixels.

``digits.npz`` beside this file holds two arrays of bytes, ``pixels`` (1797, 64) with values from
0 to 16 and ``labels`` (1797,).  They are the test part of "Optical Recognition of Handwritten
Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, licence CC BY 4.0
(https://creativecommons.org/licenses/by/4.0/).  Numbers and order are those of the published
file; only the container is ours.
"""

from importlib.resources import files
from typing import Final

import numpy as np

from workbench.data.dataset import Dataset

__all__ = ["digits"]

_INK: Final = np.float32(16)


def digits() -> Dataset:
    """Return the 1,797 digits of 13 writers, scaled to ``[0, 1]``.

    Returns
    -------
    Dataset
        ``x`` float32, shape ``(1797, 64)``: 8 rows of 8 pixels, each the share of ink in a block
        of 4 x 4 pixels of the scan, a multiple of 1/16.  ``y`` int32, shape ``(1797,)``.  Fresh
        arrays at every call.

    Notes
    -----
    Source: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998.  Licence: CC BY 4.0.

    Examples
    --------
    >>> digits()
    Dataset: 1797 rows, x float32 (64,), y int32 ()
    """
    with (
        (files("workbench.data") / "digits.npz").open("rb") as stored,
        np.load(stored, allow_pickle=False) as arrays,
    ):
        pixels, labels = arrays["pixels"], arrays["labels"]
    return Dataset(
        np.divide(pixels, _INK, dtype=np.float32),
        labels.astype(np.int32),
        names=tuple(str(digit) for digit in range(10)),
        source="Optical Recognition of Handwritten Digits (test part), E. Alpaydin and "
        "C. Kaynak, UCI Machine Learning Repository, 1998, https://doi.org/10.24432/C50P49",
        licence="CC BY 4.0",
    )

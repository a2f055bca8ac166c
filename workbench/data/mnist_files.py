"""MNIST: 70,000 handwritten digits of 28 x 28 pixels, read from the published IDX files.

Memory: the images are read as bytes and divided into one float32 array, so that 1.25 times the
size of the result is the most that is held.
"""

from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from workbench.data.dataset import Dataset
from workbench.data.download import MNIST_FILES, fetch
from workbench.data.idx import read_idx
from workbench.data.lookup import Subset, check_subset, find_file
from workbench.errors import DataError
from workbench.files import as_path

__all__ = ["mnist"]

_STEMS: Final[dict[str, str]] = {"train": "train", "test": "t10k"}
_SIDE: Final = 28
_CLASSES: Final = 10


def mnist(
    folder: str | PathLike[str],
    subset: Subset = "train",
    *,
    flatten: bool = True,
    download: bool = False,
) -> Dataset:
    """Return one part of MNIST from the IDX files in a folder.

    Parameters
    ----------
    folder
        Where the files are: ``train-images-idx3-ubyte`` and its three companions, also with a
        dot before ``idx``, each gzipped (``.gz``) or not.
    subset
        ``"train"`` (60,000 rows) or ``"test"`` (10,000 rows).
    flatten
        With it a row is a vector of 784 pixels, without it an image ``(1, 28, 28)``.
    download
        Fetch the files that are missing from ``folder`` first.  Nothing is fetched without it.

    Returns
    -------
    Dataset
        ``x`` float32 in ``[0, 1]``, 0 for paper and 1 for ink; ``y`` int32, the digits.

    Raises
    ------
    ConfigurationError
        If there is no such ``subset``.
    DataError
        If a file is missing, truncated, of another kind, or holds another number of rows than
        its companion; the text names the file, what was expected and what was found.
    """
    check_subset(subset)
    place = as_path(folder)
    if download:
        _fetch_missing(place, _STEMS[subset])
    images_path = find_file([place], _names(_STEMS[subset], "images", 3))
    labels_path = find_file([place], _names(_STEMS[subset], "labels", 1))
    labels = _read_labels(labels_path)
    pixels = _read_images(images_path)
    if len(pixels) != len(labels):
        raise DataError(
            f"{labels_path}: expected {len(pixels)} labels, one for each image of "
            f"{images_path.name}, found {len(labels)}",
            remedy="take images and labels from the same publication.",
        )
    x = np.divide(pixels, np.float32(255), dtype=np.float32)
    shape = (len(x), _SIDE * _SIDE) if flatten else (len(x), 1, _SIDE, _SIDE)
    return Dataset(
        x.reshape(shape),
        labels.astype(np.int32),
        names=tuple(str(digit) for digit in range(_CLASSES)),
        source=f"MNIST ({subset}), Y. LeCun, C. Cortes and C. J. C. Burges, from NIST SD 3 and 19",
        licence="as published by the authors; commonly stated as CC BY-SA 3.0",
    )


def _names(stem: str, kind: str, axes: int) -> tuple[str, ...]:
    return tuple(
        f"{stem}-{kind}{joint}idx{axes}-ubyte{suffix}" for suffix in ("", ".gz") for joint in "-."
    )


def _fetch_missing(folder: Path, stem: str) -> None:
    for kind, axes in (("images", 3), ("labels", 1)):
        names = _names(stem, kind, axes)
        if not any((folder / name).is_file() for name in names):
            for file in MNIST_FILES:
                if file.name in names:
                    fetch(file, folder)


def _read_images(path: Path) -> NDArray[np.uint8]:
    return read_idx(path, axes=3, row=(_SIDE, _SIDE))


def _read_labels(path: Path) -> NDArray[Any]:
    labels = read_idx(path, axes=1)
    wrong = np.flatnonzero(labels >= _CLASSES)
    if wrong.size:
        raise DataError(
            f"{path}: expected labels from 0 to {_CLASSES - 1}, "
            f"found {labels[wrong[0]]} in row {wrong[0]}",
            remedy="check that the file belongs to MNIST and is not damaged.",
        )
    return labels

"""CIFAR-10: 60,000 colour images of 32 x 32 pixels, read from the published binary batches.

A batch is a sequence of records of 3,073 bytes: one label, then the red, the green and the blue
plane of 1,024 pixels each, row by row.  The batches are read one after another into one float32
array, so that little more than the result is held.
"""

from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from workbench.data.dataset import Dataset
from workbench.data.download import CIFAR10_ARCHIVE, fetch_archive
from workbench.data.lookup import Subset, check_subset, find_file
from workbench.errors import DataError
from workbench.files import as_path, read_regular

__all__ = ["cifar10"]

_BATCHES: Final[dict[str, tuple[str, ...]]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_INNER_FOLDER: Final = "cifar-10-batches-bin"
_IMAGE: Final = (3, 32, 32)
_RECORD_BYTES: Final = 1 + 3 * 32 * 32
_NAMES: Final = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def cifar10(
    folder: str | PathLike[str], subset: Subset = "train", *, download: bool = False
) -> Dataset:
    """Return one part of CIFAR-10 from the binary batches in a folder.

    Parameters
    ----------
    folder
        Where ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin`` are, or the
        folder that holds them in ``cifar-10-batches-bin`` as the archive does.
    subset
        ``"train"`` (50,000 rows) or ``"test"`` (10,000 rows).
    download
        Fetch and unpack the archive (170 MB) into ``folder`` first if a batch is missing.
        Nothing is fetched without it.

    Returns
    -------
    Dataset
        ``x`` float32 in ``[0, 1]``, shape ``(n, 3, 32, 32)``: red, green and blue planes;
        ``y`` int32, the classes.

    Raises
    ------
    ConfigurationError
        If there is no such ``subset``.
    DataError
        If a batch is missing, truncated, or holds a label above 9; the text names the file,
        what was expected and what was found.
    """
    check_subset(subset)
    place = as_path(folder)
    folders = (place, place / _INNER_FOLDER)
    names = _BATCHES[subset]
    if download and not any(all((it / name).is_file() for name in names) for it in folders):
        fetch_archive(CIFAR10_ARCHIVE, place)
    paths = [find_file(folders, [name]) for name in names]
    counts = [_record_count(path) for path in paths]
    x = np.empty((sum(counts), *_IMAGE), np.float32)
    y = np.empty(sum(counts), np.int32)
    start = 0
    for path, count in zip(paths, counts, strict=True):
        rows = slice(start, start + count)
        records = _read_records(path, count)
        y[rows] = records[:, 0]
        np.divide(records[:, 1:].reshape(-1, *_IMAGE), np.float32(255), out=x[rows])
        start += count
    return Dataset(
        x,
        y,
        names=_NAMES,
        source=f"CIFAR-10 ({subset}), A. Krizhevsky, Learning Multiple Layers of Features from "
        "Tiny Images, 2009",
        licence="none stated by the publisher, who asks that the report above be cited",
    )


def _record_count(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError as fault:
        raise DataError(
            f"{path} cannot be read: {fault.strerror or fault}", remedy="check the path."
        ) from fault
    count, rest = divmod(size, _RECORD_BYTES)
    if rest or not count:
        raise DataError(
            f"{path}: expected a multiple of {_RECORD_BYTES} bytes, one record for each image, "
            f"found {size} ({count} records and {rest} bytes)",
            remedy="fetch the file again, and check that it is of the binary version.",
        )
    return count


def _read_records(path: Path, count: int) -> NDArray[np.uint8]:
    octets = read_regular(path, most=count * _RECORD_BYTES)
    if len(octets) < count * _RECORD_BYTES:
        raise DataError(
            f"{path}: expected {count * _RECORD_BYTES} bytes, found {len(octets)} when it was read",
            remedy="wait until nobody writes the file.",
        )
    records = np.frombuffer(octets, np.uint8).reshape(-1, _RECORD_BYTES)
    wrong = np.flatnonzero(records[:, 0] >= len(_NAMES))
    if wrong.size:
        raise DataError(
            f"{path}: expected labels from 0 to {len(_NAMES) - 1}, "
            f"found {records[wrong[0], 0]} in record {wrong[0]}",
            remedy="check that the file is of CIFAR-10's binary version and is not damaged.",
        )
    return records

"""The content of a checkpoint: its version and the names of its arrays.

In: a path.  Out: a file whose version this program reads.  Invariant: what the version stands for
never changes; new content is a new version.
"""

from __future__ import annotations

import os
from typing import Final

from workbench.errors import DataError
from workbench.train.atomic_file import as_target
from workbench.train.checkpoint_document import check_document
from workbench.train.container import Container, open_container

__all__ = [
    "EPOCH_LOSSES",
    "EPOCH_SERIES",
    "FORMAT",
    "HISTORY",
    "OPT",
    "PARAMS",
    "open_checkpoint",
]

FORMAT: Final = 1
"""The version that is written, and the only one that is read."""

PARAMS: Final = "params"
"""Before the path of each parameter, and before a point."""

OPT: Final = "opt"
"""Before the path of each part of the optimizer's state, and before a point."""

HISTORY: Final = "history"
"""Before the name of each column of the history, and before a point."""

EPOCH_LOSSES: Final = "epoch.losses"
"""The loss of each batch of the epoch at hand, or of the last one, as far as it was run."""

EPOCH_SERIES: Final = "epoch.series"
"""Before the name of each metric of the step, and before a point: the same for its values."""


def open_checkpoint(path: str | os.PathLike[str]) -> Container:
    """Return a checkpoint's document and what arrays it holds, without reading them.

    Raises
    ------
    DataError
        If there is no such file, or it is cut short, foreign, damaged or of another version, or a
        value of its document cannot be.
    """
    file = open_container(as_target(path))
    found = file.document.get("format")
    if found != FORMAT:
        raise DataError(
            f"`{file.path}` is a checkpoint of format {found}, and this version reads format "
            f"{FORMAT}",
            remedy="open it with the version that wrote it, or export its parameters there",
        )
    check_document(file.document, file.path)
    return file

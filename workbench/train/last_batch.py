"""What the batch that was run last was given, and what it left, for whoever looks at a run.

In: word that a batch was run. Out: copies of what moved in it. Invariant: a native call costs two
words, and nothing is copied before somebody looks, or the arrays are about to be written for
another epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.graph.tensor import Tensor

__all__ = ["LastBatch"]

Array = npt.NDArray[Any]


@final
class LastBatch:
    """The batch that was run last.

    Parameters
    ----------
    at
        Gives what moves as it is in a batch, as parts of arrays that later batches overwrite.

    Notes
    -----
    All of it is called with the run's gate held, by the loop or by a visitor.
    """

    def __init__(self, at: Callable[[int], Mapping[Tensor, Array]]) -> None:
        self._at = at
        self._batch: int | None = None
        self._kept: Mapping[Tensor, Array] = {}

    def ran(self, batch: int) -> None:
        """Take note that a batch was run."""
        self._batch = batch

    def keep(self) -> None:
        """Copy it, since its arrays are about to be written for another epoch."""
        if self._batch is not None:
            self._kept, self._batch = self.values(), None

    def forget(self) -> None:
        """Know no batch any more: what is to be looked at did not come from it."""
        self._batch, self._kept = None, {}

    def values(self) -> Mapping[Tensor, Array]:
        """Return copies of what moved in it, by node; nothing if none was run yet."""
        batch = self._batch
        if batch is None:
            return self._kept
        return {node: np.array(part) for node, part in self._at(batch).items()}

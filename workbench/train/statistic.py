"""Metrics that are no means over rows: ratios of sums, ranks, matrices of counts.

In: for each batch, what the graph computed of its rows.  Out: the value over all rows.  Invariant:
the value does not depend on how the rows were cut into batches; nothing is averaged that may only
be added up.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from workbench.errors import TracingError
from workbench.graph.extent import Batch, batch
from workbench.graph.tensor import Tensor

__all__ = ["Gathered", "Statistic", "Value"]

Array = npt.NDArray[Any]
Value: TypeAlias = float | Array


@final
@dataclass(frozen=True, slots=True)
class Gathered:
    """What all batches of a pass left, on the host.

    Attributes
    ----------
    rows
        Rows of each batch, int64.
    per_batch
        By name, what each batch added: shape ``(batches, ...)``.
    per_row
        By name, what was kept of each row: shape ``(rows, ...)``.
    """

    rows: npt.NDArray[np.int64]
    per_batch: Mapping[str, Array]
    per_row: Mapping[str, Array]

    def total(self, name: str) -> Array:
        """Return the sum of a part over all batches, as int64 or float64."""
        part = self.per_batch[name]
        wide = np.int64 if part.dtype.kind in "iub" else np.float64
        return np.asarray(part.astype(wide).sum(axis=0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A metric as graph code for one batch, and a function of what all batches left.

    An evaluation returns it in the place of a mean.

    Parameters
    ----------
    finish
        ``finish(gathered)`` returns the value over all rows: a number, or an array for what is
        looked at rather than monitored.
    per_batch
        By name, tensors computed from all rows of a batch; of a shape without the batch.
    per_row
        By name, tensors that have one entry for each row along their first axis.  They cost memory
        for every row of the data set.

    Raises
    ------
    TracingError
        If there is no tensor, or one has another shape than its place asks for.

    Examples
    --------
    The share of all absolute error that the prediction would have to lose:

    >>> import workbench as wb
    >>> def relative_error(prediction, target):
    ...     parts = {"off": wb.abs(prediction - target).sum(), "size": wb.abs(target).sum()}
    ...     return Statistic(lambda all: float(all.total("off") / all.total("size")), parts)
    >>> x = wb.input("x", (wb.batch,))
    >>> sorted(relative_error(x, 2.0 * x).per_batch)
    ['off', 'size']
    """

    finish: Callable[[Gathered], Value]
    per_batch: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    _: KW_ONLY
    per_row: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])

    def __post_init__(self) -> None:
        if not self.tensors:
            raise TracingError(
                "the statistic has no tensor", remedy="give it a part per batch or per row"
            )
        for name, part in self.per_batch.items():
            if any(isinstance(extent, Batch) for extent in part.shape):
                raise TracingError(
                    f"the part `{name}` of a statistic is {part!r}, which grows with the batch",
                    remedy="reduce it over the rows, `.sum(0)`, or pass it as `per_row`",
                )
        for name, part in self.per_row.items():
            if not part.shape or part.shape[0] != batch:
                raise TracingError(
                    f"the part `{name}` of a statistic is {part!r}, which has not one entry for "
                    "each row",
                    remedy="keep the batch as first axis, or pass it as `per_batch`",
                )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All its parts, those per batch first."""
        return (*self.per_batch.values(), *self.per_row.values())

    def value(self, arrays: Mapping[Tensor, Array], rows: npt.ArrayLike) -> Value:
        """Return the value over all rows.

        Parameters
        ----------
        arrays
            For each of `tensors`, what the batches left: an entry for each batch, or for each row.
        rows
            Rows of each batch.
        """
        return self.finish(
            Gathered(
                np.asarray(rows, np.int64),
                {name: arrays[part] for name, part in self.per_batch.items()},
                {name: arrays[part] for name, part in self.per_row.items()},
            )
        )

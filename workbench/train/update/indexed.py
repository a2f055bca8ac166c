"""Loops over static indices, and batches that a bound index chooses from arrays on the device.

In: indices with their extents, data sets. Out: passes, one for each value; tensors that hold the
batch at hand. Invariant: a loop leaves the bindings as it found them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from workbench.arguments import whole_from
from workbench.data.dataset import Dataset
from workbench.errors import DataError, GraphError
from workbench.graph.elementwise import describe
from workbench.graph.indexing import take
from workbench.graph.leaf import constant, state
from workbench.graph.nodes import nodes_from
from workbench.graph.static_index import declared_extent, static_index
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context

__all__ = ["IndexedBatches", "indexed_batches", "sequential_loop"]

Bindings = MutableMapping[Tensor, int]


def sequential_loop(bindings: Bindings, over: Iterable[Tensor] | None = None) -> Iterator[Bindings]:
    """Yield once for each combination of values of static indices, the first one outermost.

    The bindings are set before each pass, and hold what they held before when the loop is over,
    however it ends. A run reads them when it starts, so that the next pass may change them at once.

    Parameters
    ----------
    bindings
        What the routines were compiled with.
    over
        The indices to loop over; by default all keys of ``bindings``, in their order. The others
        stay as they are.

    Raises
    ------
    GraphError
        If one of them is no static index, or not among the bindings.

    Examples
    --------
    >>> import workbench as wb
    >>> row, column = wb.static_index("row", 2), wb.static_index("column", 3)
    >>> bindings = {row: 1, column: 1}
    >>> [(now[row], now[column]) for now in sequential_loop(bindings)]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    >>> list(bindings.values())
    [1, 1]
    """
    chosen = list(bindings if over is None else nodes_from("over", over))
    extents: list[int] = []
    for index in chosen:
        extent = declared_extent(index)
        if extent is None or index not in bindings:
            raise GraphError(
                f"{describe(index)} is not a static index that is bound",
                remedy="make it with `wb.static_index(label, extent)`, and give the bindings that "
                "the routine was compiled with",
            )
        extents.append(extent)
    return _passes(bindings, chosen, extents)


def _passes(bindings: Bindings, chosen: list[Tensor], extents: list[int]) -> Iterator[Bindings]:
    if not chosen:
        yield bindings
        return
    index, before = chosen[0], bindings[chosen[0]]
    try:
        for value in range(extents[0]):
            bindings[index] = value
            yield from _passes(bindings, chosen[1:], extents[1:])
    finally:
        bindings[index] = before


@final
@dataclass(frozen=True, slots=True, eq=False)
class IndexedBatches:
    """The rows of a data set on the device, as batches that a static index chooses.

    Attributes
    ----------
    index
        Which batch is at hand; bind it.
    x, y
        The batch, ``size`` rows along axis 0.
    order
        State: the rows in the order in which batches take them, int64. Set a permutation to
        shuffle: ``ctx.set_values({batches.order: rng.permutation(batches.rows)})``.
    size
        Rows of a batch.
    rows
        Rows of all batches; what is over after the last whole batch is left out.
    """

    index: Tensor
    x: Tensor
    y: Tensor
    order: Tensor
    size: int
    rows: int

    @property
    def count(self) -> int:
        """How many batches there are."""
        return self.rows // self.size

    def in_order(self, ctx: Context) -> Context:
        """Return ``ctx`` with the rows in their own order, which is how they begin."""
        return self.reordered(ctx, np.arange(self.rows))

    def reordered(self, ctx: Context, order: npt.ArrayLike) -> Context:
        """Return ``ctx`` with the rows in another order.

        Raises
        ------
        DataError
            If a number is no row, or there are not as many as rows.
        """
        numbers = np.asarray(order)
        fits = numbers.shape == (self.rows,) and numbers.dtype.kind in "iu"
        if not fits or (self.rows and not 0 <= numbers.min() <= numbers.max() < self.rows):
            raise DataError(
                f"the order is {numbers.dtype} of shape {numbers.shape}, for {self.rows} rows",
                remedy=f"give {self.rows} numbers from 0 to {self.rows - 1}, such as a permutation",
            )
        return ctx.set_values({self.order: numbers.astype(np.int64)})


def indexed_batches(data: Dataset, batch_size: int, label: str = "batch") -> IndexedBatches:
    """Return the rows of ``data`` on the device, as batches that a static index chooses.

    Nothing is copied from the host for a batch: a routine gathers its rows from arrays that lie on
    the device, by an index that is bound at each run. `in_order` has to set the order once.

    Parameters
    ----------
    data
        Rows.
    batch_size
        Rows of a batch, from 1 to all.
    label
        Name of the index for people.

    Raises
    ------
    ConfigurationError
        If ``batch_size`` is less than 1.
    DataError
        If there are fewer rows than that.
    """
    size = whole_from("batch_size", batch_size, 1)
    count = data.n // size
    if count == 0:
        raise DataError(
            f"a batch has {size} rows and the data set {data.n}",
            remedy=f"use a batch size of at most {data.n}",
        )
    index = static_index(label, count)
    order = state(f"order of {label}", (count * size,), "int64")
    rows = take(order.reshape(count, size), index)
    x, y = (take(constant(array[: count * size]), rows) for array in (data.x, data.y))
    return IndexedBatches(index, x.named("x"), y.named("y"), order, size, count * size)

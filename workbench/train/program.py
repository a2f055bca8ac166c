"""A person's functions compiled for a run and a data set, ready to sweep over its rows.

In: a run's leaves and context, a data set, a function. Out: a `Sweep` and the arrays it writes.
Invariant: data stay where they are; only row numbers, rates and losses move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.errors import DataError
from workbench.graph.bounds import index_bounds
from workbench.graph.extent import batch, resolve_shape
from workbench.graph.leaf import input as input_leaf
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.routine import Routine
from workbench.train.accumulate import EPOCH_ENDS
from workbench.train.statistic import Statistic, Value
from workbench.train.step import StepResult
from workbench.train.sweep import Sweep, Track
from workbench.train.trace import (
    Leaves,
    chosen_rows,
    following_rows,
    rate_dtype,
    trace_forward,
    trace_metrics,
    trace_step,
)

Array = npt.NDArray[Any]


@final
@dataclass(slots=True)
class StepProgram:
    """A compiled step over a training set.

    Attributes
    ----------
    context
        With memory for parameters and optimizer state.
    routine
        The step.
    sweep
        Over the training rows.
    order
        Row numbers in the order of this epoch, int64; write it before a sweep.
    rates
        Learning rate of each batch, of the type that the parameters have; may be written during a
        sweep.
    losses
        Mean loss of each batch, as the sweep left it.
    """

    context: Context
    routine: Routine
    sweep: Sweep
    order: npt.NDArray[np.int64]
    rates: Array
    losses: Array


def compile_step(
    context: Context,
    params: Leaves,
    opt: Leaves,
    step: Callable[..., StepResult],
    train: Dataset,
    batch_size: int,
    *,
    drop_last: bool,
) -> StepProgram:
    """Return ``step`` traced, compiled and bound to the rows of ``train``.

    Raises
    ------
    DataError
        If labels or indices in the data lie outside what the step looks up, naming row and value.
    """
    size = min(batch_size, train.n)
    order = input_leaf("order", (batch,), "int64")
    lr = input_leaf("lr", (), rate_dtype(params))
    x, y = chosen_rows("x", train.x, order), chosen_rows("y", train.y, order)
    traced = trace_step(step, params, opt, x.batch, y.batch, lr)
    wanted = [traced.loss, *traced.updates.values()]
    check_indices(wanted, {x.leaf: ("x", train.x), y.leaf: ("y", train.y)})
    compiled, routine = context.compile(
        [traced.loss], updates=traced.updates, name=getattr(step, "__name__", "step"), rows=size
    )
    batches = -(-train.n // size)
    orders = np.zeros(train.n, np.int64)
    rates = np.zeros(batches, lr.dtype.numpy)
    losses = np.zeros(batches, traced.loss.dtype.numpy)
    memory = {**compiled.arrays(), x.leaf: train.x.reshape(-1), y.leaf: train.y.reshape(-1)}
    tracks = [
        Track(order, orders, by_rows=True),
        Track(lr, rates, by_rows=False),
        Track(traced.loss, losses, by_rows=False),
    ]
    if EPOCH_ENDS in set(routine.program.device):  # a tuple would compare elementwise
        ends = np.zeros(batches, np.bool_)
        ends[(train.n // size if drop_last else batches) - 1] = True
        tracks.append(Track(EPOCH_ENDS, ends, by_rows=False))
    sweep = Sweep(routine, memory, tracks, train.n, size, drop_last=drop_last)
    return StepProgram(compiled, routine, sweep, orders, rates, losses)


@final
@dataclass(slots=True)
class MetricProgram:
    """A compiled evaluation over a data set.

    Attributes
    ----------
    context
        With the parameters' memory.
    sweep
        Over the rows, in their order.
    metrics
        By name, a mean over the rows of a batch, or a statistic.
    arrays
        For each tensor of the metrics, what the batches left: an entry for each batch or each row.
    """

    context: Context
    sweep: Sweep
    metrics: dict[str, Tensor | Statistic]
    arrays: dict[Tensor, Array]

    def values(self) -> dict[str, Value]:
        """Return each metric's value over all rows, after a sweep."""
        rows = self.sweep.weights(0, self.sweep.batches)
        return {name: self._value(metric, rows) for name, metric in self.metrics.items()}

    def _value(self, metric: Tensor | Statistic, rows: npt.NDArray[np.float64]) -> Value:
        if isinstance(metric, Statistic):
            return metric.value(self.arrays, rows)
        return float(np.dot(self.arrays[metric].astype(np.float64), rows)) / float(rows.sum())


def compile_metrics(
    context: Context,
    params: Leaves,
    eval_batch: Callable[..., Mapping[str, Tensor | Statistic]],
    data: Dataset,
    batch_size: int,
) -> MetricProgram:
    """Return ``eval_batch`` traced, compiled and bound to the rows of ``data``."""
    size = min(batch_size, data.n)
    x, y = following_rows("x", data.x), following_rows("y", data.y)
    metrics = trace_metrics(eval_batch, params, x.batch, y.batch)
    wanted: list[Tensor] = []
    for metric in metrics.values():
        wanted += metric.tensors if isinstance(metric, Statistic) else [metric]
    check_indices(wanted, {x.leaf: ("x", data.x), y.leaf: ("y", data.y)})
    compiled, routine = context.compile(list(dict.fromkeys(wanted)), name="evaluate", rows=size)
    batches = -(-data.n // size)
    inputs = {x.leaf: data.x, y.leaf: data.y}
    tracks = {leaf: Track(leaf, array, by_rows=True) for leaf, array in inputs.items()}
    arrays: dict[Tensor, Array] = {}
    for node in dict.fromkeys(wanted):
        # A metric may be a view of another, or of the data themselves.
        root = routine.program.views.get(node, node)
        by_rows = bool(node.shape) and node.shape[0] == batch
        shape = (data.n if by_rows else batches, *resolve_shape(node.shape[by_rows:], None))
        if root not in tracks:
            made = np.zeros(shape, node.dtype.numpy)
            tracks[root] = Track(root, made, by_rows=by_rows)
        arrays[node] = tracks[root].array.reshape(shape)
    used = {*routine.program.device}
    moving = [track for track in tracks.values() if track.node in used]
    sweep = Sweep(routine, compiled.arrays(), moving, data.n, size)
    return MetricProgram(compiled, sweep, metrics, arrays)


def compile_forward(
    context: Context,
    params: Leaves,
    forward: Callable[..., Tensor],
    x: Array,
    batch_size: int,
) -> tuple[Sweep | None, Array]:
    """Return ``forward`` traced, compiled and bound to ``x``, and the array that a sweep fills.

    There is nothing to sweep if ``forward`` gives its rows back as they are: the array is full.
    """
    size = min(batch_size, len(x))
    rows = following_rows("x", x)
    output = trace_forward(forward, params, rows.batch)
    check_indices([output], {rows.leaf: ("x", x)})
    compiled, routine = context.compile([output], name="predict", rows=size)
    root = routine.program.views.get(output, output)
    result = np.zeros((len(x), *resolve_shape(output.shape[1:], None)), output.dtype.numpy)
    if root is rows.leaf:
        result[...] = x.reshape(result.shape)
        return None, result
    tracks = [Track(rows.leaf, x, by_rows=True), Track(root, result, by_rows=True)]
    return Sweep(routine, compiled.arrays(), tracks, len(x), size), result


def check_indices(wanted: list[Tensor], data: Mapping[Tensor, tuple[str, Array]]) -> None:
    """Check labels and indices before they enter.

    Raises
    ------
    DataError
        Naming the first row whose value is outside what the graph looks up.
    """
    for leaf, extent in index_bounds(wanted, data).items():
        name, array = data[leaf]
        flat = array.reshape(len(array), -1)
        wrong = (flat < 0) | (flat >= extent)
        if wrong.any():
            row = int(np.flatnonzero(wrong.any(axis=1))[0])
            value = flat[row][wrong[row]][0]
            raise DataError(
                f"{name}[{row}] is {value}, but the model has classes or rows 0 to {extent - 1}",
                remedy="number them from 0"
                if value < 0
                else f"correct the data, or give the model {int(flat.max()) + 1} or more of them",
            )

"""A person's functions compiled for a run and a data set, ready to sweep over its rows.

In: a run's leaves and context, a data set, a function. Out: a `Sweep` and the arrays it writes.
Invariant: data stay where they are; only row numbers, rates and losses move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.assign.from_graph import computation
from workbench.assign.rows import bytes_of_a_row, is_row_by_row
from workbench.data.dataset import Dataset
from workbench.data.stream import Rows as Batch
from workbench.data.stream import Stream
from workbench.graph.bounds import index_bounds, refuse_outside
from workbench.graph.extent import batch, resolve_shape
from workbench.graph.leaf import input as input_leaf
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.routine import Routine
from workbench.train.accumulate import EPOCH_ENDS
from workbench.train.feed import Feed
from workbench.train.last_batch import LastBatch
from workbench.train.program_fingerprint import graph_fingerprint
from workbench.train.statistic import Statistic, Value
from workbench.train.step import StepResult
from workbench.train.stream_sweep import StreamSweep
from workbench.train.sweep import Sweep, Track
from workbench.train.trace import (
    Leaves,
    TracedStep,
    chosen_rows,
    following_rows,
    rate_dtype,
    trace_forward,
    trace_metrics,
    trace_step,
)
from workbench.train.tree import paths

Array = npt.NDArray[Any]

# Enough rows for large products to be quick, and few enough for their results to be in the cache.
_MOST_ROWS: Final = 128
_WIDEST_BYTES: Final = 8 << 20


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
        Over the training rows, or over the batches of a stream.
    order
        Row numbers in the order of this epoch, int64; write it before a sweep. Empty for a stream.
    rates
        Learning rate of each batch, of the type that the parameters have; may be written during a
        sweep.
    losses
        Mean loss of each batch, as the sweep left it.
    series
        For each metric of the step its value in each batch, float32, as the sweep left it.
    weights
        The sum of the rows' weights of each batch, as the sweep left it; None if rows have none.
    fingerprint
        Of what the step computes.
    changes
        Paths of the parameters that it gives new values.
    traced
        The step as a graph.
    data
        What it reads rows of, whole: arrays of the caller's.
    last
        The batch that was run last.
    """

    context: Context
    routine: Routine
    sweep: Sweep | StreamSweep
    order: npt.NDArray[np.int64]
    rates: Array
    losses: Array
    series: dict[str, Array]
    weights: Array | None
    fingerprint: str
    changes: tuple[str, ...]
    traced: TracedStep
    data: Mapping[Tensor, Array]
    last: LastBatch

    def warnings(self) -> list[str]:
        """Return what is to be said of a step that cannot be meant as it is."""
        return [] if self.changes else ["the step changes no parameter: it gives all back as given"]

    def portions(self, first: int, stop: int) -> npt.NDArray[np.float64]:
        """Return what the batches ``first`` .. ``stop - 1``, which were run, count in a mean."""
        if self.weights is None:
            return self.sweep.weights(first, stop)
        return self.weights[first:stop].astype(np.float64)


def compile_step(
    context: Context,
    params: Leaves,
    opt: Leaves,
    step: Callable[..., StepResult],
    train: Dataset,
    batch_size: int,
    *,
    drop_last: bool,
    steps: int = 0,
    find: Callable[[str], StepProgram | None] = lambda fingerprint: None,
) -> StepProgram:
    """Return ``step`` traced, compiled and bound to the rows of ``train``.

    With ``steps`` an epoch has so many batches, all of them whole; else it is one pass. What
    ``find`` gives for the fingerprint of the traced step is returned without compiling anything.

    Raises
    ------
    DataError
        If labels or indices in the data lie outside what the step looks up, naming row and value.
    """
    size = min(batch_size, train.n)
    rows = steps * size or train.n
    batches = -(-rows // size)
    order = input_leaf("order", (batch,), "int64")
    lr = input_leaf("lr", (), rate_dtype(params))
    data = {"x": train.x, "y": train.y}
    if train.weights is not None:
        data["weights"] = train.weights
    chosen = {name: chosen_rows(name, array, order) for name, array in data.items()}
    weights = chosen["weights"].batch if "weights" in chosen else None
    traced = trace_step(step, params, opt, chosen["x"].batch, chosen["y"].batch, lr, weights)
    atoms = {rows.batch: name for name, rows in chosen.items()} | {lr: "lr"}
    fingerprint = _step_fingerprint(traced, params, opt, atoms)
    known = find(fingerprint)
    if known is not None:
        return known
    compiled, routine = _compiled(
        context, step, traced, size, {chosen[name].leaf: (name, data[name]) for name in data}
    )
    orders = np.zeros(rows, np.int64)
    rates = np.zeros(batches, lr.dtype.numpy)
    columns = Columns(routine, traced, batches)
    resident = {chosen[name].leaf: array for name, array in data.items()}
    flat = {leaf: array.reshape(-1) for leaf, array in resident.items()}
    memory = {**compiled.lend(routine), **flat}
    used = set(routine.program.device)  # a tuple would compare elementwise
    tracks = [Track(order, orders, by_rows=True), Track(lr, rates, by_rows=False), *columns.tracks]
    if EPOCH_ENDS in used:
        ends = np.zeros(batches, np.bool_)
        ends[(rows // size if drop_last else batches) - 1] = True
        tracks.append(Track(EPOCH_ENDS, ends, by_rows=False))
    sweep = Sweep(routine, memory, tracks, rows, size, drop_last=drop_last)
    made = columns.losses, columns.series, columns.weights
    told = fingerprint, _changed(traced, params), traced
    last = LastBatch(sweep.at)
    return StepProgram(compiled, routine, sweep, orders, rates, *made, *told, resident, last)


def compile_stream_step(
    context: Context,
    params: Leaves,
    opt: Leaves,
    step: Callable[..., StepResult],
    stream: Stream,
    *,
    find: Callable[[str], StepProgram | None] = lambda fingerprint: None,
) -> StepProgram:
    """Return ``step`` traced, compiled and bound to a ring of the batches of ``stream``.

    ``find`` is that of `compile_step`.

    Raises
    ------
    DataError
        If there is no first batch, or it does not fit the step.
    """
    lr = input_leaf("lr", (), rate_dtype(params))
    example = dict(zip(stream.names, stream.example, strict=True))
    inputs = {name: following_rows(name, array).leaf for name, array in example.items()}
    traced = trace_step(step, params, opt, inputs["x"], inputs["y"], lr, inputs.get("weights"))
    atoms = {leaf: name for name, leaf in inputs.items()} | {lr: "lr"}
    fingerprint = _step_fingerprint(traced, params, opt, atoms)
    known = find(fingerprint)
    if known is not None:
        return known
    wanted = [traced.loss, *traced.metrics.values(), *traced.updates.values()]
    data = {inputs[name]: (name, array) for name, array in example.items()}
    compiled, routine = _compiled(context, step, traced, stream.batch_size, data)
    bounds = index_bounds(wanted, data)

    def check(rows: Batch, epoch: int, number: int) -> None:
        named = {
            inputs[name]: (f"in batch {number} of epoch {epoch}, {name}", array)
            for name, array in zip(inputs, rows, strict=True)
        }
        refuse_outside(bounds, named)

    feed = Feed(stream, check)
    batches = stream.steps_per_epoch
    rates = np.zeros(batches, lr.dtype.numpy)
    ring_rates = np.zeros(feed.places, rates.dtype)
    whole, ring = Columns(routine, traced, batches), Columns(routine, traced, feed.places)
    given: list[tuple[Array, Array]] = [(rates, ring_rates)]
    used = set(routine.program.device)
    tracks = [Track(inputs[n], a, by_rows=True) for n, a in feed.rings.items() if inputs[n] in used]
    tracks += [Track(lr, ring_rates, by_rows=False), *ring.tracks]
    if EPOCH_ENDS in used:
        ends = np.zeros(batches, np.bool_)
        ends[-1] = True
        ring_ends = np.zeros(feed.places, np.bool_)
        given.append((ends, ring_ends))
        tracks.append(Track(EPOCH_ENDS, ring_ends, by_rows=False))
    taken = [(w.array, r.array) for w, r in zip(whole.tracks, ring.tracks, strict=True)]
    sweep = StreamSweep(routine, compiled.lend(routine), tracks, feed, given, taken)
    no_order = np.zeros(0, np.int64)
    made = whole.losses, whole.series, whole.weights
    told = fingerprint, _changed(traced, params), traced
    last = LastBatch(sweep.at)
    return StepProgram(compiled, routine, sweep, no_order, rates, *made, *told, {}, last)


def _changed(traced: TracedStep, params: Leaves) -> tuple[str, ...]:
    """Return the paths of the parameters that a step gives new values."""
    named = zip(paths(params.structure), params.tensors, strict=True)
    return tuple(path for path, leaf in named if leaf in traced.updates)


def _step_fingerprint(
    traced: TracedStep, params: Leaves, opt: Leaves, atoms: Mapping[Tensor, str]
) -> str:
    names = dict(atoms)
    for prefix, leaves in (("params", params), ("opt", opt)):
        names |= {
            leaf: f"{prefix}.{path}"
            for path, leaf in zip(paths(leaves.structure), leaves.tensors, strict=True)
        }
    outputs = {"loss": traced.loss} | {f"metric {n}": node for n, node in traced.metrics.items()}
    outputs |= {f"next {names[old]}": new for old, new in traced.updates.items()}
    return graph_fingerprint(outputs, names)


def _compiled(
    context: Context,
    step: Callable[..., StepResult],
    traced: TracedStep,
    rows: int,
    data: Mapping[Tensor, tuple[str, Array]],
) -> tuple[Context, Routine]:
    portion = [] if traced.portion is None else [traced.portion]
    outputs = list(dict.fromkeys([traced.loss, *traced.metrics.values(), *portion]))
    check_indices([*outputs, *traced.updates.values()], data)
    return context.compile(
        outputs, updates=traced.updates, name=getattr(step, "__name__", "step"), rows=rows
    )


@final
class Columns:
    """Where a step's scalars go: an entry for each batch.

    Attributes
    ----------
    tracks
        One for each different scalar.
    losses
        The loss of each batch.
    series
        Each metric of each batch.
    weights
        The sum of the rows' weights of each batch, if they have any.
    """

    def __init__(self, routine: Routine, traced: TracedStep, batches: int) -> None:
        found: dict[Tensor, Track] = {}

        def column(node: Tensor) -> Array:
            # Two scalars may be one: nodes are interned.
            root = routine.program.views.get(node, node)
            if root not in found:
                found[root] = Track(root, np.zeros(batches, node.dtype.numpy), by_rows=False)
            return found[root].array

        self.losses = column(traced.loss)
        self.series = {name: column(node) for name, node in traced.metrics.items()}
        self.weights = None if traced.portion is None else column(traced.portion)
        self.tracks = tuple(found.values())


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
    fingerprint
        Of what the evaluation computes.
    wanted
        The tensors of all metrics, in their order.
    """

    context: Context
    sweep: Sweep
    metrics: dict[str, Tensor | Statistic]
    arrays: dict[Tensor, Array]
    fingerprint: str
    wanted: tuple[Tensor, ...]

    def renamed(
        self, metrics: dict[str, Tensor | Statistic], wanted: Sequence[Tensor]
    ) -> MetricProgram:
        """Return this program for metrics that compute the same from other leaves."""
        arrays = {new: self.arrays[old] for new, old in zip(wanted, self.wanted, strict=True)}
        return replace(self, metrics=metrics, arrays=arrays, wanted=tuple(wanted))

    def values(self) -> dict[str, Value]:
        """Return each metric's value over all rows, after a sweep."""
        rows = self.sweep.weights(0, self.sweep.batches)
        return {name: self._value(metric, rows) for name, metric in self.metrics.items()}

    def _value(self, metric: Tensor | Statistic, rows: npt.NDArray[np.float64]) -> Value:
        if isinstance(metric, Statistic):
            return metric.value(self.arrays, rows)
        return float(self.arrays[metric].astype(np.float64) @ rows) / float(rows.sum())


def compile_metrics(
    context: Context,
    params: Leaves,
    eval_batch: Callable[..., Mapping[str, Tensor | Statistic]],
    data: Dataset,
    batch_size: int,
    *,
    find: Callable[[str], MetricProgram | None] = lambda fingerprint: None,
) -> MetricProgram:
    """Return ``eval_batch`` traced, compiled and bound to the rows of ``data``.

    What ``find`` gives for the fingerprint of the traced evaluation is returned as it is.
    """
    size = min(batch_size, data.n)
    named = {"x": data.x, "y": data.y}
    if data.weights is not None:
        named["weights"] = data.weights
    leaves = {name: following_rows(name, array).leaf for name, array in named.items()}
    metrics = trace_metrics(eval_batch, params, leaves["x"], leaves["y"], leaves.get("weights"))
    wanted: list[Tensor] = []
    outputs: dict[str, Tensor] = {}
    for name, metric in metrics.items():
        parts = metric.tensors if isinstance(metric, Statistic) else [metric]
        wanted += parts
        outputs |= {f"{name} {number}": part for number, part in enumerate(parts)}
    atoms = {leaf: f"params.{number}" for number, leaf in enumerate(params.tensors)}
    fingerprint = graph_fingerprint(outputs, atoms | {leaf: n for n, leaf in leaves.items()})
    known = find(fingerprint)
    if known is not None:
        # What becomes of the numbers is Python, and may have changed.
        return known.renamed(metrics, wanted)
    check_indices(wanted, {leaves[name]: (name, array) for name, array in named.items()})
    compiled, routine = context.compile(list(dict.fromkeys(wanted)), name="evaluate", rows=size)
    batches = -(-data.n // size)
    tracks = {leaves[n]: Track(leaves[n], array, by_rows=True) for n, array in named.items()}
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
    sweep = Sweep(routine, compiled.lend(routine), moving, data.n, size)
    return MetricProgram(compiled, sweep, metrics, arrays, fingerprint, tuple(wanted))


def compile_forward(
    context: Context,
    params: Leaves,
    forward: Callable[..., Tensor],
    x: Array,
    batch_size: int,
) -> tuple[Sweep | None, Array]:
    """Return ``forward`` traced, compiled and bound to ``x``, and the array that a sweep fills.

    There is nothing to sweep if ``forward`` gives its rows back as they are: the array is full.
    A ``forward`` that treats each row by itself is swept in batches that depend on the model and on
    how many rows there are, not on ``batch_size``: a product of another number of rows may be added
    up in another order.
    """
    rows = following_rows("x", x)
    output = trace_forward(forward, params, rows.batch)
    check_indices([output], {rows.leaf: ("x", x)})
    size = min(_own_batch_size(output) or batch_size, len(x))
    compiled, routine = context.compile([output], name="predict", rows=size)
    root = routine.program.views.get(output, output)
    result = np.zeros((len(x), *resolve_shape(output.shape[1:], None)), output.dtype.numpy)
    if root is rows.leaf:
        result[...] = x.reshape(result.shape)
        return None, result
    tracks = [Track(rows.leaf, x, by_rows=True), Track(root, result, by_rows=True)]
    return Sweep(routine, compiled.lend(routine), tracks, len(x), size), result


def _own_batch_size(output: Tensor) -> int | None:
    """Return the rows at once that suit ``output``; None if rows take part in each other's."""
    program = computation([output])
    if not is_row_by_row(program):
        return None
    return max(1, min(_MOST_ROWS, _WIDEST_BYTES // max(1, bytes_of_a_row(program))))


def check_indices(wanted: list[Tensor], data: Mapping[Tensor, tuple[str, Array]]) -> None:
    """Check labels and indices before they enter.

    Raises
    ------
    DataError
        Naming the first row whose value is outside what the graph looks up.
    """
    refuse_outside(index_bounds(wanted, data), data)

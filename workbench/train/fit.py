"""``fit``, ``evaluate`` and ``predict``: the loop's three entrances.

Invariant: evaluation and prediction draw no random numbers and change no parameter; the batch size
has no effect on predictions' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.data.admit import admit, floating_dtype
from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.errors import ConfigurationError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.history import History
from workbench.train.loop import evaluate_all
from workbench.train.program import compile_forward
from workbench.train.row_orders import RowOrder
from workbench.train.run import EvalBatch, Run, Step
from workbench.train.statistic import Value
from workbench.train.trace import as_leaves

Array = npt.NDArray[Any]


def fit(
    run: Run,
    callbacks: Sequence[object],
    train: Dataset | Stream,
    val: Dataset | None,
    step: Step,
    eval_batch: EvalBatch | None = None,
    *,
    row_order: RowOrder | None = None,
) -> History:
    """Train ``run`` from where it stands to its last epoch.

    Parameters
    ----------
    run
        Parameters, optimizer state and configuration; advanced in place.
    callbacks
        Objects with hooks such as ``on_epoch_end``; see `explain_order`.
    train
        The rows to learn from, or a `workbench.data.Stream` of batches.
    val
        The rows to evaluate on after every ``config.eval_every`` epochs and every
        ``config.eval_every_steps`` updates; empty for none. None is none too, or the rows that
        ``config.validation_split`` holds out of ``train``.
    step
        ``step(params, opt, x, y, lr) -> StepResult``: forward, loss, gradients and optimizer, as
        graph code. It runs once, to be traced. Where rows have weights it is
        ``step(params, opt, x, y, lr, weights)``.
    eval_batch
        ``eval_batch(params, x, y) -> {name: mean over the batch's rows}``, as graph code; without
        it nothing is evaluated. With a parameter ``weights`` it gets those of the rows, for
        `weighted_mean`.
    row_order
        ``row_order(epoch)`` gives the row numbers of an epoch, or with ``config.steps_per_epoch``
        those of each pass over the rows; by default they are shuffled by the run's seed.

    Returns
    -------
    History
        One row for each epoch.

    Notes
    -----
    The first keyboard interrupt ends the training after the batch at hand and returns: the run can
    be used and continued. The second one is raised.

    Raises
    ------
    DataError
        If the training set is empty, or a label or index in it is out of range.
    TracingError
        If the step depends on a tensor's value, or returns something else than it should.
    """
    return run.fit(callbacks, train, val, step, eval_batch, row_order=row_order)


def evaluate(
    run: Run, data: Dataset, eval_batch: EvalBatch, *, batch_size: int | None = None
) -> dict[str, Value]:
    """Return the values of ``eval_batch`` over the rows of ``data``.

    Means of batches are weighted by their rows, whatever these weigh in training; see
    `weighted_mean`. An empty data set gives an empty dict. May be called while the run trains, from
    another thread: the run waits meanwhile, between two batches.
    """
    size = _size(run.config.batch_size if batch_size is None else batch_size)
    if not data.n:
        return {}
    program = run.evaluation(data, eval_batch, size)
    with run.gate.visiting():
        return evaluate_all(program)


def predict(
    source: Run | object, x: npt.ArrayLike, batch_size: int, forward: Callable[..., Tensor]
) -> Array:
    """Return ``forward(params, x)`` for every row of ``x``, computed in batches.

    Parameters
    ----------
    source
        A run, or a tree of parameters.
    x
        Array whose first axis is the rows; may be empty.
    batch_size
        Rows at once where ``forward`` looks at several of them, such as at their mean. Where it
        treats each by itself, the rows are cut by the model's size, and this has no effect: not on
        a single bit.
    forward
        ``forward(params, x)``, as graph code.
    """
    size = _size(batch_size)
    rows = admit(x, "x", floating_dtype(None))
    run = source if isinstance(source, Run) else None
    context = Context.auto() if run is None else run.context
    leaves = as_leaves(source) if run is None else run.leaves
    if not len(rows):
        # One row of zeros tells the shape and type of a row of output.
        rows = np.zeros((1, *rows.shape[1:]), rows.dtype)
        return compile_forward(context, leaves, forward, rows, size)[1][:0]
    sweep, result = compile_forward(context, leaves, forward, rows, size)
    if sweep is not None:
        with nullcontext() if run is None else run.gate.visiting():
            sweep.run_all()
    return result


def _size(batch_size: int) -> int:
    if batch_size < 1:
        raise ConfigurationError(
            f"batch_size is {batch_size}; it is at least 1", remedy="use 1 or more"
        )
    return batch_size

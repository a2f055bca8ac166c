"""``fit``, ``evaluate`` and ``predict``: the loop's three entrances.

Invariant: evaluation and prediction draw no random numbers and change no parameter; the batch size
has no effect on predictions' rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.arguments import whole_from
from workbench.data.admit import admit, floating_dtype
from workbench.data.dataset import Dataset
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.history import History
from workbench.train.loop import evaluate_all
from workbench.train.program import compile_forward
from workbench.train.run import Run
from workbench.train.statistic import Value
from workbench.train.trace import as_leaves, rate_dtype
from workbench.train.training import EvalBatch, Training, takes_training

Array = npt.NDArray[Any]


@takes_training(Training)
def fit(run: Run, training: Training) -> History:
    """Train ``run`` from where it stands to its last epoch.

    Parameters
    ----------
    run
        Parameters, optimizer state and configuration; advanced in place.
    <those of a training>

    Returns
    -------
    History
        One row for each epoch.

    Notes
    -----
    The step is traced anew at each call unless nothing that it refers to can have changed, so that
    the cells of functions that it calls may have been run again. The first keyboard interrupt ends
    the training after the batch at hand and returns: the run can be used and continued. The second
    one is raised.

    Raises
    ------
    DataError
        If the training set is empty, or a label or index in it is out of range.
    TracingError
        If the step depends on a tensor's value, or returns something else than it should.
    """
    return run.train_now(training)


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
    run = source if isinstance(source, Run) else None
    context = Context.auto() if run is None else run.context
    leaves = as_leaves(source) if run is None else run.leaves
    # As in a data set: of the type that the parameters are computed with.
    rows = admit(x, "x", floating_dtype(rate_dtype(leaves).numpy))
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
    return whole_from("batch_size", batch_size, 1)

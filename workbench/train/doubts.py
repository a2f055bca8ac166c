"""What is said of a training before it begins: arguments that will have no effect, odd data.

In: a run and what it is to be trained on.  Out: warnings.  Invariant: nothing here changes
anything; what cannot work at all is refused elsewhere, or by `check_monitors`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.errors import ConfigurationError
from workbench.train.callback import declared, name_of
from workbench.train.callbacks.best import TRAIN_LOSS, VAL, Best
from workbench.train.program import MetricProgram
from workbench.train.reports import Report
from workbench.train.training import Training

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["check_monitors", "doubts"]


def check_monitors(callbacks: Sequence[object], evaluation: MetricProgram | None) -> None:
    """Refuse a callback that watches a metric which nobody measures.

    Raises
    ------
    ConfigurationError
        Naming the metrics that there are, and the nearest.
    """
    if evaluation is None:
        return
    # A callback may make a metric of its own, and declares it.
    own = [name for each in callbacks for name in declared(each, "writes")]
    metrics = list(evaluation.metrics)
    known = [TRAIN_LOSS, *metrics, *(VAL + name for name in metrics)]
    for callback in callbacks:
        best = getattr(callback, "best", None)
        if not isinstance(best, Best) or best.monitor in (*known, *own):
            continue
        near = difflib.get_close_matches(best.monitor, known, n=1)
        meant = f"did you mean `{near[0]}`? There are" if near else "watch one of"
        raise ConfigurationError(
            f"`{name_of(callback)}` watches `{best.monitor}`, which is not a metric of the "
            "evaluation",
            remedy=f"{meant} {', '.join((*(VAL + name for name in metrics), TRAIN_LOSS))}",
        )


def doubts(
    run: Run, training: Training, train: Dataset | Stream, val: Dataset | None
) -> Iterator[Report]:
    """Yield a warning for each thing that will not do what it seems to be meant for."""
    for text in (*_of_arguments(run, training, val), *_of_data(train, val)):
        yield Report(text, severity="warning")


def _of_arguments(run: Run, training: Training, val: Dataset | None) -> Iterator[str]:
    config, state = run.config, run.state
    if config.epochs and state.epoch >= config.epochs and not run.in_epoch:
        yield (
            f"the run has all its {config.epochs} epochs, so nothing is trained; "
            f"`run.epochs = {2 * config.epochs}` and another call train on"
        )
    rows = val is not None and val.n > 0
    if rows and training.eval_batch is None:
        yield "a validation set is given and no `eval_batch`, so nothing is evaluated"
    elif val is None and training.eval_batch is not None:
        yield "`eval_batch` is given and no validation set, so nothing is evaluated"
    elif rows and not config.eval_every_steps and not 0 < config.eval_every <= config.epochs:
        yield (
            f"eval_every is {config.eval_every} and the run has {config.epochs} epochs, so nothing "
            "is evaluated"
        )


def _of_data(train: Dataset | Stream, val: Dataset | None) -> Iterator[str]:
    for what, data in (("training", train), ("validation", val)):
        if isinstance(data, Dataset):
            for name, array in (("x", data.x), ("y", data.y)):
                yield from _not_finite(f"the {what} set", name, array)


def _not_finite(where: str, name: str, array: npt.NDArray[Any]) -> Iterator[str]:
    if array.dtype.kind != "f" or not array.size:
        return
    with np.errstate(invalid="ignore"):
        # NaN and infinity show in the extremes: quicker than to ask each.
        if np.isfinite(array.max()) and np.isfinite(array.min()):
            return
    wide = array.reshape(len(array), -1)
    for kind, wrong in (("NaN", np.isnan(wide)), ("infinite", np.isinf(wide))):
        count = int(wrong.sum())
        if count:
            rows, columns = np.flatnonzero(wrong.any(1)), np.flatnonzero(wrong.any(0))
            held = ", ".join(str(column) for column in columns[:5]) + ", ..." * (len(columns) > 5)
            place = f" of column{'s' * (len(columns) > 1)} {held}" if array.ndim > 1 else ""
            yield (
                f"{where} holds {count} {kind}: {name}{place}, in {len(rows)} "
                f"row{'s' * (len(rows) > 1)} from row {rows[0]} on"
            )

"""Where a run stands, in the numbers that a person looks at.

In: a run, at any time and from any thread. Out: one value with all of them. Invariant: looking
changes nothing of the run and waits for nothing but, where steps may be skipped, one native call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from workbench.graph.tensor import Tensor
from workbench.train.callbacks.best import Best
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.progress import validations_left
from workbench.train.callbacks.stopping import may_stop_early
from workbench.train.estimate import TimeLeft
from workbench.train.run import Run, Status
from workbench.train.trace import Leaves
from workbench.train.tree import paths

__all__ = [
    "BestSoFar",
    "RunStatus",
    "counter_of_skipped",
    "early_stopping",
    "read_status",
    "skipped_steps",
]


@final
@dataclass(frozen=True, slots=True)
class BestSoFar:
    """The best evaluation of a run.

    Attributes
    ----------
    metric, value
        What is watched, and its best value.
    epoch
        Completed epochs when it was measured.
    at
        Batches that had been run then.
    """

    metric: str
    value: float
    epoch: int
    at: int


@final
@dataclass(frozen=True, slots=True)
class RunStatus:
    """Where a run stands.

    Attributes
    ----------
    status, reason
        That of the run, and why it stopped.
    epoch, epochs
        Completed epochs, of how many.
    batch, batches
        Batches of the epoch at hand that were run, of how many; all of them between two epochs.
    done, total
        Batches of the whole run that were run, of how many.
    step
        Updates that were made.
    rate
        Updates a second; NaN while that is not known.
    left
        The time that is left; None while that is not known, and when it is over.
    lr
        The learning rate of the next batch.
    loss
        The mean over the epoch at hand, or over the last one; NaN before the first batch.
    metrics
        The values of the last evaluation.
    best
        The best evaluation, if somebody judges them.
    memory
        Bytes that the run's context and its curves hold.
    """

    status: Status
    reason: str
    epoch: int
    epochs: int
    batch: int
    batches: int
    done: int
    total: int
    step: int
    rate: float
    left: TimeLeft | None
    lr: float
    loss: float
    metrics: tuple[tuple[str, float], ...]
    best: BestSoFar | None
    memory: int

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come unless somebody trains on."""
        return self.status in ("completed", "stopped", "interrupted", "failed")


def read_status(run: Run) -> RunStatus:
    """Return where ``run`` stands."""
    state, store, config = run.state, run.store, run.config
    status = run.status
    in_epoch = run.in_epoch
    batches = state.batches
    batch = run.batches_done if in_epoch else batches if state.epoch else 0
    done = state.epoch * batches + (batch if in_epoch else 0)
    store.timing.look(
        state.global_step,
        paused_s=run.paused_s,
        is_paused=status != "running",
        validation_s=store.validation_s,
        validations=store.evaluations.at.count,
    )
    return RunStatus(
        status=status,
        reason=state.stop_reason,
        epoch=state.epoch,
        epochs=config.epochs,
        batch=batch,
        batches=batches,
        done=done,
        total=config.epochs * batches,
        step=state.global_step,
        rate=store.timing.rate if status == "running" else math.nan,
        left=_left(run, batch if in_epoch else 0) if status in ("running", "paused") else None,
        lr=state.lr,
        loss=_loss(run),
        metrics=tuple(state.val.items()),
        best=_best(run),
        memory=run.context.held_memory() + store.nbytes,
    )


def _left(run: Run, batch: int) -> TimeLeft | None:
    state, config = run.state, run.config
    batches = (config.epochs - state.epoch) * state.batches - batch
    updates = -(-batches // run.accum_steps)
    if updates <= 0:
        return None
    return run.store.timing.left(
        updates,
        validations=validations_left(run, updates),
        may_stop=may_stop_early(run.callbacks),
    )


def _loss(run: Run) -> float:
    if run.in_epoch and run.batches_done:
        return run.state.train_loss
    last = run.history.last
    return last.train_loss if last is not None else math.nan


def _judged(run: Run) -> Iterator[Best]:
    """Yield what the run's callbacks know of its best evaluation, early stopping's first."""
    callbacks = sorted(run.callbacks, key=lambda each: not isinstance(each, EarlyStopping))
    for callback in callbacks:
        best = getattr(callback, "best", None)
        if isinstance(best, Best) and best.seen:
            yield best


def _best(run: Run) -> BestSoFar | None:
    best = next(_judged(run), None)
    if best is None:
        return None
    return BestSoFar(best.monitor, best.value, best.epoch, run.store.place_of_epoch(best.epoch))


def early_stopping(run: Run) -> EarlyStopping | None:
    """Return the callback that may stop the run for lack of progress, if it has one."""
    return next((each for each in run.callbacks if isinstance(each, EarlyStopping)), None)


def skipped_steps(run: Run, counter: Tensor | None) -> int | None:
    """Return how many updates were skipped because a gradient was not finite.

    None if the optimizer skips none, and has no counter. Waits for the native call at hand, and
    the loop for this.
    """
    if counter is None:
        return None
    with run.gate.visiting():
        return int(run.context.get_values(counter))


def counter_of_skipped(leaves: Leaves) -> Tensor | None:
    """Return which part of an optimizer's state counts the skipped updates; None if none does."""
    names = (path.split(".")[-1] for path in paths(leaves.structure))
    pairs = zip(names, leaves.tensors, strict=True)
    return next((leaf for name, leaf in pairs if name == "skipped"), None)

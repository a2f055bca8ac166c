"""The training loop: epochs, batches, evaluation and hooks, in one exact order.

In: a run and what to do for a batch. Out: the run advanced. Invariant: the sequence of hooks, seeds
and updates does not depend on callbacks, on pauses, or on how the native calls were cut; the loop
may end after any batch and go on there later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.data.batch import row_order
from workbench.data.dataset import Dataset
from workbench.train.callback import Report
from workbench.train.dispatch import Dispatcher
from workbench.train.events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EvalEnd,
    Event,
    Hook,
    RunBegin,
    RunEnd,
)
from workbench.train.history import EpochRow
from workbench.train.metric import Meter, MeterSet
from workbench.train.program import MetricProgram, StepProgram
from workbench.train.report import epoch_label, text_line

if TYPE_CHECKING:
    from workbench.train.run import Run

Outcome = Literal["completed", "stopped", "interrupted", "failed"]
RowOrder = Callable[[int], npt.NDArray[np.int64]]


@final
class Loop:
    """One call of ``fit``: from where the run stands to its last epoch, or to a stop.

    Parameters
    ----------
    run
        What is trained.
    dispatcher
        The callbacks.
    program
        The compiled step over the training rows.
    evaluation
        The compiled evaluation over the validation rows, if there is one.
    train
        The training rows.
    order
        Row numbers of each epoch; by default a permutation under the run's seed.
    say
        Where reports go.
    """

    def __init__(
        self,
        run: Run,
        dispatcher: Dispatcher,
        program: StepProgram,
        evaluation: MetricProgram | None,
        train: Dataset,
        order: RowOrder | None,
        say: Callable[[Report], None],
    ) -> None:
        self.run = run
        self.dispatcher = dispatcher
        self.program = program
        self.evaluation = evaluation
        self.train = train
        self.order = order
        self.say = say
        self.paused_s = 0.0

    def __call__(self) -> Outcome:
        """Train; RUN_END is dispatched however it ends."""
        run, state = self.run, self.run.state
        state.epochs, state.rows = run.config.epochs, self.train.n
        state.batches = self.program.sweep.batches
        run.controls.attach(self.program.sweep.control)
        outcome: Outcome = "failed"
        try:
            self.tell(RunBegin(run))
            while state.epoch < run.config.epochs and not state.stop:
                if run.controls.stops_after_epoch or not self.epoch():
                    break
            if run.controls.stops_after_epoch:
                state.request_stop(run.controls.reason)
            finished = state.epoch >= run.config.epochs and not state.batch
            outcome = "interrupted" if run.interrupted else "completed" if finished else "stopped"
        finally:
            run.controls.detach()
            self.tell(RunEnd(run, outcome))
        return outcome

    def tell(self, event: Event) -> None:
        """Dispatch an event and pass on what the callbacks report."""
        for report in self.dispatcher.dispatch(event):
            self.say(report)

    def epoch(self) -> bool:
        """Run one epoch, or what is left of it; return whether it was finished."""
        run, state, program = self.run, self.run.state, self.program
        began, self.paused_s = time.monotonic(), 0.0
        index = state.epoch
        program.order[...] = self._order(index)
        if not state.batch:
            run.meter = Meter()
            state.train_loss = 0.0
            self.tell(EpochBegin(run, index))
        program.rates[...] = state.lr
        while state.batch < program.sweep.batches:
            if run.controls.is_paused:
                self._pause()
            if run.controls.stops_now:
                return False
            self._batches()
        state.train_loss = run.meter.value
        state.epoch += 1
        state.batch = 0
        evaluated = self._evaluate()
        seconds = run.carried_s + time.monotonic() - began - self.paused_s
        run.carried_s = 0.0
        val = tuple(state.val.items()) if evaluated else ()
        run.history.append(EpochRow(state.epoch, state.train_loss, state.lr, val, seconds))
        self.tell(EpochEnd(run, state.epoch, state.train_loss, evaluated, seconds))
        if run.config.verbose:
            label = epoch_label(state.epoch, run.config.epochs)
            shown = state.val.items() if len(state.val) else ()
            self.say(Report(text_line(label, loss=state.train_loss, lr=state.lr, val=shown)))
        return True

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        if self.order is not None:
            return np.asarray(self.order(epoch), np.int64)
        config = self.run.config
        return row_order(self.train.n, seed=config.seed, epoch=epoch, shuffle=config.shuffle)

    def _pause(self) -> None:
        began = time.monotonic()
        self.run.status = "paused"
        self.run.controls.wait_while_paused()
        self.run.status = "running"
        self.paused_s += time.monotonic() - began

    def _batches(self) -> None:
        """Run one batch if a callback wants to see each, else as many as fit a native call."""
        run, state, program = self.run, self.run.state, self.program
        first = state.batch
        rows = program.sweep.rows_of(first)
        by_one = self.dispatcher.wants(Hook.BATCH_BEGIN) or self.dispatcher.wants(Hook.BATCH_END)
        if by_one:
            self.tell(BatchBegin(run, first, rows))
            program.rates[first:] = state.lr
        stop = program.sweep.run(first, 1 if by_one else None)
        if stop == first:
            return
        weights = program.sweep.weights(first, stop)
        losses = program.losses[first:stop].astype(np.float64)
        run.meter.add_total(float(np.dot(losses, weights)), int(weights.sum()))
        state.batch = stop
        state.global_step += stop - first
        state.train_loss = run.meter.value
        if by_one:
            self.tell(BatchEnd(run, first, rows, float(losses[-1])))

    def _evaluate(self) -> bool:
        run, state = self.run, self.run.state
        every = run.config.eval_every
        if self.evaluation is None or not every or state.epoch % every:
            return False
        means = evaluate_all(self.evaluation)
        state.val = MeterSet()
        for name, value in means.items():
            state.val.update(name, value, 1)
        state.val_loss = state.val.value("loss")
        self.tell(EvalEnd(run, state.epoch, state.val))
        return True


def evaluate_all(program: MetricProgram) -> dict[str, float]:
    """Sweep over all rows and return the metrics' means."""
    batch = 0
    while batch < program.sweep.batches:
        batch = program.sweep.run(batch)
    return program.means()

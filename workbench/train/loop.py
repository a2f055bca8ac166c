"""The training loop: epochs, batches, evaluation and hooks, in one exact order.

In: a run and what to do for a batch. Out: the run advanced. Invariant: the sequence of hooks, seeds
and updates does not depend on callbacks, on pauses, or on how the native calls were cut; the loop
may end after any batch and go on there later.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.train.dispatch import Dispatcher
from workbench.train.epoch_row import EpochRow
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
from workbench.train.metric import Meter, MeterSet
from workbench.train.program import MetricProgram, StepProgram
from workbench.train.rates import Rates
from workbench.train.reports import Report
from workbench.train.row_orders import RowOrder, RowOrders
from workbench.train.skipping import SkippedSteps
from workbench.train.state import RunState
from workbench.train.statistic import Value

if TYPE_CHECKING:
    from workbench.train.run import Run

Outcome = Literal["completed", "stopped", "interrupted", "failed"]


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
        The training rows, or the stream that they come from.
    order
        Row numbers of each pass over them; by default a permutation under the run's seed.
    """

    def __init__(
        self,
        run: Run,
        dispatcher: Dispatcher,
        program: StepProgram,
        evaluation: MetricProgram | None,
        train: Dataset | Stream,
        order: RowOrder | None,
    ) -> None:
        self.run = run
        self.dispatcher = dispatcher
        self.program = program
        self.evaluation = evaluation
        self.train = train
        config = run.config
        self.orders = RowOrders(train.n, seed=config.seed, shuffle=config.shuffle, given=order)
        self.began = self.paused_s = 0.0
        self.rates = Rates(run, program.sweep.batches)
        self.skipped = SkippedSteps(run)
        self.window = run.accum_steps
        self.eval_every_steps = run.config.eval_every_steps if evaluation is not None else 0

    def __call__(self) -> Outcome:
        """Train; RUN_END is dispatched however it ends."""
        run, state = self.run, self.run.state
        state.epochs, state.rows = run.config.epochs, self.train.n
        state.batches = self.program.sweep.batches
        run.controls.attach(self.program.sweep.control)
        run.trainer, run.epoch_clock, run.loop = threading.get_ident(), self._spent, self
        outcome: Outcome = "failed"
        try:
            left_lr = state.lr
            self.tell(RunBegin(run))
            run.store.begin(self._batches_run())
            is_done = state.epoch >= run.config.epochs or self._is_over()
            if is_done or (self.rates.schedule is not None and run.in_epoch and run.batches_done):
                # A schedule tells of the next epoch or update: there may be none, or by the step
                # another epoch may make it.
                state.lr = left_lr
            if state.stop and state.epoch < run.config.epochs:
                run.say(_stopped(state, going_on=not self._is_over()))
            while state.epoch < run.config.epochs and not self._is_over():
                # An epoch that was left is finished where the end of the epoch was asked for.
                waits = run.in_epoch and not run.controls.stops_now
                if (run.controls.stops_after_epoch and not waits) or not self.epoch():
                    break
            if run.controls.stops_after_epoch:
                state.request_stop(run.controls.reason)
            finished = state.epoch >= run.config.epochs and not run.in_epoch
            outcome = "interrupted" if run.interrupted else "completed" if finished else "stopped"
        finally:
            run.controls.detach()
            self.program.sweep.close()
            self.orders.close()
            try:
                self.tell(RunEnd(run, outcome))
            finally:
                run.trainer = run.epoch_clock = run.loop = None
        return outcome

    def _is_over(self) -> bool:
        """Return whether a stop was asked for and is not to be waited for."""
        state = self.run.state
        return state.stop and (not self.run.in_epoch or state.stop_after == "batch")

    def _batches_run(self) -> int:
        """Return the batches that were run since the run began, in other processes too."""
        run = self.run
        done = run.batches_done if run.in_epoch else 0
        return run.state.epoch * self.program.sweep.batches + done

    def tell(self, event: Event) -> None:
        """Dispatch an event and pass on what the callbacks report."""
        for report in self.dispatcher.dispatch(event):
            self.run.say(report)
        self.rates.hold()

    def epoch(self) -> bool:
        """Run one epoch, or what is left of it; return whether it was finished."""
        run, state, program = self.run, self.run.state, self.program
        self.began, self.paused_s = time.monotonic(), 0.0
        with run.gate.running():
            program.last.keep()
        if program.order.size:
            self._write_order(program.order)
        if not run.in_epoch:
            run.in_epoch = True
            run.batches_done = state.batch = 0
            run.meter = Meter()
            run.losses = np.zeros(program.sweep.batches, program.losses.dtype)
            self._keep_series()
            state.train_loss = math.nan
            self.tell(EpochBegin(run, state.epoch))
        else:
            missing = max(0, program.sweep.batches - len(run.losses))
            run.losses = np.append(run.losses, np.zeros(missing, run.losses.dtype))
            self._keep_series()
        self.rates.fill(program)
        self.skipped.begin()
        program.sweep.open(state.epoch, run.batches_done)
        while True:
            if self._is_within_due() and not self._evaluate_within():
                return self._left()
            if run.batches_done >= self.program.sweep.batches:
                break
            if not self._goes_on():
                return self._left()
            if self.program.sweep.ready(run.batches_done):
                self._batches()
        state.train_loss = _mean_loss(run.meter)
        values: dict[str, Value] | None = None
        before = self._spent()
        if self.evaluation is not None and self._is_end_due():
            values = self._values(self.evaluation)
            if values is None:
                return self._left()
        self._finish_epoch(values, self._spent() - before)
        return True

    def _keep_series(self) -> None:
        """Make room for the step's metrics in the epoch; what was not measured is NaN."""
        run, kept = self.run, self.run.series
        run.series = {}
        for name in self.program.series:
            known = kept.get(name, np.zeros(0, np.float32))[: run.batches_done]
            run.series[name] = np.full(self.program.sweep.batches, np.nan, np.float32)
            run.series[name][: len(known)] = known

    def _is_end_due(self) -> bool:
        """Return whether the epoch at hand ends with an evaluation."""
        every = self.run.config.eval_every
        return bool(every) and (self.run.state.epoch + 1) % every == 0

    def _is_within_due(self) -> bool:
        """Return whether to evaluate before the next batch, or after the last one of an epoch.

        Not if the epoch's own evaluation comes next; and once for each update, however often the
        loop was left and taken up there.
        """
        run, every, step = self.run, self.eval_every_steps, self.run.state.global_step
        if not every or not run.batches_done or step % every or step == run.evaluated_step:
            return False
        return run.batches_done < self.program.sweep.batches or not self._is_end_due()

    @property
    def evaluates_next(self) -> bool:
        """Whether an evaluation comes between the last batch and the next one."""
        ends = self.run.batches_done >= self.program.sweep.batches
        at_end = ends and self.evaluation is not None and self._is_end_due()
        return self._is_within_due() or at_end

    def _evaluate_within(self) -> bool:
        """Evaluate in the midst of an epoch; return False if a stop came first."""
        assert self.evaluation is not None
        before = self._spent()
        values = self._values(self.evaluation)
        if values is not None:
            self._take(values, self._spent() - before)
        return values is not None

    def _goes_on(self) -> bool:
        """Wait while the run is paused; return whether the loop may begin another native call."""
        controls = self.run.controls
        if controls.has_requests:
            self._obey()
        if controls.is_paused:
            self._pause()
        state = self.run.state
        return not (controls.stops_now or (state.stop and state.stop_after == "batch"))

    def _pause(self) -> None:
        """Wait until the run may go on, and obey what else is asked for meanwhile."""
        controls, began = self.run.controls, time.monotonic()
        self.run.status = "paused"
        while controls.is_paused:
            controls.wait_in_pause()
            self._obey()
        self.run.status = "running"
        waited = time.monotonic() - began
        self.paused_s += waited
        self.run.paused_s += waited

    def _obey(self) -> None:
        """Do what other threads asked for."""
        for report in self.run.obey_requests():
            self.run.say(report)
        self.run.controls.calm()

    def swap(self, program: StepProgram, evaluation: MetricProgram | None) -> None:
        """Go on with another step, between two batches: everything else stays as it is."""
        run, before = self.run, self.program
        if evaluation is not None:
            self.evaluation = evaluation
        if program is before:
            return
        before.sweep.close()
        self.program = program
        run.controls.detach(before.sweep.control)
        run.controls.attach(program.sweep.control)
        program.order[...] = before.order
        run.losses = run.losses.astype(program.losses.dtype, copy=False)
        self._keep_series()
        self.rates.fill(program)
        self.skipped.forget()
        program.sweep.open(run.state.epoch, run.batches_done)

    def _left(self) -> bool:
        """Keep the time spent on an epoch that will be gone on with."""
        self.run.carried_s += self._spent()
        self.began, self.paused_s = time.monotonic(), 0.0
        return False

    def _spent(self) -> float:
        """Return the seconds that this call of ``fit`` has spent on the epoch, without pauses."""
        return time.monotonic() - self.began - self.paused_s

    def _values(self, program: MetricProgram) -> dict[str, Value] | None:
        """Return the metrics over the validation rows; None if a stop came first."""
        self.run.controls.attach(program.sweep.control)
        batch = 0
        while batch < program.sweep.batches:
            if not self._goes_on():
                return None
            with self.run.gate.running():
                batch = program.sweep.run(batch)
        return program.values()

    def _finish_epoch(self, values: dict[str, Value] | None, eval_s: float) -> None:
        run, state = self.run, self.run.state
        state.epoch += 1
        run.in_epoch = False
        stuck = self.skipped.judge()
        if stuck is not None:
            run.say(stuck)
        if values is not None:
            self._take(values, eval_s)
        seconds = run.carried_s + self._spent()
        run.carried_s = 0.0
        val = tuple(state.val.items()) if values is not None else ()
        rows = self.program.sweep.weights(0, self.program.sweep.batches)
        train = tuple(
            (name, float((series[: len(rows)] * rows).sum() / rows.sum()))
            for name, series in run.series.items()
        )
        run.history.append(EpochRow(state.epoch, state.train_loss, state.lr, val, seconds, train))
        run.store.end_epoch(state.epoch, state.train_loss)
        self.tell(EpochEnd(run, state.epoch, state.train_loss, values is not None, seconds))

    def _take(self, values: dict[str, Value], seconds: float) -> None:
        """Show the values of an evaluation as the run's, and tell of it."""
        run, state = self.run, self.run.state
        run.evaluated_step = run.measured_step = state.global_step
        state.unsound = self._unsound(values)
        state.val = MeterSet()
        for name, value in values.items():
            # What is no number, such as a matrix of counts, is for `evaluate` to show.
            if isinstance(value, float) or np.ndim(value) == 0:
                state.val.update(name, float(value), 1)
        state.val_loss = state.val.value("loss") if "loss" in state.val else math.nan
        run.store.evaluated(dict(state.val.items()), seconds)
        self.tell(EvalEnd(run, state.epoch, state.val, seconds))

    def _unsound(self, values: dict[str, Value]) -> str:
        """Return why an evaluation cannot be the best, whatever it measured; empty if it can."""
        run, loss = self.run, values.get("loss", 0.0)
        if not math.isfinite(run.state.train_loss):
            return f"the training loss is {run.state.train_loss}"
        if not np.isfinite(loss).all():
            return f"the loss of the evaluation is {loss}"
        if not run.resident.are_finite(run.leaves):
            return "the parameters are not finite"
        return ""

    def _write_order(self, into: npt.NDArray[np.int64]) -> None:
        """Write the rows of the epoch at hand: of one pass, or the next ones of endless passes."""
        config, epoch = self.run.config, self.run.state.epoch
        if config.steps_per_epoch:
            self.orders.write_part(epoch * len(into), into)
        else:
            self.orders.write_pass(epoch, into, go_on=epoch + 1 < config.epochs)

    def _batches(self) -> None:
        """Run some batches: one if a callback wants to see each, else what fits a native call."""
        if self.dispatcher.wants(Hook.BATCH_BEGIN) or self.dispatcher.wants(Hook.BATCH_END):
            self._one_batch()
            return
        run, sweep = self.run, self.program.sweep
        first = run.state.batch = run.batches_done
        most = self._until_evaluation(first)
        with run.gate.running():
            stop = sweep.run(first, most=most)
            self._note(first, stop)
        if stop > first:
            self.rates.show(max(0, run.state.global_step - 1))

    def _one_batch(self) -> None:
        """Run a batch between its two hooks."""
        run, state, program = self.run, self.run.state, self.program
        first = state.batch = run.batches_done
        rows = program.sweep.rows_of(first)
        self.rates.show(state.global_step)
        scheduled = state.lr
        if self.dispatcher.wants(Hook.BATCH_BEGIN):
            self.tell(BatchBegin(run, first, rows))
        if self.rates.schedule is None and state.lr != self.rates.written:
            program.rates[first:] = self.rates.written = state.lr
        elif state.lr != scheduled:
            program.rates[first] = state.lr
        with run.gate.running():
            program.sweep.run_one(first)
            self._note(first, first + 1)
        if self.dispatcher.wants(Hook.BATCH_END):
            self.tell(BatchEnd(run, first, rows, float(program.losses[first])))

    def _note(self, first: int, stop: int) -> None:
        """Take note of the batches ``first`` .. ``stop - 1``, which were run."""
        run, state, program = self.run, self.run.state, self.program
        losses, portions = program.losses[first:stop], program.portions(first, stop)
        if self.skipped.happen:
            # A step that was skipped before any other has no loss: it has no part in the mean.
            portions = np.where(np.isfinite(losses), portions, 0.0)
        if stop == first + 1:
            run.meter.update(float(losses[0]), float(portions[0]))
        else:
            run.meter.update_all(losses, portions)
        run.losses[first:stop] = losses
        reported = {name: series[first:stop] for name, series in program.series.items()}
        for name, values in reported.items():
            run.series[name][first:stop] = values
        run.store.add(losses, reported)
        if stop > first:
            program.last.ran(stop - 1)
        run.batches_done = stop
        state.batch = max(first, stop - 1)
        state.global_step += self.rates.updates(stop) - self.rates.updates(first)
        state.train_loss = _mean_loss(run.meter)

    def _until_evaluation(self, first: int) -> int | None:
        """Return the batches from ``first`` to the next evaluation within the epoch."""
        every = self.eval_every_steps
        if not every:
            return None
        updates = first // self.window + every - self.run.state.global_step % every
        return updates * self.window - first


def _stopped(state: RunState, *, going_on: bool) -> Report:
    """Return what is said of a run that was stopped before this training."""
    what = "ends after this epoch" if going_on else "trains no further"
    return Report(
        f"the run was stopped by `{state.stopped_by}` ({state.stop_reason}) and {what}; "
        "`run.resume()` before `fit` lets it go on",
        severity="warning",
    )


def _mean_loss(meter: Meter) -> float:
    """Return the mean loss of an epoch so far; NaN before a step has one."""
    return meter.value if meter.count else math.nan


def evaluate_all(program: MetricProgram) -> dict[str, Value]:
    """Sweep over all rows and return the metrics."""
    program.sweep.run_all()
    return program.values()

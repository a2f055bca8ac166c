"""The training loop: epochs, batches, evaluation and hooks, in one exact order.

In: a run and what to do for a batch. Out: the run advanced. Invariant: the sequence of hooks, seeds
and updates does not depend on callbacks, on pauses, or on how the native calls were cut; the loop
may end after any batch and go on there later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.data.batch import row_order
from workbench.data.dataset import Dataset
from workbench.errors import DataError
from workbench.train.callback import Report
from workbench.train.callbacks.schedule import PerStep
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
from workbench.train.statistic import Value

if TYPE_CHECKING:
    from workbench.train.run import Run

Outcome = Literal["completed", "stopped", "interrupted", "failed"]
RowOrder = Callable[[int], npt.ArrayLike]


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
        self.began = self.paused_s = 0.0
        self.schedule = next((c for c in run.callbacks if isinstance(c, PerStep)), None)

    def __call__(self) -> Outcome:
        """Train; RUN_END is dispatched however it ends."""
        run, state = self.run, self.run.state
        state.epochs, state.rows = run.config.epochs, self.train.n
        state.batches = self.program.sweep.batches
        run.controls.attach(self.program.sweep.control)
        run.trainer, run.epoch_clock = threading.get_ident(), self._spent
        outcome: Outcome = "failed"
        try:
            self.tell(RunBegin(run))
            while state.epoch < run.config.epochs and not state.stop:
                if run.controls.stops_after_epoch or not self.epoch():
                    break
            if run.controls.stops_after_epoch:
                state.request_stop(run.controls.reason)
            finished = state.epoch >= run.config.epochs and not run.in_epoch
            outcome = "interrupted" if run.interrupted else "completed" if finished else "stopped"
        finally:
            run.controls.detach()
            try:
                self.tell(RunEnd(run, outcome))
            finally:
                run.trainer = run.epoch_clock = None
        return outcome

    def tell(self, event: Event) -> None:
        """Dispatch an event and pass on what the callbacks report."""
        for report in self.dispatcher.dispatch(event):
            self.say(report)

    def epoch(self) -> bool:
        """Run one epoch, or what is left of it; return whether it was finished."""
        run, state, program = self.run, self.run.state, self.program
        self.began, self.paused_s = time.monotonic(), 0.0
        program.order[...] = self._order(state.epoch)
        if not run.in_epoch:
            run.in_epoch = True
            run.batches_done = state.batch = 0
            run.meter = Meter()
            run.losses = np.zeros(program.sweep.batches, program.losses.dtype)
            state.train_loss = 0.0
            self.tell(EpochBegin(run, state.epoch))
        else:
            missing = max(0, program.sweep.batches - len(run.losses))
            run.losses = np.append(run.losses, np.zeros(missing, run.losses.dtype))
        self._set_rates()
        while run.batches_done < program.sweep.batches:
            if not self._goes_on():
                return self._left()
            self._batches()
        state.train_loss = run.meter.value
        due = bool(run.config.eval_every) and (state.epoch + 1) % run.config.eval_every == 0
        values: dict[str, Value] | None = None
        before = self._spent()
        if self.evaluation is not None and due:
            values = self._values(self.evaluation)
            if values is None:
                return self._left()
        self._finish_epoch(values, self._spent() - before)
        return True

    def _goes_on(self) -> bool:
        """Wait while the run is paused; return whether the loop may begin another native call."""
        controls = self.run.controls
        if controls.is_paused:
            began = time.monotonic()
            self.run.status = "paused"
            controls.wait_while_paused()
            self.run.status = "running"
            waited = time.monotonic() - began
            self.paused_s += waited
            self.run.paused_s += waited
        return not controls.stops_now

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
        if values is not None:
            state.val = MeterSet()
            for name, value in values.items():
                # What is no number, such as a matrix of counts, is for `evaluate` to show.
                if np.ndim(value) == 0:
                    state.val.update(name, float(value), 1)
            state.val_loss = state.val.value("loss")
            self.tell(EvalEnd(run, state.epoch, state.val, eval_s))
        seconds = run.carried_s + self._spent()
        run.carried_s = 0.0
        val = tuple(state.val.items()) if values is not None else ()
        run.history.append(EpochRow(state.epoch, state.train_loss, state.lr, val, seconds))
        self.tell(EpochEnd(run, state.epoch, state.train_loss, values is not None, seconds))

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        if self.order is not None:
            return _checked_order(self.order(epoch), epoch, self.train.n)
        config = self.run.config
        return row_order(self.train.n, seed=config.seed, epoch=epoch, shuffle=config.shuffle)

    def _set_rates(self) -> None:
        """Write the learning rates of what is left of the epoch."""
        run, rates, first = self.run, self.program.rates, self.run.batches_done
        if self.schedule is None:
            rates[first:] = run.state.lr
            return
        # A batch belongs to the update that its window ends with.
        batches = self.program.sweep.batches
        done = self._updates(first)
        update = [self._updates(batch) - done for batch in range(first, batches)]
        table = self.schedule.step_rates(run.state.global_step, update[-1] + 1 if update else 0)
        rates[first:batches] = table[update]

    def _updates(self, batches: int) -> int:
        """Return the updates that the first ``batches`` batches of an epoch make.

        Under gradient accumulation a window of batches makes one, and so does what is left at the
        end of the epoch.
        """
        window = self.run.accum_steps
        cut_short = batches == self.program.sweep.batches and batches % window > 0
        return batches // window + cut_short

    def _rate(self, step: int) -> None:
        """Show the rate of an update as the run's, if a schedule by the step knows it."""
        if self.schedule is not None:
            self.run.state.lr = float(self.schedule.step_rates(step, 1)[0])

    def _batches(self) -> None:
        """Run some batches: one if a callback wants to see each, else what fits a native call."""
        run, state, sweep = self.run, self.run.state, self.program.sweep
        first = state.batch = run.batches_done
        rows = sweep.rows_of(first)
        by_one = self.dispatcher.wants(Hook.BATCH_BEGIN) or self.dispatcher.wants(Hook.BATCH_END)
        if by_one:
            self._rate(state.global_step)
            scheduled = state.lr
            self.tell(BatchBegin(run, first, rows))
            if self.schedule is None:
                self.program.rates[first:] = state.lr
            elif state.lr != scheduled:
                self.program.rates[first] = state.lr
        with run.gate.running():
            stop = sweep.run_one(first) if by_one else sweep.run(first)
            losses = self.program.losses[first:stop].astype(np.float64)
            run.meter.update_all(losses, sweep.weights(first, stop))
            run.losses[first:stop] = self.program.losses[first:stop]
            run.batches_done = stop
            state.batch = max(first, stop - 1)
            state.global_step += self._updates(stop) - self._updates(first)
            state.train_loss = run.meter.value
        if not by_one and stop > first:
            self._rate(state.global_step - 1)
        if by_one:
            self.tell(BatchEnd(run, first, rows, float(losses[-1])))


def evaluate_all(program: MetricProgram) -> dict[str, Value]:
    """Sweep over all rows and return the metrics."""
    program.sweep.run_all()
    return program.values()


def _checked_order(order: npt.ArrayLike, epoch: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the row numbers that a person gave for an epoch, one for each row of the data."""
    numbers = np.asarray(order)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise DataError(
            f"row_order({epoch}) gave {numbers.dtype} of shape {numbers.shape} for {rows} rows",
            remedy="return one row number for each row of the training set",
        )
    wrong = (numbers < 0) | (numbers >= rows)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"row_order({epoch})[{place}] is {numbers[place]}; the rows are 0 to {rows - 1}",
            remedy="return a permutation of the row numbers",
        )
    return numbers.astype(np.int64)

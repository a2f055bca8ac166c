"""A run: parameters, optimizer state and progress of one training, and the handles to steer it.

In: trees of arrays and a `Config`. Out: the same trees, trained. Invariant: what a run holds
between two batches is complete: it can be read, evaluated, continued, at any time and from any
thread.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Generator
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.errors import ConfigurationError, DataError, ExecutionError
from workbench.runtime.context import Context
from workbench.train.accumulate import AccumulatedState, accumulate
from workbench.train.background import Background, deferred_interrupts
from workbench.train.belonging import Memories, claim
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.config import Config
from workbench.train.dispatch import Dispatcher
from workbench.train.doubts import check_monitors, doubts
from workbench.train.editable import Editable
from workbench.train.editing import Editing
from workbench.train.gate import Gate
from workbench.train.history import History
from workbench.train.loop import Loop
from workbench.train.metric import Meter
from workbench.train.notebook_cell import current_cell, register_run, stop_earlier_runs
from workbench.train.program import MetricProgram
from workbench.train.reports import Report, Said, troubles
from workbench.train.resident import Resident
from workbench.train.screen import Screen
from workbench.train.skipping import mixed_state
from workbench.train.state import RunState
from workbench.train.steering import Steering
from workbench.train.step import State
from workbench.train.step_graph import StepGraph, step_graph
from workbench.train.step_version import StepHistory
from workbench.train.store import RunStore
from workbench.train.trace import Leaves
from workbench.train.training import EvalBatch, Parts, Training, takes_training

Array = npt.NDArray[Any]
Status = Literal["ready", "running", "paused", "completed", "stopped", "interrupted", "failed"]

_SETTLE_S: Final = 2.0
"""So long `wait` gives the views of a run to show its end, which is a matter of milliseconds."""


@final
class Run(Steering):
    """One training, from its first batch to its last.

    Parameters
    ----------
    params
        Tree of arrays: the parameters' initial values.
    opt
        Optimizer state, from `sgd`, `momentum` or `adam` of these parameters, or one of mixed
        precision around it. With ``config.accum_steps`` above 1 it goes into one of accumulation.
    config
        How long, in what portions and at what rate.
    context
        Where it runs; by default the best backend of this machine.

    Attributes
    ----------
    state
        Where it stands.
    history
        One row for each epoch.
    status
        ``"ready"``, ``"running"``, ``"paused"``, ``"completed"``, ``"stopped"``, ``"interrupted"``
        or ``"failed"``.
    reports
        What the loop and its callbacks reported.
    losses
        The loss of each batch of the epoch at hand, or of the last one, as far as it was run.
    series
        By name, the metrics that the step reports: float32, a value for each batch of the epoch at
        hand, or of the last one; NaN for those that were not run.
    accum_steps
        How many batches make an update.
    store
        Its curves and evaluations, for views; see `workbench.watch`.
    extras
        Plain values by name that go into checkpoints and come back, for whoever feeds the run.
    """

    def __init__(
        self, params: object, opt: State, config: Config, *, context: Context | None = None
    ) -> None:
        super().__init__()
        if config.accum_steps > 1 and not isinstance(opt, AccumulatedState):
            opt = accumulate(opt, params, config.accum_steps)
        self.config = config
        self.state = RunState.at_start(config)
        self.history = History()
        self.status: Status = "ready"
        self.reports: list[Report] = []
        # Those who are told what is reported, until the training ends.
        self.hearers: list[Callable[[Said], None]] = []
        # Who writes down what a checkpoint is going to know, before one is made.
        self.before_saving: list[Callable[[], None]] = []
        self.extras: dict[str, Any] = {}
        # Where an epoch was left, if it was: the loop's own memory between two calls of `fit`.
        self.in_epoch = False
        self.batches_done = 0
        self.meter = Meter()
        self.carried_s = 0.0
        self.losses: Array = np.zeros(0)
        self.series: dict[str, Array] = {}
        # The update after which the last evaluation was.
        self.evaluated_step = 0
        # The update whose parameters `state.val` tells of; None if it tells of others.
        self.measured_step: int | None = None
        # Why the epoch at hand is the last of the next training, if that was asked for.
        self.pending_stop: str | None = None
        self.epoch_clock: Callable[[], float] | None = None
        self.callbacks: tuple[object, ...] = ()
        # What they remember of this run while they serve another.
        self.memories = Memories()
        self.evaluates = False
        self.paused_s = 0.0
        self.restored_rows: int | None = None
        self.store = RunStore()
        self.accum_steps = opt.steps if isinstance(opt, AccumulatedState) else 1
        context = context if context is not None else Context.auto()
        self.resident = Resident(params, opt, context)
        self.parts = Parts()
        self.edits = Editing(self)
        self._background = Background()

    # -- what it holds

    @property
    def context(self) -> Context:
        """The context that holds the parameters."""
        return self.resident.context

    @property
    def gate(self) -> Gate:
        """What keeps the batches and those who look at the run apart."""
        return self.resident.gate

    @property
    def leaves(self) -> Leaves:
        """The parameters as leaves of the graphs that this run traces."""
        return self.resident.params

    @property
    def opt_leaves(self) -> Leaves:
        """The optimizer state as leaves of the graphs that this run traces."""
        return self.resident.opt

    @property
    def params(self) -> Any:
        """The parameters as a tree of arrays, copied out of the engine; may be assigned."""
        return self.resident.read(self.leaves)

    @params.setter
    def params(self, tree: object) -> None:
        self.resident.write(self.leaves, tree, "the parameters assigned")
        self.measured_step = None

    @property
    def opt(self) -> Any:
        """The optimizer state with arrays, copied out of the engine; may be assigned."""
        return self.resident.read(self.opt_leaves)

    @opt.setter
    def opt(self, tree: State) -> None:
        self.resident.write(self.opt_leaves, tree, "the optimizer state assigned")

    def load(self, params: object, opt: object) -> None:
        """Take over parameters and optimizer state, its hyper-parameters included.

        Parameters
        ----------
        params, opt
            Trees of arrays of the shapes and types that the run has.
        """
        self.accum_steps = opt.steps if isinstance(opt, AccumulatedState) else 1
        self.resident.load(params, opt)
        if self.edits.in_force is not None:
            with self.gate.visiting():
                self.edits.in_force.last.forget()

    @property
    def skips_steps(self) -> bool:
        """Whether its optimizer skips steps whose gradients are not finite, as in float16."""
        return mixed_state(self.opt_leaves) is not None

    # -- what it computes, editable while it goes on

    @property
    def step(self) -> Editable:
        """The step: ``@run.step`` before a function, in a cell that may be run again."""
        return Editable(self.edits, "step")

    @property
    def loss(self) -> Editable:
        """The loss that the step learns: ``@run.loss`` before ``loss(params, x, y)``."""
        return Editable(self.edits, "loss")

    @property
    def optimizer(self) -> Editable:
        """The optimizer: ``run.optimizer(wb.adam)``, or ``@run.optimizer`` before a function."""
        return Editable(self.edits, "optimizer")

    @property
    def schedule(self) -> Editable:
        """The rate of each update: ``@run.schedule`` before ``schedule(step)``."""
        return Editable(self.edits, "schedule")

    @property
    def step_history(self) -> StepHistory:
        """All versions of step, loss, optimizer and schedule, the first one first."""
        return self.edits.history

    def step_graph(self) -> StepGraph:
        """Return the graph of the step in force, with its values as they are now, copied.

        May be asked for from any thread, while the run goes on too: the loop waits between two
        batches for as long as the copies take. No bit of the run depends on it.

        Raises
        ------
        ConfigurationError
            If no step was compiled yet.
        ExecutionError
            If the run's memory was released, or cannot be trusted after a failure.
        """
        return step_graph(self)

    # -- training

    def train_now(self, training: Training) -> History:
        """Train here and now; see `workbench.fit`."""
        screen = Screen(sys.stdout)
        self._begin()
        self.hearers.append(lambda said: screen.show(said.report))
        restore = deferred_interrupts(self._interrupt_once)
        try:
            self._train(self._prepare(training))
        finally:
            restore()
            self._finish()
            screen.close()
        return self.history

    @takes_training(Training)
    def start(self, training: Training) -> Run:
        """Train in a background thread and return at once.

        What is wrong with the arguments is raised here; what goes wrong later is raised by `wait`.
        Nothing is printed: reports are in `reports`, epochs in `history`. When a notebook's cell is
        run again, the runs that it started before are stopped first, this one included.

        Parameters
        ----------
        <those of a training>

        Returns
        -------
        Run
            This run.
        """
        cell = current_cell()
        if cell is not None:
            stop_earlier_runs(cell)
            register_run(cell, self)
        self._begin()
        try:
            loop = self._prepare(training)
        except BaseException:  # an interrupt, too, gives the place back
            self._finish()
            raise
        self.status = "running"
        self._background.start(lambda: self._train(loop), self._finish)
        return self

    def stop_for_good(self, reason: str) -> None:
        """Stop after the batch at hand, and wait until that is done."""
        if self.is_training:
            self.controls.request_stop("batch", reason)
            self._background.wait(None, self.interrupt)

    def _begin(self) -> None:
        self._background.begin()
        self.interrupted = False
        self.controls.clear()
        self.controls.resume()
        if not self.state.stopped_by:
            self.state.forget_stop()
        if self.pending_stop is not None:
            self.controls.request_stop("epoch", self.pending_stop)
            self.pending_stop = None

    def _train(self, loop: Loop) -> None:
        self.status = "running"
        try:
            self.status = loop()
        except BaseException:  # an interrupt of `fit`, too, ends here
            self.status = "failed"
            raise

    def _finish(self) -> None:
        self.controls.clear()
        self._background.end()
        # What was asked for too late for the loop.
        self.obey_idle()
        self.hearers.clear()
        self.before_saving.clear()

    def _interrupt_once(self) -> bool:
        """Take the first keyboard interrupt as a stop after this batch; the second is raised."""
        if self.interrupted:
            return True
        self.interrupt()
        return False

    def _prepare(self, training: Training) -> Loop:
        config = self.config
        training.check(config)
        callbacks = training.callbacks
        logs = any(isinstance(callback, MetricLog) for callback in callbacks)
        added = [] if logs or not config.verbose else [MetricLog()]
        dispatcher = Dispatcher([*callbacks, *added])
        train, val = self.parts.of(training, config)
        if 1 < config.accum_steps != self.accum_steps:
            raise ConfigurationError(
                f"accum_steps is {config.accum_steps}, and the run was made to accumulate "
                f"{self.accum_steps}",
                remedy="make another run: the sums of a window belong to its optimizer state",
            )
        if config.drop_last and not config.steps_per_epoch and train.n < config.batch_size:
            raise DataError(
                f"drop_last leaves nothing: {train.n} rows make no batch of {config.batch_size}",
                remedy="use a smaller batch size, or drop_last=False",
            )
        began_over = self.restored_rows or (self.state.rows if self.in_epoch else train.n)
        if train.n != began_over:
            raise DataError(
                f"the run stands in training over {began_over} rows, and this data set has "
                f"{train.n}",
                remedy="go on with the rows that it was trained on, or make another run",
            )
        reused = claim(self, callbacks)
        self.callbacks = tuple(callbacks)
        program, evaluation = self.edits.begin(training)
        check_monitors(callbacks, evaluation)
        self.restored_rows = None
        self.evaluates = evaluation is not None
        for report in (*reused, *self.settle_rate()):
            self.say(report)
        for warning in program.warnings():
            self.say(Report(warning, severity="warning"))
        for report in doubts(self, training, train, val):
            self.say(report)
        return Loop(self, dispatcher, program, evaluation, train, training.row_order)

    def say(self, report: Report) -> None:
        """Keep a report, and tell those who hear; one in place takes the place of the last one."""
        if report.in_place and self.reports and self.reports[-1].in_place:
            self.reports.pop()
        self.reports.append(report)
        said = Said(report, self.store.done, self.state.global_step, self.state.epoch)
        if not report.in_place:
            self.store.said(said)
        for hear in tuple(self.hearers):
            hear(said)

    def evaluation(self, data: Dataset, eval_batch: EvalBatch, batch_size: int) -> MetricProgram:
        """Return the evaluation compiled for ``data``, kept for the next time."""
        return self.edits.programs.evaluation(data, eval_batch, batch_size, self.leaves)

    # -- waiting

    @property
    def is_training(self) -> bool:
        """Whether the loop is at work, or paused."""
        return self._background.is_busy

    def wait(self, timeout_s: float | None = None) -> History:
        """Wait until the run ends, raise what went wrong in it, and return its history.

        An interrupt while waiting stops the run after its batch.

        Raises
        ------
        TimeoutError
            If it goes on after ``timeout_s`` seconds.
        """
        self._background.wait(timeout_s, self.interrupt)
        self.store.settle(_SETTLE_S)
        self._background.raise_fault()
        return self.history

    def __await__(self) -> Generator[Any, None, History]:
        """Wait without blocking the event loop, so that widgets stay alive: ``await run``.

        To be cancelled while waiting, as by an interrupt of the cell, stops the run after its
        batch; ``asyncio.shield(run)`` does not.
        """

        async def until_done() -> History:
            await self._background.until_done(self.interrupt)
            return self.wait()

        return until_done().__await__()

    # -- showing

    def __repr__(self) -> str:
        s = self.state
        # An epoch that has just begun has no loss yet: the one before it has.
        rows = self.history.rows
        loss = s.train_loss
        if self.in_epoch and not self.batches_done and rows:
            loss = rows[-1].train_loss
        shown = f"loss {loss:.4f}, " if self.batches_done or rows else ""
        wrong = troubles(self.reports)
        return (
            f"<Run {self.status}: epoch {s.epoch}/{self.config.epochs}, step {s.global_step}, "
            f"{shown}lr {s.lr:.6f}{', ' if wrong else ''}{wrong}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.history.html()}"

    def __getstate__(self) -> dict[str, Any]:
        raise ExecutionError(
            "a run holds memory of the engine and a thread, so it cannot be pickled",
            remedy="save `run.params` and `run.opt`",
        )

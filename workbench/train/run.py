"""A run: parameters, optimizer state and progress of one training, and the handles to steer it.

In: trees of arrays and a `Config`. Out: the same trees, trained. Invariant: what a run holds
between two batches is complete: it can be read, evaluated, continued, at any time and from any
thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import html
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, final

import numpy as np
import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.data.partition import split
from workbench.data.stream import Stream
from workbench.errors import ConfigurationError, DataError, ExecutionError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.accumulate import AccumulatedState, accumulate
from workbench.train.callback import Report
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.config import Config
from workbench.train.controls import After, Controls
from workbench.train.dispatch import Dispatcher
from workbench.train.gate import Gate
from workbench.train.history import History
from workbench.train.loop import Loop
from workbench.train.metric import Meter
from workbench.train.program import (
    MetricProgram,
    StepProgram,
    compile_metrics,
    compile_step,
    compile_stream_step,
)
from workbench.train.row_orders import RowOrder
from workbench.train.screen import Screen
from workbench.train.state import RunState
from workbench.train.statistic import Statistic
from workbench.train.step import State, StepResult
from workbench.train.store import RunStore
from workbench.train.trace import Leaves, as_leaves
from workbench.train.tree import flatten, require_same, unflatten

Array = npt.NDArray[Any]
Status = Literal["ready", "running", "paused", "completed", "stopped", "interrupted", "failed"]
Step = Callable[..., StepResult]
EvalBatch = Callable[..., Mapping[str, Tensor | Statistic]]

Key = tuple[object, ...]
P = TypeVar("P")

_POLL_S: Final = 0.1
_SETTLE_S: Final = 2.0
"""So long `wait` gives the views of a run to show its end, which is a matter of milliseconds."""
_KEPT: Final = 8
"""So many compiled steps, and evaluations, are kept: a person goes back and forth between a few."""


@final
class Run:
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
        if config.accum_steps > 1 and not isinstance(opt, AccumulatedState):
            opt = accumulate(opt, params, config.accum_steps)
        self.config = config
        self.state = RunState.at_start(config)
        self.history = History()
        self.controls = Controls()
        self.status: Status = "ready"
        self.reports: list[Report] = []
        self.interrupted = False
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
        self.epoch_clock: Callable[[], float] | None = None
        self.trainer: int | None = None
        self.callbacks: tuple[object, ...] = ()
        self.evaluates = False
        self.paused_s = 0.0
        self.restored_rows: int | None = None
        self.gate = Gate()
        self.store = RunStore()
        self._params = as_leaves(params)
        self._opt = as_leaves(opt, "opt.")
        self.accum_steps = opt.steps if isinstance(opt, AccumulatedState) else 1
        self._context = context if context is not None else Context.auto()
        self._steps: dict[tuple[object, ...], StepProgram] = {}
        self._evaluations: dict[tuple[object, ...], MetricProgram] = {}
        self._program: StepProgram | None = None
        self._split: tuple[Key, tuple[Dataset, Dataset]] | None = None
        self._thread: threading.Thread | None = None
        self._done = threading.Event()
        self._done.set()
        self._fault: BaseException | None = None

    # -- what it holds

    @property
    def context(self) -> Context:
        """The context that holds the parameters."""
        return self._context

    @property
    def leaves(self) -> Leaves:
        """The parameters as leaves of the graphs that this run traces."""
        return self._params

    @property
    def opt_leaves(self) -> Leaves:
        """The optimizer state as leaves of the graphs that this run traces."""
        return self._opt

    def _read(self, leaves: Sequence[Tensor]) -> list[Array]:
        with self.gate.visiting():
            return [self._context.get_values(leaf) for leaf in leaves]

    @property
    def params(self) -> Any:
        """The parameters as a tree of arrays, copied out of the engine; may be assigned."""
        return unflatten(self._params.structure, self._read(self._params.tensors))

    @params.setter
    def params(self, tree: object) -> None:
        self._write(self._params.structure, self._params.tensors, tree, "the parameters assigned")

    @property
    def opt(self) -> Any:
        """The optimizer state with arrays, copied out of the engine; may be assigned."""
        state: State = unflatten(self._opt.structure, self._read(self._opt.tensors))
        return state

    @opt.setter
    def opt(self, tree: State) -> None:
        self._write(self._opt.structure, self._opt.tensors, tree, "the optimizer state assigned")

    def _write(self, structure: Any, tensors: Sequence[Tensor], tree: object, what: str) -> None:
        leaves, found = flatten(tree)
        require_same(structure, found, what=what)
        # Compiled steps hold the buffers' addresses, and those stay: shapes cannot change.
        values = dict(zip(tensors, leaves, strict=True))
        with self.gate.visiting():
            self._context = self._context.set_values(values)

    def load(self, params: object, opt: object) -> None:
        """Take over parameters and optimizer state, its hyper-parameters included.

        Parameters
        ----------
        params, opt
            Trees of arrays of the shapes and types that the run has.
        """
        self.accum_steps = opt.steps if isinstance(opt, AccumulatedState) else 1
        tensors = (*self._params.tensors, *self._opt.tensors)
        if not any(tensor in self._context.buffers for tensor in tensors):
            # Nothing was compiled: as initial values they get their places in memory together.
            self._params, self._opt = as_leaves(params), as_leaves(opt, "opt.")
            return
        leaves, structure = flatten(opt)
        if structure != self._opt.structure:
            # Compiled steps hold the hyper-parameters as constants.
            self._opt = Leaves(structure, self._opt.tensors)
            self._steps.clear()
            self._program = None
        self.params = params
        self.opt = unflatten(structure, leaves)

    @property
    def lr(self) -> float:
        """The learning rate of the next batch; may be assigned while the run goes on."""
        return self.state.lr

    @lr.setter
    def lr(self, rate: float) -> None:
        if not 0.0 <= rate < float("inf"):
            raise ConfigurationError(
                f"lr is {rate}; it is finite and not negative", remedy="pass a number such as 0.01"
            )
        self.state.lr = float(rate)
        if self._program is not None:
            self._program.rates[...] = rate

    # -- training

    def fit(
        self,
        callbacks: Sequence[object],
        train: Dataset | Stream,
        val: Dataset | None,
        step: Step,
        eval_batch: EvalBatch | None = None,
        *,
        row_order: RowOrder | None = None,
    ) -> History:
        """Train here and now; see `workbench.fit`."""
        screen = Screen(sys.stdout)
        self._begin()
        restore = self._defer_interrupts()
        try:
            loop = self._prepare(callbacks, train, val, step, eval_batch, row_order, screen.show)
            self._train(loop)
        finally:
            screen.close()
            restore()
            self._finish()
        return self.history

    def start(
        self,
        callbacks: Sequence[object],
        train: Dataset | Stream,
        val: Dataset | None,
        step: Step,
        eval_batch: EvalBatch | None = None,
        *,
        row_order: RowOrder | None = None,
    ) -> Run:
        """Train in a background thread and return at once; parameters are those of `workbench.fit`.

        What is wrong with the arguments is raised here; what goes wrong later is raised by `wait`.
        Nothing is printed: reports are in `reports`, epochs in `history`.
        """
        self._begin()
        try:
            loop = self._prepare(callbacks, train, val, step, eval_batch, row_order, lambda _: None)
        except BaseException:
            self._finish()
            raise
        self.status = "running"

        def train_in_background() -> None:
            try:
                self._train(loop)
            except BaseException as fault:  # noqa: BLE001 - kept for the thread that waits
                self._fault = fault
            finally:
                self._finish()

        # What is compiled there has the settings in force here.
        inside = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=inside, args=(train_in_background,), name="wb-train", daemon=True
        )
        self._thread.start()
        return self

    def _begin(self) -> None:
        if not self._done.is_set():
            raise ExecutionError(
                "the run is training already",
                remedy="call `run.stop()` and `run.wait()` first, or make another Run",
            )
        self._done.clear()
        self._fault = None
        self.interrupted = False
        self.controls.clear()
        self.controls.resume()
        self.state.stop, self.state.stop_reason = False, ""

    def _train(self, loop: Loop) -> None:
        self.status = "running"
        try:
            self.status = loop()
        except BaseException:
            self.status = "failed"
            raise

    def _finish(self) -> None:
        self.controls.clear()
        self._done.set()

    def _prepare(
        self,
        callbacks: Sequence[object],
        train: Dataset | Stream,
        val: Dataset | None,
        step: Step,
        eval_batch: EvalBatch | None,
        row_order: RowOrder | None,
        show: Callable[[Report], None],
    ) -> Loop:
        config = self.config
        logs = any(isinstance(callback, MetricLog) for callback in callbacks)
        added = [] if logs or not config.verbose else [MetricLog()]
        dispatcher = Dispatcher([*callbacks, *added])
        if val is not None:
            _require_dataset("validation", val)
        if isinstance(train, Stream):
            self._check_stream(train, val, row_order)
        else:
            _require_dataset("training", train)
            if train.n == 0:
                raise DataError("the training set is empty", remedy="give it at least one row")
            if val is None and config.validation_split:
                train, val = self._parts(train)
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
        self.restored_rows, self.callbacks = None, tuple(callbacks)
        key = (step, train, config.batch_size, config.drop_last, config.steps_per_epoch)
        if key not in self._steps:
            self._steps[key] = self._compiled(step, train)
            self._context = self._steps[key].context
        self._program = _latest(self._steps, key)
        evaluation = None
        evaluates = config.eval_every or config.eval_every_steps
        if val is not None and val.n and eval_batch is not None and evaluates:
            evaluation = self.evaluation(val, eval_batch, config.batch_size)
        self.evaluates = evaluation is not None

        def say(report: Report) -> None:
            if report.in_place and self.reports and self.reports[-1].in_place:
                self.reports.pop()
            self.reports.append(report)
            show(report)

        for what, data in (("training", train), ("validation", val)):
            missing = data.nan_count if isinstance(data, Dataset) else 0
            if missing:
                say(Report(f"the {what} set holds {missing} NaN"))
        return Loop(self, dispatcher, self._program, evaluation, train, row_order, say)

    def _compiled(self, step: Step, train: Dataset | Stream) -> StepProgram:
        held = self._context, self._params, self._opt
        if isinstance(train, Stream):
            return compile_stream_step(*held, step, train)
        config = self.config
        return compile_step(
            *held,
            step,
            train,
            config.batch_size,
            drop_last=config.drop_last,
            steps=config.steps_per_epoch,
        )

    def _parts(self, train: Dataset) -> tuple[Dataset, Dataset]:
        """Return the rows to train on and those held out, the same objects each time."""
        config = self.config
        key = (train, config.validation_split, config.seed)
        if self._split is None or self._split[0] != key:
            self._split = key, split(train, 1.0 - config.validation_split, seed=config.seed)
        return self._split[1]

    def _check_stream(
        self, stream: Stream, val: Dataset | None, row_order: RowOrder | None
    ) -> None:
        """Refuse settings that a stream of batches has no use for.

        Raises
        ------
        ConfigurationError
            Naming the first of them.
        """
        config = self.config
        if config.batch_size != stream.batch_size:
            raise ConfigurationError(
                f"batch_size is {config.batch_size}, and the stream's batches have "
                f"{stream.batch_size} rows",
                remedy="give both the same number",
            )
        if config.steps_per_epoch not in (0, stream.steps_per_epoch):
            raise ConfigurationError(
                f"steps_per_epoch is {config.steps_per_epoch}, and the stream has "
                f"{stream.steps_per_epoch}",
                remedy="leave it out of the Config, the stream knows it",
            )
        if config.validation_split and val is None:
            raise ConfigurationError(
                f"validation_split is {config.validation_split}, and a stream cannot be split",
                remedy="pass a validation set",
            )
        if row_order is not None:
            raise ConfigurationError(
                "row_order is given, and a stream has an order of its own",
                remedy="let `batches(epoch, start)` yield the rows in the order that is wanted",
            )

    def evaluation(self, data: Dataset, eval_batch: EvalBatch, batch_size: int) -> MetricProgram:
        """Return the evaluation compiled for ``data``, kept for the next time."""
        key = (eval_batch, data, batch_size)
        if key not in self._evaluations:
            made = compile_metrics(self._context, self._params, eval_batch, data, batch_size)
            self._context = made.context
            self._evaluations[key] = made
        return _latest(self._evaluations, key)

    def _defer_interrupts(self) -> Callable[[], None]:
        """Turn the first keyboard interrupt into a stop after this batch; return what undoes that.

        Only the main thread gets interrupts. The second one is raised as usual.
        """
        if threading.current_thread() is not threading.main_thread():
            return lambda: None
        before = signal.getsignal(signal.SIGINT)
        if before is None:
            return lambda: None

        def on_interrupt(number: int, frame: object) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupt()

        signal.signal(signal.SIGINT, on_interrupt)
        return lambda: _restore(before)

    def interrupt(self) -> None:
        """Stop after this batch because of a keyboard or kernel interrupt."""
        self.interrupted = True
        self.controls.request_stop("batch", "interrupted from the keyboard")

    # -- steering, from any thread

    def stop(self, *, after: After = "batch", reason: str = "stopped by request") -> None:
        """Ask the run to end after this batch or this epoch; it can be continued later."""
        self.controls.request_stop(after, reason)

    def pause(self) -> None:
        """Ask the run to wait after this batch."""
        self.controls.pause()

    def resume(self) -> None:
        """Let a paused run go on."""
        self.controls.resume()

    @property
    def is_training(self) -> bool:
        """Whether the loop is at work, or paused."""
        return not self._done.is_set()

    def wait(self, timeout_s: float | None = None) -> History:
        """Wait until the run ends, raise what went wrong in it, and return its history.

        An interrupt while waiting stops the run after its batch.

        Raises
        ------
        TimeoutError
            If it goes on after ``timeout_s`` seconds.
        """
        waited = 0.0
        try:
            # Short waits on an event: unlike `Thread.join`, an interrupt leaves this consistent.
            while not self._done.wait(_POLL_S):
                waited += _POLL_S
                if timeout_s is not None and waited >= timeout_s:
                    raise TimeoutError(f"the run still trains after {timeout_s} s")
        except KeyboardInterrupt:
            self.interrupt()
            self._done.wait()
        self.store.settle(_SETTLE_S)
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        return self.history

    def __await__(self) -> Generator[Any, None, History]:
        """Wait without blocking the event loop, so that widgets stay alive: ``await run``."""

        async def until_done() -> History:
            while not self._done.is_set():
                await asyncio.sleep(0.02)
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
        return (
            f"<Run {self.status}: epoch {s.epoch}/{self.config.epochs}, step {s.global_step}, "
            f"{shown}lr {s.lr:.6f}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.history.html()}"

    def __getstate__(self) -> dict[str, Any]:
        raise ExecutionError(
            "a run holds memory of the engine and a thread, so it cannot be pickled",
            remedy="save `run.params` and `run.opt`",
        )


def _require_dataset(what: str, data: object) -> None:
    if not isinstance(data, Dataset):
        raise DataError(
            f"the {what} set is a `{type(data).__name__}`, not a Dataset",
            remedy="pass `wb.data.Dataset(x, y)`",
        )


def _latest(programs: dict[Key, P], key: Key) -> P:
    """Return a program, which comes last from now on; the one unused for longest may be dropped."""
    program = programs[key] = programs.pop(key)
    if len(programs) > _KEPT:
        del programs[next(iter(programs))]
    return program


def _restore(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)

"""A run on paper: the order of events of the loop, with losses that a test chooses."""

from dataclasses import dataclass, field
from typing import Any

from workbench.train.config import Config
from workbench.train.dispatch import Dispatcher
from workbench.train.events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EvalEnd,
    Hook,
    RunBegin,
    RunEnd,
)
from workbench.train.metric import MeterSet
from workbench.train.reports import Report
from workbench.train.state import RunState


@dataclass
class PaperRun:
    """A run without an engine; its parameters are what a test says they are."""

    config: Config
    state: RunState
    params: Any = None
    opt: Any = None
    paused_s: float = 0.0
    evaluates: bool = False
    accum_steps: int = 1
    skips_steps: bool = False
    series: dict[str, Any] = field(default_factory=dict)
    callbacks: tuple[object, ...] = ()
    stops: list[tuple[str, str]] = field(default_factory=list)

    def stop(self, *, after="batch", reason="stopped by request"):
        self.stops.append((after, reason))


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def move(self, seconds):
        self.now += seconds


class Paper:
    """Callbacks in a run whose epochs a test writes."""

    def __init__(self, callbacks, config=None, *, batches=3, rows=10):
        self.config = config or Config(20, 4, 0.1, 0)
        # A test may put a run of its own in its place.
        self.run: Any = PaperRun(self.config, RunState.at_start(self.config))
        self.state = self.run.state
        self.dispatcher = Dispatcher(callbacks)
        self.batches, self.rows = batches, rows
        self.said: list[Report] = []
        self.rates: list[float] = []

    @property
    def texts(self):
        """What was reported, as text."""
        return [report.text for report in self.said]

    def tell(self, event):
        self.said += self.dispatcher.dispatch(event)

    def begin(self):
        self.state.epochs, self.state.rows = self.run.config.epochs, self.rows
        self.state.batches = self.batches
        self.tell(RunBegin(self.run))
        return self

    def epoch(self, loss=1.0, *, losses=None, val=None, seconds=0.0, during=None):
        """Run an epoch; ``val`` are the metrics of its evaluation, if there is one."""
        state = self.state
        state.train_loss = 0.0
        self.tell(EpochBegin(self.run, state.epoch))
        self.rates.append(state.lr)
        for batch in range(self.batches):
            self.batch(batch, losses[batch] if losses else loss, during)
        state.train_loss, state.epoch = loss, state.epoch + 1
        if val is not None:
            self.evaluate(**val)
        self.tell(EpochEnd(self.run, state.epoch, loss, val is not None, seconds))
        return self

    def batch(self, batch, loss, during=None):
        state = self.state
        if self.dispatcher.wants(Hook.BATCH_BEGIN):
            self.tell(BatchBegin(self.run, batch, 4))
        if during is not None:
            during()
        state.batch, state.global_step, state.train_loss = batch, state.global_step + 1, loss
        if self.dispatcher.wants(Hook.BATCH_END):
            self.tell(BatchEnd(self.run, batch, 4, loss))

    def evaluate(self, **metrics):
        """Evaluate, within an epoch or at its end."""
        state = self.state
        state.val = MeterSet()
        for name, value in metrics.items():
            state.val.update(name, value, 1)
        state.val_loss = state.val.value("loss")
        self.tell(EvalEnd(self.run, state.epoch, state.val))

    def end(self, outcome: Any = "completed"):
        self.tell(RunEnd(self.run, outcome))
        return self

    def resumed(self, callbacks, config=None):
        """Return a run that goes on where this one stands, with other callbacks."""
        other = Paper(callbacks, config or self.config, batches=self.batches, rows=self.rows)
        for name in ("epoch", "global_step", "lr", "train_loss", "val_loss"):
            setattr(other.state, name, getattr(self.state, name))
        return other

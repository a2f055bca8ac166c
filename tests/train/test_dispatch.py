import dataclasses

import pytest

from workbench.errors import ConfigurationError
from workbench.train.callback import Callback
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


@dataclasses.dataclass
class PaperRun:
    """A run without an engine."""

    config: Config
    state: RunState
    params: object = None
    opt: object = None


@pytest.fixture
def run():
    config = Config(2, 4, 0.1, 0)
    return PaperRun(config, RunState.at_start(config))


class Saying(Callback):
    """Says its name after an epoch and notes that it was called."""

    def __init__(self, name, band, calls):
        self.name, self.band, self.calls = name, band, calls

    def on_epoch_end(self, event):
        self.calls.append(self.name)
        return self.name


class Broken(Callback):
    band = 20

    def on_epoch_begin(self, event):
        raise ValueError("no such file")

    def on_epoch_end(self, event):
        return "still here"


def test_callbacks_run_in_the_hooks_order_and_report_by_ascending_band(run):
    calls = []
    callbacks = [Saying("log", 40, calls), Saying("rate", 10, calls), Saying("bar", 50, calls)]
    reports = Dispatcher(callbacks).dispatch(EpochEnd(run, 1, 0.5, True, 0.1))
    assert calls == ["bar", "log", "rate"]
    assert [report.text for report in reports] == ["rate", "log", "bar"]


def test_reports_of_one_band_keep_the_order_of_the_list(run):
    callbacks = [Saying("first", 40, []), Saying("second", 40, [])]
    reports = Dispatcher(callbacks).dispatch(EpochEnd(run, 1, 0.5, True, 0.1))
    assert [report.text for report in reports] == ["first", "second"]


def test_what_a_callback_writes_to_the_state_is_seen_by_the_next_and_by_the_run(run):
    class Rate(Callback):
        band = 10
        writes = ("lr",)

        def on_batch_begin(self, event):
            event.state.lr = 0.25

    class Log(Callback):
        def on_batch_begin(self, event):
            return f"lr {event.state.lr}"

    reports = Dispatcher([Log(), Rate()]).dispatch(BatchBegin(run, 0, 4))
    assert reports == (Report("lr 0.25"),)
    assert run.state.lr == 0.25


def test_every_event_goes_to_the_hook_of_its_name(run):
    heard = []
    methods = {
        hook.method: lambda self, event, name=hook.name: heard.append((name, event.hook))
        for hook in Hook
    }
    dispatcher = Dispatcher([type("Ear", (Callback,), methods)()])
    for event in (
        RunBegin(run),
        EpochBegin(run, 0),
        BatchBegin(run, 0, 4),
        BatchEnd(run, 0, 4, 0.5),
        EvalEnd(run, 1, MeterSet()),
        EpochEnd(run, 1, 0.5, True, 0.1),
        RunEnd(run, "completed"),
    ):
        dispatcher.dispatch(event)
    assert heard == [(hook.name, hook) for hook in Hook]


def test_hooks_that_nobody_has_are_known_beforehand(run):
    dispatcher = Dispatcher([Saying("log", 40, [])])
    assert [hook for hook in Hook if dispatcher.wants(hook)] == [Hook.EPOCH_END]
    assert dispatcher.dispatch(BatchBegin(run, 0, 4)) == ()


def test_a_callback_that_raises_is_reported_once_with_the_step_and_dropped(run):
    run.state.global_step = 12
    calls = []
    dispatcher = Dispatcher([Broken(), Saying("log", 40, calls)])
    (report,) = dispatcher.dispatch(EpochBegin(run, 0))
    assert report.severity == "error"
    assert report.text.startswith(
        "the callback `Broken` raised in `on_epoch_begin` at step 12 and is dropped"
    )
    assert report.text.endswith("ValueError: no such file")
    assert 'raise ValueError("no such file")' in report.text
    assert dispatcher.failures == [report]
    assert dispatcher.dispatch(EpochBegin(run, 1)) == ()
    assert [r.text for r in dispatcher.dispatch(EpochEnd(run, 1, 0.5, True, 0.1))] == ["log"]
    assert not dispatcher.wants(Hook.EPOCH_BEGIN)


def test_a_callback_that_is_fatal_ends_the_run_with_its_exception(run):
    broken = Broken()
    broken.fatal = True
    with pytest.raises(ValueError, match="no such file"):
        Dispatcher([broken]).dispatch(EpochBegin(run, 0))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through_a_callback(run, kind):
    class Pressed(Callback):
        def on_batch_end(self, event):
            raise kind

    dispatcher = Dispatcher([Pressed()])
    with pytest.raises(kind):
        dispatcher.dispatch(BatchEnd(run, 0, 4, 0.5))
    assert dispatcher.wants(Hook.BATCH_END)


@pytest.mark.parametrize("value", [3, True, [3], {"loss": 1.0}])
def test_what_is_no_text_is_not_printed_and_told_once(run, value):
    odd = type("Odd", (Callback,), {"on_epoch_end": lambda self, event: value})()
    dispatcher = Dispatcher([odd])
    (report,) = dispatcher.dispatch(EpochEnd(run, 1, 0.5, True, 0.1))
    assert report.severity == "warning"
    assert "which is ignored" in report.text
    assert dispatcher.dispatch(EpochEnd(run, 2, 0.5, True, 0.1)) == ()
    assert dispatcher.failures == []


@pytest.mark.parametrize("value", [None, [], ()])
def test_a_hook_may_return_nothing(run, value):
    quiet = type("Quiet", (Callback,), {"on_epoch_end": lambda self, event: value})()
    assert Dispatcher([quiet]).dispatch(EpochEnd(run, 1, 0.5, True, 0.1)) == ()


def test_callbacks_that_do_not_fit_together_are_refused_before_any_is_called():
    with pytest.raises(ConfigurationError, match="defines no hook"):
        Dispatcher([Saying("log", 40, []), Callback()])


def test_an_event_cannot_be_changed(run):
    event = EpochEnd(run, 1, 0.5, True, 0.1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.loss = 0.0  # pyright: ignore[reportAttributeAccessIssue]  # as it should be
    assert event.state is run.state

"""The callbacks that end a run for another reason than its metrics."""

import math

import pytest

from tests.refusal import refused
from tests.train.callbacks.paper import Clock, Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import hooks_of, validate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.non_finite import TerminateOnNonFinite
from workbench.train.callbacks.time_budget import TimeBudget
from workbench.train.events import Hook


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_of_nan_does_terminate_the_run(loss):
    paper = Paper([TerminateOnNonFinite()]).begin().epoch(1.0)
    assert not paper.state.stop
    paper.epoch(loss)
    assert paper.state.stop
    assert paper.state.stop_reason == f"the training loss is {loss} in epoch 2"


def test_a_finite_loss_however_great_goes_on():
    assert not Paper([TerminateOnNonFinite()]).begin().epoch(1e308).state.stop


def test_each_batch_is_looked_at_if_it_was_asked_for_and_the_run_ends_there():
    paper = Paper([TerminateOnNonFinite(every_batch=True)]).begin()
    paper.epoch(losses=[1.0, math.nan, 1.0])
    state = paper.state
    assert (state.stop_after, state.stop_reason) == ("batch", "the training loss is nan at step 2")


@pytest.mark.parametrize("kind", [TerminateOnNonFinite, lambda **options: TimeBudget(1, **options)])
def test_batches_stay_in_native_code_unless_they_were_asked_for(kind):
    assert Hook.BATCH_END not in hooks_of(kind())
    assert Hook.BATCH_END in hooks_of(kind(every_batch=True))


def test_several_callbacks_may_end_a_run_and_the_first_reason_is_kept():
    clock = Clock()
    ending = [
        TimeBudget(5, clock=clock),
        TerminateOnNonFinite(),
        EarlyStopping("loss", 0, higher_is_better=False),
    ]
    validate(ending)
    paper = Paper(ending).begin()
    clock.move(9)
    paper.epoch(math.nan)
    # The ends of an epoch run by descending position.
    assert paper.state.stop_reason == "the training loss is nan in epoch 1"


def test_a_run_ends_after_the_epoch_in_which_its_time_runs_out():
    clock = Clock()
    paper = Paper([TimeBudget(60, clock=clock)]).begin()
    for _ in range(2):
        clock.move(29)
        paper.epoch()
        assert not paper.run.stops
    clock.move(2)
    paper.epoch()
    assert paper.run.stops == [("epoch", "the time budget of 1 min is used up")]


def test_a_run_ends_after_the_batch_in_which_its_time_runs_out_if_that_was_asked_for():
    clock = Clock()
    paper = Paper([TimeBudget(2.5, every_batch=True, clock=clock)]).begin()
    paper.epoch(during=lambda: clock.move(1))
    assert paper.run.stops[0] == ("batch", "the time budget of 2 s is used up")


def test_a_run_that_is_resumed_has_its_time_anew():
    clock = Clock()
    budget = TimeBudget(60, clock=clock)
    paper = Paper([budget]).begin()
    clock.move(59)
    paper.begin()
    clock.move(59)
    assert not paper.epoch().run.stops
    clock.move(1)
    assert paper.epoch().run.stops


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(seconds):
    with refused(ConfigurationError, "`seconds` must be", f"got {seconds}"):
        TimeBudget(seconds)

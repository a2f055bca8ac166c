import numpy as np
import pytest

from tests.refusal import refused
from tests.train.callbacks.paper import Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import explain_order, validate
from workbench.train.callbacks.budget_rate import BudgetRate
from workbench.train.callbacks.one_cycle import OneCycleRate
from workbench.train.callbacks.rate import ConstantRate, CosineRate, ExponentialRate, StepRate
from workbench.train.callbacks.schedule import EpochSchedule, PerStep, StepSchedule
from workbench.train.config import Config


def test_a_schedule_sets_the_rate_before_the_first_epoch_and_at_each():
    paper = Paper([EpochSchedule(StepRate(0.1, 0.5, every=2))]).begin()
    assert paper.state.lr == 0.1
    for _ in range(5):
        paper.epoch()
    assert paper.rates == [0.1, 0.1, 0.05, 0.05, 0.025]


def test_five_epochs_of_a_halving_rate_end_at_an_eighth_of_a_tenth():
    paper = Paper([EpochSchedule(StepRate(0.05, 0.5, every=2))], Config(5, 4, 0.05, 3)).begin()
    for _ in range(5):
        paper.epoch()
    assert paper.end().state.lr == 0.0125


@pytest.mark.parametrize("schedule", [EpochSchedule, StepSchedule])
def test_a_base_of_zero_is_the_configured_rate(schedule):
    paper = Paper([schedule(ExponentialRate(0.0, 0.5))], Config(3, 4, 0.8, 0), batches=1).begin()
    for _ in range(3):
        paper.epoch()
    assert paper.rates == [0.8, 0.4, 0.2]


def test_any_function_of_the_position_is_a_rate():
    paper = Paper([EpochSchedule(lambda epoch: 0.1 / (1 + epoch))]).begin()
    paper.epoch().epoch()
    assert paper.rates == [0.1, 0.05]


def test_a_schedule_by_the_step_tells_the_rates_of_an_epoch_beforehand():
    schedule = StepSchedule(BudgetRate(1.0, 10, course="linear"))
    rates = schedule.step_rates(2, 4)
    assert rates.dtype == np.float64
    np.testing.assert_allclose(rates, [0.8, 0.7, 0.6, 0.5])
    assert schedule.step_rates(5, 0).shape == (0,)


def test_only_a_schedule_by_the_step_has_a_table():
    assert isinstance(StepSchedule(ConstantRate(0.1)), PerStep)
    assert not isinstance(EpochSchedule(ConstantRate(0.1)), PerStep)


def test_a_schedule_by_the_step_brings_no_batch_hook_into_the_loop():
    text = explain_order([StepSchedule(ConstantRate(0.1))])
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("batch")] == ["-"] * 2


def test_per_epoch_and_per_step_schedules_are_not_mixed_up_when_a_run_is_resumed():
    # A restarted schedule that counted its own calls would begin the cycle again.
    rate = OneCycleRate(0.1, 12)
    whole = Paper([StepSchedule(rate)], batches=3).begin()
    for _ in range(4):
        whole.epoch()
    half = Paper([StepSchedule(rate)], batches=3).begin().epoch().epoch()
    rest = half.resumed([StepSchedule(rate)]).begin()
    assert rest.state.lr == rate(6)
    rest.epoch().epoch()
    assert half.rates + rest.rates == whole.rates == [rate(step) for step in (0, 3, 6, 9)]


def test_a_resumed_schedule_by_the_epoch_goes_on_where_it_was():
    rate = CosineRate(0.1, 20, warmup=2)
    half = Paper([EpochSchedule(rate)]).begin()
    for _ in range(13):
        half.epoch()
    assert half.resumed([EpochSchedule(rate)]).begin().epoch().rates == [0.032898992833716646]


@pytest.mark.parametrize("second", [EpochSchedule, StepSchedule])
def test_two_schedules_are_refused(second):
    pair = [EpochSchedule(StepRate(0.1, 0.5, every=2)), second(ExponentialRate(0.1, 0.9))]
    name = f"`{second.__name__}(ExponentialRate)`"
    with refused(ConfigurationError, "`EpochSchedule(StepRate)`", name, "both write `lr`"):
        validate(pair)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_a_rate_that_is_no_rate_ends_the_run_rather_than_leaving_the_last_one(value):
    paper = Paper([EpochSchedule(lambda epoch: 0.1 if epoch < 1 else value)]).begin().epoch()
    with refused(ConfigurationError, "(1)` must be", f"got {value}"):
        paper.epoch()


def test_a_table_with_a_rate_that_is_no_rate_is_refused_naming_the_step():
    schedule = StepSchedule(lambda step: 0.1 / (7 - step) if step < 7 else float("nan"))
    with refused(
        ConfigurationError, "`<lambda>(7)` must be a finite number of at least 0, got nan"
    ):
        schedule.step_rates(4, 6)

import math

import pytest

from tests.refusal import refused
from tests.train.callbacks.paper import Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import validate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.rate import ConstantRate
from workbench.train.callbacks.schedule import EpochSchedule
from workbench.train.config import Config


def plateau(factor=0.5, patience=1, **options):
    options = {"least": 0.001, "higher_is_better": False, **options}
    return PlateauSchedule("loss", factor, patience=patience, **options)


def test_the_third_evaluation_without_progress_halves_the_rate():
    schedule = plateau()
    paper = Paper([schedule]).begin()
    assert paper.state.lr == 0.1
    paper.epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0})
    assert schedule.rate == 0.1
    paper.epoch(val={"loss": 1.0})
    assert (schedule.rate, paper.state.lr) == (0.05, 0.1)
    paper.epoch(val={"loss": 1.0})
    assert paper.rates == [0.1, 0.1, 0.1, 0.05]


def test_the_rate_stops_at_its_least_value():
    schedule = plateau(0.1, 0, least=0.01)
    paper = Paper([schedule]).begin()
    for _ in range(3):
        paper.epoch(val={"loss": 1.0})
    assert schedule.rate == pytest.approx(0.01)


def test_a_least_rate_above_the_rate_does_not_raise_it():
    schedule = plateau(0.5, 0, least=1.0)
    Paper([schedule]).begin().epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0})
    assert schedule.rate == 0.1


def test_progress_sets_the_patience_back():
    schedule = plateau(patience=1)
    paper = Paper([schedule]).begin()
    for loss in (1.0, 1.0, 0.9, 0.9, 0.8, 0.8):
        paper.epoch(val={"loss": loss})
    assert schedule.rate == 0.1


def test_a_resumed_run_keeps_its_cuts():
    paper = Paper([plateau()]).begin()
    for _ in range(4):
        paper.epoch(val={"loss": 1.0})
    assert paper.resumed([plateau()]).begin().epoch().rates == [0.05]


def test_a_rate_of_zero_is_replaced_by_the_configured_one():
    paper = Paper([plateau()], Config(5, 4, 0.3, 0))
    paper.state.lr = 0.0
    assert paper.begin().state.lr == 0.3


def test_a_rate_set_by_a_person_is_cut_from_there():
    schedule = plateau()
    paper = Paper([schedule]).begin().epoch(val={"loss": 1.0})
    paper.state.lr = 0.02
    paper.epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0}).epoch(val={"loss": 1.0})
    assert paper.rates == [0.1, 0.02, 0.02, 0.01]


def test_nan_counts_as_an_evaluation_without_progress():
    schedule = plateau()
    paper = Paper([schedule]).begin()
    for _ in range(2):
        paper.epoch(val={"loss": math.nan})
    assert schedule.rate == 0.05


def test_patience_means_the_same_to_early_stopping_and_to_a_plateau():
    # Elsewhere one of the two acts an evaluation before the other.
    schedule = plateau(patience=3)
    stopper = EarlyStopping("loss", 3, higher_is_better=False)
    paper = Paper([schedule, stopper]).begin()
    acted = {}
    for evaluation in range(1, 8):
        paper.epoch(val={"loss": 1.0})
        if schedule.rate < 0.1:
            acted.setdefault("plateau", evaluation)
        if paper.state.stop:
            acted.setdefault("early stopping", evaluation)
    assert acted == {"plateau": 5, "early stopping": 5}


def test_a_metric_that_does_not_exist_is_reported_once():
    paper = Paper([plateau()]).begin()
    paper.epoch(val={"accuracy": 1.0}).epoch(val={"accuracy": 1.0})
    assert paper.texts == [
        "the rate is never cut: `loss` is not a metric of the evaluation, which has accuracy, "
        "train_loss"
    ]


def test_a_plateau_and_another_schedule_are_refused():
    with refused(ConfigurationError, "both write `lr`"):
        validate([plateau(), EpochSchedule(ConstantRate(0.1))])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"factor": 0}, "`factor` must be a finite number above 0, got 0"),
        ({"patience": -1}, "`patience` must be an integer of at least 0, got -1"),
        ({"least": -1}, "leas"),
    ],
)
def test_an_option_out_of_range_is_refused(options, named):
    with refused(ConfigurationError, named):
        plateau(**options)

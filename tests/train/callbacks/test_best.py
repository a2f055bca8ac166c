import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusal import refused
from workbench.errors import ConfigurationError
from workbench.train.callbacks.best import Best
from workbench.train.state import RunState


def observed(best, *values, name="loss"):
    """Let ``best`` see one evaluation after another; return what it said of each."""
    said = []
    for epoch, value in enumerate(values, start=1):
        state = RunState(epoch=epoch)
        state.val.update(name, value, 1)
        said.append((best.observe(state), best.wait))
    return said


def test_lower_is_better_by_more_than_the_least_difference():
    best = Best("loss", higher_is_better=False, min_delta=0.01)
    assert observed(best, 1.0, 0.995, 0.98) == [(True, 0), (False, 1), (True, 0)]


def test_higher_is_better_if_it_is_said_so():
    best = Best("loss", higher_is_better=True)
    assert observed(best, 0.80, 0.85, 0.84) == [(True, 0), (True, 0), (False, 1)]
    assert (best.value, best.epoch) == (0.85, 2)


def test_exactly_the_least_difference_is_not_enough():
    best = Best("loss", higher_is_better=False, min_delta=0.25)
    assert observed(best, 1.0, 0.75) == [(True, 0), (False, 1)]


def test_a_metric_that_was_not_measured_changes_nothing():
    best = Best("f1", higher_is_better=True)
    assert observed(best, 0.5, 0.6) == [(False, 0), (False, 0)]
    assert not best.seen


def test_the_training_loss_can_be_monitored():
    best = Best("train_loss", higher_is_better=False)
    assert best.observe(RunState(epoch=1, train_loss=0.5))
    assert not best.observe(RunState(epoch=2, train_loss=0.5))
    assert (best.value, best.wait) == (0.5, 1)


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_first_metric_that_is_not_finite_is_not_the_best_for_ever(odd, higher_is_better):
    best = Best("loss", higher_is_better=higher_is_better)
    assert observed(best, odd, 1.0, odd) == [(False, 1), (True, 0), (False, 1)]
    assert (best.value, best.epoch) == (1.0, 2)


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20),
    higher=st.booleans(),
)
def test_the_best_is_the_extreme_of_what_was_finite(values, higher):
    best = Best("loss", higher_is_better=higher)
    observed(best, *values)
    finite = [value for value in values if math.isfinite(value)]
    assert best.seen == bool(finite)
    if finite:
        extreme = max(finite) if higher else min(finite)
        assert best.value == extreme
        # The first of equals is kept, and the wait counts from it.
        assert best.epoch == values.index(extreme) + 1
        assert best.wait == len(values) - best.epoch
    else:
        assert best.wait == len(values)


def test_what_it_remembers_packs_into_plain_values_and_back():
    best = Best("loss", higher_is_better=False)
    packed = {"wait": 2, "best": 0.375, "epoch": 4, "seen": True}
    best.unpack(packed)
    assert (best.wait, best.value, best.epoch, best.seen) == (2, 0.375, 4, True)
    assert best.pack() == packed


@pytest.mark.parametrize("delta", [-0.1, math.nan, math.inf])
def test_a_difference_that_cannot_be_is_refused(delta):
    with refused(ConfigurationError, "`min_delta` must be", f"got {delta}"):
        Best("loss", higher_is_better=False, min_delta=delta)

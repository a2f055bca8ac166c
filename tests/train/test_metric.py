import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConfigurationError
from workbench.train.metric import Counter, Meter, MeterSet


def meter_of(*batches):
    meter = Meter()
    for value, count in batches:
        meter.update(value, count)
    return meter


@pytest.mark.parametrize(
    ("batches", "value", "count"),
    [
        ([(2, 4), (2, 4), (2, 4), (4, 2)], 2.2857142857142856, 14),
        ([(1, 8), (3, 8)], 2.0, 16),
        ([(1, 100), (9, 1)], 1.0792079207920793, 101),
        ([(10, 2), (9, 1)], 29 / 3, 3),
        ([], 0.0, 0),
    ],
)
def test_batches_weigh_what_their_rows_weigh(batches, value, count):
    meter = meter_of(*batches)
    assert (meter.value, meter.count) == (value, count)


def test_totals_are_added_as_they_are():
    meter = Meter()
    meter.add_total(6, 4)
    meter.add_total(2, 2)
    assert meter.value == 1.3333333333333333


def test_a_meter_that_was_reset_is_empty():
    meter = meter_of((3, 5))
    meter.reset()
    assert (meter.value, meter.count) == (0.0, 0)


def test_a_batch_without_rows_changes_nothing_even_if_its_mean_is_nan():
    meter = meter_of((3.0, 5), (math.nan, 0))
    assert (meter.value, meter.count) == (3.0, 5)


def test_nan_of_a_batch_with_rows_is_not_hidden():
    assert math.isnan(meter_of((3.0, 5), (math.nan, 1)).value)


@given(
    rows=st.lists(st.integers(-1000, 1000), min_size=1, max_size=30),
    size=st.integers(1, 40),
)
def test_the_value_does_not_depend_on_how_rows_are_cut_into_batches(rows, size):
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    meter = meter_of(*((np.mean(batch), len(batch)) for batch in batches))
    assert meter.value == pytest.approx(np.mean(rows), rel=1e-12, abs=1e-9)


def test_names_are_kept_in_the_order_in_which_they_were_first_seen():
    meters = MeterSet()
    meters.update("loss", 1, 4)
    meters.update("accuracy", 0.5, 4)
    meters.update("loss", 3, 4)
    assert meters.names == ("loss", "accuracy")
    assert meters.value("loss") == 2.0
    assert list(meters.items()) == [("loss", 2.0), ("accuracy", 0.5)]


def test_an_absent_name_has_the_value_zero_and_is_told_from_a_zero():
    meters = MeterSet()
    meters.update("loss", 0.0, 1)
    assert (meters.value("f1"), meters.count("f1")) == (0.0, 0)
    assert "f1" not in meters
    assert "loss" in meters


def test_one_batch_updates_several_names():
    meters = MeterSet()
    meters.update_batch(["loss", "accuracy"], [2, 0.5], 8)
    meters.update_batch(["loss", "accuracy"], [4, 1], 8)
    assert (meters.value("loss"), meters.value("accuracy")) == (3.0, 0.75)
    assert meters.count("loss") == 16


def test_names_and_values_that_differ_in_number_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        MeterSet().update_batch(["loss", "accuracy"], [2.0], 8)


def test_a_counter_divides_once_at_the_end():
    counter = Counter()
    counter.add(1, 2)
    counter.add(3, 3)
    assert counter.ratio == 0.8


def test_a_counter_of_nothing_is_zero():
    assert Counter().ratio == 0.0


@pytest.mark.parametrize("count", [(-1, 2), (0, -1), (3, 2)])
def test_impossible_counts_are_refused(count):
    with pytest.raises(ConfigurationError):
        Counter().add(*count)


def test_a_negative_number_of_rows_is_refused():
    with pytest.raises(ConfigurationError, match="the count is -1"):
        Meter().update(1.0, -1)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 100)), max_size=30),
    st.integers(0, 30),
)
def test_batches_added_together_are_the_same_bits_as_one_by_one(batches, cut):
    one_by_one, together = Meter(), Meter()
    for value, count in batches:
        one_by_one.update(value, count)
    for part in (batches[:cut], batches[cut:]):
        values, counts = np.array(part, np.float64).reshape(-1, 2).T
        together.update_all(values, counts)
    assert (together.total, together.count) == (one_by_one.total, one_by_one.count)

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from workbench.errors import ConfigurationError

LARGEST = sys.float_info.max
FEW = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=9)


def fed(window, *values):
    detector = wb.OutlierDetector(window)
    assert all(math.isnan(detector.update(value)) for value in values)
    return detector


def test_scores_follow_their_table():
    detector = fed(4, 1.0, 1.1, 0.9, 1.0)
    assert detector.update(1.05) == pytest.approx(0.70710678, abs=1e-8)
    assert detector.update(math.nan) == math.inf
    assert detector.update(10.0) == pytest.approx(121.533182, abs=1e-6)
    assert detector.values == (0.9, 1.0, 1.05, 10.0)
    assert detector.update(1.0) == pytest.approx(-0.573027, abs=1e-6)


def test_small_differences_between_large_numbers_count():
    assert fed(4, 1e8, 1e8 + 1, 1e8 - 1, 1e8).update(1e8 + 1) == pytest.approx(2**0.5, abs=1e-6)


def test_a_number_unlike_equal_ones_is_infinitely_far_and_then_one_of_them():
    detector = fed(4, 1.0, 1.0, 1.0, 1.0)
    assert detector.update(1e308) == math.inf
    assert detector.update(1e308) == pytest.approx(3**0.5, abs=1e-6)


@given(value=st.floats(-1e300, 1e300), window=st.integers(1, 20))
def test_equal_numbers_have_no_spread_whatever_they_are(value, window):
    detector = fed(window, *[value] * window)
    assert detector.update(value) == 0.0
    assert detector.update(math.nextafter(value, math.inf) + 1e-300) == math.inf


def test_the_greatest_floats_do_not_overflow():
    assert fed(3, LARGEST, LARGEST, LARGEST).update(1.0) == -math.inf


def test_zeros_have_no_spread():
    detector = fed(2, 0.0, 0.0)
    assert (detector.update(0.0), detector.update(-3.0)) == (0.0, -math.inf)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_an_outlier_and_not_remembered(value):
    detector = fed(2, 1.0, 2.0)
    assert detector.update(value) == math.inf
    assert detector.values == (1.0, 2.0)


@pytest.mark.parametrize("window", [0, -1, 1.5, True])
def test_a_window_that_holds_nothing_is_refused(window):
    with refused(ConfigurationError, "window", str(window)):
        wb.OutlierDetector(window)


def test_the_window_is_128_by_default():
    assert wb.OutlierDetector().window == 128


@given(values=FEW, value=st.floats(-1e6, 1e6), factor=st.sampled_from([0.5, 4.0, -2.0]))
def test_a_score_does_not_depend_on_the_unit_but_for_its_sign(values, value, factor):
    score = fed(len(values), *values).update(value)
    other = fed(len(values), *[v * factor for v in values]).update(value * factor)
    assert other == pytest.approx(math.copysign(1.0, factor) * score, rel=1e-6, abs=1e-9)

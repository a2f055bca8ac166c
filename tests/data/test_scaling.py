"""Standardised features against the formula in plain numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench.data import standardize
from workbench.errors import DataError

# Two roundings of float64 apart from the formula written out.
FLOAT64_TOLERANCE = 1e-12
FLOAT32_TOLERANCE = 1e-6

tables = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=3), elements=st.floats(-1e3, 1e3, width=32)
)


@given(tables)
def test_float64_features_follow_the_formula(x):
    expected = (x - np.mean(x, axis=0)) / (np.sqrt(np.var(x, axis=0)) + 1e-8)
    np.testing.assert_allclose(
        standardize(x), expected, rtol=FLOAT64_TOLERANCE, atol=FLOAT64_TOLERANCE
    )


def test_each_feature_gets_a_mean_of_0_and_a_population_spread_of_1():
    x = np.random.default_rng(0).normal(50.0, 7.0, (400, 3)).astype(np.float32)
    z = standardize(x)
    assert z.dtype == np.float32
    np.testing.assert_allclose(z.mean(axis=0, dtype=np.float64), 0.0, atol=FLOAT32_TOLERANCE)
    np.testing.assert_allclose(z.std(axis=0, dtype=np.float64), 1.0, atol=FLOAT32_TOLERANCE)


def test_a_constant_feature_becomes_zero():
    assert standardize([[0.1, 1.0], [0.1, 2.0]])[:, 0].tolist() == [0.0, 0.0]


@given(st.floats(-1e15, 1e15), st.integers(1, 40))
def test_a_constant_feature_becomes_zero_however_far_from_0_it_is(value, rows):
    np.testing.assert_array_equal(standardize(np.full((rows, 1), value)), np.zeros((rows, 1)))


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e9, 2.0**50])
def test_what_all_rows_have_in_common_changes_no_digit(offset):
    x = np.random.default_rng(1).integers(-8, 8, (50, 2)).astype(np.float64)
    np.testing.assert_array_equal(standardize(x + offset), standardize(x))


def test_integers_become_float32():
    assert standardize(np.array([[1], [3]])).dtype == np.float32


def test_held_out_rows_are_scaled_by_the_training_rows():
    z = standardize([[10.0]], reference=[[0.0], [2.0]])
    np.testing.assert_allclose(z, [[9.0]], rtol=FLOAT32_TOLERANCE)


def test_a_nan_spoils_its_own_feature_only():
    z = standardize([[np.nan, 1.0], [0.0, 3.0]])
    assert np.isnan(z[:, 0]).all()
    assert np.isfinite(z[:, 1]).all()


def test_the_given_features_are_left_alone():
    x = np.array([[1.0], [3.0]])
    standardize(x)
    assert x.tolist() == [[1.0], [3.0]]


def test_no_rows_give_no_rows():
    assert standardize(np.zeros((0, 4))).shape == (0, 4)


def test_a_reference_without_rows_is_refused():
    with pytest.raises(DataError, match="reference has no rows"):
        standardize([[1.0]], reference=np.zeros((0, 1)))


def test_a_reference_with_other_features_is_refused_naming_both_shapes():
    with pytest.raises(DataError, match=r"shape \(2,\) .* reference \(3,\)"):
        standardize(np.zeros((1, 2)), reference=np.zeros((1, 3)))

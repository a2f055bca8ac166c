"""Printed numbers, to the digit."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.runtime.number_format import format_elements, format_number, note_non_finite


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (60, "6.00e+1"),
        (0.7, "7.00e-1"),
        (2, "2.00"),
        (-15.744, "-1.57e+1"),
        (2.999, "2.99"),
        (100, "1.00e+2"),
        (6390, "6.39e+3"),
        (1e-10, "1.00e-10"),
        (0.00123, "1.23e-3"),
        (0, "0.00"),
    ],
)
@pytest.mark.parametrize("kind", [float, np.float32, np.float64])
def test_digits_are_cut_and_exponents_are_short(value, text, kind):
    assert format_number(float(kind(value))) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.999994, "9.99"),
        (9.999996, "1.00e+1"),
        (-0.0, "-0.00"),
        (1e100, "1.00e+100"),
        (5e-324, "4.94e-324"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
    ],
)
def test_the_edges_of_the_format(value, text):
    assert format_number(value) == text


def test_the_precision_is_the_number_of_digits_after_the_point():
    assert [format_number(math.pi, p) for p in (1, 4, 8)] == ["3.1", "3.1415", "3.14159265"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 15))
def test_what_is_printed_is_near_the_number_and_not_beyond_it(value, precision):
    printed = float(format_number(value, precision))
    assert abs(printed) <= abs(value) * (1 + 10.0 ** -(precision + 2)) + 5e-324
    assert printed == pytest.approx(value, rel=10.0**-precision, abs=1e-323)


def test_whole_numbers_and_truth_values_are_printed_in_full():
    arrays = [np.array([2**62, -7]), np.array([True, False]), np.array([9], np.uint32)]
    texts = [text for array in arrays for text in format_elements(array)]
    assert texts == ["4611686018427387904", "-7", "True", "False", "9"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_elements_of_every_floating_type_are_printed(dtype):
    values = np.array([0.5, -2.0, np.nan, np.inf], dtype)
    assert format_elements(values, 1) == ["5.0e-1", "-2.0", "nan", "inf"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([1.0, 2.0], ""),
        ([math.nan], "includes NaN"),
        ([math.inf, 0.0], "includes pos. inf."),
        ([-math.inf, math.nan, math.inf], "includes NaN, pos. inf., neg. inf."),
    ],
)
def test_values_that_are_no_numbers_are_noted(dtype, values, note):
    assert note_non_finite(np.array(values, dtype)) == note


def test_whole_numbers_need_no_note():
    assert note_non_finite(np.array([1, 2])) == ""

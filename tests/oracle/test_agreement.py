import numpy as np
import pytest

from tests.oracle.agreement import assert_agree

ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ONES + np.float32(1e-5), ONES),
        (ONES.astype(np.float64) + 1e-11, ONES.astype(np.float64)),
        (np.array([np.nan, np.inf], np.float32), np.array([np.nan, np.inf], np.float32)),
        (np.array([1e-8, 1e3], np.float32), np.array([0.0, 1e3], np.float32)),
        (np.zeros(0, np.float32), np.zeros(0, np.float32)),
        (np.array([1, 2]), np.array([1, 2])),
    ],
)
def test_what_differs_by_rounding_agrees(found: np.ndarray, expected: np.ndarray):
    assert_agree(found, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ONES + np.float32(1e-3), ONES),
        (ONES.astype(np.float64) + 1e-9, ONES.astype(np.float64)),
        (ONES, np.ones((3, 1), np.float32)),
        (ONES, np.ones(3)),
        (np.array([np.nan], np.float32), np.array([1.0], np.float32)),
        (np.array([np.inf], np.float32), np.array([-np.inf], np.float32)),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([True]), np.array([False])),
    ],
)
def test_what_differs_by_more_does_not(found: np.ndarray, expected: np.ndarray):
    with pytest.raises(AssertionError):
        assert_agree(found, expected, "x")

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.present import present
from workbench.runtime.value_summary import MOST_CELLS, summarize

ELEMENTS = st.floats(width=32, allow_nan=True, allow_infinity=True)
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)


def test_what_is_not_finite_is_counted_and_left_out_of_the_figures():
    found = summarize(np.array([1.0, np.nan, -3.0, np.inf, -np.inf, np.nan], np.float32))
    assert (found.minimum, found.mean, found.maximum) == (-3.0, -1.0, 1.0)
    assert (found.nans, found.positive_infinities, found.negative_infinities) == (2, 1, 1)
    assert present(found.histogram).counts.sum() == 2
    assert np.isnan(present(found.picture).cells).tolist() == [
        [False, True, False, True, True, True]
    ]


@given(npst.arrays(np.float32, SHAPES, elements=ELEMENTS))
def test_figures_agree_with_the_elements_whatever_they_are(value):
    found = summarize(value)
    finite = value[np.isfinite(value)].astype(np.float64)
    assert found.size == finite.size + found.nans + found.infinities
    if finite.size:
        assert (found.minimum, found.maximum) == (finite.min(), finite.max())
        assert found.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-30)
    else:
        assert found.minimum is found.mean is found.maximum is found.histogram is None
    if found.histogram is not None:
        assert present(found.histogram).counts.sum() == finite.size


def test_the_bins_are_those_of_numpy():
    value = np.random.default_rng(3).normal(size=1000)
    found = present(summarize(value).histogram)
    counts, edges = np.histogram(value, 32)
    assert np.array_equal(found.counts, counts)
    assert (found.low, found.high) == (edges[0], edges[-1])


def test_numbers_of_the_whole_range_of_their_type_neither_overflow_nor_vanish():
    greatest = np.finfo(np.float64).max
    found = summarize(np.array([greatest, greatest, -greatest, greatest]))
    assert found.mean == pytest.approx(greatest / 2)
    assert present(found.histogram).counts[[0, -1]].tolist() == [1, 3]
    least = np.finfo(np.float64).smallest_subnormal
    assert present(summarize(np.array([0.0, least])).histogram).counts.tolist() == [2]
    beside = summarize(np.array([1e30, 1e-30], np.float32))
    assert beside.figures()[0] == ("min", "1.00e-30")


def test_a_large_matrix_is_averaged_into_few_cells_and_one_bad_element_shows():
    value = np.arange(200 * 130, dtype=np.float32).reshape(200, 130)
    value[150, 10] = np.inf
    cells = present(summarize(value).picture).cells
    assert cells.shape == (MOST_CELLS, MOST_CELLS)
    assert np.isnan(cells).sum() == 1
    assert cells[0, 0] == value[:3, :2].mean()


def test_colours_are_an_image_and_other_numbers_a_heat_map():
    image = np.linspace(0, 1, 2 * 8 * 8 * 3).reshape(2, 8, 8, 3)
    assert present(summarize(image).picture).is_image
    assert present(summarize(image).picture).of == "image of index 0 of axis 0"
    assert not present(summarize(image * 2).picture).is_image
    kernel = present(summarize(np.zeros((5, 3, 3, 3))).picture)
    assert kernel.cells.shape == (5, 27)
    assert (
        present(summarize(np.zeros((2, 4, 10, 10))).picture).of
        == "heat map of index 0 of axes 0 to 1"
    )


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0)])
def test_one_element_or_none_has_no_picture(shape):
    assert summarize(np.zeros(shape)).picture is None


def test_whole_numbers_and_truth_values_are_numbers():
    assert summarize(np.array([True, False])).mean == 0.5
    assert summarize(np.array([2**53, 0])).maximum == 2**53

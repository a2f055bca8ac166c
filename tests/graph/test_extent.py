import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusal import refused
from workbench.errors import ShapeError
from workbench.graph.extent import (
    Batch,
    Extent,
    as_shape,
    batch,
    count,
    divide,
    multiply,
    resolve,
    resolve_shape,
    show_shape,
)

extents = st.one_of(st.integers(0, 9), st.builds(Batch, st.integers(1, 4)))


def test_a_batch_is_multiplied_from_both_sides_and_shows_its_factor():
    assert batch * 4 == 4 * batch == Batch(4)
    assert repr(batch) == "batch"
    assert repr(batch * 4) == "batch*4"


def test_a_batch_times_nothing_is_refused():
    with refused(ShapeError, "0 times the batch"):
        _ = batch * 0


def test_a_shape_with_an_empty_axis_has_no_elements_even_with_the_batch():
    assert count((batch, 0)) == 0
    assert multiply(0, batch) == 0


def test_two_symbolic_axes_are_refused():
    with refused(ShapeError, "twice"):
        as_shape((batch, 3, batch))


@given(size=extents, by=extents)
def test_a_quotient_times_its_divisor_is_the_dividend(size: Extent, by: Extent):
    quotient = divide(size, by)
    if quotient is not None:
        assert multiply(quotient, by) == size


@given(factor=st.integers(1, 5), by=st.integers(1, 5), rows=st.integers(1, 9))
def test_dividing_symbolically_agrees_with_dividing_numbers(factor: int, by: int, rows: int):
    quotient = divide(Batch(factor), by)
    assert (quotient is None) == (factor % by != 0)
    if quotient is not None:
        assert resolve(quotient, rows) * by == factor * rows


def test_nothing_is_divided_by_zero():
    assert divide(0, 0) is None
    assert divide(batch, 0) is None
    assert divide(6, batch) is None


def test_a_symbolic_extent_needs_the_number_of_rows():
    assert resolve_shape((Batch(2), 3), 5) == (10, 3)
    with refused(ShapeError, "`batch*2`"):
        resolve(Batch(2), None)


def test_a_shape_reads_like_a_tuple():
    assert show_shape((batch, 64)) == "(batch, 64)"
    assert show_shape((3,)) == "(3,)"
    assert show_shape(()) == "()"


def test_a_lone_extent_and_numpy_integers_make_a_shape():
    assert as_shape(3) == (3,)
    assert as_shape([np.int64(2), batch]) == (2, batch)


@pytest.mark.parametrize("shape", [(2.0,), ("3",), (None,), (True,), (np.array([1, 2]),)])
def test_what_is_no_whole_number_is_no_extent(shape: tuple[object, ...]):
    with refused(ShapeError, "is not an extent"):
        as_shape(shape)


def test_a_negative_extent_is_refused_naming_the_shape():
    with refused(ShapeError, "(2, -1)", "-1"):
        as_shape((2, -1))

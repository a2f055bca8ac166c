"""Labels out of range never reach native code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data import check_labels
from workbench.errors import ConfigurationError, DataError


@given(st.lists(st.integers(-3, 12)), st.integers(1, 10))
def test_labels_pass_exactly_when_each_names_a_class(labels, classes):
    wrong = [(row, y) for row, y in enumerate(labels) if not 0 <= y < classes]
    if not wrong:
        assert check_labels(np.array(labels, np.int64), classes) is None
    else:
        row, value = wrong[0]
        with pytest.raises(DataError) as caught:
            check_labels(np.array(labels), classes)
        assert f"y[{row}] is {value}, but {classes} classes" in str(caught.value)


def test_the_last_class_and_the_one_after_are_told_apart():
    check_labels([9], 10)
    with pytest.raises(DataError, match=r"y\[0\] is 10, but 10 classes are labelled 0 to 9") as e:
        check_labels([10], 10)
    assert "from 0" in e.value.remedy


def test_a_negative_label_is_refused():
    with pytest.raises(DataError, match=r"y\[1\] is -1"):
        check_labels([0, -1], 10)


def test_a_label_in_a_sequence_is_named_by_all_its_indices():
    with pytest.raises(DataError, match=r"y\[1, 2\] is 7"):
        check_labels([[0, 1, 2], [0, 1, 7]], 5)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int64, ">i4"])
def test_every_integer_type_is_checked(dtype):
    with pytest.raises(DataError, match=r"y\[1\] is 200"):
        check_labels(np.array([1, 200]).astype(dtype), 3)


@pytest.mark.parametrize("labels", [[0.0, 1.0], [np.nan], [True], ["cat"]])
def test_labels_that_are_not_integers_are_refused_naming_their_dtype(labels):
    with pytest.raises(DataError, match="labels have dtype") as caught:
        check_labels(labels, 3)
    assert "int32" in caught.value.remedy


def test_no_labels_pass():
    assert check_labels(np.zeros(0), 1) is None


@pytest.mark.parametrize("classes", [0, -1])
def test_less_than_one_class_is_refused(classes):
    with pytest.raises(ConfigurationError, match=f"`classes` must be .*, got {classes}"):
        check_labels([0], classes)

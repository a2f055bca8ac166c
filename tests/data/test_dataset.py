"""The data set: what it takes in, what it refuses, what it tells."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from workbench.data import Dataset, empty
from workbench.errors import ConfigurationError, DataError


def test_rows_that_differ_in_number_are_refused_naming_both_counts():
    with pytest.raises(DataError, match="x has 3 rows and y has 2") as caught:
        Dataset(np.zeros((3, 2)), np.zeros(2))
    assert "every row of x" in caught.value.remedy


def test_n_is_the_number_of_rows():
    assert Dataset(np.zeros((5, 2)), np.zeros(5)).n == 5


def test_the_empty_data_set_has_no_rows():
    assert empty().n == 0
    assert empty().nan_count == 0
    assert empty().report().splitlines()[0] == "0 rows"


def test_an_empty_data_set_keeps_the_shape_of_its_rows():
    assert Dataset(np.zeros((0, 4)), np.zeros(0)).x.shape == (0, 4)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("f2", "f4"),
        ("f4", "f4"),
        ("f8", "f4"),
        ("i1", "i4"),
        ("i2", "i4"),
        ("i4", "i4"),
        ("i8", "i8"),
        ("u1", "i4"),
        ("u2", "i4"),
        ("u4", "i8"),
        ("u8", "i8"),
        ("?", "?"),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_element_type_becomes_one_the_engine_computes_with(given, kept, order):
    values = np.array([[0, 1], [1, 0]]).astype(np.dtype(given).newbyteorder(order))
    data = Dataset(values, values[:, 0])
    assert data.x.dtype == data.y.dtype == np.dtype(kept)
    assert data.x.dtype.isnative
    assert data.x.tolist() == values.tolist()


@pytest.mark.parametrize("dtype", [None, np.float64, "float64"])
def test_float64_is_kept_when_asked_for(dtype):
    third = 1.0 / 3.0
    data = Dataset([[third]], [third], dtype=dtype)
    assert data.x[0, 0] == data.y[0] == third


def test_labels_stay_integers_whatever_the_dtype_says():
    assert Dataset([[1.0]], np.array([1], np.int32), dtype=np.float64).y.dtype == np.int32


@pytest.mark.parametrize("dtype", [np.int32, np.float16, "no such type", object])
def test_a_dtype_that_is_not_float32_or_float64_is_refused(dtype):
    with pytest.raises(ConfigurationError, match="float32 or float64"):
        Dataset([[1.0]], [0], dtype=dtype)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


AWKWARD = {
    "transposed": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "read-only": read_only,
    "big-endian": lambda a: a.astype(">f4"),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), "u1")[1:].view("f4").reshape(a.shape),
}


@pytest.mark.parametrize("layout", AWKWARD)
def test_an_array_that_native_code_could_not_walk_is_copied(layout):
    given = AWKWARD[layout](np.arange(12, dtype=np.float32).reshape(3, 4))
    x = Dataset(given, np.zeros(3)).x
    assert x.flags.carray
    assert not np.shares_memory(x, given)
    assert x.tolist() == given.tolist()


def test_an_array_that_fits_is_shared():
    given = np.zeros((3, 4), np.float32)
    assert Dataset(given, np.zeros(3)).x is given


def test_lists_and_frames_are_taken():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    data = Dataset(frame, [0, 1])
    assert data.x.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert data.y.dtype == np.int64


@pytest.mark.parametrize("values", [["a", "b"], [1j, 2j], [{}, {}], [None, None]])
def test_rows_that_are_not_numbers_are_refused_naming_their_dtype(values):
    with pytest.raises(DataError, match=r"x has dtype .*real numbers"):
        Dataset(values, [0, 1])


def test_ragged_rows_are_refused():
    with pytest.raises(DataError, match="x cannot be read as one array") as caught:
        Dataset([[1.0, 2.0], [3.0]], [0, 1])
    assert "same shape" in caught.value.remedy


def test_a_single_value_is_refused_for_having_no_rows():
    with pytest.raises(DataError, match=r"y is the single value 3\.5"):
        Dataset([1.0], 3.5)


def test_a_masked_array_is_refused_rather_than_unmasked():
    with pytest.raises(DataError, match="mask would be lost") as caught:
        Dataset(np.ma.masked_less([[1.0], [-1.0]], 0.0), [0, 1])
    assert "filled" in caught.value.remedy


def test_a_number_too_large_for_float32_is_refused_naming_its_place():
    with pytest.raises(DataError, match=r"x\[1, 0\] is 1e\+300, which float32") as caught:
        Dataset([[1.0, np.inf], [1e300, np.nan]], [0, 1])
    assert "float64" in caught.value.remedy


def test_a_number_too_large_for_int64_is_refused_naming_its_place():
    with pytest.raises(DataError, match=r"y\[1\] is 18446744073709551615, which int64"):
        Dataset([[1.0], [2.0]], np.array([0, 2**64 - 1], np.uint64))


def test_nan_is_kept_and_counted():
    data = Dataset([[np.nan, 1.0], [2.0, np.nan]], [0.5, np.nan])
    assert data.nan_count == 3
    assert np.isnan(data.x[0, 0])


def test_a_report_tells_of_sizes_ranges_nan_and_infinities():
    data = Dataset(
        [[np.nan, 1.0], [-2.5, np.inf]],
        np.array([1, 0], np.int32),
        names=["cat", "dog"],
        source="a made-up source",
        licence="none",
    )
    assert data.report().splitlines() == [
        "2 rows",
        "x  float32 (2,), -2.5 to 1, 1 NaN, 1 infinite",
        "y  int32 (), 0 to 1",
        "classes  cat, dog",
        "source  a made-up source",
        "licence  none",
    ]


def test_a_label_without_a_name_is_refused_naming_its_row():
    with pytest.raises(DataError, match=r"y\[2\] is 2, but 2 classes"):
        Dataset(np.zeros((3, 1)), [0, 1, 2], names=("cat", "dog"))


def test_a_data_set_is_frozen():
    with pytest.raises(AttributeError):
        empty().x = np.zeros(1)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_data_set_survives_copying_and_pickling():
    data = Dataset([[1.0]], [0], names=["only"])
    for twin in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert (twin.x == data.x).all()
        assert twin.names == ("only",)


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0], np.uint8), [-1, -3]])
def test_taking_rows_keeps_their_order_and_everything_else(rows):
    data = Dataset([[0.1], [0.2], [0.3]], [5, 6, 7], source="here", dtype=np.float64)
    part = data.take(rows)
    assert part.x.tolist() == [[0.3], [0.1]]
    assert part.y.tolist() == [7, 5]
    assert (part.source, part.x.dtype) == ("here", np.float64)


def test_rows_may_be_taken_by_a_boolean_for_each():
    data = Dataset([[0.0], [1.0], [2.0]], [5, 6, 7])
    assert data.take(data.y != 6).y.tolist() == [5, 7]


def test_no_rows_may_be_taken():
    assert Dataset([[0.0]], [1]).take([]).n == 0


def test_a_row_that_does_not_exist_is_refused_naming_it():
    with pytest.raises(DataError, match="row 3 does not exist; there are 3 rows"):
        Dataset(np.zeros((3, 1)), np.zeros(3)).take([0, 3])


@pytest.mark.parametrize("rows", [[0.0], [[0]], [True], 1])
def test_rows_of_another_kind_are_refused(rows):
    with pytest.raises(DataError, match="there are 3 rows to take from"):
        Dataset(np.zeros((3, 1)), np.zeros(3)).take(rows)

import numpy as np
import pytest

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.leaf import (
    constant,
    extent_value,
    input_,
    iota,
    native_array,
    parameter,
    scalar,
    scalar_value,
)


def test_a_parameter_starts_with_a_private_copy():
    value = np.ones((2, 2))
    w = parameter(value, "w")
    value[0, 0] = 7.0
    assert w.value is not None
    assert w.value[0, 0] == 1.0
    assert not np.shares_memory(w.value, value)
    assert (w.op, w.label, w.shape, w.dtype) == ("parameter", "w", (2, 2), DType.F64)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3)),
        np.arange(12, dtype="f4").reshape(2, 6)[:, ::2] / 2,
        np.broadcast_to(np.arange(3, dtype="f4"), (2, 3)),
    ],
    ids=["big-endian", "column-major", "strided", "repeated and read-only"],
)
def test_an_array_of_any_layout_is_copied_to_the_native_one(value: np.ndarray):
    copied = native_array(value)
    np.testing.assert_array_equal(copied, value)
    assert copied.flags.c_contiguous
    assert copied.dtype.isnative
    assert copied.flags.writeable


def test_lists_of_floats_are_float32_and_arrays_keep_their_type():
    assert parameter([1.0, 2.0]).dtype is DType.F32
    assert parameter([1, 2]).dtype is DType.I64
    assert parameter(np.ones(2)).dtype is DType.F64
    assert parameter(np.ones(2), dtype="float32").dtype is DType.F32


@pytest.mark.parametrize("name", ["int16", "uint8", "complex128", "<U3"])
def test_an_array_of_a_foreign_type_is_refused(name: str):
    with refused(DTypeError, name):
        parameter(np.zeros(3, name))


def test_a_ragged_list_is_refused():
    with refused(ShapeError, "nested list"):
        parameter([[1.0, 2.0], [3.0]])


def test_an_input_has_a_label_a_shape_and_a_type():
    x = input_("x", (batch, 4), "int32")
    assert (x.op, x.label, x.shape, x.dtype, x.value) == ("input", "x", (batch, 4), DType.I32, None)


@pytest.mark.parametrize(
    ("python", "beside", "dtype"),
    [
        (2, "float32", DType.F32),
        (2.5, "float64", DType.F64),
        (2, "int32", DType.I32),
        (True, "float32", DType.BOOL),
        (np.float64(2.5), "float32", DType.F32),
        (np.int64(2), "float32", DType.F32),
        (np.int64(2), "int32", DType.I32),
    ],
)
def test_a_number_takes_the_type_of_the_tensor_beside_it(python, beside: str, dtype: DType):
    assert constant(python, like=input_("x", (), beside)).dtype is dtype


@pytest.mark.parametrize(
    ("python", "dtype"),
    [
        (2, DType.I64),
        (2.5, DType.F32),
        (True, DType.BOOL),
        (np.float64(1), DType.F64),
        ([1, 2], DType.I64),
        ([1.0, 2.0], DType.F32),
        (np.zeros(()), DType.F64),
    ],
)
def test_a_number_alone_has_the_type_that_its_kind_means(python, dtype: DType):
    assert constant(python).dtype is dtype


@pytest.mark.parametrize(
    ("listed", "beside", "dtype"),
    [
        ([1, 2], "float32", DType.F32),
        ([1.5, 2], "float64", DType.F64),
        ([1, 2], "int32", DType.I32),
        (np.ones(2), "float32", DType.F64),
    ],
)
def test_a_list_takes_the_type_beside_it_and_an_array_its_own(listed, beside: str, dtype: DType):
    assert constant(listed, like=input_("x", (2,), beside)).dtype is dtype


@pytest.mark.parametrize(
    ("python", "beside"), [(0.5, "int32"), (0.5, "bool"), (1, "bool"), (float("nan"), "int64")]
)
def test_a_number_that_the_tensor_cannot_hold_is_refused(python, beside: str):
    with refused(DTypeError, "mul", "'x'", repr(python), beside):
        constant(python, like=input_("x", (), beside), op="mul")


@pytest.mark.parametrize(
    ("python", "dtype"),
    [(1e300, "float32"), (10**400, "float64"), (2**31, "int32"), (2**63, "int64"), (-1, "uint32")],
)
def test_a_number_out_of_range_is_refused_naming_the_type(python, dtype: str):
    with refused(DTypeError, "out of the range", dtype):
        constant(python, dtype=dtype)


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 3.4028235e38, -0.0])
def test_every_float_survives_as_a_constant(value: float):
    kept = scalar_value(constant(value))
    assert np.float32(kept).tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize("dtype", list(DType))
def test_a_scalar_gives_its_number_back(dtype: DType):
    assert scalar_value(scalar(1, dtype)) == 1
    assert scalar(1, dtype).dtype is dtype


@pytest.mark.parametrize("value", ["text", None, 1j, {}])
def test_what_is_no_number_is_no_constant(value: object):
    with refused(DTypeError, "add", repr(value)):
        constant(value, op="add")


def test_positions_run_along_their_axis():
    (found,) = evaluate([iota((2, 3), -1, "int32")], {})
    np.testing.assert_array_equal(found, [[0, 1, 2], [0, 1, 2]])
    assert found.dtype == np.int32


def test_positions_along_no_axis_are_refused():
    with refused(ShapeError, "axis 2", "(2, 3)"):
        iota((2, 3), 2)
    with refused(ShapeError, "axis 0", "()"):
        iota((), 0)
    with refused(DTypeError, "bool"):
        iota((2,), 0, "bool")


def test_an_extent_is_a_number_known_now_or_when_a_routine_runs():
    assert scalar_value(extent_value(6, DType.F32)) == 6.0
    assert extent_value(batch * 2, DType.F32).op == "extent"
    assert evaluate([extent_value(batch * 2, DType.I64)], {}, rows=5) == [10]

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import BroadcastableShapes, mutually_broadcastable_shapes
from scipy import special

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from workbench.errors import DTypeError, ShapeError
from workbench.graph import elementwise as ops
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import Tensor

UNARY = (*ops.UNARY_FLOAT, *ops.UNARY_NUMERIC)
BINARY = (*ops.BINARY_NUMERIC, "div", "pow")
FLOAT_TYPES = ("float32", "float64")


def tensor(shape=(2, 3), dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


@pytest.mark.parametrize("dtype", FLOAT_TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_a_function_keeps_shape_and_type(name: str, dtype: str):
    y = getattr(ops, name)(tensor((batch, 3), dtype))
    assert (y.op, y.shape, str(y.dtype)) == (name, (batch, 3), dtype)


@pytest.mark.parametrize("name", ops.UNARY_FLOAT)
@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_a_floating_function_refuses_other_types(name: str, dtype: str):
    with refused(DTypeError, f"{name}:", "`counts`", dtype, "(2, 3)"):
        getattr(ops, name)(tensor(dtype=dtype, label="counts"))


@pytest.mark.parametrize("name", ops.UNARY_NUMERIC)
def test_a_numeric_function_takes_integers_and_refuses_truth_values(name: str):
    assert getattr(ops, name)(tensor(dtype="int32")).dtype is DType.I32
    with refused(DTypeError, f"{name}:", "`mask`", "bool"):
        getattr(ops, name)(tensor(dtype="bool", label="mask"))


@pytest.mark.parametrize("name", [*BINARY, *ops.COMPARISONS])
def test_two_operands_are_broadcast_to_one_shape(name: str):
    y = getattr(ops, name)(tensor((batch, 1, 3)), tensor((4, 1)))
    assert y.shape == (batch, 4, 3)
    assert [t.shape for t in y.operands] == [y.shape, y.shape]
    assert y.dtype is (DType.BOOL if name in ops.COMPARISONS else DType.F32)


@pytest.mark.parametrize("name", [*BINARY, *ops.COMPARISONS])
def test_shapes_that_do_not_broadcast_are_refused_naming_both(name: str):
    with refused(
        ShapeError, f"{name}:", "left is `a` of shape (2, 3)", "right is `b` of shape (4, 1)",
        "extents 2 and 4 of axis -2",
    ):  # fmt: skip
        getattr(ops, name)(tensor((2, 3), label="a"), tensor((4, 1), label="b"))


@pytest.mark.parametrize("name", [*BINARY, *ops.COMPARISONS])
def test_types_that_differ_are_refused_naming_both(name: str):
    with refused(DTypeError, f"{name}:", "`a`", "float32", "`b`", "float64"):
        getattr(ops, name)(tensor(label="a"), tensor(dtype="float64", label="b"))


@pytest.mark.parametrize("name", ["div", "pow"])
def test_division_and_powers_refuse_integers(name: str):
    with refused(DTypeError, f"{name}:", "`n`", "int32"):
        getattr(ops, name)(tensor(dtype="int32", label="n"), 5)


@pytest.mark.parametrize("name", ops.BINARY_NUMERIC)
def test_arithmetic_takes_integers_and_refuses_truth_values(name: str):
    assert getattr(ops, name)(tensor(dtype="int64"), 3).dtype is DType.I64
    mask = tensor(dtype="bool", label="mask")
    with refused(DTypeError, f"{name}:", "`mask`", "bool"):
        getattr(ops, name)(mask, mask)


def test_an_error_between_three_operands_names_the_two_that_clash():
    condition, left, right = tensor((3,), "bool", "c"), tensor((3,), label="a"), tensor((4,))
    with refused(ShapeError, "where:", "left is `c`", "right is `x`", "3 and 4"):
        ops.where(condition, left, right)
    with refused(ShapeError, "where:", "left is `a`", "right is `x`", "3 and 4"):
        ops.where(tensor((1,), "bool", "c"), left, right)


def test_the_batch_meets_itself_and_one_only():
    x = tensor((batch, 3), label="rows")
    assert (x + tensor((batch, 1))).shape == (batch, 3)
    assert (x + tensor((1, 3))).shape == (batch, 3)
    with refused(ShapeError, "`rows`", "`five`", "extents batch and 5 of axis -2"):
        _ = x + tensor((5, 3), label="five")
    with refused(ShapeError, "extents batch and batch*2"):
        _ = x + tensor((batch * 2, 3))


def test_an_empty_axis_meets_itself_and_one_only():
    assert (tensor((0, 3)) + tensor((1, 3))).shape == (0, 3)
    with refused(ShapeError, "extents 0 and 2"):
        _ = tensor((0, 3)) + tensor((2, 3))


def test_where_asks_for_a_bool_condition_and_arms_of_one_type():
    mask = tensor(dtype="bool")
    assert ops.where(mask, 1.0, 0).dtype is DType.F32
    assert ops.where(mask, tensor(dtype="float64"), 0).dtype is DType.F64
    assert ops.where(True, 1, 2).dtype is DType.I64
    with refused(DTypeError, "where:", "`x`", "float32", "not of type bool"):
        ops.where(tensor(), 1.0, 0.0)
    with refused(DTypeError, "where:", "int32", "float32"):
        ops.where(mask, tensor(dtype="int32"), tensor())


@pytest.mark.parametrize("name", ["logical_and", "logical_or"])
def test_logic_is_of_truth_values(name: str):
    mask = tensor(dtype="bool")
    assert getattr(ops, name)(mask, True).dtype is DType.BOOL
    with refused(DTypeError, f"{name}:", "`x`", "float32", "not of type bool"):
        getattr(ops, name)(mask, tensor())
    with refused(DTypeError, "logical_not:", "not of type bool"):
        ops.logical_not(tensor())


def test_conversion_to_the_same_type_is_nothing():
    x = tensor()
    assert x.astype("float32") is x
    assert x.astype("int32").dtype is DType.I32


def test_broadcasting_repeats_axes_of_extent_one_only():
    assert ops.broadcast_to(tensor((3, 1)), (batch, 3, 4)).shape == (batch, 3, 4)
    x = tensor((2, 3))
    assert ops.broadcast_to(x, (2, 3)) is x
    for shape in ((2, 6), (3,), (3, 2)):
        with refused(ShapeError, "broadcast_to:", "`x` of shape (2, 3)"):
            ops.broadcast_to(x, shape)


@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4))
def test_shapes_broadcast_as_in_numpy(shapes: BroadcastableShapes):
    left, right = shapes.input_shapes
    assert (tensor(left) + tensor(right)).shape == np.broadcast_shapes(left, right)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("gelu", lambda x: x * (1 + special.erf(x / np.sqrt(2))) / 2),
        ("silu", lambda x: x / (1 + np.exp(-x))),
        ("softplus", lambda x: np.log(1 + np.exp(x))),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
    ],
)
def test_the_functions_that_numpy_lacks_are_what_their_formula_says(name: str, meant):
    x = np.linspace(0.1, 3.0, 7)
    (found,) = evaluate([getattr(ops, name)(parameter(x))], {})
    np.testing.assert_allclose(found, meant(x), rtol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 3, 0.5, -1, 0, 4, 1.5, -2, np.float64(2), True])
def test_constant_powers_are_powers(power: float):
    x = np.linspace(0.5, 2.0, 5)
    (found,) = evaluate([parameter(x) ** power], {})
    np.testing.assert_allclose(found, x**power, rtol=1e-12)


def test_whole_numbers_have_small_whole_powers():
    n = constant(np.array([2, 3]))
    assert [v.tolist() for v in evaluate([n**1, n**2, n**3], {})] == [[2, 3], [4, 9], [8, 27]]


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_finiteness_is_numpys(values: list[float]):
    x = np.array(values, np.float32)
    (found,) = evaluate([ops.isfinite(parameter(x))], {})
    np.testing.assert_array_equal(found, np.isfinite(x))


def test_finiteness_is_asked_of_floats():
    with refused(DTypeError, "isfinite:", "int32"):
        ops.isfinite(tensor(dtype="int32"))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (parameter(np.ones((2, 3)), "w"), "`w` of shape (2, 3) and type float64"),
        (tensor((batch,)) * 2.0, "a `mul` of shape (batch,) and type float32"),
        (constant([1.0]), "an `array` of shape (1,) and type float32"),
    ],
)
def test_an_operand_is_described_by_label_or_operation(node: Tensor, text: str):
    assert ops.describe(node) == text

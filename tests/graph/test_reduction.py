import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import shapes
from workbench.errors import DTypeError, ShapeError
from workbench.graph import reduction as ops
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.leaf import input_, parameter
from workbench.graph.tensor import Tensor

NAMES = ("sum", "max", "min", "mean")


def tensor(shape=(2, 3), dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


@st.composite
def arrays_with_axes(draw: st.DrawFn):
    shape = draw(shapes(most_rank=4))
    axes = draw(st.none() | st.sets(st.integers(0, max(0, len(shape) - 1)), max_size=len(shape)))
    if axes is not None:
        axes = tuple(a - len(shape) if draw(st.booleans()) else a for a in axes)
    values = np.random.default_rng(draw(st.integers(0, 999))).integers(-5, 6, shape)
    return values.astype(np.float64), axes if shape else None


@pytest.mark.parametrize("name", NAMES)
@given(case=arrays_with_axes(), keepdims=st.booleans())
def test_reductions_are_numpys(name: str, case, keepdims: bool):
    values, axes = case
    (found,) = evaluate([getattr(ops, name)(parameter(values), axes, keepdims=keepdims)], {})
    np.testing.assert_allclose(found, getattr(np, name)(values, axis=axes, keepdims=keepdims))


@given(case=arrays_with_axes(), keepdims=st.booleans())
def test_logsumexp_is_the_logarithm_of_the_sum(case, keepdims: bool):
    values, axes = case
    (found,) = evaluate([ops.logsumexp(parameter(values), axes, keepdims=keepdims)], {})
    expected = np.log(np.sum(np.exp(values), axis=axes, keepdims=keepdims))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    "row",
    [
        [1000.0, 1000.0],
        [-1000.0, -1000.0],
        [-np.inf, -np.inf],
        [-np.inf, 0.0],
        [np.inf, 0.0],
        [np.nan, 0.0],
    ],
)
def test_logsumexp_of_extreme_rows_is_what_logaddexp_says(row: list[float]):
    (found,) = evaluate([ops.logsumexp(parameter(np.array(row)))], {})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, np.logaddexp.reduce(row), rtol=1e-12)


@given(shape=shapes(least_rank=1), seed=st.integers(0, 999), data=st.data())
def test_argmax_is_numpys_with_ties_and_nan(shape: tuple[int, ...], seed: int, data: st.DataObject):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 1.0, -np.inf, np.nan], shape, p=[0.4, 0.4, 0.1, 0.1])
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    keepdims = data.draw(st.booleans())
    (found,) = evaluate([ops.argmax(parameter(values), axis, keepdims=keepdims)], {})
    np.testing.assert_array_equal(found, np.argmax(values, axis=axis, keepdims=keepdims))
    assert found.dtype == np.int64


def test_argmax_counts_among_whole_numbers_and_the_batch_too():
    x = tensor((batch, 3), "int32")
    values = np.array([[5, 7, 7], [7, -1, 2]], np.int32)
    assert x.argmax(0).shape == (3,)
    assert [v.tolist() for v in evaluate([x.argmax(0), x.argmax(None)], {x: values})] == [
        [1, 0, 0],
        1,
    ]


def test_shapes_keep_the_batch():
    x = tensor((batch, 4, 3))
    assert x.sum((1, 2)).shape == (batch,)
    assert x.max(-1, keepdims=True).shape == (batch, 4, 1)
    assert x.sum(0).shape == (4, 3)
    assert x.mean().shape == ()


def test_the_mean_over_the_batch_divides_by_the_rows_there_are():
    x = tensor((batch, 2))
    values = np.array([[1, 2], [3, 4], [5, 9]], np.float32)
    (found,) = evaluate([x.mean(0)], {x: values})
    np.testing.assert_allclose(found, [3, 5])


def test_the_mean_of_nothing_is_nan_as_in_numpy():
    (found,) = evaluate([parameter(np.zeros((0, 2))).mean(0)], {})
    assert np.isnan(found).all()


def test_reducing_over_no_axis_is_nothing():
    x = tensor()
    assert x.sum(()) is x


@pytest.mark.parametrize("name", [*NAMES, "argmax", "logsumexp"])
def test_an_axis_outside_is_refused_naming_the_tensor(name: str):
    with refused(ShapeError, f"{name}:", "axis 2", "`x` of shape (2, 3)"):
        getattr(ops, name)(tensor(), 2)
    with refused(ShapeError, f"{name}:", "axis -1"):
        getattr(ops, name)(tensor((), label="s"), -1)


@pytest.mark.parametrize("name", [*NAMES, "logsumexp"])
def test_an_axis_named_twice_is_refused(name: str):
    with refused(ShapeError, f"{name}:", "`x`", "twice"):
        getattr(ops, name)(tensor(), (0, -2))


@pytest.mark.parametrize("axis", [0.5, "1", True, [None]])
def test_what_is_no_axis_is_refused(axis):
    with refused(ShapeError, "sum: axis"):
        ops.sum(tensor(), axis)


def test_argmax_takes_one_axis():
    with refused(ShapeError, "argmax: (0, 1) is not one axis", "`x`"):
        ops.argmax(tensor(), (0, 1))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["max", "min", "argmax", "logsumexp"])
def test_nothing_has_no_extreme(name: str):
    with refused(ShapeError, f"{name}:", "`x` of shape (2, 0)", "no elements"):
        getattr(ops, name)(tensor((2, 0)), 1)


@pytest.mark.parametrize("name", ["max", "min", "argmax"])
def test_truth_values_are_converted_first(name: str):
    with refused(DTypeError, f"{name}:", "`mask`", "bool"):
        getattr(ops, name)(tensor(dtype="bool", label="mask"))


@pytest.mark.parametrize("name", ["mean", "logsumexp"])
def test_means_and_logarithms_are_of_floats(name: str):
    with refused(DTypeError, f"{name}:", "`counts`", "int64"):
        getattr(ops, name)(tensor(dtype="int64", label="counts"))


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("axis", [None, 0, ()])
def test_sums_have_the_types_that_numpy_gives_them(dtype: DType, axis):
    found = tensor((2, 3), dtype.value).sum(axis).dtype
    assert found.numpy == np.zeros((2, 3), dtype.numpy).sum(axis).dtype

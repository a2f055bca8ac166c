"""16-bit types: kept in memory, computed in float32, with the conversions as nodes of the graph."""

import numpy as np
import pytest

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import random_graph
from workbench.errors import DTypeError
from workbench.graph import composite, elementwise, indexing, reduction
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.gradient import backward
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.random import uniform
from workbench.graph.tensor import Tensor, topological_order

HALVES = ("float16", "bfloat16")
ARITHMETIC = (
    *elementwise.UNARY_FLOAT,
    *elementwise.UNARY_NUMERIC,
    *elementwise.BINARY_NUMERIC,
    "div",
    "pow",
)


def tensor(dtype: str, shape: tuple[object, ...] = (batch, 3), label: str = "x") -> Tensor:
    return input_(label, shape, dtype)


def applied(name: str, x: Tensor) -> Tensor:
    function = getattr(elementwise, name)
    one_operand = name in (*elementwise.UNARY_FLOAT, *elementwise.UNARY_NUMERIC)
    return function(x) if one_operand else function(x, x)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_float32_and_its_result_is_rounded(name: str, dtype: str):
    y = applied(name, tensor(dtype))
    assert (y.op, str(y.dtype)) == ("cast", dtype)
    (inner,) = y.operands
    assert (inner.op, inner.dtype) == (name, DType.F32)
    assert {t.dtype for t in inner.operands} == {DType.F32}


@pytest.mark.parametrize("dtype", HALVES)
def test_reductions_products_and_sums_by_number_keep_the_type(dtype: str):
    x, w = tensor(dtype), tensor(dtype, (3, 4))
    rows = input_("rows", (batch,), "int32")
    for y in (x.sum(0), x.mean(), x.max(1), x @ w, indexing.scatter_add(5, rows, x)):
        assert str(y.dtype) == dtype
    assert x.argmax().dtype is DType.I64
    assert (x > 0.5).dtype is DType.BOOL
    assert str(uniform((2,), seed=1, dtype=dtype).dtype) == dtype


@pytest.mark.parametrize("dtype", HALVES)
def test_movement_moves_16_bits(dtype: str):
    x = tensor(dtype)
    for y in (x.T, x.reshape(-1), x[:, 1:], elementwise.broadcast_to(x[:, :1], (batch, 3))):
        assert {str(t.dtype) for t in topological_order([y])} == {dtype}


def test_a_16_bit_type_beside_a_wider_or_another_one_widens_to_float32():
    half, brain, single = (tensor(dtype) for dtype in ("float16", "bfloat16", "float32"))
    assert (half + single).dtype is (single * brain).dtype is (half + brain).dtype is DType.F32
    with refused(DTypeError, "float16", "float64"):
        _ = half + tensor("float64")
    with refused(DTypeError, "bfloat16", "int32"):
        _ = brain + tensor("int32")


@pytest.mark.parametrize("dtype", HALVES)
def test_a_python_number_takes_the_type_and_is_checked_against_its_range(dtype: str):
    x = tensor(dtype)
    assert str((x * 0.1).dtype) == dtype
    with refused(DTypeError, "1e+39", dtype):
        _ = x * 1e39


@pytest.mark.parametrize("dtype", HALVES)
def test_losses_and_gradients_are_float32(dtype: str):
    w = parameter(np.ones((3, 4)), "w", dtype=dtype)
    scores = tensor(dtype) @ w
    labels = input_("labels", (batch,), "int32")
    for loss in (composite.cross_entropy(scores, labels), composite.mse(scores, scores * 2.0)):
        assert loss.dtype is DType.F32
        assert backward(loss, [w])[w].dtype is DType.F32


def test_a_mean_whose_sum_overflows_is_still_right():
    x = parameter(np.full(100, 3000.0), dtype="float16")
    assert evaluate([x.mean()], {})[0] == 3000.0
    assert np.isinf(evaluate([x.sum()], {})[0])


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_are_accumulated_wide_and_rounded_once(dtype: str):
    x = constant(np.full(4096, 1.0), dtype=dtype)
    assert float(evaluate([reduction.sum(x)], {})[0]) == 4096.0


@pytest.mark.parametrize("dtype", HALVES)
def test_finiteness_is_that_of_the_type(dtype: str):
    x = parameter(np.array([1.0, np.inf, np.nan]), dtype=dtype)
    assert evaluate([elementwise.isfinite(x)], {})[0].tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", HALVES)
def test_random_graphs_and_their_gradients_exist_in_16_bits(dtype: str):
    for seed in range(40):
        outputs, feeds = random_graph(seed, dtype)
        for node, value in zip(outputs, evaluate(outputs, feeds), strict=True):
            assert np.isfinite(value.astype(np.float64)).all(), f"seed {seed}: {node!r}"

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from tests.strategies import shapes
from workbench.errors import DTypeError, ShapeError
from workbench.graph import composite as ops
from workbench.graph.extent import batch
from workbench.graph.gradient import backward
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import Tensor


def tensor(shape=(2, 3), dtype="float32", label="x") -> Tensor:
    return input_(label, shape, dtype)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@given(shape=shapes(least_rank=1), seed=st.integers(0, 999), data=st.data())
def test_distributions_are_scipys(name: str, shape, seed: int, data: st.DataObject):
    values = np.random.default_rng(seed).normal(size=shape) * 300
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    (found,) = evaluate([getattr(ops, name)(parameter(values), axis)], {})
    expected = getattr(special, name)(values, axis)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_distributions_are_of_floats_along_axes_there_are(name: str):
    function = getattr(ops, name)
    with refused(DTypeError, f"{name}:", "`n`", "int32"):
        function(tensor(dtype="int32", label="n"))
    with refused(ShapeError, f"{name}: axis 2", "`x`"):
        function(tensor(), 2)
    with refused(ShapeError, f"{name}:", "no elements"):
        function(tensor((2, 0)))


@given(rows=st.integers(1, 5), classes=st.integers(1, 5), seed=st.integers(0, 999))
def test_cross_entropy_is_the_surprise_at_the_label(rows: int, classes: int, seed: int):
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(rows, classes)) * 50, rng.integers(0, classes, rows)
    x = parameter(logits)
    outputs = [
        ops.cross_entropy_rows(x, constant(labels)),
        ops.cross_entropy(x, constant(labels)),
    ]
    per_row, mean = evaluate(outputs, {})
    expected = -special.log_softmax(logits, -1)[np.arange(rows), labels]
    np.testing.assert_allclose(per_row, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mean, expected.mean(), rtol=1e-9, atol=1e-9)


def test_a_class_that_is_masked_out_does_not_spoil_the_others():
    x = parameter(np.array([[0.0, -np.inf, 1.0]]))
    loss = ops.cross_entropy(x, constant([2]))
    value, gradient = evaluate([loss, backward(loss, [x])[x]], {})
    np.testing.assert_allclose(value, np.log1p(np.exp(-1.0)))
    share = special.softmax([0.0, -np.inf, 1.0])
    np.testing.assert_allclose(gradient, [share - [0, 0, 1]])


def test_cross_entropy_takes_a_label_for_each_row_of_any_rank():
    assert ops.cross_entropy_rows(tensor((batch, 5, 9)), tensor((batch, 5), "int64")).shape == (
        batch,
        5,
    )
    assert ops.cross_entropy(tensor((9,)), tensor((), "int32")).shape == ()


@pytest.mark.parametrize(
    ("logits", "labels"), [((4, 3), (3,)), ((4, 3), (4, 1)), ((), ()), ((batch, 3), (4,))]
)
def test_labels_that_do_not_match_the_rows_are_refused_naming_both(logits, labels):
    with refused(ShapeError, "cross_entropy:", "the logits are `z`", "the labels `t`"):
        ops.cross_entropy(tensor(logits, label="z"), tensor(labels, "int32", "t"))


def test_labels_are_class_numbers():
    with pytest.raises(DTypeError, match=r"labels are `t`.*float32") as caught:
        ops.cross_entropy(tensor(), tensor(label="t"))
    assert "log_softmax" in caught.value.remedy
    with refused(DTypeError, "cross_entropy:", "`n`", "int32"):
        ops.cross_entropy(tensor(dtype="int32", label="n"), tensor((2,), "int32"))


@given(shape=shapes(), seed=st.integers(0, 999))
def test_mse_is_the_mean_square(shape: tuple[int, ...], seed: int):
    a, b = np.random.default_rng(seed).normal(size=(2, *shape))
    (found,) = evaluate([ops.mse(parameter(a), b)], {})
    np.testing.assert_allclose(found, np.mean((a - b) ** 2))


def test_mse_never_broadcasts():
    with refused(ShapeError, "mse:", "`y` of shape (batch,)", "`t` of shape (batch, 1)"):
        ops.mse(tensor((batch,), label="y"), tensor((batch, 1), label="t"))
    with refused(DTypeError, "mse:", "float32", "float64"):
        ops.mse(tensor(), tensor(dtype="float64"))
    with refused(DTypeError, "mse:", "int32"):
        ops.mse(tensor(dtype="int32"), tensor(dtype="int32"))

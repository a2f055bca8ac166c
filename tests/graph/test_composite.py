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
from workbench.runtime.context import Context


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


OFFSETS = (0.0, 1.0, -1.0, 1e2, -1e4, 1e4, 1e6, -1e6, 1e8, 1e30, -1e30)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_logits_have_the_loss_log_n_however_far_from_0_they_are(offset: float, dtype: str):
    x = parameter(np.full((2, 3), offset, dtype))
    rows = ops.cross_entropy_rows(x, constant([0, 2]))
    losses, gradient = evaluate([rows, backward(rows.sum(), [x])[x]], {})
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(losses, np.full(2, np.log(3.0)), rtol=tolerance)
    third = 1.0 / 3.0
    expected = [[third - 1.0, third, third], [third, third, third - 1.0]]
    np.testing.assert_allclose(gradient, expected, rtol=4 * tolerance)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@given(rows=st.integers(1, 4), classes=st.integers(1, 5), seed=st.integers(0, 999), data=st.data())
def test_what_all_logits_of_a_row_have_in_common_changes_neither_loss_nor_gradient(
    dtype: str, rows: int, classes: int, seed: int, data: st.DataObject
):
    rng = np.random.default_rng(seed)
    # Whole numbers below 256 and their sums with powers of two up to 2**7 are exact in 16 bits.
    logits = rng.integers(-8, 8, (rows, classes)).astype(np.float64)
    offset = 2.0 ** data.draw(st.integers(0, 7 if dtype in ("bfloat16", "float16") else 20))
    labels = rng.integers(0, classes, rows)

    def losses(shift: float):
        leaf = parameter(logits + shift)
        loss = ops.cross_entropy_rows(leaf.astype(dtype), constant(labels))
        return evaluate([loss, backward(loss.sum(), [leaf])[leaf]], {})

    (near, near_slope), (far, far_slope) = losses(0.0), losses(offset)
    np.testing.assert_array_equal(near, far)
    np.testing.assert_array_equal(near_slope, far_slope)


@given(rows=st.integers(1, 6), classes=st.integers(1, 7), seed=st.integers(0, 9999))
def test_no_row_has_a_loss_below_0(rows: int, classes: int, seed: int):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 8)
    logits = (rng.normal(size=(rows, classes)) * scale + 10.0 ** rng.uniform(0, 8)).astype(
        "float32"
    )
    labels = logits.argmax(-1) if seed % 2 else rng.integers(0, classes, rows)
    x = parameter(logits)
    ctx, routine = Context.cpu().compile([ops.cross_entropy_rows(x, constant(labels))])
    losses = ctx.run(routine).get_values(routine.outputs[0])
    assert (losses >= 0.0).all()
    wide = logits.astype(np.float64)
    expected = -special.log_softmax(wide, -1)[np.arange(rows), labels]
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("logits", "label", "loss"),
    [
        ([0.0, -np.inf], 0, 0.0),
        ([0.0, -np.inf], 1, np.inf),
        ([np.inf, 0.0], 0, np.nan),
        ([-np.inf, -np.inf], 0, np.nan),
        ([np.nan, 0.0], 1, np.nan),
    ],
)
def test_infinite_logits_and_nan_have_the_loss_that_they_have_elsewhere(logits, label, loss):
    # As in torch 2.13.
    (found,) = evaluate([ops.cross_entropy(parameter(np.array([logits])), constant([label]))], {})
    np.testing.assert_array_equal(found, loss)

"""Known gradients, in float32: a closed form where there is one, else central differences.

Seeds and shapes are fixed, so that another engine can be asked the same questions.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

from tests.oracle.central_difference import difference
from tests.oracle.numpy_graph import evaluate
from workbench.graph.composite import cross_entropy, softmax
from workbench.graph.elementwise import (
    abs_,
    cos,
    erf,
    exp,
    gelu,
    log,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    tanh,
)
from workbench.graph.gradient import backward, backward_from
from workbench.graph.leaf import constant, input_
from workbench.graph.movement import concat, reshape, transpose
from workbench.graph.tensor import Tensor

Loss = Callable[..., Tensor]

LEAST_COSINE = 0.999999
RTOL = 1e-4  # of float32 gradients, relative to the greatest element


def gradients(loss: Loss, arrays: list[np.ndarray], dtype: str = "float32") -> list[np.ndarray]:
    leaves = [input_(f"x{i}", a.shape, dtype) for i, a in enumerate(arrays)]
    found = backward(loss(*leaves), leaves)
    feeds = {leaf: a.astype(dtype) for leaf, a in zip(leaves, arrays, strict=True)}
    return evaluate([found[leaf] for leaf in leaves], feeds)


def differences(loss: Loss, arrays: list[np.ndarray]) -> list[np.ndarray]:
    leaves = [input_(f"x{i}", a.shape, "float64") for i, a in enumerate(arrays)]
    feeds = dict(zip(leaves, arrays, strict=True))
    return [difference(loss(*leaves), leaf, feeds) for leaf in leaves]


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    cosine = np.vdot(found, expected) / (np.linalg.norm(found) * np.linalg.norm(expected))
    assert cosine > LEAST_COSINE
    np.testing.assert_allclose(found, expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())


def normals(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def test_a_constant_factor():
    (found,) = gradients(lambda p: (p * 3.0).sum(), normals(0, (1, 6)))
    np.testing.assert_array_equal(found, np.full((1, 6), 3.0, np.float32))


def test_sums_differences_products_and_squares():
    a, b = normals(1, (1, 6), (1, 6))
    da, db = gradients(lambda a, b: ((a + b) * a - (a - b) + a**2).sum(), [a, b])
    agree(da, 4 * a + b - 1)
    agree(db, a + 1)


def test_the_mean_shares_equally():
    (found,) = gradients(lambda x: x.mean(), normals(2, (1, 10)))
    agree(found, np.full((1, 10), 0.1))


def test_a_matrix_product():
    x, w = normals(3, (4, 5), (5, 3))
    dx, dw = gradients(lambda x, w: (x @ w).sum(), [x, w])
    agree(dx, np.ones((4, 3)) @ w.T)
    agree(dw, x.T @ np.ones((4, 3)))


@pytest.mark.parametrize("function", [gelu, tanh, sigmoid])
def test_smooth_activations(function):
    (x,) = normals(4, (1, 12))

    def loss(x: Tensor) -> Tensor:
        return function(x).sum()

    agree(*gradients(loss, [x]), *differences(loss, [x]))


def test_softmax_has_its_closed_form():
    x, w = normals(20, (4, 6), (4, 6))
    (found,) = gradients(lambda x: (softmax(x) * constant(w, dtype=x.dtype)).sum(), [x])
    y = special.softmax(x, -1)
    agree(found, y * (w - (w * y).sum(-1, keepdims=True)))


@pytest.mark.parametrize(
    ("seed", "shape", "move", "undo"),
    [
        (50, (2, 3, 4), lambda x: transpose(x, (2, 1, 0)), lambda w: w.transpose(2, 1, 0)),
        (51, (2, 6), lambda x: reshape(x, (3, 4)), lambda w: w.reshape(2, 6)),
        (52, (4, 6), lambda x: concat([x[:, :3], x[:, 3:]], 1), lambda w: w),
    ],
    ids=["transpose", "reshape", "slice and concat"],
)
def test_movement_moves_the_gradient_back_exactly(seed: int, shape, move, undo):
    (x,) = normals(seed, shape)
    rng = np.random.default_rng(seed + 100)
    w = rng.standard_normal(move(input_("x", shape)).shape).astype(np.float32)
    (found,) = gradients(lambda x: (move(x) * constant(w)).sum(), [x])
    np.testing.assert_array_equal(found, undo(w))


@pytest.mark.parametrize(("seed", "function"), [(53, relu), (60, silu)])
def test_rectifiers(seed: int, function):
    x, w = normals(seed, (3, 7), (3, 7))

    def loss(x: Tensor) -> Tensor:
        return (function(x) * constant(w, dtype=x.dtype)).sum()

    agree(*gradients(loss, [x]), *differences(loss, [x]))


def rms_norm(x: Tensor, gamma: Tensor) -> Tensor:
    return x * rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma


def norm_over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    centred = x - x.mean(axes, keepdims=True)
    return centred * rsqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


def group_norm(x: Tensor, groups: int) -> Tensor:
    n, c, h, w = x.shape
    assert isinstance(c, int)
    return norm_over(x.reshape(n, groups, c // groups, h, w), (2, 3, 4)).reshape(x.shape)


def test_rms_norm_has_its_closed_form():
    x, g, gamma = normals(61, (4, 16), (4, 16), (16,))
    found, _ = gradients(
        lambda x, gamma: (rms_norm(x, gamma) * constant(g, dtype=x.dtype)).sum(), [x, gamma]
    )
    r = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    n, gn = x * r, g * gamma
    agree(found, r * (gn - n * (gn * n).mean(-1, keepdims=True)))


@pytest.mark.parametrize(
    ("seed", "shape", "axes"), [(62, (4, 16), (-1,)), (63, (1, 16, 1, 4), (1,))]
)
def test_layer_norm_has_its_closed_form(seed: int, shape, axes):
    x, g = normals(seed, shape, shape)
    (found,) = gradients(lambda x: (norm_over(x, axes) * constant(g, dtype=x.dtype)).sum(), [x])
    centred = x - x.mean(axes, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    n = centred * r
    expected = r * (g - g.mean(axes, keepdims=True) - n * (g * n).mean(axes, keepdims=True))
    agree(found, expected)


def test_group_norm():
    x, g = normals(63, (1, 8, 4, 4), (1, 8, 4, 4))

    def loss(x: Tensor) -> Tensor:
        return (group_norm(x, 2) * constant(g, dtype=x.dtype)).sum()

    agree(*gradients(loss, [x]), *differences(loss, [x]))


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor) -> Tensor:
    """Return two heads of attention over 4 positions of width 8."""

    def heads(w: Tensor) -> Tensor:
        return (x @ w).reshape(4, 2, 4).transpose(1, 0, 2)

    scores = heads(wq) @ heads(wk).transpose(0, 2, 1) * (1 / math.sqrt(4))
    return (softmax(scores) @ heads(wv)).transpose(1, 0, 2).reshape(4, 8) @ wo


def test_attention_with_two_heads():
    arrays = normals(57, (4, 8), *[(8, 8)] * 4)
    arrays = [arrays[0], *(w / math.sqrt(8) for w in arrays[1:])]
    (weights,) = normals(157, (4, 8))

    def loss(x: Tensor, *w: Tensor) -> Tensor:
        return (attention(x, *w) * constant(weights, dtype=x.dtype)).sum()

    for found, expected in zip(gradients(loss, arrays), differences(loss, arrays), strict=True):
        agree(found, expected)


def test_ones_at_the_logits_are_the_gradient_of_their_sum():
    x, w = input_("x", (4, 5)), input_("w", (5, 3))
    logits = tanh(x @ w)
    seeded = backward_from(constant(np.ones((4, 3), np.float32)), logits, [x, w])
    summed = backward(logits.sum(), [x, w])
    a, b = normals(3, (4, 5), (5, 3))
    feeds = {x: a.astype(np.float32), w: b.astype(np.float32)}
    for pair in zip(seeded.values(), summed.values(), strict=True):
        one, other = evaluate(pair, feeds)
        np.testing.assert_array_equal(one, other)


def test_cross_entropy_is_softmax_less_one_hot_over_the_rows():
    (logits,) = normals(22, (5, 10))
    labels = np.random.default_rng(22).integers(0, 10, 5)
    (found,) = gradients(lambda x: cross_entropy(x, constant(labels)), [logits])
    agree(found, (special.softmax(logits, -1) - np.eye(10)[labels]) / 5)


def l2_norm(x: Tensor) -> Tensor:
    return x * rsqrt((x**2).sum(-1, keepdims=True) + 1e-12)


AUDIT = [exp, sqrt, rsqrt, reciprocal, log, erf, cos, abs_, l2_norm]
OF_POSITIVE = (sqrt, rsqrt, reciprocal, log)


@pytest.mark.parametrize("index", range(len(AUDIT)))
def test_the_audit_of_single_rules(index: int):
    function = AUDIT[index]
    x, w = normals(21 + index, (4, 8), (4, 8))
    if function in OF_POSITIVE:
        x = np.abs(x) + 0.5

    def loss(x: Tensor) -> Tensor:
        return (function(x) * constant(w, dtype=x.dtype)).sum()

    agree(*gradients(loss, [x]), *differences(loss, [x]))


def test_a_factor_of_zero_cuts_the_value_and_infinity_does_not_poison_a_constant():
    x = input_("x", (3,))
    loss = (x.sum() * 0.0 + 1.0) * 2.0
    seed = backward(loss, [loss])[loss]
    value, start = evaluate([loss, seed], {x: np.array([1.0, 2.0, np.inf], np.float32)})
    assert np.isnan(value)
    assert start == 1.0

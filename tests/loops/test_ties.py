"""An element that is compared with the greatest of its own is the same bits in both places."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.graph.tensor import topological_order
from workbench.loops.ties import compared_with_an_extreme

SHAPES = [(5, 6, 3), (4, 16, 3), (3, 8, 4), (7, 5, 8), (4, 12, 10), (2, 9, 2)]


def network(sizes, dtype):
    """Return random rows, an input for them, its logits, and the same logits by numpy."""
    chance = np.random.default_rng(sum(sizes))
    a, b, c = sizes
    rows = chance.normal(size=(200, a)).astype(dtype)
    weights = [chance.normal(size=s).astype(dtype) for s in ((a, b), (b,), (b, c), (c,))]
    w1, b1, w2, b2 = (wb.parameter(w, f"w{i}") for i, w in enumerate(weights))
    x = wb.input("x", (wb.batch, a), dtype)
    v1, c1, v2, c2 = (w.astype(np.float64) for w in weights)
    expected = np.maximum(rows @ v1 + c1, 0) @ v2 + c2
    return rows, x, wb.relu(x @ w1 + b1) @ w2 + b2, expected


def run(outputs, values, context=None):
    ctx, routine = (context or wb.Context.cpu(threads=1)).compile(outputs)
    ctx = ctx.set_values(values).run(routine)
    return [np.array(ctx.get_values(node)) for node in outputs]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_the_place_of_the_greatest_is_found_beside_a_loss_that_computes_it_too(sizes, dtype):
    rows, x, scores, expected = network(sizes, dtype)
    y = wb.input("y", (wb.batch,), "int64")
    labels = expected.argmax(1)
    loss = wb.cross_entropy_rows(scores, y).mean()
    _, found = run([loss, wb.argmax(scores, -1)], {x: rows, y: labels})
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_each_row_hands_the_cotangent_of_its_greatest_element_on(sizes, dtype):
    rows, x, scores, expected = network(sizes, dtype)
    shift = wb.parameter(np.zeros(sizes[-1], dtype), "shift")
    shifted = scores + shift
    total = shifted.max(1).sum() + 0.0 * wb.logsumexp(shifted, -1).sum()
    (gradient,) = wb.backward(total, [shift]).values()
    (found,) = run([gradient], {x: rows})
    counts = np.bincount(expected.argmax(1), minlength=sizes[-1])
    np.testing.assert_allclose(found, counts, atol=1e-4)


def test_what_is_rounded_once_or_never_stays_virtual():
    x, y = wb.input("x", (8, 4)), wb.input("y", (8, 4))
    for scores in (wb.relu(x), x + y, abs(wb.relu(-(x - y)))):
        place = wb.argmax(scores, -1)
        placements = wb.Context.cpu(threads=1).lowered_for_decisions([place]).placements
        (sought,) = (n for n in topological_order([place]) if n.op == "stop_gradient")
        assert not placements[sought].is_stored


def test_only_a_comparison_with_the_own_greatest_counts():
    x = wb.input("x", (8, 4))
    scores = (x * x).sum(1) * 2.0
    plain = wb.computation([scores == scores.max(), scores == 3.0], {})
    other = wb.computation([scores == wb.sqrt(x).max(), scores > scores.max()], {})
    assert compared_with_an_extreme(plain) == {scores}
    assert compared_with_an_extreme(other) == frozenset()


NUMBERS = st.integers(0, 10_000)
FORMS = {
    "affine": lambda x, w, b: x @ w + b,
    "perceptron": lambda x, w, b: wb.relu(x @ w + b) @ w * 1.7 + b,
    "exponential": lambda x, w, b: wb.exp(0.1 * x) @ w + b * 0.3,
    "elementwise": lambda x, w, b: x * 1.3 + b,
    "function": lambda x, w, b: wb.tanh(x) * 1.1 + b,
}


@settings(max_examples=4)
@given(NUMBERS, st.integers(1, 9), st.integers(2, 7), st.booleans())
@pytest.mark.parametrize("form", FORMS)
def test_the_greatest_element_is_found_whatever_is_computed_beside_it(form, seed, rows, n, single):
    draw = np.random.default_rng(seed)
    dtype = np.float32 if single else np.float64
    x, w, b = (
        wb.parameter(draw.normal(size=shape).astype(dtype), name)
        for shape, name in (((rows, n), "x"), ((n, n), "w"), ((n,), "b"))
    )
    scores = FORMS[form](x, w, b)
    at, top = wb.argmax(scores, -1), wb.max(scores, -1)
    beside = wb.logsumexp(scores, -1).mean()
    slope = wb.backward(top.sum(), [x])[x] if form == "elementwise" else at
    ctx, routine = wb.Context.cpu(1).compile([at, beside, slope])
    found, _, sloped = (np.asarray(value) for value in ctx.run(routine).read([at, beside, slope]))
    ctx, alone = wb.Context.cpu(1).compile([scores])
    expected = np.asarray(ctx.run(alone).read([scores])[0])
    assert np.all((found >= 0) & (found < n))
    chosen = expected[np.arange(rows), found]
    np.testing.assert_allclose(chosen, expected.max(-1), rtol=1e-5)
    if form == "elementwise":
        np.testing.assert_allclose(np.abs(sloped).sum(-1), 1.3, rtol=1e-6)

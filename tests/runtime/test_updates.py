"""State updated in place: every new value comes from the old ones, whoever is written first."""

from itertools import permutations

import numpy as np
import pytest

import workbench as wb

CONTEXTS = {"interpreter": wb.Context.interpreter, "two threads": lambda: wb.Context.cpu(2)}
A = np.arange(9.0).reshape(3, 3)
B = A * 10.0 + 1.0
C = -A


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def parameters(*values):
    return [wb.parameter(value, name) for value, name in zip(values, "pqrst", strict=False)]


def updated(root, updates, outputs=(), turns=1):
    """Return state after some turns, by name, and the outputs of the last one."""
    ctx, routine = root.compile(outputs, updates=updates)
    for _ in range(turns):
        ctx = ctx.run(routine)
    return {leaf.label: ctx.get_values(leaf) for leaf in updates}, [
        ctx.get_values(node) for node in outputs
    ]


def test_two_parameters_change_places(root):
    p, q = parameters(A, B)
    for updates in ({p: q, q: p}, {q: p, p: q}):
        state, _ = updated(root, updates)
        assert np.array_equal(state["p"], B)
        assert np.array_equal(state["q"], A)
    state, _ = updated(root, {p: q, q: p}, turns=2)
    assert np.array_equal(state["p"], A)


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("pqr")])
def test_three_parameters_go_round_whatever_their_order(root, order):
    leaves = dict(zip("pqr", parameters(A, B, C), strict=True))
    new = {
        "p": leaves["q"] + 1.0,
        "q": leaves["r"] + 1.0,
        "r": leaves["p"] + 1.0,
    }
    state, _ = updated(root, {leaves[name]: new[name] for name in order})
    assert np.array_equal(state["p"], B + 1.0)
    assert np.array_equal(state["q"], C + 1.0)
    assert np.array_equal(state["r"], A + 1.0)


@pytest.mark.parametrize("order", ["".join(p) for p in permutations("pqrs")])
def test_a_chain_of_parameters_moves_by_one_whatever_their_order(root, order):
    leaves = dict(zip("pqrs", parameters(A, B, C, A - B), strict=True))
    new = dict(zip("pqrs", [leaves["q"], leaves["r"], leaves["s"], leaves["s"] * 2.0], strict=True))
    state, _ = updated(root, {leaves[name]: new[name] for name in order})
    expected = {"p": B, "q": C, "r": A - B, "s": (A - B) * 2.0}
    for name, value in expected.items():
        assert np.array_equal(state[name], value), name


WHOLE = {
    "transposed": (lambda p: p.T, lambda a: a.T),
    "plus its transpose": (lambda p: p + p.T, lambda a: a + a.T),
    "flipped": (lambda p: wb.flip(p, 0), lambda a: a[::-1]),
    "rolled": (lambda p: wb.concat([p[1:], p[:1]], 0), lambda a: np.roll(a, -1, 0)),
    "less its mean": (lambda p: p - p.mean(), lambda a: a - a.mean()),
    "less its column means": (lambda p: p - p.mean(0), lambda a: a - a.mean(0)),
    "over its row sums": (
        lambda p: p / (p.sum(1, keepdims=True) + 1.0),
        lambda a: a / (a.sum(1, keepdims=True) + 1.0),
    ),
    "squared as a matrix": (lambda p: p @ p, lambda a: a @ a),
    "rows chosen": (
        lambda p: wb.take(p, wb.constant(np.array([2, 2, 0]))),
        lambda a: a[[2, 2, 0]],
    ),
    "reshaped and transposed": (
        lambda p: p.reshape(9)[::-1].reshape(3, 3).T,
        lambda a: a.reshape(9)[::-1].reshape(3, 3).T,
    ),
    "sorted into sums": (
        lambda p: wb.scatter_add(3, wb.constant(np.array([1, 1, 2])), p),
        lambda a: np.array([np.zeros(3), a[0] + a[1], a[2]]),
    ),
}


@pytest.mark.parametrize("how", WHOLE)
def test_a_parameter_is_computed_from_all_of_itself(root, how):
    change, expected = WHOLE[how]
    (p,) = parameters(A)
    state, _ = updated(root, {p: change(p)})
    np.testing.assert_allclose(state["p"], expected(A), rtol=0, atol=1e-14)
    state, _ = updated(root, {p: change(p)}, turns=3)
    thrice = expected(expected(expected(A)))
    np.testing.assert_allclose(state["p"], thrice, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("how", WHOLE)
def test_another_parameter_and_an_output_still_see_the_old_value(root, how):
    change, expected = WHOLE[how]
    p, q = parameters(A, B)
    outputs = [wb.tanh(p).sum(), p.reshape(9), q - p]
    for updates in ({p: change(p), q: q + p}, {q: q + p, p: change(p)}):
        state, found = updated(root, updates, outputs)
        np.testing.assert_allclose(state["p"], expected(A), rtol=0, atol=1e-14)
        assert np.array_equal(state["q"], B + A)
        assert found[0] == pytest.approx(np.tanh(A).sum(), rel=1e-14)
        assert np.array_equal(found[1], A.reshape(9))
        assert np.array_equal(found[2], B - A)


def test_moments_that_share_an_expression_are_updated_from_old_values(root):
    # As Adam does: the new moment is both stored and used for the new parameter.
    p, m, v = parameters(A, B, C)
    g = wb.sin(p)
    m1 = 0.9 * m + 0.1 * g
    v1 = 0.5 * v + 0.5 * wb.square(g)
    step = m1 / (wb.sqrt(abs(v1)) + 1.0)
    for updates in ({p: p - step, m: m1, v: v1}, {v: v1, m: m1, p: p - step}):
        state, _ = updated(root, updates)
        g_ = np.sin(A)
        m_ = 0.9 * B + 0.1 * g_
        v_ = 0.5 * C + 0.5 * g_**2
        np.testing.assert_allclose(state["q"], m_, rtol=1e-14)
        np.testing.assert_allclose(state["r"], v_, rtol=1e-14)
        expected = A - m_ / (np.sqrt(np.abs(v_)) + 1.0)
        np.testing.assert_allclose(state["p"], expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_state_of_other_types_is_updated(root, dtype):
    p = wb.parameter(np.array([0, 1, 1], dtype), "p")
    new = ~p if dtype == "bool" else p * 3 - 1
    state, _ = updated(root, {p: new})
    expected = [True, False, False] if dtype == "bool" else [-1, 2, 2]
    assert state["p"].tolist() == expected
    assert state["p"].dtype == np.dtype(dtype)


def test_an_input_with_a_batch_can_be_state(root):
    x = wb.input("x", (wb.batch, 2))
    ctx, routine = root.compile([], updates={x: x * 2.0})
    for rows in (3, 1):
        ctx = ctx.set_values({x: np.ones((rows, 2))}).run(routine).run(routine)
        assert ctx.get_values(x).tolist() == [[4.0, 4.0]] * rows


def test_what_is_updated_by_itself_stays(root):
    (p,) = parameters(A)
    state, _ = updated(root, {p: p})
    assert np.array_equal(state["p"], A)


def test_large_state_is_updated_from_old_values_on_two_threads():
    # Large enough to be cut: a chunk must not read what another has written.
    numbers = np.random.default_rng(1)
    a, b = numbers.normal(size=(2, 600, 600))
    p, q = parameters(a, b)
    updates = {p: wb.sin(q.T) + p, q: wb.cos(p.T) - q}
    state, _ = updated(wb.Context.cpu(2), updates)
    np.testing.assert_allclose(state["p"], np.sin(b.T) + a, rtol=0, atol=1e-14)
    np.testing.assert_allclose(state["q"], np.cos(a.T) - b, rtol=0, atol=1e-14)

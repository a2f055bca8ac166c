"""New values of state that are computed where they are kept."""

import numpy as np
import pytest

import workbench as wb

CONTEXTS = {"interpreter": wb.Context.interpreter, "two threads": lambda: wb.Context.cpu(2)}
VALUE = np.arange(6.0).reshape(2, 3)


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


@pytest.fixture
def p():
    return wb.parameter(VALUE, "p")


@pytest.fixture
def kept():
    return wb.state("kept", (2, 3), "float64", 7.0)


def is_copied(computation, new):
    """Whether the new value is computed elsewhere and copied."""
    return any(s.target is new for s in computation.statements)


def run(root, computation):
    ctx, routine = root.compile(computation, name="step")
    return ctx.run(routine)


def test_a_value_that_nobody_overwrites_by_it_is_computed_in_place(root, p, kept):
    new = wb.exp(p)
    made = wb.computation([], {kept: new})
    assert not is_copied(made, new)
    np.testing.assert_allclose(run(root, made).get_values(kept), np.exp(VALUE))


def test_who_reads_the_new_value_reads_the_state(root, p, kept):
    new = p * 2.0
    made = wb.computation([], {kept: new, p: p - new})
    assert not is_copied(made, new)
    ctx = run(root, made)
    assert np.array_equal(ctx.get_values(kept), VALUE * 2.0)
    assert np.array_equal(ctx.get_values(p), -VALUE)


def test_a_product_is_written_into_its_gradient_and_read_there(root):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 24)), rng.standard_normal((24, 40))
    left, right = wb.parameter(a, "left"), wb.parameter(b, "right")
    loss = wb.square(left @ right).sum()
    step = wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=0.5)
    ctx, routine = root.compile(step)
    written = [kernel.label for kernel in routine.program.kernels]
    assert {"grad_left", "grad_right"} <= set(written)
    ctx = ctx.run(routine)
    slope = 2.0 * (a @ b) @ b.T
    np.testing.assert_allclose(ctx.get_values(wb.gradient_of(left)), slope, rtol=1e-10)
    np.testing.assert_allclose(ctx.get_values(left), a - 0.5 * slope, rtol=1e-10)


def test_a_value_that_reads_what_it_replaces_is_copied(root, kept):
    new = kept.T.reshape(2, 3) + 1.0
    made = wb.computation([], {kept: new})
    assert is_copied(made, new)
    right = np.full((3, 2), 7.0).reshape(2, 3) + 1.0
    assert np.array_equal(run(root, made).get_values(kept), right)


def test_the_old_value_stays_for_whoever_reads_it(root, p, kept):
    new, old = p * 2.0, wb.state("old", (2, 3), "float64")
    made = wb.computation([], {kept: new, old: kept + new})
    assert is_copied(made, new)
    ctx = run(root, made)
    assert np.array_equal(ctx.get_values(kept), VALUE * 2.0)
    assert np.array_equal(ctx.get_values(old), VALUE * 2.0 + 7.0)


def test_one_value_for_two_states_is_computed_in_one_of_them(root, p, kept):
    other, new = wb.state("other", (2, 3), "float64"), wb.exp(p)
    ctx = run(root, wb.computation([], {kept: new, other: new}))
    assert np.array_equal(ctx.get_values(kept), ctx.get_values(other))
    np.testing.assert_allclose(ctx.get_values(kept), np.exp(VALUE))


def test_an_output_keeps_its_own_memory(root, p, kept):
    new = wb.exp(p)
    made = wb.computation([new], {kept: new})
    assert is_copied(made, new)
    ctx = run(root, made).set_values({kept: VALUE * 0.0})
    np.testing.assert_allclose(ctx.get_values(new), np.exp(VALUE))


def test_a_value_that_shares_memory_is_copied(root, p):
    flat = wb.state("flat", (6,), "float64")
    ctx = run(root, wb.computation([], {flat: (p * 3.0).reshape(6)}))
    assert np.array_equal(ctx.get_values(flat), VALUE.ravel() * 3.0)


def test_whole_numbers_that_choose_rows_are_copied(root, p):
    chosen = wb.state("chosen", (2,), "int64")
    rows = wb.iota((2,), 0) * -1 + 1
    picked = wb.state("picked", (2, 3), "float64")
    ctx = run(root, wb.computation([], {chosen: rows, picked: wb.take(p, rows)}))
    assert ctx.get_values(chosen).tolist() == [1, 0]
    assert np.array_equal(ctx.get_values(picked), VALUE[::-1])


def test_parts_that_are_joined_read_each_others_new_values_in_place(root, p, kept):
    first = wb.computation([], {kept: wb.exp(p)})
    second = wb.computation([], {p: p - kept, kept: kept * 0.5})
    ctx = run(root, first + second)
    np.testing.assert_allclose(ctx.get_values(p), VALUE - np.exp(VALUE))
    np.testing.assert_allclose(ctx.get_values(kept), np.exp(VALUE) * 0.5)

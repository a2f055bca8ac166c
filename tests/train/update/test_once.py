"""Running a tensor once, and loops over bound indices."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import BIAS, CONTEXTS, Linear, W
from tests.train.update.test_clipping import GRAD_BIAS, LOSS
from workbench.errors import ConfigurationError, DataError, ExecutionError, GraphError


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def test_parameters_are_initialised_once_and_again_on_demand(root):
    model = Linear(frozen=True)
    ctx = wb.init_params(root, model.loss)
    assert {model.w, model.bias} <= ctx.initialized
    ctx = ctx.set_values({model.bias: np.array([5.0, 6.0])})
    assert wb.init_params(ctx, model.loss).get_values(model.bias).tolist() == [5.0, 6.0]
    again = wb.init_params(ctx, model.loss, reinit_all=True)
    assert np.array_equal(again.get_values(model.bias), BIAS)
    assert np.array_equal(again.get_values(model.w), W)


def test_a_loss_is_computed_once(root):
    model = Linear()
    ctx = wb.forward_once(model.feed(root), model.loss)
    assert ctx.get_values(model.loss) == pytest.approx(LOSS, abs=1e-8)


def test_a_loss_and_its_gradients_are_computed_once(root):
    model = Linear()
    ctx = wb.update_once(model.feed(root), model.loss)
    np.testing.assert_allclose(ctx.get_values(wb.gradient_of(model.bias)), GRAD_BIAS, atol=1e-8)


def test_initialising_can_be_skipped_and_repeated(root):
    w = wb.parameter([1.0, 2.0], "w")
    loss = wb.square(w).sum()
    ctx = wb.forward_once(root, loss).set_values({w: [3.0, 4.0]})
    assert wb.forward_once(ctx, loss).get_values(loss) == 25.0
    assert wb.forward_once(ctx, loss, skip_init=True).get_values(loss) == 25.0
    assert wb.forward_once(ctx, loss, reinit_all=True).get_values(loss) == 5.0


def test_anything_that_is_built_from_a_tensor_can_be_run_once(root):
    model = Linear()

    def build(loss):
        return wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=0.5)

    ctx = wb.run_once(model.feed(root), build, model.loss)
    right = BIAS - 0.5 * np.array(GRAD_BIAS)
    np.testing.assert_allclose(ctx.get_values(model.bias), right, atol=1e-8)


def test_what_ran_once_is_released_with_its_context(root):
    model = Linear()
    ctx = model.feed(root)
    done = wb.update_once(ctx, model.loss)
    done.release()
    with refused(ExecutionError, "released"):
        done.get_values(model.loss)
    assert ctx.get_values(model.x).shape == (4, 3)


# -- loops over bound indices


def test_loops_nest_in_the_order_of_their_bindings_and_restore_them():
    outer, inner = wb.static_index("outer", 2), wb.static_index("inner", 3)
    bindings = {outer: 1, inner: 2}
    seen = [(bindings[outer], bindings[inner]) for _ in wb.sequential_loop(bindings)]
    assert seen == [(a, b) for a in range(2) for b in range(3)]
    assert list(bindings.values()) == [1, 2]


def test_an_index_that_is_not_looped_over_stays_where_it_is():
    outer, inner = wb.static_index("outer", 2), wb.static_index("inner", 3)
    bindings = {outer: 1, inner: 2}
    seen = [(now[outer], now[inner]) for now in wb.sequential_loop(bindings, [inner])]
    assert seen == [(1, 0), (1, 1), (1, 2)]


def test_a_loop_that_ends_early_restores_the_bindings():
    index = wb.static_index("index", 5)
    bindings = {index: 3}
    loop = wb.sequential_loop(bindings)
    next(loop)
    next(loop)
    loop.close()  # type: ignore[attr-defined]  # a generator
    assert bindings == {index: 3}


def test_without_indices_there_is_one_pass():
    assert len(list(wb.sequential_loop({}))) == 1


def test_only_bound_static_indices_can_be_looped_over():
    index, x = wb.static_index("index", 5), wb.input("x", (2,))
    with refused(GraphError, "`x`", remedy="static_index"):
        wb.sequential_loop({index: 0}, [x])
    with refused(GraphError, "`index`", "bound"):
        wb.sequential_loop({}, [index])


def test_a_run_reads_bindings_at_once_so_that_the_next_pass_may_change_them(root):
    index, total = wb.static_index("index", 4), wb.state("total", (), "int64")
    bindings = {index: 0}
    add = wb.computation([], {total: total * 10 + index})
    ctx, routine = root.compile(add, name="add", bindings=bindings)
    for _ in wb.sequential_loop(bindings):
        ctx = ctx.run(routine)
    assert ctx.get_values(total) == 123


# -- batches by a bound index


def rows(n):
    rng = np.random.default_rng(n)
    return wb.data.Dataset(rng.standard_normal((n, 3)), np.arange(n) % 2, dtype=np.float64)


def test_an_epoch_over_resident_rows_is_one_of_fit(root):
    data = rows(11)
    batches = wb.indexed_batches(data, 4)
    assert (batches.count, batches.rows) == (2, 8)
    start = np.random.default_rng(1).standard_normal((3, 2))

    def loss_of(w, x, y):
        return wb.cross_entropy(x @ w, y)

    w = wb.parameter(start, "w")
    loss = loss_of(w, batches.x, batches.y)
    bindings = {batches.index: 0}
    step = wb.grad_update(loss) + wb.adam_update(loss, learning_rate=0.1)
    ctx, routine = root.compile(step, bindings=bindings)
    ctx = batches.in_order(ctx)
    for _ in range(3):
        for _ in wb.sequential_loop(bindings):
            ctx = ctx.run(routine)

    def fit_step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, loss_of)

    config = wb.Config(3, 4, 0.1, 1, shuffle=False, drop_last=True, verbose=False)
    run = wb.Run(start, wb.adam(start), config, context=wb.Context.cpu(1))
    wb.fit(run, [], data, None, fit_step)
    np.testing.assert_allclose(ctx.get_values(w), run.params, rtol=1e-12)


def test_rows_can_be_shuffled_without_a_copy_from_the_host(root):
    data, order = rows(6), np.array([5, 0, 3, 1, 4, 2])
    batches = wb.indexed_batches(data, 2)
    bindings = {batches.index: 0}
    ctx, routine = root.compile([batches.x], bindings=bindings)
    ctx = batches.reordered(ctx, order)
    seen = []
    for _ in wb.sequential_loop(bindings):
        ctx = ctx.run(routine)
        seen.append(ctx.get_values(batches.x))
    assert np.array_equal(np.concatenate(seen), data.x[order])


def test_orders_and_sizes_that_do_not_fit_are_refused():
    batches = wb.indexed_batches(rows(6), 2)
    for bad in ([0, 1], [0, 1, 2, 3, 4, 6], [-1, 1, 2, 3, 4, 5], np.arange(6.0)):
        with refused(DataError, "6 rows"):
            batches.reordered(wb.Context.interpreter(), bad)
    with refused(DataError, "7 rows", "6"):
        wb.indexed_batches(rows(6), 7)
    with refused(ConfigurationError, "batch_size"):
        wb.indexed_batches(rows(6), 0)

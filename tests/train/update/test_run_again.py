"""A cell that compiles and runs a step is run again: what is trained stays trained."""

from functools import partial

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import CONTEXTS, SLOPE, Linear, buffer, run, sloped
from workbench.train.update.norm import is_finite_sum

BUILDERS = {
    "sgd": partial(wb.sgd_update, momentum=0.9, weight_decay=0.01),
    "adam": wb.adam_update,
    "adamw": wb.adamw_update,
    "rmsprop": partial(wb.rmsprop_update, momentum=0.5),
    "lion": wb.lion_update,
}
LR = 0.125


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def whole(loss, builder, lr=LR):
    return wb.grad_update(loss) + builder(loss, learning_rate=lr)


# -- what an update reads it does not write


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_updates_by_one_gradient_never_change_it_whatever_scales_it(builder, clip, gated):
    """Scales are powers of two, so that a scaled run has the bits of one without."""
    ends = []
    for scale in (None, 1024.0):
        p, loss = sloped("float32")
        unscale = None if scale is None else 1.0 / scale
        options = {"learning_rate": LR, "grad_unscale": unscale}
        between = wb.computation([], {})
        if clip:
            clipping = wb.clip_by_global_norm(loss, max_norm=0.5, grad_unscale=unscale)
            between, options["grad_scale"] = clipping.computation, clipping.grad_scale
        if gated:
            flag, check = wb.grad_checksum(loss)
            between, options["update_gate"] = between + check, is_finite_sum(flag)
        ctx, gradients = wb.Context.cpu(1).compile(wb.grad_update(loss, loss_scale=scale))
        ctx = ctx.run(gradients)
        if clip or gated:
            ctx, measure = ctx.compile(between)
            ctx = ctx.run(measure)
        ctx, update = ctx.compile(builder(loss, **options))
        before = ctx.get_values(wb.gradient_of(p)).tobytes()
        for _ in range(3):
            ctx = ctx.run(update)
            assert ctx.get_values(wb.gradient_of(p)).tobytes() == before
        ends.append(ctx.get_values(p).tobytes())
    assert ends[0] == ends[1]


def test_an_update_of_one_parameter_unscales_it_each_time_alike(root):
    p, loss = sloped()
    ctx, gradients = root.compile(wb.grad_update(loss, loss_scale=1024.0))
    ctx, update = ctx.compile(wb.sgd_one(p, learning_rate=1.0, grad_unscale=1.0 / 1024.0))
    start = ctx.get_values(p)
    ctx = ctx.run(gradients).run(update).run(update)
    assert np.array_equal(ctx.get_values(p), start - 2.0 * np.array(SLOPE))


# -- the same cell again


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
def test_a_step_that_is_compiled_anew_each_time_trains_as_one_compiled_once(root, builder):
    once, again = sloped(), sloped()
    ctx = run(root, whole(once[1], builder), times=6)
    other = root
    for _ in range(3):
        other = run(other, whole(again[1], builder), times=2)
    assert ctx.get_values(once[0]).tobytes() == other.get_values(again[0]).tobytes()
    for mine, theirs in zip(
        whole(once[1], builder).updates, whole(again[1], builder).updates, strict=True
    ):
        assert ctx.get_values(mine).tobytes() == other.get_values(theirs).tobytes()


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
def test_gradients_and_update_in_routines_of_their_own_are_compiled_again(root, builder):
    p, loss = sloped()
    whole_p, whole_loss = sloped()
    ctx = root
    for _ in range(3):
        ctx, gradients = ctx.compile(wb.grad_update(loss))
        ctx, update = ctx.compile(builder(loss, learning_rate=LR))
        ctx = ctx.run(gradients).run(update).run(gradients).run(update)
    right = run(root, whole(whole_loss, builder), times=6)
    np.testing.assert_allclose(ctx.get_values(p), right.get_values(whole_p), rtol=1e-14)


def test_a_compile_cell_that_runs_twice_before_the_run_cell_holds_nothing_up(root):
    p, loss = sloped()
    root, gradients = root.compile(wb.grad_update(loss))
    root, update = root.compile(wb.sgd_update(loss, learning_rate=LR))
    for _ in range(2):
        # The names are bound to other routines: nobody holds those before.
        root, gradients = root.compile(wb.grad_update(loss))
        root, update = root.compile(wb.sgd_update(loss, learning_rate=LR))
    start = root.get_values(p)
    ctx = root.run(gradients).run(update)
    np.testing.assert_allclose(ctx.get_values(p), start - LR * np.array(SLOPE))


def test_another_rate_continues_with_the_weights_and_moments_that_are_there(root):
    p, loss = sloped()
    ctx = run(root, whole(loss, wb.adam_update, 0.5), times=4)
    moment, count = ctx.get_values(buffer(whole(loss, wb.adam_update), "momentum_p")), 4
    trained = ctx.get_values(p)
    ctx = run(ctx, whole(loss, wb.adam_update, 0.0))
    assert np.array_equal(ctx.get_values(p), trained)
    update = wb.adam_update(loss, learning_rate=0.0)
    assert ctx.get_values(buffer(update, "updates")) == count + 1
    np.testing.assert_allclose(
        ctx.get_values(buffer(update, "momentum_p")), 0.9 * moment + 0.1 * np.array(SLOPE)
    )


def test_another_optimizer_in_between_leaves_the_memory_of_the_first(root):
    p, loss = sloped()
    ctx = run(root, whole(loss, wb.adam_update), times=3)
    kept = ctx.get_values(buffer(whole(loss, wb.adam_update), "variance_p"))
    before = ctx.get_values(p)
    ctx = run(ctx, whole(loss, wb.sgd_update), times=2)
    np.testing.assert_allclose(ctx.get_values(p), before - 2 * LR * np.array(SLOPE))
    assert np.array_equal(ctx.get_values(buffer(whole(loss, wb.adam_update), "variance_p")), kept)
    ctx = run(ctx, whole(loss, wb.adam_update))
    assert ctx.get_values(buffer(whole(loss, wb.adam_update), "updates")) == 4


def test_another_loss_takes_the_gradient_over_and_not_the_weights(root):
    model = Linear()
    ctx = run(model.feed(root), whole(model.loss, wb.sgd_update), times=3)
    trained = model.values(ctx)
    second = (model.w * 2.0).sum() + (model.bias * 3.0).sum()
    ctx = run(ctx, whole(second.named("second"), wb.sgd_update))
    w, bias = model.values(ctx)
    np.testing.assert_allclose(w, trained[0] - LR * 2.0)
    np.testing.assert_allclose(bias, trained[1] - LR * 3.0)


def test_what_runs_once_runs_as_often_as_one_likes(root):
    p = wb.parameter([3.0], "p")
    losses = [(p * p).sum().named("square"), (p * 5.0).sum().named("line")]
    ctx = root
    for _ in range(3):
        for loss, slope in zip(losses, (6.0, 5.0), strict=True):
            ctx = wb.init_params(ctx, loss)
            ctx = wb.update_once(ctx, loss)
            assert ctx.get_values(wb.gradient_of(p)).tolist() == [slope]
            ctx = wb.forward_once(ctx, loss)
            ctx = wb.run_once(ctx, wb.grad_update, loss)
            assert ctx.get_values(wb.gradient_of(p)).tolist() == [slope]


def test_parameters_that_are_made_anew_begin_anew(root):
    first, loss = sloped()
    ctx = run(root, whole(loss, wb.adam_update), times=3)
    second, other = sloped()
    ctx = run(ctx, whole(other, wb.adam_update), times=1)
    fresh = run(root, whole(other, wb.adam_update), times=1)
    assert np.array_equal(ctx.get_values(second), fresh.get_values(second))
    assert not np.array_equal(ctx.get_values(first), ctx.get_values(second))


def test_another_set_of_parameters_has_moments_and_a_count_of_its_own():
    model = Linear()
    both = wb.adam_update(model.loss, learning_rate=LR)
    one = wb.adam_update(model.loss, learning_rate=LR, params=[model.w])
    assert not {n.uid for n in both.updates if n.op == "state"} & {n.uid for n in one.updates}
    again = wb.adam_update(model.loss, learning_rate=1.0, params=[model.bias, model.w])
    assert {n.uid for n in both.updates} == {n.uid for n in again.updates}


def test_micro_steps_that_are_compiled_again_are_counted_with_those_before(root):
    w = wb.parameter([2.0], "w")
    loss = (w * w).sum().named("loss")
    ctx, cells = root, []
    for _ in range(3):
        ctx, reset = ctx.compile(wb.zero_params_grads(loss))
        ctx, micro = ctx.compile(wb.grad_update(loss, accum_steps=2))
        ctx = ctx.run(reset).run(micro).run(micro)
        assert ctx.get_values(wb.gradient_of(w)).tolist() == [4.0]
        cells.append((reset, micro))
    reset, micro = cells[-1]
    # Between two resets a second copy would count the gradient twice.
    ctx, copy = ctx.compile(wb.grad_update(loss, accum_steps=2))
    with refused(wb.ExecutionError, "`grad_w`", "2 times", remedy="zero_params_grads"):
        ctx.run(copy)
    assert ctx.run(reset).run(copy).run(micro).get_values(wb.gradient_of(w)).tolist() == [4.0]


def test_running_a_cell_again_takes_no_more_memory_after_the_second_turn(root):
    _, loss = sloped()
    ctx, used = root, []
    for builder in (wb.adam_update, wb.sgd_update, *[wb.adam_update, wb.adamw_update] * 3):
        ctx = run(ctx, whole(loss, builder), times=2)
        ctx = wb.update_once(ctx, loss)
        used.append((ctx.held_memory(), len(ctx.buffers)))
    assert len(set(used[1:])) == 1

"""Gradients and their owners: what the code builders declare, as the ledger enforces it."""

import numpy as np

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import Linear, run
from workbench.errors import GradientError


def test_of_two_losses_in_one_lineage_the_one_that_ran_last_has_the_gradient():
    model = Linear()
    ctx, first = model.feed(wb.Context.interpreter()).compile(wb.grad_update(model.loss))
    second = (model.w * 2.0).sum().named("second")
    ctx, other = ctx.compile(wb.grad_update(second))
    w, bias = model.gradients(ctx.run(first))
    ctx = ctx.run(other)
    assert np.array_equal(ctx.get_values(wb.gradient_of(model.w)), np.full((2, 3), 2.0))
    again = model.gradients(ctx.run(first))
    assert np.array_equal(again[0], w)
    assert np.array_equal(again[1], bias)


def test_micro_steps_beside_a_whole_gradient_are_refused_without_a_reset():
    model = Linear()
    ctx, _ = wb.Context.interpreter().compile(wb.grad_update(model.loss))
    with refused(wb.CompileError, "zeroes it as well", remedy="zero_params_grads"):
        ctx.compile(wb.grad_update(model.bias.sum(), accum_steps=2))
    ctx, _ = ctx.compile(wb.zero_params_grads(model.loss))
    ctx.compile(wb.grad_update(model.loss, accum_steps=2))


def test_two_losses_add_up_after_one_zeroing():
    model = Linear()
    second = (3.0 * model.bias).sum().named("second")
    ctx, zero = model.feed(wb.Context.cpu()).compile(wb.zero_params_grads(model.loss))
    ctx, first = ctx.compile(wb.grad_update(model.loss, accum_steps=1))
    ctx, other = ctx.compile(wb.grad_update(second, accum_steps=1))
    whole = run(model.feed(wb.Context.cpu()), wb.grad_update(model.loss + second))
    ctx = ctx.run(zero).run(first).run(other)
    for a, b in zip(model.gradients(ctx), model.gradients(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_micro_step_too_many_is_refused_until_gradients_are_zeroed():
    model = Linear()
    ctx, zero = model.feed(wb.Context.interpreter()).compile(wb.zero_params_grads(model.loss))
    ctx, micro = ctx.compile(wb.grad_update(model.loss, accum_steps=2))
    ctx = ctx.run(zero).run(micro).run(micro)
    with refused(wb.ExecutionError, "`grad_bias`", "2 times", remedy="zero_params_grads"):
        ctx.run(micro)
    assert ctx.run(zero).run(micro) is not None


def test_a_step_before_its_gradients_is_refused():
    model = Linear()
    ctx, gradients = model.feed(wb.Context.interpreter()).compile(wb.grad_update(model.loss))
    ctx, step = ctx.compile(wb.sgd_update(model.loss, learning_rate=0.1))
    assert not ctx.can_run(step)
    with refused(wb.ExecutionError, "loss gradient update"):
        ctx.run(step)
    assert ctx.run(gradients).can_run(step)


def test_a_computation_that_trains_nothing_is_no_update():
    with refused(GradientError, "trains nothing"):
        wb.update_once(wb.Context.interpreter(), wb.constant(1.0))

"""Gradients and their owners: what the code builders declare, as the ledger enforces it."""

import numpy as np

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import Linear, run
from workbench.errors import GradientError


def test_two_losses_in_one_lineage_are_refused_with_the_gradient_they_share():
    model = Linear()
    ctx, _ = wb.Context.interpreter().compile(wb.grad_update(model.loss))
    second = (model.w * 2.0).sum().named("second")
    with refused(wb.CompileError, "`grad_w`", "`loss gradient update`", remedy="sum"):
        ctx.compile(wb.grad_update(second))


def test_the_same_gradients_twice_in_one_lineage_are_refused():
    model = Linear()
    ctx, _ = wb.Context.interpreter().compile(wb.grad_update(model.loss))
    with refused(wb.CompileError, "`loss`", remedy="sibling"):
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

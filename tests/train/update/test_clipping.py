"""Norm, clipping and accumulation on a linear model of four rows."""

import math

import numpy as np
import pytest

import workbench as wb
from tests.oracle.central_difference import difference
from tests.refusal import refused
from tests.train.update.problems import BIAS, CONTEXTS, DTYPES, TOLERANCE, Linear, T, W, X, run
from workbench.errors import ConfigurationError, GradientError, GraphError

LOSS = 1.09027472
GRAD_W = [[-0.62528381, -0.39609481, -0.07699573], [-0.37816729, 0.57942058, -0.14930524]]
GRAD_BIAS = [1.00519481, 0.41958042]
NORM = 1.49709531
SCALE = 0.33398007


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


def near(actual, expected, dtype, digits=6e-9):
    np.testing.assert_allclose(actual, expected, atol=max(digits, TOLERANCE[dtype]))


def test_the_loss_and_its_gradients(root, dtype):
    model = Linear(dtype)
    ctx = run(model.feed(root), wb.grad_update(model.loss))
    near(ctx.get_values(model.loss), LOSS, dtype)
    near(model.gradients(ctx)[0], GRAD_W, dtype)
    near(model.gradients(ctx)[1], GRAD_BIAS, dtype)


@pytest.mark.parametrize("apart", [False, True])
def test_a_clipped_step_with_weight_decay(root, dtype, apart):
    model = Linear(dtype)
    clip = wb.clip_by_global_norm(model.loss, max_norm=0.5)
    gradients = wb.grad_update(model.loss)
    step = wb.sgd_update(
        model.loss, learning_rate=0.05, weight_decay=0.1, grad_scale=clip.grad_scale
    )
    ctx = model.feed(root)
    if apart:
        for part in (gradients, clip.computation, step):
            ctx = run(ctx, part)
    else:
        ctx = run(ctx, gradients + clip.computation + step)
    near(ctx.get_values(clip.grad_norm), NORM, dtype)
    near(ctx.get_values(clip.grad_scale), SCALE, dtype)
    w, bias = model.values(ctx)
    near(w, [[-0.98455838, -0.52915484, -0.07525271], [-0.37637729, 0.06686272, 0.53826248]], dtype)
    near(bias, [-0.41478575, -0.00700657], dtype)
    near(model.gradients(ctx)[0], GRAD_W, dtype)
    near(model.gradients(ctx)[1], GRAD_BIAS, dtype)


def test_accumulated_gradients_are_those_of_the_whole_batch(root, dtype):
    model = Linear(dtype, rows=2)
    ctx = model.feed(root)
    ctx, zero = ctx.compile(wb.zero_params_grads(model.loss))
    ctx, micro = ctx.compile(wb.grad_update(model.loss, accum_steps=2))
    ctx, step = ctx.compile(wb.sgd_update(model.loss, learning_rate=0.05))
    ctx = ctx.run(zero).run(micro)
    near(model.gradients(ctx)[1], [0.48011988, 0.63136863], dtype)
    near(model.gradients(ctx)[0][0], [-0.57609663, 0.03496503, -0.31421306], dtype)
    ctx = model.feed(ctx, 2).run(micro)
    near(model.gradients(ctx)[0], GRAD_W, dtype)
    near(model.gradients(ctx)[1], GRAD_BIAS, dtype)
    ctx = ctx.run(step)
    w, bias = model.values(ctx)
    near(w, [[-0.96873581, -0.5186568, -0.07307329], [-0.36570702, 0.04795205, 0.5459268]], dtype)
    near(bias, [-0.45025974, -0.02097902], dtype)


def test_four_micro_steps_with_clipping_match_one_step_of_the_whole_batch():
    whole, rows = Linear(), Linear(rows=1)
    states = []
    for model, micro in ((whole, None), (rows, 4)):
        clip = wb.clip_by_global_norm(model.loss, max_norm=0.3)
        step = wb.adamw_update(model.loss, learning_rate=0.02, grad_scale=clip.grad_scale)
        ctx, zero = wb.Context.cpu().compile(wb.zero_params_grads(model.loss))
        ctx, gradients = ctx.compile(wb.grad_update(model.loss, accum_steps=micro))
        ctx, update = ctx.compile(clip.computation + step)
        for _ in range(5):
            ctx = ctx.run(zero)
            for first in range(micro or 1):
                ctx = model.feed(ctx, first).run(gradients)
            ctx = ctx.run(update)
        states.append(model.values(ctx))
    for a, b in zip(*states, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_clipped_gradients_of_four_micro_steps_equal_central_differences(root):
    whole, rows = Linear(), Linear(rows=1)
    feeds = {whole.w: W, whole.bias: BIAS, whole.x: X, whole.t: T}
    slopes = [difference(whole.loss, each, feeds) for each in (whole.w, whole.bias)]
    clip = wb.clip_by_global_norm(rows.loss, max_norm=0.5)
    step = wb.sgd_update(rows.loss, learning_rate=1.0, grad_scale=clip.grad_scale)
    ctx, zero = root.compile(wb.zero_params_grads(rows.loss))
    ctx, micro = ctx.compile(wb.grad_update(rows.loss, accum_steps=4))
    ctx, update = ctx.compile(clip.computation + step)
    ctx = ctx.run(zero)
    for first in range(4):
        ctx = rows.feed(ctx, first).run(micro)
    ctx = ctx.run(update)
    norm = math.sqrt(sum(float((slope**2).sum()) for slope in slopes))
    assert norm > 0.5
    for slope, gradient, start, new in zip(
        slopes, rows.gradients(ctx), (W, BIAS), rows.values(ctx), strict=True
    ):
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(start - new, slope * 0.5 / norm, rtol=1e-6, atol=1e-8)


def test_the_sum_of_the_losses_stays_on_the_device(root):
    model, total = Linear(rows=1), wb.loss_accumulator(dtype="float64")
    ctx, zero = root.compile(wb.zero_params_grads(model.loss))
    ctx, micro = ctx.compile(wb.grad_update(model.loss, accum_steps=4, accum_loss=total))
    ctx = ctx.run(zero)
    for first in range(4):
        ctx = model.feed(ctx, first).run(micro)
    assert ctx.get_values(total) / 4.0 == pytest.approx(LOSS, abs=1e-8)
    ctx = ctx.set_values({total: 0.0})
    assert ctx.get_values(total) == 0.0


@pytest.mark.parametrize(
    ("cell", "scale"), [(math.nan, 1.0), (math.inf, 0.0), (0.0, 1.0), (2.0, 0.25), (1e200, 0.0)]
)
def test_the_edges_of_clipping(cell, scale):
    model = Linear()
    clip = wb.clip_by_global_norm(model.loss, max_norm=0.5)
    ctx, routine = wb.Context.interpreter().compile(clip.computation)
    ctx = ctx.set_values({wb.gradient_of(model.bias): np.array([cell, 0.0])}).run(routine)
    assert ctx.get_values(clip.grad_scale) == scale


def test_a_bound_of_zero_leaves_weight_decay_alone():
    model = Linear()
    clip = wb.clip_by_global_norm(model.loss, max_norm=0.0)
    step = wb.sgd_update(
        model.loss, learning_rate=0.1, weight_decay=0.5, grad_scale=clip.grad_scale
    )
    ctx = run(model.feed(wb.Context.cpu()), wb.grad_update(model.loss) + clip.computation + step)
    for old, new in zip((W, BIAS), model.values(ctx), strict=True):
        np.testing.assert_allclose(new, old * 0.95, rtol=1e-15)


def test_a_norm_of_scaled_gradients_is_unscaled():
    model = Linear()
    norm, measure = wb.grad_l2_norm(model.loss, grad_unscale=1.0 / 64.0, label="norm")
    ctx = run(model.feed(wb.Context.cpu()), wb.grad_update(model.loss, loss_scale=64.0) + measure)
    near(ctx.get_values(norm), NORM, "float64")
    near(model.gradients(ctx)[1], np.array(GRAD_BIAS) * 64.0, "float64", 1e-6)


@pytest.mark.parametrize("bad", [-1.0, math.inf, math.nan, -math.inf])
def test_a_bound_that_is_negative_or_not_finite_is_refused(bad):
    with refused(ConfigurationError, "max_norm", str(bad)):
        wb.clip_by_global_norm(Linear().loss, max_norm=bad)


@pytest.mark.parametrize("bad", [0, -2, 1.5, True])
def test_a_number_of_micro_steps_below_one_is_refused(bad):
    with refused(ConfigurationError, "accum_steps", str(bad)):
        wb.grad_update(Linear().loss, accum_steps=bad)


def test_a_loss_that_is_no_floating_scalar_is_refused():
    model = Linear()
    for loss in (model.w, (model.w > 0.0).astype("int64").sum(), model.w.sum(0)):
        for build in (wb.grad_update, wb.zero_params_grads, wb.grad_checksum, wb.grad_l2_norm):
            with refused(GradientError, "not a floating scalar"):
                build(loss)
        assert wb.trainable_params(loss) == ()


@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("place", range(8))
def test_a_checksum_is_finite_only_if_every_gradient_is(bad, place):
    model = Linear("float32")
    flag, check = wb.grad_checksum(model.loss)
    ctx, routine = wb.Context.interpreter().compile(check)
    assert np.isfinite(ctx.run(routine).get_values(flag))
    cells = np.ones(8, np.float32)
    cells[place] = bad
    values = {
        wb.gradient_of(model.w): cells[:6].reshape(2, 3),
        wb.gradient_of(model.bias): cells[6:],
    }
    assert not np.isfinite(ctx.set_values(values).run(routine).get_values(flag))


def test_infinities_of_both_signs_do_not_cancel():
    model = Linear("float32")
    flag, check = wb.grad_checksum(model.loss)
    ctx, routine = wb.Context.cpu().compile(check)
    ctx = ctx.set_values({wb.gradient_of(model.bias): np.array([np.inf, -np.inf], np.float32)}).run(
        routine
    )
    assert np.isnan(ctx.get_values(flag))


def test_what_is_no_sum_of_losses_is_refused():
    model = Linear()
    with refused(GraphError, "accum_loss", "`x`", remedy="loss_accumulator"):
        wb.grad_update(model.loss, accum_loss=model.x)


def test_filtering_the_zeroing_out_makes_gradients_add_up():
    model = Linear()
    plain = wb.grad_update(model.loss)
    leaves = [wb.gradient_of(model.w), wb.gradient_of(model.bias)]
    added = wb.filter_out_grad_zeroing(leaves, plain)
    assert (plain.zeroes, added.zeroes) == (frozenset(leaves), frozenset())
    assert added.accumulates == plain.accumulates
    ctx, routine = model.feed(wb.Context.cpu()).compile(added)
    ctx = ctx.set_values({leaves[1]: np.array([1.0, -2.0])}).run(routine)
    near(model.gradients(ctx)[1], np.add(GRAD_BIAS, [1.0, -2.0]), "float64")


def test_filtering_what_a_computation_does_not_zero_is_refused():
    model = Linear(frozen=True)
    leaf = wb.gradient_of(model.w)
    with refused(GraphError, "`loss gradient update`", "`grad_w`"):
        wb.filter_out_grad_zeroing([leaf], wb.grad_update(model.loss))
    with refused(GraphError, "`grad_bias`", remedy="filter"):
        step = wb.sgd_update(model.loss, learning_rate=0.1)
        wb.filter_out_grad_zeroing([wb.gradient_of(model.bias)], wb.grad_update(model.loss) + step)

"""Trajectories of gradient descent with every option."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import (
    CONTEXTS,
    DTYPES,
    SLOPE,
    START,
    TOLERANCE,
    buffer,
    run,
    sloped,
)
from workbench.errors import GradientError, ShapeError

LR = 0.1
OPTIONS = {
    "plain": {},
    "decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True},
    "all": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
    "scaled": {"momentum": 0.9, "grad_scale": 2.0},
}
# After the first step, after the fourth, and the buffer at the end.
TABLE = {
    "plain": ((0.95, -1.85, 0.05), (0.8, -1.4, -0.55), None),
    "decay": ((0.945, -1.84, 0.04875), (0.781645, -1.364784, -0.548983), None),
    "momentum": ((0.95, -1.85, 0.05), (0.54755, -0.64265, -1.5598), (1.7195, -5.1585, 6.878)),
    "nesterov": (
        (0.905, -1.715, -0.13),
        (0.392795, -0.178385, -2.17882),
        (1.7195, -5.1585, 6.878),
    ),
    "all": (
        (0.8955, -1.696, -0.132375),
        (0.341463, -0.084256, -2.159647),
        (1.853909, -5.393189, 6.78362),
    ),
    "scaled": ((0.9, -1.7, -0.15), (0.0951, 0.7147, -3.3696), (3.439, -10.317, 13.756)),
}
DIGITS = 6e-7  # the table has six or seven


def near(actual, expected, dtype="float64"):
    np.testing.assert_allclose(actual, expected, atol=max(DIGITS, TOLERANCE[dtype]))


@pytest.mark.parametrize("root", CONTEXTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", TABLE)
def test_a_trajectory_follows_its_table(case, dtype, root):
    first, last, momentum = TABLE[case]
    p, loss = sloped(dtype)
    update = wb.sgd_update(loss, learning_rate=LR, **OPTIONS[case])
    ctx, routine = CONTEXTS[root]().compile(wb.grad_update(loss) + update)
    ctx = ctx.run(routine)
    near(ctx.get_values(p), first, dtype)
    for _ in range(3):
        ctx = ctx.run(routine)
    near(ctx.get_values(p), last, dtype)
    if momentum is not None:
        near(ctx.get_values(buffer(update, "momentum_p")), momentum, dtype)
    else:
        assert update.updates == (p,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_closed_gate_leaves_everything_as_it_was(dtype):
    p, loss = sloped(dtype)
    gate = wb.host_scalar("gate", 1.0)
    update = wb.sgd_update(loss, learning_rate=LR, momentum=0.9, update_gate=gate)
    ctx, routine = wb.Context.cpu().compile(wb.grad_update(loss) + update)
    seen = []
    for is_open in (1.0, 0.0, 0.0, 1.0):
        ctx = ctx.set_values({gate: is_open}).run(routine)
        seen.append(ctx.get_values(p))
    near(seen[0], (0.95, -1.85, 0.05), dtype)
    assert np.array_equal(seen[0], seen[1])
    assert np.array_equal(seen[0], seen[2])
    near(seen[3], (0.855, -1.565, -0.33), dtype)
    near(ctx.get_values(buffer(update, "momentum_p")), (0.95, -2.85, 3.8), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loss_scale_that_is_taken_back_changes_nothing(dtype):
    p, loss = sloped(dtype)
    part = wb.grad_update(loss, loss_scale=8.0)
    update = wb.sgd_update(loss, learning_rate=LR, momentum=0.9, grad_unscale=1.0 / 8.0)
    scaled = run(wb.Context.cpu(), part)
    assert scaled.get_values(wb.gradient_of(p)).tolist() == [8.0 * c for c in SLOPE]
    ctx = run(wb.Context.cpu(), part + update, times=4)
    near(ctx.get_values(p), TABLE["momentum"][1], dtype)
    assert ctx.get_values(wb.gradient_of(p)).tolist() == [8.0 * c for c in SLOPE]


def test_neither_unscaling_nor_scaling_is_seen_by_whoever_reads_the_gradient_later():
    p, loss = sloped()
    norm, measure = wb.grad_l2_norm(loss, grad_unscale=0.25)
    update = wb.sgd_update(loss, learning_rate=LR, grad_unscale=0.25, grad_scale=100.0)
    ctx = run(wb.Context.cpu(), wb.grad_update(loss, loss_scale=4.0) + update + measure)
    assert ctx.get_values(wb.gradient_of(p)).tolist() == [4.0 * c for c in SLOPE]
    assert ctx.get_values(norm) == pytest.approx(np.linalg.norm(SLOPE))


def test_a_scale_does_not_touch_weight_decay():
    p, loss = sloped()
    update = wb.sgd_update(loss, learning_rate=LR, weight_decay=0.5, grad_scale=0.0)
    ctx = run(wb.Context.cpu(), wb.grad_update(loss) + update)
    near(ctx.get_values(p), np.array(START) * (1.0 - LR * 0.5))


def test_one_parameter_is_stepped_like_all():
    p, loss = sloped()
    one = wb.sgd_one(p, learning_rate=LR, **OPTIONS["all"])
    ctx = run(wb.Context.cpu(), wb.grad_update(loss) + one, times=4)
    near(ctx.get_values(p), TABLE["all"][1])


@pytest.mark.parametrize("momentum", [0.0])
def test_there_is_no_buffer_without_momentum(momentum):
    p, _ = sloped()
    assert wb.sgd_one(p, learning_rate=LR, momentum=momentum).updates == (p,)


@pytest.mark.parametrize("apart", [False, True])
def test_a_routine_for_both_does_what_two_routines_do(apart):
    p, loss = sloped()
    parts = wb.grad_update(loss), wb.sgd_update(loss, learning_rate=LR, **OPTIONS["all"])
    ctx = wb.Context.cpu()
    if apart:
        ctx, gradients = ctx.compile(parts[0])
        ctx, step = ctx.compile(parts[1])
        for _ in range(4):
            ctx = ctx.run(gradients).run(step)
    else:
        ctx = run(ctx, parts[0] + parts[1], times=4)
    near(ctx.get_values(p), TABLE["all"][1])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "builder",
    [wb.sgd_update, wb.adam_update, wb.adamw_update, wb.rmsprop_update, wb.lion_update],
)
def test_a_skipped_step_keeps_every_bit_whatever_the_gradients_hold(builder, place, value):
    p, loss = sloped("float32")
    gate = wb.host_scalar("gate", 1.0)
    options = {"momentum": 0.9} if builder in (wb.sgd_update, wb.rmsprop_update) else {}
    update = builder(loss, learning_rate=LR, update_gate=gate, **options)
    ctx, routine = wb.Context.interpreter().compile(update)
    ctx = ctx.set_values({wb.gradient_of(p): np.array(SLOPE, np.float32)}).run(routine)
    before = [ctx.get_values(leaf) for leaf in update.updates]
    bad = np.array(SLOPE, np.float32)
    bad[place] = value
    ctx = ctx.set_values({wb.gradient_of(p): bad, gate: 0.0}).run(routine)
    for leaf, old in zip(update.updates, before, strict=True):
        assert ctx.get_values(leaf).tobytes() == old.tobytes(), leaf.label


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_parameter_in_16_bits_is_stepped_in_float32_and_rounded_once(dtype):
    p = wb.parameter(np.array(START, np.float32), "p", dtype=dtype)
    loss = (p.astype("float32") * wb.constant(np.array(SLOPE, np.float32))).sum()
    ctx = run(wb.Context.cpu(), wb.grad_update(loss) + wb.sgd_update(loss, learning_rate=LR))
    right = (np.array(START, np.float32) - np.float32(LR) * np.array(SLOPE, np.float32)).astype(
        p.dtype.numpy
    )
    assert ctx.get_values(p).tolist() == right.tolist()
    assert ctx.get_values(wb.gradient_of(p)).dtype == np.float32


def test_a_gate_a_rate_and_a_factor_are_scalars():
    _, loss = sloped()
    vector = wb.input("vector", (3,))
    with refused(ShapeError, "the gate", "`vector`", remedy="reduce"):
        wb.sgd_update(loss, learning_rate=LR, update_gate=vector)
    with refused(ShapeError, "the learning rate", "`vector`"):
        wb.sgd_update(loss, learning_rate=vector)
    with refused(ShapeError, "grad_scale", "`vector`"):
        wb.adam_update(loss, learning_rate=LR, grad_scale=vector)
    with refused(ShapeError, "grad_unscale", "`vector`"):
        wb.lion_update(loss, learning_rate=LR, grad_unscale=vector)


def test_a_parameter_of_whole_numbers_cannot_be_stepped():
    with refused(GradientError, "`counts`", "not floating"):
        wb.sgd_one(wb.parameter(np.arange(3), "counts"), learning_rate=LR)

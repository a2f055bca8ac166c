"""The tables of schedules, outliers, steps, clipping, frozen parts and loss scales, in the loop."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.train.update.problems import BIAS, SLOPE, START, TOLERANCE, T, W, X
from tests.train.update.test_clipping import GRAD_BIAS, LOSS, NORM
from tests.train.update.test_sgd import DIGITS, LR, OPTIONS, TABLE
from workbench.errors import UnreachedParameterWarning

DTYPES = ("float64", "float32")
STEP_OF_SCHEDULE = (0, 2, 4, 5, 10, 15, 19, 20, 21, 22, 24, 25, 30)
SCHEDULES: dict[Any, tuple[float, ...]] = {
    "constant": (0.2, 0.6, *[1.0] * 11),
    "cosine": (
        *(0.2, 0.6, 1.0, 1.0, 0.868198, 0.55, 0.285497),
        *(0.231802, 0.185942, 0.149047, 0.105540, 0.1, 0.1),
    ),
    "linear": (0.2, 0.6, 1.0, 1.0, 0.775, 0.55, 0.37, 0.325, 0.28, 0.235, 0.145, 0.1, 0.1),
    "wsd": (0.2, 0.6, *[1.0] * 6, 0.597508, 0.430790, 0.195016, 0.1, 0.1),
}


def trained(params, step, x, y, *, opt=None, callbacks=(), dtype="float64", **config):
    """Fit in the order of the rows and return the run."""
    settings = {"epochs": 1, "batch_size": 1, "lr": LR, "seed": 1, "shuffle": False, **config}
    run = wb.Run(
        params,
        wb.sgd(params) if opt is None else opt,
        wb.Config(**settings, verbose=False),
        context=wb.Context.cpu(2),
    )
    data = wb.data.Dataset(x, y, dtype=dtype)
    wb.fit(run, list(callbacks), data, None, step)
    return run


def sloped_step(**how):
    """A step whose gradient is `SLOPE`, and what is done to it first."""

    def step(params, opt, x, y, lr):
        def loss(p, x, y):
            return (p["p"] * wb.constant(np.array(SLOPE, str(p["p"].dtype)))).sum() + 0.0 * x.sum()

        value, grads = wb.loss_and_gradients(loss, params, x, y)
        if "scale" in how:
            grads = {"p": grads["p"] * how["scale"]}
        result = wb.apply_gradients(params, grads, opt, lr, value)
        if "gate" in how:
            return how["gate"](result, params, opt, y)
        return result

    return step


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("course", SCHEDULES)
def test_a_schedule_moves_parameters_by_its_table(course, dtype):
    seen = [0.0]

    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: -p + 0.0 * x.sum())

    class Watch(wb.Callback):
        def on_batch_end(self, event):
            seen.append(float(event.run.params))

    rate = wb.BudgetRate(1.0, 25, course=course, warmup=5, final_frac=0.1)
    rows = np.zeros((31, 1))
    trained(
        np.zeros((), dtype),
        step,
        rows,
        rows,
        callbacks=[wb.StepSchedule(rate), Watch()],
        dtype=dtype,
    )
    moved = np.diff(seen)[list(STEP_OF_SCHEDULE)]
    np.testing.assert_allclose(moved, SCHEDULES[course], atol=5e-7 if dtype == "float64" else 3e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_outliers_are_told_from_the_losses_of_batches(dtype):
    detector, scores = wb.OutlierDetector(4), []

    class Watch(wb.Callback):
        def on_batch_end(self, event):
            scores.append(detector.update(event.loss))

    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: x.mean() + 0.0 * p)

    losses = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 10.0, 1.0])[:, None]
    trained(np.zeros((), dtype), step, losses, losses, callbacks=[Watch()], dtype=dtype)
    assert [math.isnan(score) for score in scores] == [True] * 4 + [False] * 3
    digits = 1e-6 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(scores[4:], [0.70710678, 121.533182, -0.573027], rtol=digits)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", TABLE)
def test_gradient_descent_follows_its_table(case, dtype):
    first, last, momentum = TABLE[case]
    options: dict[str, Any] = dict(OPTIONS[case])
    scale = options.pop("grad_scale", None)
    rows = np.zeros((4, 1))
    for epochs, right in ((1, first), (4, last)):
        params = {"p": np.array(START, dtype)}
        run = trained(
            params,
            sloped_step(**({} if scale is None else {"scale": scale})),
            rows[:1],
            rows[:1],
            opt=wb.sgd(params, **options),
            dtype=dtype,
            epochs=epochs,
        )
        np.testing.assert_allclose(run.params["p"], right, atol=max(DIGITS, TOLERANCE[dtype]))
    if momentum is not None:
        np.testing.assert_allclose(run.opt.m["p"], momentum, atol=max(DIGITS, TOLERANCE[dtype]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gate_of_the_step_keeps_parameters_and_buffers(dtype):
    def gate(result, params, opt, y):
        opened = y.sum() > 0.0
        kept = {"p": wb.where(opened, result.params["p"], params["p"])}
        state = wb.OptState(
            "sgd",
            m={"p": wb.where(opened, result.opt.m["p"], opt.m["p"])},
            t=opt.t,
            mu=opt.mu,
        )
        return wb.StepResult(result.loss, kept, state)

    params = {"p": np.array(START, dtype)}
    gates = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
    run = trained(
        params,
        sloped_step(gate=gate),
        gates,
        gates,
        opt=wb.sgd(params, momentum=0.9),
        dtype=dtype,
    )
    near = max(DIGITS, TOLERANCE[dtype])
    np.testing.assert_allclose(run.params["p"], (0.855, -1.565, -0.33), atol=near)
    np.testing.assert_allclose(run.opt.m["p"], (0.95, -2.85, 3.8), atol=near)


def linear(frozen=False):
    def loss(p, x, y):
        w = wb.stop_gradient(p["w"]) if frozen else p["w"]
        return wb.square(p["bias"] + x @ w.T - y).sum(1).mean()

    return loss


def start(dtype):
    return {"w": W.astype(dtype), "bias": BIAS.astype(dtype)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_clipped_step_follows_its_table(dtype):
    def step(params, opt, x, y, lr):
        loss, grads = wb.loss_and_gradients(linear(), params, x, y)
        clipped, norm = wb.clip_gradients(grads, 0.5)
        return wb.apply_gradients(params, clipped, opt, lr, loss).with_metrics(norm=norm)

    params = start(dtype)
    run = trained(
        params,
        step,
        X,
        T,
        opt=wb.sgd(params, weight_decay=0.1),
        dtype=dtype,
        batch_size=4,
        lr=0.05,
    )
    near = max(6e-9, TOLERANCE[dtype])
    assert run.history.column("train_norm")[0] == pytest.approx(
        NORM, abs=1e-6
    )  # metrics are float32
    assert run.history.column("train_loss")[0] == pytest.approx(LOSS, abs=near)
    w = [[-0.98455838, -0.52915484, -0.07525271], [-0.37637729, 0.06686272, 0.53826248]]
    np.testing.assert_allclose(run.params["w"], w, atol=near)
    np.testing.assert_allclose(run.params["bias"], [-0.41478575, -0.00700657], atol=near)


@pytest.mark.parametrize("dtype", DTYPES)
def test_accumulated_batches_follow_the_table(dtype):
    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, linear())

    run = trained(start(dtype), step, X, T, dtype=dtype, batch_size=2, lr=0.05, accum_steps=2)
    near = max(6e-9, TOLERANCE[dtype])
    w = [[-0.96873581, -0.5186568, -0.07307329], [-0.36570702, 0.04795205, 0.5459268]]
    np.testing.assert_allclose(run.params["w"], w, atol=near)
    np.testing.assert_allclose(run.params["bias"], [-0.45025974, -0.02097902], atol=near)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accum_steps", [1, 2])
def test_a_frozen_parameter_is_not_decayed(dtype, accum_steps):
    def step(params, opt, x, y, lr):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreachedParameterWarning)
            return wb.default_step(params, opt, x, y, lr, linear(frozen=True))

    params = start(dtype)
    run = trained(
        params,
        step,
        X,
        T,
        opt=wb.sgd(params, weight_decay=0.5),
        dtype=dtype,
        batch_size=4 // accum_steps,
        accum_steps=accum_steps,
    )
    assert run.params["w"].tobytes() == params["w"].tobytes()
    right = BIAS - LR * (np.array(GRAD_BIAS) + 0.5 * BIAS)
    np.testing.assert_allclose(run.params["bias"], right, atol=max(6e-9, TOLERANCE[dtype]))


def test_a_scale_that_overflows_skips_and_grows_in_the_loop():
    scales, biases = [], []

    class Watch(wb.Callback):
        def on_batch_end(self, event):
            scales.append(float(event.run.opt.scale))
            biases.append(float(event.run.params["b2"]))

    def step(params, opt, x, y, lr):
        def loss(p, x, y):
            return (x @ p["w"] + p["b2"]).mean()

        return wb.default_step(params, opt, x, y, lr, loss)

    params = {"w": np.full(3, 0.5, np.float32), "b2": np.zeros((), np.float32)}
    rows = np.full((7, 3), 0.25)
    opt = wb.mixed_f16(wb.sgd(params), scale=65536.0, growth_interval=3, gradient="float16")
    run = trained(params, step, rows, rows, opt=opt, callbacks=[Watch()], dtype="float32")
    assert scales == [32768.0, 32768.0, 32768.0, 65536.0, 32768.0, 32768.0, 32768.0]
    ran = np.diff([0.0, *biases]) != 0.0
    assert ran.tolist() == [False, True, True, True, False, True, True]
    assert int(run.opt.skipped) == 2


@pytest.mark.parametrize("mixed", [wb.mixed_f16, wb.mixed_bf16])
def test_a_trajectory_in_16_bits_stays_near_that_in_32(mixed):
    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, linear())

    losses = []
    for around in (None, mixed):
        params = start("float32")
        opt = wb.sgd(params)
        run = trained(
            params,
            step,
            X,
            T,
            opt=opt if around is None else around(opt),
            dtype="float32",
            batch_size=4,
            epochs=7,
        )
        losses.append(run.history.column("train_loss"))
    assert losses[0][0] - losses[0][-1] > 0.1
    np.testing.assert_allclose(*losses, atol=0.1)

"""Loss scaling: the scale's course, steps skipped on the host and gated on the device."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.train.update.problems import CONTEXTS, run
from workbench.errors import ConfigurationError, DTypeError
from workbench.graph.dtype import DType
from workbench.graph.leaf import scalar
from workbench.runtime.context import Context
from workbench.train.update.loss_scale import ScalePolicy

STEPS = 7
LR = 0.05


class Net:
    """Two layers with parameters narrowed for the forward pass; the last bias has the slope 1."""

    def __init__(self, dtype="float32", gradient=None):
        rng = np.random.default_rng(7)
        shapes = {"w1": (3, 5), "b1": (5,), "w2": (5, 1), "b2": (1,)}
        self.params = {
            name: wb.parameter((0.3 * rng.standard_normal(shape)).astype(np.float32), name)
            for name, shape in shapes.items()
        }
        x = wb.constant(rng.standard_normal((4, 3)).astype(np.float32))
        twins = {name: wb.cast_twin(p, dtype, gradient=gradient) for name, p in self.params.items()}
        hidden = wb.tanh(wb.cast_twin(x, dtype) @ twins["w1"] + twins["b1"])
        self.twins = twins
        out = (hidden @ twins["w2"] + twins["b2"]).astype("float32")
        self.loss = out.mean().named("loss")

    def values(self, ctx):
        return [ctx.get_values(p).copy() for p in self.params.values()]


def f16():
    return Net("float16", "float16")


class Routines:
    """A scaled step in two routines, its flag read in between."""

    def __init__(self, net, scaler, root=None, **options):
        self.net, self.scaler = net, scaler
        self.flag, check = wb.grad_checksum(net.loss)
        gradients = wb.grad_update(net.loss, loss_scale=scaler.scale) + check
        ctx, self.gradients = (root or wb.Context.cpu()).compile(gradients)
        update = wb.scaled_update(net.loss, scaler, learning_rate=LR, **options)
        self.ctx, self.update = ctx.compile(update)

    def step(self):
        self.ctx, ran = wb.scaled_step(
            self.ctx, self.gradients, self.update, flag=self.flag, scaler=self.scaler
        )
        return ran


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def test_the_gradient_of_the_last_bias_is_the_scale(root):
    net = f16()
    ctx = run(root, wb.grad_update(net.loss, loss_scale=32768.0))
    assert ctx.get_values(wb.gradient_of(net.params["b2"])).tolist() == [32768.0]
    over = run(root, wb.grad_update(net.loss, loss_scale=65536.0))
    assert over.get_values(wb.gradient_of(net.params["b2"])).tolist() == [math.inf]


def test_a_scale_that_is_too_large_halves_and_grows_again(root):
    steps = Routines(f16(), wb.LossScaler(65536.0, growth_interval=3), root)
    ran, scales = [], []
    for _ in range(STEPS):
        ran.append(steps.step())
        scales.append(float(steps.ctx.get_values(steps.scaler.scale)))
    assert ran == [False, True, True, True, False, True, True]
    assert scales == [32768.0, 32768.0, 32768.0, 65536.0, 32768.0, 32768.0, 32768.0]


def test_a_skipped_step_moves_nothing():
    steps = Routines(f16(), wb.LossScaler(65536.0), momentum=0.9)
    before = steps.net.values(steps.ctx)
    assert not steps.step()
    assert all(map(np.array_equal, steps.net.values(steps.ctx), before))


def gated(net, scaler, root, check_interval, options=None):
    """Return what seven gated steps saw: flags, scales, and whether parameters moved."""
    window, step = wb.gated_scaled_update(net.loss, scaler, learning_rate=LR, **(options or {}))
    ctx, routine = root.compile(step, name="gated")
    seen = []
    for number in range(STEPS):
        before = net.values(ctx)
        ctx, fine = wb.gated_step(
            ctx,
            routine,
            window=window,
            scaler=scaler,
            step=number,
            check_interval=check_interval,
        )
        same = all(map(np.array_equal, before, net.values(ctx)))
        seen.append((fine, scaler.value, not same))
    return ctx, tuple(zip(*seen, strict=True))


def test_a_gated_step_skips_itself_until_somebody_looks(root):
    scaler = wb.LossScaler(65536.0, growth_interval=100)
    _, (fine, scales, moved) = gated(f16(), scaler, root, 2)
    assert fine == (True, False, True, True, True, True, True)
    assert scales == (65536.0, *[32768.0] * 6)
    assert moved == (False, False, True, True, True, True, True)


def test_gated_steps_read_the_device_only_when_they_look(root, monkeypatch):
    reads = []
    real = Context.get_values

    def counted(self, node):
        reads.append(node)
        return real(self, node)

    net, scaler = f16(), wb.LossScaler(8.0)
    window, step = wb.gated_scaled_update(net.loss, scaler, learning_rate=LR)
    ctx, routine = root.compile(step)
    monkeypatch.setattr(Context, "get_values", counted)
    for number in range(9):
        ctx, _ = wb.gated_step(
            ctx, routine, window=window, scaler=scaler, step=number, check_interval=4
        )
    assert len(reads) == 2
    assert set(reads) == {window}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_trajectory_in_16_bits_stays_near_that_in_32(dtype, root):
    trajectories = []
    for net in (Net(), Net(dtype, dtype)):
        steps = Routines(net, wb.LossScaler(8.0, growth_interval=100), root)
        losses = []
        for _ in range(STEPS):
            assert steps.step()
            losses.append(float(steps.ctx.get_values(net.loss)))
        trajectories.append(losses)
    assert trajectories[0][0] - trajectories[0][-1] > 0.1
    np.testing.assert_allclose(*trajectories, atol=0.1)


def test_masters_and_their_gradients_are_single_whatever_the_twin_is(root):
    for dtype in ("float32", "float16", "bfloat16"):
        net = Net(dtype, dtype if dtype == "float16" else None)
        ctx = run(root, wb.grad_update(net.loss))
        for name, param in net.params.items():
            assert str(net.twins[name].dtype) == dtype
            assert ctx.get_values(param).dtype == np.float32
            assert ctx.get_values(wb.gradient_of(param)).dtype == np.float32


def test_a_twin_keeps_the_label_and_rounds_its_gradient_only_if_asked():
    w = wb.parameter(np.array([1.0, 2.0], np.float32), "w")
    assert wb.cast_twin(w, "float16").label == "w"
    assert wb.cast_twin(w, "float32") is w
    for gradient, right in ((None, 1e6), ("float16", math.inf), ("bfloat16", 999424.0)):
        loss = wb.cast_twin(w, "float16", gradient=gradient).astype("float32").sum()
        found = run(wb.Context.interpreter(), wb.grad_update(loss, loss_scale=1e6))
        assert found.get_values(wb.gradient_of(w))[0] == right
    with refused(DTypeError, "`counts`", "int64"):
        wb.cast_twin(wb.parameter(np.arange(2), "counts"), "float16")
    with refused(DTypeError, "int32"):
        wb.cast_twin(w, "int32")


@pytest.mark.parametrize(("placement", "code"), [("materialized", "28"), ("virtual", "29")])
def test_a_twin_lives_where_it_is_told_to(placement, code, root):
    w = wb.parameter(np.ones((2, 3), np.float32), "w")
    twin = wb.cast_twin(w, "bfloat16", placement=placement)
    _, routine = root.compile([twin.astype("float32").sum()])
    assert routine.placements[twin].code == code
    assert routine.placements[twin].is_stored == (placement == "materialized")


def test_a_twin_cannot_live_elsewhere():
    odd: Any = "host"
    with refused(ConfigurationError, "'host'", "`w`", remedy="virtual"):
        wb.cast_twin(wb.parameter([1.0], "w"), "float16", placement=odd)


def test_everything_but_literals_can_be_kept_for_reading(root):
    model = Net("bfloat16")
    hidden = model.loss.operands[0]
    wb.set_virtual(hidden)
    wb.every_non_literal_materialized(model.loss)
    ctx, routine = root.compile(wb.forward(model.loss))
    ctx = ctx.run(routine)
    kept = {node.op for node, place in routine.placements.items() if place.is_stored}
    assert {"tanh", "einsum", "cast"} <= kept
    assert not routine.placements[hidden].is_stored
    for node, place in routine.placements.items():
        if place.is_stored:
            assert np.isfinite(ctx.get_values(node).astype(np.float64)).all()


@pytest.mark.parametrize("way", ["sgd_one", "sgd_update", "scaled_update", "gated_scaled_update"])
def test_every_way_to_a_step_hands_momentum_on(way):
    ends = []
    for momentum in (0.0, 0.9):
        net, scaler = Net(), wb.LossScaler(8.0)
        options: dict[str, Any] = {"learning_rate": LR, "momentum": momentum}
        gradients = wb.grad_update(net.loss, loss_scale=scaler.scale)
        if way == "gated_scaled_update":
            _, whole = wb.gated_scaled_update(net.loss, scaler, **options)
        elif way == "sgd_one":
            whole = gradients
            for param in net.params.values():
                whole += wb.sgd_one(param, grad_unscale=scaler.unscale, **options)
        elif way == "scaled_update":
            whole = gradients + wb.scaled_update(net.loss, scaler, **options)
        else:
            whole = gradients + wb.sgd_update(net.loss, grad_unscale=scaler.unscale, **options)
        ends.append(net.values(run(wb.Context.cpu(), whole, times=4)))
    plain, moved = (np.concatenate([v.ravel() for v in end]) for end in ends)
    assert np.abs(plain - moved).max() > 1e-3


@pytest.mark.parametrize("builder", [wb.adamw_update, wb.rmsprop_update, wb.lion_update])
def test_any_update_can_be_gated(builder, root):
    net, scaler = f16(), wb.LossScaler(65536.0)
    _, (_, _, moved) = gated(net, scaler, root, 1, {"update": builder})
    assert moved == (False, *[True] * 6)


def test_finite_steps_that_are_told_late_keep_their_remainder():
    scaler, ctx = wb.LossScaler(2.0, growth_interval=3), wb.Context.interpreter()
    scaler.good = 2
    ctx = scaler.update(ctx, finite=True, steps=5)
    assert (scaler.value, scaler.good) == (8.0, 1)
    assert ctx.get_values(scaler.unscale) == 0.125


def test_a_static_scale_stays():
    scaler, ctx = wb.LossScaler(4.0, dynamic=False), wb.Context.interpreter()
    for finite in (True, False):
        ctx = scaler.update(ctx, finite=finite, steps=500)
    assert (scaler.value, scaler.good) == (4.0, 0)


def test_a_scaler_goes_on_from_what_a_checkpoint_kept():
    scaler, ctx = wb.LossScaler(16.0, growth_interval=5), wb.Context.interpreter()
    ctx = scaler.update(scaler.update(ctx, finite=False), finite=True, steps=4)
    other = wb.LossScaler(growth_interval=5)
    ctx = other.update(other.restore(ctx, scaler.state()), finite=True)
    assert (other.value, other.good) == (16.0, 0)
    assert ctx.get_values(other.scale) == 16.0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scale": 0.0}, "scale"),
        ({"scale": math.inf}, "scale"),
        ({"growth": 0.5}, "growth"),
        ({"backoff": 0.0}, "backoff"),
        ({"backoff": 1.5}, "backoff"),
        ({"growth_interval": 0}, "growth_interval"),
    ],
)
def test_a_scaler_that_cannot_work_is_refused(options, named):
    with refused(ConfigurationError, named):
        wb.LossScaler(**options)


@pytest.mark.parametrize("interval", [0, -3])
def test_looking_after_no_steps_is_refused(interval):
    with refused(ConfigurationError, "check_interval", str(interval)):
        wb.gated_step(
            wb.Context.interpreter(),
            None,  # type: ignore[arg-type]  # refused before the routine is looked at
            window=wb.host_scalar("w", 0.0),
            scaler=wb.LossScaler(),
            step=0,
            check_interval=interval,
        )


@settings(max_examples=20)
@given(
    steps=st.lists(st.booleans(), min_size=1, max_size=12),
    interval=st.integers(1, 4),
    bound=st.sampled_from([16.0, 2.0**20]),
)
def test_host_and_device_follow_one_policy(steps, interval, bound):
    policy = ScalePolicy(growth_interval=interval, least=1.0, greatest=bound)
    scale, good = 8.0, 0
    for finite in steps:
        on_device = policy.advanced_on_device(
            scalar(scale, DType.F32), scalar(good, DType.I64), scalar(finite, DType.BOOL)
        )
        if finite:
            scale, good = policy.advanced(scale, good, 1)
        else:
            scale, good = policy.backed_off(scale), 0
        ctx, routine = wb.Context.interpreter().compile(on_device)
        ctx = ctx.run(routine)
        assert [float(ctx.get_values(node)) for node in on_device] == [scale, good]

"""Precision policies: 16-bit passes, float32 masters, and a loss scale that adapts."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.errors import (
    ConfigurationError,
    GradientError,
    TracingError,
    UnreachedParameterWarning,
)
from workbench.train import tree
from workbench.train.callbacks.scale_monitor import ScaleMonitor
from workbench.train.precision import MixedState, mixed_gradients

POLICIES = {"bf16": wb.mixed_bf16, "f16": wb.mixed_f16}
CONTEXTS = {
    "interpreter": wb.Context.interpreter,
    "one thread": lambda: wb.Context.cpu(1),
    "two threads": lambda: wb.Context.cpu(2),
}
# Of a loss of 7 whose parts were rounded to 8 binary digits.
BF16_SHARE = 2.0**-7


def weights():
    return {"w": np.array([0.5, -0.25], np.float32), "b": np.zeros((), np.float32)}


def squared_error(params, x, y):
    return wb.mse(x @ params["w"] + params["b"], y)


def exploding(params, x, y):
    """Return a loss that is finite and whose gradient, scaled, is not."""
    return params["w"].astype("float32").sum() * 1e35 + 0.0 * squared_error(params, x, y)


def step_of(loss):
    return lambda params, opt, x, y, lr: wb.default_step(params, opt, x, y, lr, loss)


quiet, loud = step_of(squared_error), step_of(exploding)


def rows(toy):
    return wb.data.Dataset(toy["x"], toy["y"], dtype=np.float32)


def new_run(opt, *, epochs=1, batch_size=10, lr=0.05, params=None, context=None):
    config = wb.Config(epochs, batch_size, lr, 3, verbose=False)
    context = wb.Context.cpu(2) if context is None else context
    return wb.Run(weights() if params is None else params, opt, config, context=context)


def go_on(run, data, *steps, callbacks=()):
    """Train one epoch by each of ``steps``."""
    for step in steps:
        run.config = replace(run.config, epochs=run.state.epoch + 1)
        wb.fit(run, list(callbacks), data, None, step)
    return run


def words(value):
    """Return the bytes of everything in a tree of arrays."""
    return [np.asarray(leaf).tobytes() for leaf in tree.flatten(value)[0]]


def bf16_of_interval(interval):
    return replace(wb.mixed_bf16(wb.sgd(weights())), growth_interval=interval)


# Narrowing


def test_narrowing_to_bfloat16_changes_values_and_the_full_type_does_not():
    values = np.array([0.2001, 0.7003, 0.1], np.float32)
    tensor = wb.constant(values)
    context = wb.Context.interpreter()
    narrowed = [wb.narrow(tensor, dtype).astype("float32") for dtype in ("bfloat16", "float32")]
    context, routine = context.compile([t * 1.0 for t in narrowed])
    context = context.run(routine)
    rounded, kept = (context.get_values(output) for output in routine.outputs)
    assert (rounded != values).all()
    np.testing.assert_allclose(rounded, values, rtol=2.0**-8)
    assert kept.tobytes() == values.tobytes()


def test_narrowing_a_tree_converts_its_floating_leaves_only():
    given = {"w": wb.parameter(np.ones(2), "w"), "n": wb.parameter(np.ones(2, np.int64), "n")}
    narrowed = wb.narrow(given, "float16")
    assert [str(narrowed[name].dtype) for name in ("w", "n")] == ["float16", "int64"]


def test_an_evaluation_may_run_at_the_precision_that_was_trained_at(toy):
    def measure(dtype):
        def eval_batch(params, x, y):
            return {"loss": squared_error(wb.narrow(params, dtype), wb.narrow(x, dtype), y)}

        return eval_batch

    run = new_run(wb.mixed_bf16(wb.sgd(weights())))
    data = rows(toy)
    # Before the step: the step's own loss is that of the same passes.
    before = wb.evaluate(run, data, measure("bfloat16"))["loss"]
    full = wb.evaluate(run, data, measure("float32"))["loss"]
    # An evaluation divides in float64, a step in float32.
    assert np.float32(before) == go_on(run, data, quiet).state.train_loss
    assert before == pytest.approx(full, rel=BF16_SHARE)


# A step


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_mixed_step_on_all_rows_gives_the_known_loss_and_weights(toy, policy, context):
    run = new_run(POLICIES[policy](wb.adam(weights())), context=CONTEXTS[context]())
    go_on(run, rows(toy), quiet)
    assert run.state.train_loss == pytest.approx(6.9875, rel=1e-6)
    np.testing.assert_allclose(run.params["w"], [0.55, -0.30], atol=1e-6)
    assert run.params["w"].dtype == np.float32


def test_the_full_policy_is_the_default_step_exactly(toy):
    def by_hand(params, opt, x, y, lr):
        loss = squared_error(params, x, y)
        gradient = wb.backward(loss, [params["w"], params["b"]])
        grads = {name: gradient[params[name]] for name in params}
        return wb.apply_gradients(params, grads, opt, lr, loss)

    runs = [
        go_on(new_run(wb.adam(weights()), batch_size=4), rows(toy), step, step, step)
        for step in (quiet, by_hand)
    ]
    assert words((runs[0].params, runs[0].opt)) == words((runs[1].params, runs[1].opt))
    assert runs[0].state.train_loss == runs[1].state.train_loss


def test_sixty_epochs_in_bfloat16_reach_a_loss_below_1_and_skip_nothing(toy):
    zero = {"w": np.zeros(2, np.float32), "b": np.zeros((), np.float32)}
    opt = wb.mixed_bf16(wb.adam(zero))
    run = new_run(opt, params=zero, batch_size=4, epochs=60)
    wb.fit(run, [], rows(toy), None, quiet)
    assert run.state.train_loss < 1.0
    assert (int(run.opt.skipped), int(run.opt.good), int(run.opt.inner.t)) == (0, 180, 180)


@pytest.mark.parametrize("policy", POLICIES)
def test_one_and_two_threads_give_the_same_bits(policy):
    rng = np.random.default_rng(5)
    data = wb.data.Dataset(rng.normal(size=(64, 96)), rng.integers(0, 10, 64), dtype=np.float32)
    params = [wb.he_normal(m, n, seed=1, purpose=f"{m}") for m, n in ((96, 160), (160, 10))]

    def loss(p, x, y):
        return wb.cross_entropy(wb.relu(x @ p[0]) @ p[1], y)

    results = []
    for threads in (1, 2):
        opt = POLICIES[policy](wb.adam(params))
        run = new_run(opt, params=params, batch_size=32, context=wb.Context.cpu(threads))
        go_on(run, data, step_of(loss), step_of(loss))
        results.append(words((run.params, run.opt)))
    assert results[0] == results[1]


# The loss scale


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_step_whose_scaled_gradients_overflow_changes_nothing_but_the_scale(toy, context):
    run = new_run(wb.mixed_f16(wb.adam(weights())), context=CONTEXTS[context]())
    before = words((run.params, run.opt.inner))
    opt = go_on(run, rows(toy), loud).opt
    assert words((run.params, opt.inner)) == before
    assert (int(opt.inner.t), float(opt.scale), int(opt.skipped), int(opt.good)) == (0, 32768, 1, 0)


def test_a_skipped_step_reports_the_previous_finite_loss_exactly(toy):
    run = go_on(new_run(wb.mixed_f16(wb.sgd(weights()))), rows(toy), quiet)
    finite = run.state.train_loss
    assert finite == pytest.approx(6.9875)
    assert go_on(run, rows(toy), loud).state.train_loss == finite
    assert float(run.opt.last_loss) == np.float32(finite)


def test_the_scale_doubles_after_the_interval_and_the_count_begins_again(toy):
    run = new_run(wb.mixed_f16(wb.sgd(weights()), growth_interval=2), lr=0.0)
    go_on(run, rows(toy), quiet)
    assert (float(run.opt.scale), int(run.opt.good)) == (65536, 1)
    go_on(run, rows(toy), quiet)
    assert (float(run.opt.scale), int(run.opt.good)) == (131072, 0)


def test_an_overflow_begins_the_count_again(toy):
    run = new_run(wb.mixed_f16(wb.sgd(weights()), growth_interval=3), lr=0.0)
    go_on(run, rows(toy), quiet, quiet, loud, quiet, quiet)
    assert (float(run.opt.scale), int(run.opt.good)) == (32768, 2)


def test_the_scale_never_falls_below_1(toy):
    run = new_run(wb.mixed_f16(wb.sgd(weights()), scale=1.0))

    def infinite(params, x, y):
        return exploding(params, x, y) * 1e20

    go_on(run, rows(toy), step_of(infinite), step_of(infinite))
    assert (float(run.opt.scale), int(run.opt.skipped)) == (1.0, 2)


def test_the_scale_never_grows_beyond_its_greatest(toy):
    opt = wb.mixed_f16(wb.sgd(weights()), scale=8.0, growth_interval=1, greatest=16.0)
    run = go_on(new_run(opt, lr=0.0), rows(toy), quiet, quiet, quiet)
    assert float(run.opt.scale) == 16.0


def test_the_scale_of_bfloat16_stays_1_whatever_the_interval(toy):
    run = go_on(new_run(bf16_of_interval(1)), rows(toy), quiet, quiet)
    assert float(run.opt.scale) == 1.0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", ["w", "b", "deep.0", "deep.1"])
def test_one_bad_number_in_any_gradient_skips_the_whole_step(toy, policy, bad, place):
    params = weights() | {"deep": [np.ones((3, 4), np.float32), np.ones((2, 3, 2), np.float32)]}

    def loss(p, x, y):
        leaves = {"w": p["w"], "b": p["b"], "deep.0": p["deep"][0], "deep.1": p["deep"][1]}
        quiet_part = sum(leaf.astype("float32").sum() for leaf in leaves.values())
        # Of the last element alone; its forward value is finite or not, its gradient is not.
        last = leaves[place].astype("float32").reshape(-1)[-1:]
        return squared_error(p, x, y) + quiet_part + last.sum() * bad

    run = new_run(POLICIES[policy](wb.adam(params)), params=params)
    before = words((run.params, run.opt.inner))
    go_on(run, rows(toy), step_of(loss))
    assert words((run.params, run.opt.inner)) == before
    assert (int(run.opt.skipped), bool(np.isnan(run.opt.last_loss))) == (1, True)


def test_gradients_too_small_for_float16_are_kept_by_masters_and_scale(toy):
    # 1e-6 of a rate on a gradient of about 2 is below float16's unit at 0.5.
    run = new_run(wb.mixed_f16(wb.sgd(weights())), lr=1e-6)
    moved = go_on(run, rows(toy), quiet).params["w"] - weights()["w"]
    assert (moved != 0).all()
    assert (np.float16(0.5) + moved.astype(np.float16) == np.float16(0.5)).all()


def test_the_loss_scale_survives_accumulation(toy):
    params = weights()
    opt = wb.accumulate(wb.mixed_f16(wb.adam(params), growth_interval=1), params, 2)
    run = go_on(new_run(opt, params=params, batch_size=5), rows(toy), quiet)
    inner = run.opt.inner
    assert (float(inner.scale), int(inner.inner.t), int(inner.skipped)) == (131072, 1, 0)
    go_on(run, rows(toy), loud)
    inner = run.opt.inner
    assert (float(inner.scale), int(inner.inner.t), int(inner.skipped)) == (65536, 1, 1)
    assert not np.any(run.opt.sums["w"])
    assert np.isfinite(run.opt.sums["w"]).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_accumulated_mixed_batches_equal_the_big_batch(toy, policy):
    params = weights()
    whole = go_on(new_run(POLICIES[policy](wb.sgd(params))), rows(toy), quiet)
    opt = wb.accumulate(POLICIES[policy](wb.sgd(params)), params, 3)
    parts = go_on(new_run(opt, batch_size=4), rows(toy), quiet)
    np.testing.assert_allclose(parts.params["w"], whole.params["w"], atol=1e-6)


# What is refused, and what is said


def test_a_warning_of_an_unreached_parameter_names_it_as_the_person_does(toy):
    params = weights() | {"unused": np.zeros(3, np.float32)}
    with pytest.warns(UnreachedParameterWarning, match="`unused`"):
        go_on(new_run(wb.mixed_bf16(wb.sgd(params)), params=params), rows(toy), quiet)


def test_parameters_of_16_bits_are_their_own_twins():
    params = {"w": wb.parameter(np.ones(2), "w", dtype="bfloat16")}
    opt = tree.map_tree(wb.parameter, wb.mixed_bf16(wb.sgd({"w": np.ones(2, np.float32)})))
    x = wb.input("x", (wb.batch, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, grads = mixed_gradients(params, opt, x, x, lambda p, x, y: wb.mse(x * p["w"], y))
    assert grads["w"].shape == (2,)


@pytest.mark.parametrize(
    ("scale", "greatest"),
    [(0.5, 16.0), (32.0, 16.0), (3.0, 16.0), (2.0, 24.0), (np.nan, 16.0), (2.0, np.inf)],
)
def test_a_scale_out_of_range_or_no_power_of_two_is_refused(scale, greatest):
    with refused(
        ConfigurationError, "scale" if scale < np.inf and greatest < np.inf else "must be"
    ):
        wb.mixed_f16(wb.sgd(weights()), scale=scale, greatest=greatest)


def test_an_interval_below_1_is_refused():
    with refused(ConfigurationError, "`growth_interval` must be an integer of at least 1, got 0"):
        wb.mixed_f16(wb.sgd(weights()), growth_interval=0)


def test_states_wrapped_the_wrong_way_round_are_refused():
    params = weights()
    # Typed as anything: the type checker would refuse them too.
    accumulated: Any = wb.accumulate(wb.sgd(params), params, 2)
    mixed: Any = wb.mixed_f16(wb.sgd(params))
    with refused(ConfigurationError, "`AccumulatedState`", remedy="wb.accumulate(wb.mixed_f16"):
        wb.mixed_f16(accumulated)
    with refused(ConfigurationError, "`AccumulatedState`"):
        wb.accumulate(accumulated, params, 2)
    with refused(ConfigurationError, "`MixedState`"):
        wb.mixed_bf16(mixed)


def test_what_the_plain_step_refuses_the_mixed_step_refuses_alike(toy):
    def refusal(loss, opt):
        with pytest.raises((TracingError, GradientError)) as caught:
            go_on(new_run(opt), rows(toy), step_of(loss))
        return type(caught.value), str(caught.value)

    def of_each_row(params, x, y):
        return wb.square(x.astype("float32") @ params["w"].astype("float32") - y)

    losses = (lambda p, x, y: 1.0, of_each_row, lambda p, x, y: wb.argmax(p["w"]))
    for loss in losses:
        assert refusal(loss, wb.sgd(weights())) == refusal(loss, wb.mixed_f16(wb.sgd(weights())))


def test_parameters_that_are_no_tensors_are_refused_by_path():
    opt = tree.map_tree(wb.parameter, wb.mixed_f16(wb.sgd(weights())))
    x = wb.input("x", (wb.batch, 2))
    with refused(TracingError, "the parameter `b` is a `float`"):
        mixed_gradients({"w": wb.parameter(np.zeros(2)), "b": 0.0}, opt, x, x, squared_error)


def test_a_state_that_is_no_graph_is_refused():
    params = {"w": wb.parameter(np.zeros(2, np.float32)), "b": wb.parameter(np.float32(0.0))}
    opt = MixedState(wb.sgd(weights()))
    x, y = wb.input("x", (wb.batch, 2)), wb.input("y", (wb.batch,))
    with refused(TracingError, "`opt.scale` is a `float`"):
        mixed_gradients(params, opt, x, y, squared_error)


# What is shown


def test_the_monitor_reports_skipped_steps_and_the_scale_where_they_changed(toy):
    monitor = ScaleMonitor()
    run = new_run(wb.mixed_f16(wb.sgd(weights())), lr=0.0)
    go_on(run, rows(toy), quiet, loud, loud, quiet, callbacks=[monitor])
    assert [report.text for report in run.reports] == [
        "epoch 2: skipped 1 step (1 in all), loss scale 65536 -> 32768",
        "epoch 3: skipped 1 step (2 in all), loss scale 32768 -> 16384",
    ]
    assert monitor.epochs.tolist() == [1, 2, 3, 4]
    assert monitor.scales.tolist() == [65536, 32768, 16384, 16384]
    assert monitor.skipped.tolist() == [0, 1, 2, 2]
    assert list(monitor.frame().columns) == ["epoch", "scale", "skipped"]


def test_the_monitor_of_a_resumed_run_counts_what_it_saw_itself(toy):
    run = go_on(new_run(wb.mixed_f16(wb.sgd(weights()))), rows(toy), loud)
    (told,) = run.reports
    assert "the run ends without one update" in told.text
    go_on(run, rows(toy), quiet, callbacks=[ScaleMonitor()])
    assert run.reports == [told]


def test_the_monitor_sees_through_accumulation(toy):
    params, monitor = weights(), ScaleMonitor()
    opt = wb.accumulate(wb.mixed_f16(wb.adam(params)), params, 3)
    go_on(new_run(opt, batch_size=4), rows(toy), loud, callbacks=[monitor])
    assert (monitor.scales.tolist(), monitor.skipped.tolist()) == ([32768], [1])


def test_the_monitor_of_a_run_without_a_scale_is_reported_and_dropped(toy):
    run = go_on(new_run(wb.sgd(weights())), rows(toy), quiet, callbacks=[ScaleMonitor()])
    assert run.state.epoch == 1
    assert "has no loss scale" in run.reports[0].text

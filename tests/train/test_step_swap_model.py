"""A model, a loss, an optimizer or a schedule that is changed while its run goes on."""

from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import (
    at,
    leaves,
    logits,
    loss,
    measure,
    new_run,
    perceptron,
    rows,
    same_bits,
    step,
)
from tests.train.test_step_swap import after, steeper

DATA, VAL = rows(60), rows(9, seed=1)  # 8 batches an epoch

DEEP = perceptron(5, 6, 4, 3, seed=3)
"""The first layer has the shapes of the run's own, the others are new."""


def state(run):
    return {"params": run.params, "m": run.opt.m, "v": run.opt.v, "t": int(run.opt.t)}


def edited(*edits, epochs=3, first=step, **config):
    """Return a run with ``(batches, action)`` done on its way."""
    run = new_run(epochs, **config)
    wb.fit(run, [after(*edit) for edit in edits], DATA, VAL, first, measure)
    return run


def gone_on(source, params, opt):
    """Return a new run that goes on where ``source`` stands, with these parameters and state."""
    run = wb.Run(params, opt, source.config, context=wb.Context.cpu(2))
    run.state, run.in_epoch, run.batches_done = source.state, True, source.batches_done
    run.meter, run.losses = source.meter, source.losses
    wb.fit(run, [], DATA, VAL, step, measure)
    return run


def have_same_bits(left, right):
    pairs = zip(leaves(left), leaves(right), strict=True)
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


# -- models


def test_known_parameters_go_on_and_new_ones_begin_with_the_values_given():
    seen = {}

    def deepen(run):
        seen["before"] = state(run)
        run.step(step, params=DEEP)

    def stop(run):
        seen["after"] = state(run)
        run.stop()

    run = new_run()
    # The swap comes after the hooks of batch 5; those of batch 6 see what it left.
    watch = [after(5, deepen), after(6, stop, hook="BATCH_BEGIN")]
    wb.fit(run, watch, DATA, VAL, step, measure)
    before, now = seen["before"], seen["after"]
    assert [layer["w"].shape for layer in now["params"]] == [(5, 6), (6, 4), (4, 3)]
    assert np.array_equal(now["params"][0]["w"], before["params"][0]["w"])
    assert np.array_equal(now["m"][0]["w"], before["m"][0]["w"])
    assert np.array_equal(now["v"][0]["b"], before["v"][0]["b"])
    assert np.array_equal(now["params"][1]["w"], DEEP[1]["w"])
    assert np.array_equal(now["params"][2]["b"], DEEP[2]["b"])
    assert not now["m"][2]["w"].any()
    assert now["t"] == before["t"] == 5


def test_a_run_with_a_new_model_is_one_that_had_it_from_the_beginning():
    run = edited((5, lambda run: run.step(step, params=DEEP)))
    source = edited((5, lambda run: run.stop()))
    params = [source.params[0], *DEEP[1:]]
    opt = wb.adam(params)
    m, v = [source.opt.m[0], *opt.m[1:]], [source.opt.v[0], *opt.v[1:]]
    whole = gone_on(source, params, replace(opt, m=m, v=v, t=source.opt.t))
    assert have_same_bits(run, whole)


def test_parameters_that_vanish_are_kept_aside_and_come_back():
    seen = {}

    def deepen(run):
        seen["shallow"] = state(run)
        run.step(step, params=DEEP)

    def back(run):
        seen["deep"] = state(run)
        run.step_history[0].restore()

    def look(run):
        seen["again"] = state(run)

    run = new_run()
    edits = [after(5, deepen), after(9, back), after(10, look, hook="BATCH_BEGIN")]
    wb.fit(run, edits, DATA, VAL, step, measure)
    shallow, deep, again = seen["shallow"], seen["deep"], seen["again"]
    assert np.array_equal(again["params"][1]["w"], shallow["params"][1]["w"])
    assert np.array_equal(again["m"][1]["w"], shallow["m"][1]["w"])
    # What went on in both models went on.
    assert np.array_equal(again["params"][0]["w"], deep["params"][0]["w"])
    assert again["t"] == deep["t"] == 9


def test_parameters_of_another_shape_begin_anew():
    wide = perceptron(5, 8, 3, seed=3)
    seen = {}

    def look(run):
        seen["now"] = run.params

    run = new_run()
    edits = [
        after(5, lambda run: run.step(step, params=wide)),
        after(6, look, hook="BATCH_BEGIN"),
    ]
    wb.fit(run, edits, DATA, VAL, step, measure)
    assert np.array_equal(seen["now"][0]["w"], wide[0]["w"])
    assert run.params[0]["w"].shape == (5, 8)


@pytest.mark.parametrize(
    "optimizer",
    [
        wb.sgd,
        wb.momentum,
        lambda params: wb.mixed_bf16(wb.adam(params)),
        lambda params: wb.accumulate(wb.adam(params), params, 1),
    ],
)
def test_the_state_of_any_optimizer_follows_the_model(optimizer):
    run = new_run(2, optimizer=optimizer)
    edits = [after(5, lambda run: run.step(step, params=DEEP))]
    wb.fit(run, edits, DATA, VAL, step, measure)
    assert run.status == "completed"
    assert len(run.params) == 3
    assert np.isfinite(run.history.column("train_loss")).all()


def test_a_model_that_does_not_fit_is_refused_and_nothing_is_changed():
    def attempt(run):
        with pytest.raises(wb.WorkbenchError):
            run.step(step, params=perceptron(4, 6, 3))

    run, plain = edited((5, attempt)), new_run()
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(run, plain)


def test_an_evaluation_that_does_not_fit_the_new_model_refuses_the_step():
    def two_layers(params, x, y):
        first, second = params
        out = wb.relu(x @ first["w"] + first["b"]) @ second["w"] + second["b"]
        return {"loss": wb.cross_entropy(out, y)}

    def attempt(run):
        with pytest.raises(ValueError, match="unpack"):
            run.step(step, params=DEEP)

    run = new_run()
    wb.fit(run, [after(5, attempt)], DATA, VAL, step, two_layers)
    assert run.status == "completed"
    failure = run.step_history[-1].error
    assert failure is not None
    assert "line" in failure


def test_a_run_can_be_read_assigned_and_evaluated_under_its_new_model():
    run = edited((5, lambda run: run.step(step, params=DEEP)))
    run.params = DEEP
    assert np.array_equal(run.params[2]["w"], DEEP[2]["w"])
    values = wb.evaluate(run, VAL, measure)
    plain = wb.Run(DEEP, wb.sgd(DEEP), run.config, context=wb.Context.cpu(2))
    assert values == wb.evaluate(plain, VAL, measure)
    assert np.array_equal(wb.predict(run, VAL.x, 4, logits), wb.predict(DEEP, VAL.x, 4, logits))


# -- losses


def test_a_run_with_a_loss_learns_it_by_the_default_step():
    run, plain = new_run(), new_run()
    assert run.loss(loss) is loss
    wb.fit(run, [], DATA, VAL, eval_batch=measure)
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(run, plain)


def test_a_loss_is_changed_while_the_run_goes_on():
    run, plain = new_run(), edited((5, lambda run: run.step(steeper)))
    run.loss(loss)
    edit = after(5, lambda run: run.loss(lambda p, x, y: 3.0 * loss(p, x, y)))
    wb.fit(run, [edit], DATA, VAL, eval_batch=measure)
    assert same_bits(run, plain)
    assert [(v.part, v.global_step) for v in run.step_history] == [("loss", 0), ("loss", 5)]


def test_a_step_may_learn_the_runs_own_loss():
    run, plain = new_run(), edited((5, lambda run: run.step(steeper)))
    run.loss(loss)

    @run.step
    def own(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, run.loss.current)

    edit = after(5, lambda run: run.loss(lambda p, x, y: 3.0 * loss(p, x, y)))
    wb.fit(run, [edit], DATA, VAL, eval_batch=measure)
    assert same_bits(run, plain)


def test_a_loss_that_the_step_does_not_use_is_refused():
    def attempt(run):
        with refused(wb.ConfigurationError, "has a loss of its own"):
            run.loss(loss)

    assert edited((5, attempt)).status == "completed"


# -- optimizers


def test_another_hyper_parameter_keeps_the_moments():
    def calmer(params):
        return wb.adam(params, b1=0.5)

    run = edited((5, lambda run: run.optimizer(calmer)))
    source = edited((5, lambda run: run.stop()))
    whole = gone_on(source, source.params, replace(source.opt, b1=0.5))
    assert have_same_bits(run, whole)
    assert int(run.opt.t) == 24


def test_another_optimizer_begins_with_a_state_of_its_own_and_the_old_one_comes_back():
    seen = {}

    def note(name):
        return lambda run: seen.update({name: run.opt})

    def momentum(run):
        seen["adam"] = run.opt
        run.optimizer(wb.momentum)

    run = new_run()
    run.optimizer(wb.adam)
    edits = [
        after(5, momentum),
        after(6, note("momentum"), hook="BATCH_BEGIN"),
        after(9, lambda run: run.step_history[0].restore()),
        after(10, note("again"), hook="BATCH_BEGIN"),
    ]
    wb.fit(run, edits, DATA, VAL, step, measure)
    assert (seen["momentum"].kind, int(seen["momentum"].t)) == ("momentum", 0)
    assert not seen["momentum"].m[0]["w"].any()
    assert seen["again"].kind == "adam"
    assert int(seen["again"].t) == int(seen["adam"].t) == 5
    assert np.array_equal(seen["again"].m[0]["w"], seen["adam"].m[0]["w"])


def test_an_optimizer_that_was_declared_makes_the_state_of_a_new_model():
    def slow(params):
        return wb.adam(params, b2=0.9)

    run = new_run()
    run.optimizer(slow)
    wb.fit(run, [after(5, lambda run: run.step(step, params=DEEP))], DATA, VAL, step, measure)
    assert run.opt.b2 == 0.9
    assert len(run.opt.m) == 3


def test_a_window_of_accumulation_is_not_changed():
    def attempt(run):
        with refused(wb.ConfigurationError, "accumulates 2 batches, and the run 1"):
            run.optimizer(lambda params: wb.accumulate(wb.adam(params), params, 2))

    assert edited((5, attempt)).status == "completed"


# -- schedules


def rates(run, *callbacks, first=step):
    """Train, and return the rate that each batch was learned with."""
    seen = []
    watch = at("BATCH_END", lambda event: seen.append(event.state.lr))
    wb.fit(run, [*callbacks, watch], DATA, VAL, first, measure)
    return seen


def test_a_schedule_is_given_changed_and_taken_away():
    run = new_run(2)
    edits = [
        after(3, lambda run: run.schedule(lambda step: 0.001 * step)),
        after(6, lambda run: run.schedule(lambda step: 1.0 / (1 + step))),
        after(10, lambda run: run.schedule.clear()),
    ]
    seen = rates(run, *edits)
    assert seen[:3] == [0.01] * 3
    assert seen[3:6] == [0.001 * step for step in (3, 4, 5)]
    assert seen[6:10] == [1.0 / (1 + step) for step in (6, 7, 8, 9)]
    assert seen[10:] == [seen[9]] * 6


def test_a_schedule_takes_the_place_of_the_callbacks_own_until_it_is_taken_away():
    run = new_run(2)
    callback = wb.StepSchedule(lambda step: 0.002)
    edits = [
        after(3, lambda run: run.schedule(lambda step: 0.001)),
        after(9, lambda run: run.schedule.clear()),
    ]
    assert rates(run, callback, *edits) == [0.002] * 3 + [0.001] * 6 + [0.002] * 7


def test_a_schedule_that_was_declared_before_is_followed_from_the_first_update():
    run, plain = new_run(), new_run()
    run.schedule(lambda step: 0.1 / (1 + step))
    wb.fit(run, [], DATA, VAL, step, measure)
    wb.fit(plain, [wb.StepSchedule(lambda step: 0.1 / (1 + step))], DATA, VAL, step, measure)
    assert same_bits(run, plain)


def test_a_course_without_a_base_of_its_own_takes_the_runs():
    run = new_run(1)
    run.schedule(wb.ConstantRate())
    assert set(rates(run)) == {0.01}


@pytest.mark.parametrize("wrong", [lambda step: -1.0, lambda step: 1.0 / 0.0, lambda step: "fast"])
def test_a_schedule_that_gives_no_rate_is_refused_and_the_old_one_goes_on(wrong):
    def attempt(run):
        with pytest.raises((wb.ConfigurationError, ZeroDivisionError, ValueError)):
            run.schedule(wrong)

    run = new_run(1)
    assert rates(run, after(3, attempt)) == [0.01] * 8
    assert run.step_history[-1].error is not None


def test_a_step_cannot_be_taken_away():
    with refused(wb.ConfigurationError, "cannot be without its step"):
        new_run().step.clear()


@pytest.mark.parametrize("kept_by", ["early stopping", "checkpoints"])
def test_the_best_parameters_of_another_model_are_not_given_back(kept_by, tmp_path):
    callback = (
        wb.EarlyStopping("loss", 100, higher_is_better=False, restore_best=True, min_delta=1e9)
        if kept_by == "early stopping"
        else wb.Checkpointing(
            tmp_path / "run",
            monitor="loss",
            higher_is_better=False,
            restore_best=True,
            min_delta=1e9,
        )
    )
    run = new_run()
    edits = [callback, after(11, lambda run: run.step(step, params=DEEP))]
    wb.fit(run, edits, DATA, VAL, step, measure)
    assert run.status == "completed"
    assert len(run.params) == 3
    assert not any(" raised in " in report.text for report in run.reports)
    assert "stay" in run.reports[-1].text

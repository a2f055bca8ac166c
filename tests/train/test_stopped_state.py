"""A stop is part of a run: it is kept until it is obeyed, and obeyed until somebody resumes."""

import math

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import at, measure, new_run, rows, same_bits, step
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.inspection import inspect

TRAIN = rows(24)  # 3 batches an epoch
VAL = rows(9, seed=1)


def stubborn(patience=1):
    """Return an early stopping for which nothing is ever good enough."""
    return wb.EarlyStopping("loss", patience, higher_is_better=False, min_delta=1000.0)


def fit(run, callbacks):
    wb.fit(run, callbacks, TRAIN, VAL, step, measure)
    return run


def warnings(run):
    return [report.text for report in run.reports if report.severity == "warning"]


# -- what a callback decided


def ask(event):
    if event.epoch == 2:
        event.state.request_stop("enough")


def write(event):
    if event.epoch == 2:
        event.state.stop = True


DECIDING = {
    "early stopping": lambda: stubborn(0),
    "request": lambda: at("EPOCH_END", ask),
    "at an evaluation": lambda: at("EVAL_END", ask),
    "written": lambda: at("EPOCH_END", write),
}


@pytest.mark.parametrize("kind", DECIDING)
def test_a_restarted_job_that_a_callback_stopped_trains_no_further(kind, tmp_path):
    def job():
        run = new_run(9)
        callbacks = [DECIDING[kind](), wb.Checkpointing(path, at_end=True, in_background=False)]
        if path.exists():
            restore(run, path, callbacks=callbacks, train=TRAIN)
        return fit(run, callbacks)

    path = tmp_path / "run.safetensors"
    first = job()
    assert (first.status, first.state.epoch) == ("stopped", 2)
    for _ in range(3):
        again = job()
        assert (again.status, again.state.epoch) == ("stopped", 2)
        assert same_bits(first, again)
        (said,) = warnings(again)
        name = first.state.stopped_by
        assert f"stopped by `{name}`" in said
        assert "`run.resume()`" in said


def test_a_stopped_run_says_so_when_it_is_fitted_again_and_goes_on_after_resume():
    run = fit(new_run(9), [stubborn(1)])
    assert (run.state.epoch, run.state.stopped_by) == (3, "EarlyStopping(loss)")
    fit(run, [stubborn(1)])
    assert (run.state.epoch, len(warnings(run))) == (3, 1)
    run.resume()
    assert not run.state.stop
    fit(run, [])
    assert (run.state.epoch, run.status) == (9, "completed")


def test_a_stopped_run_is_restored_as_stopped_and_inspect_says_by_whom(tmp_path):
    run = fit(new_run(9), [stubborn(1)])
    path = save_checkpoint(run, tmp_path / "x")
    shown = dict(inspect(path).lines())["stopped"]
    assert shown.startswith("by EarlyStopping(loss): loss has not improved for 2 evaluations")
    again = new_run(9)
    restore(again, path, callbacks=None)
    assert (again.status, again.state.stop_reason) == ("stopped", run.state.stop_reason)
    again.resume()
    assert fit(again, []).state.epoch == 9


def test_a_run_whose_loss_is_not_finite_is_not_trained_by_a_batch_at_each_restart():
    params = {"w": np.full((5, 3), np.nan, np.float32)}

    def broken(params, opt, x, y, lr):
        return wb.default_step(
            params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(x @ p["w"], y)
        )

    run = wb.Run(params, wb.adam(params), wb.Config(3, 8, 0.1, 7, verbose=False))
    for _ in range(3):
        wb.fit(run, [wb.TerminateOnNonFinite(every_batch=True)], TRAIN, None, broken)
        assert (run.state.global_step, run.status) == (1, "stopped")
    assert math.isnan(run.state.train_loss)


# -- what a person decided


@pytest.mark.parametrize("after", ["batch", "epoch"])
def test_a_run_that_a_person_stopped_goes_on_at_the_next_fit(after):
    class Once(wb.Callback):
        def on_epoch_begin(self, event):
            if event.epoch == 1:
                event.run.stop(after=after)

    run = fit(new_run(4), [Once()])
    assert (run.status, run.state.stopped_by) == ("stopped", "")
    assert fit(run, []).state.epoch == 4
    assert same_bits(run, fit(new_run(4), []))


def test_a_time_that_is_over_leaves_a_run_that_goes_on():
    clock = iter(range(100))
    run = fit(new_run(5), [wb.TimeBudget(2.0, clock=lambda: next(clock))])
    assert (run.state.epoch, run.state.stop_reason) == (2, "the time budget of 2 s is used up")
    assert fit(run, []).state.epoch == 5
    assert warnings(run) == []


# -- pending in the midst of an epoch


def pending(asks):
    """Return callbacks of which one asks for the end at batch 4, the second of the second epoch."""

    def act(event):
        if event.state.global_step == 5:
            asks(event)

    return [at("BATCH_END", act)]


ASKING = {
    "a person": lambda event: event.run.stop(after="epoch", reason="tired"),
    "a callback": lambda event: event.state.request_stop("tired"),
}


@pytest.mark.parametrize("who", ASKING)
@pytest.mark.parametrize("way", ["asked for", "periodic"])
def test_a_stop_that_waits_for_the_end_of_an_epoch_is_in_a_file_of_its_middle(who, way, tmp_path):
    path = tmp_path / "x.safetensors"
    whole = fit(new_run(5), pending(ASKING[who]))
    assert (whole.state.epoch, whole.state.stop_reason) == (2, "tired")

    class Crash(wb.Callback):
        fatal = True

        def on_batch_begin(self, event):
            if event.state.global_step == 5:
                if way == "asked for":
                    save_checkpoint(event.run, path)
                raise RuntimeError("killed")

    writes = wb.Checkpointing(path, every=0, every_steps=5, in_background=False)
    first = new_run(5)
    # Asked before the file is written: end hooks run by descending position within a band.
    callbacks = [writes, *pending(ASKING[who]), Crash()]
    with pytest.raises(RuntimeError, match="killed"):
        fit(first, callbacks if way == "periodic" else callbacks[1:])
    again = new_run(5)
    restore(again, path, callbacks=None, train=TRAIN)
    assert "tired" in dict(inspect(path).lines())["stopped"]
    fit(again, [])
    assert (again.state.epoch, again.state.stop_reason, again.status) == (2, "tired", "stopped")
    assert same_bits(whole, again)
    fit(again, [])
    assert again.state.epoch == (5 if who == "a person" else 2)


def test_a_stop_within_an_epoch_survives_another_interruption_of_it():
    whole = new_run(9, eval_every=0, eval_every_steps=2)
    fit(whole, [stubborn(0)])
    left = new_run(9, eval_every=0, eval_every_steps=2)
    stop = at("BATCH_END", lambda event: event.run.stop())
    callbacks = [stubborn(0)]
    for _ in range(whole.state.global_step):
        fit(left, [*callbacks, stop])
    fit(left, callbacks)
    assert (left.state.epoch, left.state.stop_reason) == (
        whole.state.epoch,
        whole.state.stop_reason,
    )
    assert same_bits(whole, left)


# -- metrics and their parameters


def test_a_file_within_an_epoch_holds_what_is_measured_of_its_own_parameters(tmp_path):
    path = tmp_path / "x.safetensors"
    seen = []

    class Look(wb.Callback):
        band = 20  # after the file is written, where ends are reversed

        def on_batch_begin(self, event):
            if path.exists():
                seen.append(inspect(path))

    writes = wb.Checkpointing(path, every=0, every_steps=2, in_background=False)
    run = new_run(3, eval_every_steps=2)
    fit(run, [writes, Look()])
    assert len({each.global_step for each in seen}) >= 3
    for each in [*seen, inspect(path)]:
        assert each.measured_step == each.global_step
    again = new_run(3)
    restore(again, path, callbacks=None, train=TRAIN)
    assert wb.evaluate(again, VAL, measure)["loss"] == inspect(path).metrics["loss"]


def test_a_file_whose_metrics_are_older_says_of_which_step_they_are(tmp_path):
    path = tmp_path / "x.safetensors"
    writes = wb.Checkpointing(path, every=0, every_steps=4, in_background=False)
    fit(new_run(2), [writes])  # evaluated at steps 3 and 6, written at 4
    found = inspect(path)
    assert (found.global_step, found.measured_step) == (4, 3)
    assert "(val measured at step 3)" in dict(found.lines())["metrics"]
    again = new_run(2)
    restore(again, path, callbacks=None, train=TRAIN)
    assert again.measured_step == 3


def test_metrics_are_not_those_of_parameters_that_were_put_in_later(tmp_path):
    best = wb.EarlyStopping("loss", 9, higher_is_better=True, restore_best=True)
    run = fit(new_run(3), [best])
    found = inspect(save_checkpoint(run, tmp_path / "x"))
    assert found.measured_step is None
    assert "(val measured for other parameters)" in dict(found.lines())["metrics"]


def test_a_file_that_waits_for_an_evaluation_that_is_left_is_written_at_the_end(tmp_path):
    path = tmp_path / "x.safetensors"
    writes = wb.Checkpointing(path, every=0, every_steps=3, in_background=False)
    stop = at("BATCH_END", lambda event: event.run.stop() if event.batch == 2 else None)
    run = fit(new_run(2), [writes, stop])
    assert (run.in_epoch, inspect(path).global_step) == (True, 3)
    again = new_run(2)
    restore(again, path, callbacks=None, train=TRAIN)
    assert same_bits(fit(again, []), fit(new_run(2), []))

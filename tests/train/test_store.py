import threading

import numpy as np
import pytest

import workbench as wb
from workbench.train.store import RunStore
from workbench.train.store_status import counter_of_skipped, read_status, skipped_steps
from workbench.train.store_timing import Timing

DATA = wb.data.Dataset(
    np.linspace(-1, 1, 40, dtype=np.float32)[:, None],
    np.linspace(-2, 2, 40, dtype=np.float32)[:, None],
)


def _loss(params, x, y):
    return wb.mse(x @ params["w"], y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, _loss)


def metrics(params, x, y):
    return {"loss": _loss(params, x, y)}


def _run(epochs=3, **options):
    params = {"w": np.zeros((1, 1), np.float32)}
    config = wb.Config(epochs, 8, 0.05, 1, verbose=False, **options)
    return wb.Run(params, wb.sgd(params), config)


class Losses(wb.Callback):
    def __init__(self):
        self.seen = []

    def on_batch_end(self, event):
        self.seen.append(event.loss)


def test_the_store_has_the_loss_of_each_batch_of_the_whole_run():
    run, losses = _run(), Losses()
    wb.fit(run, [losses], DATA, None, step)
    assert run.store.curve("loss").mean.tolist() == losses.seen
    assert run.store.done == 15


def test_the_store_is_the_same_when_batches_stay_in_native_code():
    run, one_by_one = _run(), _run()
    wb.fit(run, [], DATA, DATA, step, metrics)
    wb.fit(one_by_one, [Losses()], DATA, DATA, step, metrics)
    curves = [each.store.curve("loss").mean.tobytes() for each in (run, one_by_one)]
    assert curves[0] == curves[1]


def test_evaluations_and_epochs_stand_after_their_batches():
    run = _run(4, eval_every=2)
    wb.fit(run, [], DATA, DATA, step, metrics)
    points = run.store.evaluations.points("loss")
    assert points.at.tolist() == [10, 20]
    assert points.values.mean[-1] == pytest.approx(run.state.val_loss)
    losses = run.store.epochs.points("train_loss")
    assert losses.at.tolist() == [5, 10, 15, 20]
    assert run.store.place_of_epoch(3) == 15


def test_a_run_that_is_gone_on_with_goes_on_with_its_curve():
    run = _run(2)
    wb.fit(run, [], DATA, None, step)
    run.state.stop = False
    run.config = wb.Config(4, 8, 0.05, 1, verbose=False)
    wb.fit(run, [], DATA, None, step)
    assert len(run.store.curve("loss")) == 20


def test_a_restored_run_begins_its_curve_where_the_checkpoint_stood(tmp_path):
    run = _run(2)
    wb.fit(run, [], DATA, None, step)
    wb.save_checkpoint(run, tmp_path / "two.safetensors")
    again = _run(4)
    wb.restore(again, tmp_path / "two.safetensors")
    wb.fit(again, [], DATA, None, step)
    curve = again.store.curve("loss")
    assert (curve.first, len(curve)) == (10, 10)
    assert again.store.place_of_epoch(3) == 15


def test_what_the_step_reports_is_a_curve_of_its_own():
    def reporting(params, opt, x, y, lr):
        made = wb.default_step(params, opt, x, y, lr, _loss)
        return wb.StepResult(made.loss, made.params, made.opt, {"weight": wb.sum(params["w"])})

    run = _run(2)
    wb.fit(run, [], DATA, None, reporting)
    weights = run.store.curve("weight").mean
    assert weights[0] == 0
    assert len(weights) == 10


def test_a_metric_that_comes_late_is_missing_before_and_not_zero():
    store = RunStore()
    store.evaluated({"loss": 2.0}, 0.1)
    store.add(np.ones(5, np.float32), {})
    store.evaluated({"loss": 1.0, "accuracy": 0.5}, 0.1)
    points = store.evaluations.points("accuracy")
    assert (points.at.tolist(), points.values.mean.tolist()) == ([5], [0.5])
    assert store.validation_s == pytest.approx(0.2)


def test_values_beyond_float32_are_kept_as_infinite_and_not_shown_as_numbers():
    store = RunStore()
    store.evaluated({"loss": 1e300}, 0.0)
    store.evaluated({"loss": float("nan")}, 0.0)
    assert len(store.evaluations.points("loss").at) == 0
    assert store.evaluations.columns["loss"].bad == 2


def test_marks_are_kept_in_order_and_only_the_latest_of_each_kind():
    store = RunStore()
    for number in range(1000):
        store.mark("checkpoint", str(number), at=number)
    store.mark("step", "version 2", at=10)
    assert [mark.text for mark in store.marks][:2] == ["version 2", "744"]
    assert len(store.marks) == 257


def test_checkpoints_are_marked_where_they_were_written(tmp_path):
    run = _run(4)
    # At once: of two that are due within a moment the first one is left out in the background.
    saving = wb.Checkpointing(tmp_path / "a.safetensors", every=2, in_background=False)
    wb.fit(run, [saving], DATA, None, step)
    assert [mark.at for mark in run.store.marks if mark.kind == "checkpoint"] == [10, 20]


def test_a_status_tells_where_the_run_stands():
    run = _run()
    before = read_status(run)
    assert (before.status, before.done, before.left) == ("ready", 0, None)
    assert np.isnan(before.loss)
    wb.fit(run, [wb.EarlyStopping("loss", 5, higher_is_better=False)], DATA, DATA, step, metrics)
    after = read_status(run)
    assert (after.status, after.done, after.total, after.step) == ("completed", 15, 15, 15)
    assert after.best is not None
    assert (after.best.epoch, after.best.at) == (3, 15)
    assert after.memory > 0
    assert after.is_over


def test_skipped_steps_are_known_where_the_optimizer_skips_some():
    params = {"w": np.zeros((1, 1), np.float32)}
    config = wb.Config(1, 8, 0.05, 1, verbose=False)
    run = wb.Run(params, wb.mixed_f16(wb.adam(params)), config)
    assert skipped_steps(run, counter_of_skipped(run.opt_leaves)) == 0
    assert counter_of_skipped(_run().opt_leaves) is None
    assert skipped_steps(run, None) is None


def test_the_rate_is_that_of_the_last_seconds_and_pauses_do_not_count():
    now = [0.0]
    timing = Timing(lambda: now[0])

    def look(updates, *, paused_s=0.0, is_paused=False):
        timing.look(
            updates, paused_s=paused_s, is_paused=is_paused, validation_s=0.0, validations=0
        )

    look(0)
    assert np.isnan(timing.rate)
    for second in range(1, 11):
        now[0] = float(second)
        look(100 * second)
    assert timing.rate == pytest.approx(100)
    now[0] = 11.0
    look(1000, is_paused=True)
    assert np.isnan(timing.rate)
    now[0] = 100.0
    look(1000, paused_s=90.0)
    now[0] = 101.0
    look(1100, paused_s=90.0)
    assert timing.rate == pytest.approx(100)
    left = timing.left(500, validations=0, may_stop=False)
    assert left is not None
    assert left.least_s == pytest.approx(5, rel=0.1)


def test_a_run_waits_for_its_views_to_show_the_end_but_not_for_long():
    run = _run()
    settled, never = threading.Event(), threading.Event()
    run.store.expect(settled)
    run.start([], DATA, None, step)
    threading.Timer(0.05, settled.set).start()
    run.wait()
    assert settled.is_set()
    run.store.expect(never)
    run.store.settle(0.01)
    assert not never.is_set()

"""What people complained of in other training loops, each as a run of this one."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import Watch, at, measure, new_run, perceptron, rows, same_bits, step
from workbench.train.container import open_container

ROOT = Path(__file__).resolve().parents[2]
TRAIN, VAL = rows(20), rows(9, seed=1)


def fit(run, *callbacks, val: wb.data.Dataset | None = VAL, train=TRAIN, taken=step):
    wb.fit(run, callbacks, train, val, taken, measure)
    return run


def stuck(patience, **options):
    """An early stop for which no value is ever better than the first one."""
    options = {"higher_is_better": False, "min_delta": 1000.0, **options}
    return wb.EarlyStopping("loss", patience, **options)


# 1. The end of an epoch was announced before its validation had ended


def test_the_end_of_an_epoch_never_comes_before_the_end_of_its_evaluation():
    watch, seen = Watch(), []

    def look(event):
        judged = [e for e in watch.seen if e.hook.name == "EVAL_END"]
        seen.append((event.epoch, judged[-1].epoch, event.state.val is judged[-1].metrics))

    fit(new_run(3), watch, at("EPOCH_END", look))
    ends = [name for name in watch.names if name in ("EVAL_END", "EPOCH_END")]
    assert ends == ["EVAL_END", "EPOCH_END"] * 3
    assert seen == [(epoch, epoch, True) for epoch in (1, 2, 3)]


# 2. The order of callbacks was unknown, and could not be chosen


class Named(wb.Callback):
    def __init__(self, name, band, said):
        self.name, self.band, self.said = name, band, said

    def on_epoch_begin(self, event):
        self.said.append(self.name)


@pytest.mark.parametrize(
    ("bands", "order"),
    [((40, 40), ["a", "b"]), ((40, 30), ["b", "a"]), ((20, 30), ["a", "b"])],
)
def test_the_order_of_callbacks_is_printed_beforehand_and_follows_what_the_user_asks(bands, order):
    said = []
    pair = [Named(name, band, said) for name, band in zip("ab", bands, strict=True)]
    fit(new_run(1), *pair)
    assert said == order
    line = wb.explain_order(pair).splitlines()[1]
    assert line == "epoch begin  " + ", ".join(
        f"{c.name} ({c.band})" for c in sorted(pair, key=lambda c: order.index(c.name))
    )


# 3. "Can save best model only with f1 available, skipping"


class OwnMetric(wb.Callback):
    """Makes a metric of its own at each evaluation: best at the second one."""

    writes = ("own",)

    def __init__(self, band):
        self.band = band

    def on_eval_end(self, event):
        event.state.val.update("own", {1: 0.5, 2: 0.9}.get(event.epoch, 0.7), 1)


def keeping(path, **options):
    options = {"monitor": "own", "higher_is_better": True, **options}
    return wb.Checkpointing(path, every=0, **options)


def test_the_best_model_may_be_judged_by_a_metric_that_another_callback_makes(tmp_path):
    run = fit(new_run(4), keeping(tmp_path / "x"), OwnMetric(20))
    assert open_container(Path(run.state.best_path)).document["best"] == {
        "monitor": "own",
        "value": 0.9,
        "epoch": 2,
    }


def test_a_metric_that_comes_too_late_to_judge_the_best_model_is_refused_not_skipped(tmp_path):
    with refused(wb.ConfigurationError, "reads `own`", "`OwnMetric` in band 40 writes"):
        fit(new_run(4), keeping(tmp_path / "x"), OwnMetric(40))
    assert list(tmp_path.iterdir()) == []


# 4. Patience was one more in one callback and one less in another


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_patience_of_an_early_stop_and_of_a_plateau_mean_the_same(patience):
    plateau = wb.PlateauSchedule(
        "loss", 0.5, patience=patience, higher_is_better=False, min_delta=1000.0
    )
    cut = fit(new_run(patience + 4), plateau)
    first = cut.history.column("lr").tolist().index(0.005)
    stopped = fit(new_run(patience + 4), stuck(patience))
    # Cut after the evaluation that would have stopped: the next epoch has the new rate.
    assert stopped.state.epoch == first == patience + 2
    assert f"for {patience + 1} evaluations (patience {patience})" in stopped.state.stop_reason


# 5. With evaluations within epochs, runs were stopped too early


def test_evaluations_within_epochs_use_up_patience_unless_a_least_number_of_epochs_is_asked_for():
    # Three batches of 8 rows: evaluated after each, and the third by the end of the epoch.
    early = fit(new_run(9, eval_every_steps=1), stuck(4))
    assert (early.state.epoch, early.state.global_step) == (2, 6)
    assert "for 5 evaluations (patience 4)" in early.state.stop_reason
    late = fit(new_run(9, eval_every_steps=1), stuck(4, min_epochs=6))
    assert late.state.epoch == 6


# 6. The wait began at 0 after a resume, and its saved state lagged an epoch behind


def test_an_early_stop_keeps_its_wait_over_a_resume_and_saves_it_without_lag(tmp_path):
    whole = fit(new_run(20), stuck(5))
    path = tmp_path / "run"
    fit(new_run(4), stuck(5), wb.Checkpointing(path, every=1))
    again, resumed = stuck(5), new_run(20)
    wb.restore(resumed, path, callbacks=[again])
    assert (resumed.state.epoch, again.best.wait) == (4, 3)
    assert fit(resumed, again).state.epoch == whole.state.epoch == 7


# 7. After a restart, keeping the best overwrote a better model


def test_a_better_model_is_never_overwritten_after_a_restart(tmp_path):
    path = tmp_path / "run"

    def best_of():
        return keeping(path, monitor="loss", higher_is_better=False)

    class Rate(wb.Callback):
        band, writes = 10, ("lr",)

        def __init__(self, lr):
            self.lr = lr

        def on_epoch_begin(self, event):
            event.state.lr = self.lr

    first = fit(new_run(5), best_of(), Rate(0.05))
    saved = wb.save_checkpoint(first, tmp_path / "latest")
    kept = Path(first.state.best_path).read_bytes()
    second = new_run(9)
    wb.restore(second, saved, callbacks=None)
    fit(second, best_of(), Rate(3.0))
    assert second.history.column("val_loss")[5:].min() > first.history.column("val_loss").min()
    assert Path(second.state.best_path).read_bytes() == kept


# 8. The loss jumped after a model was loaded


def test_the_loss_does_not_jump_after_loading(tmp_path):
    whole = fit(new_run(8))
    path = wb.save_checkpoint(fit(new_run(4)), tmp_path / "run")
    resumed = new_run(8)
    wb.restore(resumed, path)
    fit(resumed)
    assert resumed.history.column("train_loss").tolist() == (
        whole.history.column("train_loss").tolist()
    )
    # What the complaint is of: parameters alone, and Adam counting from 0 again.
    parameters_only = new_run(8)
    wb.load_parameters(parameters_only, path)
    fit(parameters_only)
    assert parameters_only.history.rows[0].train_loss != whole.history.rows[4].train_loss


# 9. A cycle was not restored; a rate by the epoch was used where one by the step was meant


@pytest.mark.parametrize("left_after", [1, 2, 4, 5, 7])
def test_a_cycle_by_the_step_goes_on_where_it_was_left(tmp_path, left_after):
    def cycle():
        return wb.StepSchedule(wb.OneCycleRate(0.1, 12))

    def rates(run, seen):
        return at("BATCH_BEGIN", lambda event: seen.append(event.state.lr))

    expected, found = [], []
    whole = new_run(4)
    fit(whole, cycle(), rates(whole, expected))
    first = new_run(4)
    leave = at(
        "BATCH_END",
        lambda event: first.stop() if event.state.global_step == left_after else None,
    )
    fit(first, cycle(), rates(first, found), leave)
    path = wb.save_checkpoint(first, tmp_path / "run")
    second, schedule = new_run(4), cycle()
    wb.restore(second, path, callbacks=[schedule])
    fit(second, schedule, rates(second, found))
    assert found == expected == [wb.OneCycleRate(0.1, 12)(step) for step in range(12)]
    assert same_bits(second, whole)


# 10. The short last batch skewed the mean of an epoch


def test_a_short_last_batch_weighs_its_rows_in_training_and_in_evaluation():
    data = wb.data.Dataset(np.zeros((3, 1)), [10.0, 10.0, 9.0])

    def constant(params, opt, x, y, lr):
        return wb.StepResult(y.mean(), params, opt)

    run = new_run(1, 2, shuffle=False)
    wb.fit(run, [], data, data, constant, lambda params, x, y: {"loss": y.mean()})
    assert run.losses.tolist() == [10.0, 9.0]
    assert run.state.train_loss == run.state.val_loss == pytest.approx(29 / 3)  # and not 9.5


# 11. The batch size was guessed from whatever lay in the batch


def test_what_a_batch_weighs_is_its_rows_and_never_guessed_from_a_shape():
    # Sides of images, a metric of 2 numbers, 5 classes: only 7 is the number of rows.
    x = np.random.default_rng(0).normal(size=(7, 3, 2)).astype(np.float32)
    data = wb.data.Dataset(x, np.arange(7) % 5)

    def eval_batch(params, x, y):
        sides = x.mean(0).mean(0)  # shape (2,)
        return {"mean": sides.mean(), "first": wb.mean(x, (1, 2)).mean()}

    run = new_run()
    for batch_size in (1, 2, 3, 5, 7):
        found = wb.evaluate(run, data, eval_batch, batch_size=batch_size)
        assert found == pytest.approx({"mean": x.mean(), "first": x.mean()}, abs=1e-6)
    with refused(wb.DataError, "x has 7 rows and y has 3"):
        wb.data.Dataset(x, np.arange(3))


# 12. Accumulation scaled the last window wrongly


@pytest.mark.parametrize("n", [20, 19, 17, 13])
def test_the_last_window_of_accumulated_batches_is_divided_by_the_rows_it_saw(n):
    runs = []
    for batch_size, accum_steps in ((12, 1), (4, 3)):
        params = perceptron(5, 6, 3, dtype=np.float64)
        config = wb.Config(3, batch_size, 0.05, 7, verbose=False, accum_steps=accum_steps)
        run = wb.Run(params, wb.sgd(params), config)
        runs.append(fit(run, train=rows(n, dtype=np.float64), val=None))
    for one, other in zip(*(run.params for run in runs), strict=True):
        for name in ("w", "b"):
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-13)
    assert runs[0].state.global_step == runs[1].state.global_step == 6


# 13. NaN did not terminate, counted as an improvement, and filled the best file


def explode(after):
    """Return a step whose loss becomes NaN after so many updates."""

    def exploding(params, opt, x, y, lr):
        result = step(params, opt, x, y, lr)
        spoilt = wb.where(result.opt.t > after, float("nan"), 1.0)
        return wb.StepResult(
            result.loss * spoilt,
            [{name: leaf * spoilt for name, leaf in layer.items()} for layer in result.params],
            result.opt,
        )

    return exploding


def test_nan_ends_the_run_is_no_improvement_and_never_becomes_the_best_file(tmp_path):
    path = tmp_path / "run"
    for guard in (wb.TerminateOnNonFinite(), wb.EarlyStopping("loss", 1, higher_is_better=False)):
        best = keeping(path, monitor="loss", higher_is_better=False)
        run = fit(new_run(30), guard, best, taken=explode(7))
        assert run.status == "stopped"
        assert run.state.epoch <= 5
        values = run.history.column("val_loss")
        assert np.isnan(values[-1])
        file = open_container(Path(run.state.best_path))
        assert file.document["best"]["value"] == np.nanmin(values)
        assert all(np.isfinite(array).all() for array in file.arrays().values())


def test_a_run_that_is_nan_from_its_first_batch_ends_there_if_each_is_looked_at(tmp_path):
    guard = wb.TerminateOnNonFinite(every_batch=True)
    run = fit(new_run(30), guard, keeping(tmp_path / "run"), OwnMetric(20), taken=explode(0))
    assert (run.status, run.state.global_step, run.state.epoch) == ("stopped", 1, 0)
    assert list(tmp_path.iterdir()) == []


# 14. Progress froze the browser, and bloated the notebook


class Cell(io.StringIO):
    """Output below a cell, with the moments at which something was written."""

    def __init__(self):
        super().__init__()
        self.times = []

    def isatty(self):
        return True

    def write(self, text):
        self.times.append(time.monotonic())
        return super().write(text)


def test_progress_writes_at_most_ten_times_a_second_and_in_place(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    cell = Cell()
    run = new_run(400, verbose=True)
    quiet = wb.MetricLog(io.StringIO())
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", cell)
        began = time.monotonic()
        fit(run, wb.Progress(batch_every=1), quiet)
        took = time.monotonic() - began
    assert run.state.global_step == 1200
    # One at the beginning, one at the end, and the line end.
    assert len(cell.times) <= 10 * took + 3
    text = cell.getvalue()
    assert text.count("\n") == 1
    assert len(text) < 400 * len(cell.times)
    # What stays with the run is one report, not 1,600.
    assert len(run.reports) == 1


# 15. A progress widget that could not be drawn showed nothing

BLIND = """
import sys
for name in ("ipywidgets", "anywidget", "IPython", "traitlets", "tqdm", "rich", "matplotlib"):
    sys.modules[name] = None
import workbench as wb
from tests.train.problems import measure, new_run, rows, step
run = new_run(3, verbose=True)
wb.fit(run, [wb.Progress()], rows(20), rows(9, seed=1), step, measure)
print(run)
print("<table" in run._repr_html_(), "<script" in run._repr_html_())
"""


def test_without_any_front_end_progress_is_lines_and_a_run_is_a_table():
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLIND],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line[:9] for line in lines if "val_loss" in line] == [f"epoch {n}/3" for n in (1, 2, 3)]
    assert any(line.startswith("epoch 3/3  [########") for line in lines)
    assert lines[-2].startswith("<Run completed: epoch 3/3, step 9, loss ")
    assert lines[-1] == "True False"


# 16. An interrupt lost the run, or the notebook


def test_an_interrupt_of_the_kernel_ends_the_cell_with_a_run_that_can_be_used_and_continued():
    whole = fit(new_run(6))
    run = new_run(6)
    press = at(
        "BATCH_END",
        lambda event: signal.raise_signal(signal.SIGINT) if event.state.global_step == 7 else None,
    )
    fit(run, press)  # returns: cells below go on
    assert (run.status, run.state.global_step) == ("interrupted", 7)
    assert run.state.stop_reason == "interrupted from the keyboard"
    assert wb.evaluate(run, VAL, measure)["loss"] > 0.0
    assert wb.predict(run, VAL.x, 4, lambda params, x: x @ params[0]["w"]).shape == (9, 6)
    assert same_bits(fit(run), whole)


def test_a_stop_button_ends_a_run_in_the_background_and_the_notebook_goes_on():
    run = new_run(10**6)
    run.start([], TRAIN, VAL, step, measure)
    while run.state.global_step < 3:
        time.sleep(0.001)
    began = time.monotonic()
    run.stop()
    run.wait(60)
    assert time.monotonic() - began < 5.0
    assert (run.status, run.state.stop_reason) == ("stopped", "stopped by request")
    step_reached = run.state.global_step
    run.start([], TRAIN, VAL, step, measure)
    run.stop(after="epoch")
    run.wait(60)
    assert run.state.global_step >= step_reached

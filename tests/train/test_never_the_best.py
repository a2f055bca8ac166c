"""What is not finite is never the best, and what does not exist yet is no 0.0."""

import json
import math

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import at
from workbench.train.callbacks.best import Best
from workbench.train.state import RunState

X = np.random.default_rng(0).normal(size=(64, 4))
Y = (np.arange(64) % 10 == 0).astype(np.int64)
DATA = wb.data.Dataset(X, Y)


def logits(params, x):
    return x @ params["w"]


def new_run(epochs=3, *, lr=0.1, optimizer=wb.sgd, batch_size=16, weights=None):
    params = {"w": wb.he_normal(4, 2, seed=3) if weights is None else weights}
    config = wb.Config(epochs, batch_size, lr, 7, verbose=False)
    return wb.Run(params, optimizer(params), config)


def step_with(factor):
    def loss(params, x, y):
        return wb.cross_entropy(logits(params, x * factor), y)

    return lambda params, opt, x, y, lr: wb.default_step(params, opt, x, y, lr, loss)


plain = step_with(1.0)


def share(params, x, y):
    """Return what looks best where the model is worst: a metric that heeds no parameter."""
    return {"share": wb.mean((y == 0).astype("float32")) + 0.0 * wb.min(y.astype("float32"))}


def watchers(path):
    return [
        wb.EarlyStopping("share", 9, higher_is_better=True, restore_best=True),
        wb.PlateauSchedule("share", 0.5, patience=9, higher_is_better=True),
        wb.Checkpointing(
            path, monitor="share", higher_is_better=True, keep_best=2, restore_best=True
        ),
    ]


def broken(params, opt, x, y, lr):
    """Learn as ever, but for one parameter that becomes what is no number."""
    made = plain(params, opt, x, y, lr)
    return wb.StepResult(made.loss, {"w": made.params["w"] * float("nan")}, made.opt)


def infinite_loss(params, opt, x, y, lr):
    made = plain(params, opt, x, y, lr)
    return wb.StepResult(made.loss + float("inf"), made.params, made.opt)


def odd_loss(params, x, y):
    return {**share(params, x, y), "loss": wb.mean(x) * float("nan")}


@pytest.mark.parametrize(
    ("step", "measure", "why"),
    [
        (infinite_loss, share, "the training loss is inf"),
        (plain, odd_loss, "the loss of the evaluation is nan"),
        (broken, share, "n"),
    ],
)
def test_what_a_model_that_is_not_finite_measures_is_never_the_best(tmp_path, step, measure, why):
    callbacks = watchers(tmp_path / "run.safetensors")
    run = new_run()
    wb.fit(run, callbacks, DATA, DATA, step, measure)
    assert [callback.best.seen for callback in callbacks] == [False] * 3
    assert not list(tmp_path.glob("*.best*"))
    assert why in run.state.unsound
    told = [report for report in run.reports if report.severity == "error"]
    assert len(told) == 2
    assert all("the parameters stay" in report.text for report in told)


def test_a_good_model_before_it_is_kept(tmp_path):
    run = new_run(4)
    stopping, *others = watchers(tmp_path / "run.safetensors")
    kept = []

    def spoil(event):
        kept.append(event.run.params["w"].copy())
        if event.epoch == 2:
            event.run.params = {"w": np.full((4, 2), np.nan, np.float32)}

    def rising(params, x, y):
        return {"share": wb.mean((y >= 0).astype("float32"))}

    wb.fit(run, [stopping, *others, at("EPOCH_END", spoil)], DATA, DATA, plain, rising)
    assert (stopping.best.epoch, stopping.best.value) == (1, 1.0)
    assert np.array_equal(run.params["w"], kept[0])


def test_a_model_that_is_finite_is_the_best_as_before(tmp_path):
    callbacks = watchers(tmp_path / "run.safetensors")
    run = new_run()
    wb.fit(run, callbacks, DATA, DATA, plain, share)
    assert [callback.best.epoch for callback in callbacks] == [1] * 3
    assert run.state.unsound == ""


def test_the_best_of_nothing_is_no_number():
    best = Best("loss", higher_is_better=False)
    assert math.isnan(best.value)
    assert math.isnan(RunState().train_loss)
    assert math.isnan(RunState().val_loss)


# -- steps that are skipped


def spoiled(params, opt, x, y, lr):
    return wb.default_step(
        params, opt, x, y, lr, lambda p, x, y: wb.sum(p["w"].astype("float32")) * float("inf")
    )


@pytest.mark.parametrize("policy", [wb.mixed_f16, wb.mixed_bf16])
def test_a_run_that_skips_at_its_least_scale_for_ever_ends_with_a_sentence(policy, tmp_path):
    run = new_run(40, optimizer=lambda params: policy(wb.adam(params)))
    stopping = wb.EarlyStopping("train_loss", 30, higher_is_better=False, restore_best=True)
    record = wb.RunRecord(tmp_path)
    wb.fit(run, [stopping, record], DATA, DATA, spoiled, share)
    assert run.status == "stopped"
    assert "all 4 steps of epoch" in run.state.stop_reason
    assert "least value: nothing can be learned" in run.state.stop_reason
    assert sum(report.severity == "error" for report in run.reports) == 1
    assert not stopping.best.seen
    assert np.isnan(run.history.column("train_loss")).all()
    assert math.isnan(run.state.train_loss)
    lines = (record.path / "history.jsonl").read_text().splitlines()
    assert all(json.loads(line)["train_loss"] is None for line in lines)


def test_the_mean_of_an_epoch_counts_the_steps_that_have_a_loss():
    run = new_run(
        1,
        lr=0.0,
        batch_size=4,
        optimizer=lambda p: wb.mixed_f16(wb.sgd(p), scale=2.0**24, greatest=2.0**24),
    )
    losses = []
    note = at("BATCH_END", lambda event: losses.append(event.loss))

    def loss(params, x, y):
        # Finite gradients once the scale has fallen a few times.
        return params["w"].astype("float32").sum() * 5e31 + wb.mean(x.astype("float32"))

    def step(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, loss)

    wb.fit(run, [note, wb.TerminateOnNonFinite(every_batch=True)], DATA, None, step)
    skipped = int(run.opt.skipped)
    assert 0 < skipped < 16
    assert np.isnan(losses[:skipped]).all()
    assert run.state.train_loss == pytest.approx(np.mean(losses[skipped:]), rel=1e-6)
    assert run.status == "completed"


def test_a_run_without_a_loss_is_saved_and_taken_up(tmp_path):
    run = new_run(2, optimizer=lambda params: wb.mixed_f16(wb.adam(params)))
    wb.fit(run, [], DATA, None, spoiled)
    path = wb.save_checkpoint(run, tmp_path / "a.safetensors")
    again = new_run(3, optimizer=lambda params: wb.mixed_f16(wb.adam(params)))
    wb.restore(again, path)
    assert math.isnan(again.state.train_loss)
    assert math.isnan(float(again.opt.last_loss))
    assert "loss nan" in str(wb.inspect(path))


def test_a_record_compares_what_finite_models_measured(tmp_path):
    run = new_run(3)

    def rising(params, x, y):
        return {"share": wb.mean((y >= 0).astype("float32"))}

    def spoil(event):
        if event.epoch == 0:
            event.run.params = {"w": np.full((4, 2), np.nan, np.float32)}

    wb.fit(run, [wb.RunRecord(tmp_path), at("EPOCH_BEGIN", spoil)], DATA, DATA, plain, rising)
    table = wb.compare(tmp_path, "val_share").table
    assert np.isnan(table["greatest"].iloc[0])
    assert table["last"].iloc[0] == 1.0

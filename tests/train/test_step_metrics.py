"""Numbers that a step reports besides its loss."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, leaves, loss, new_run, perceptron, rows, same_bits, step
from workbench.train.callbacks.gradient_norm import GradientNorm
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.norm import global_norm


def watched(params, opt, x, y, lr):
    value, grads = wb.loss_and_gradients(loss, params, x, y)
    result = wb.apply_gradients(params, grads, opt, lr, value)
    return result.with_metrics(gradient_norm=global_norm(grads), first=x[:, 0].sum(), rate=lr)


def test_a_series_holds_a_value_for_each_batch_of_the_epoch():
    run = new_run(2)
    data = rows(20)
    wb.fit(run, [], data, None, watched)
    order = wb.data.row_order(20, seed=7, epoch=1)
    expected = [data.x[order[k : k + 8], 0].sum() for k in (0, 8, 16)]
    np.testing.assert_allclose(run.series["first"], expected, rtol=1e-5)
    assert run.series["first"].dtype == np.float32
    assert run.series["rate"].tolist() == [np.float32(0.01)] * 3
    assert list(run.series) == ["gradient_norm", "first", "rate"]


def test_the_history_holds_the_means_over_the_rows_of_each_epoch():
    run, epochs = new_run(3), []
    note = at("EPOCH_END", lambda event: epochs.append(event.run.series["gradient_norm"].copy()))
    wb.fit(run, [note], rows(20), None, watched)
    means = [float(np.average(series.astype(np.float64), weights=[8, 8, 4])) for series in epochs]
    assert run.history.column("train_gradient_norm").tolist() == pytest.approx(means, rel=1e-15)
    assert list(run.history.frame().columns)[:4] == [
        "epoch",
        "train_loss",
        "train_gradient_norm",
        "train_first",
    ]
    assert "train_gradient_norm" in repr(run.history)
    with refused(wb.DataError, "no column `train_other`", remedy="train_gradient_norm"):
        run.history.column("train_other")


def test_metrics_change_what_is_learned_by_no_more_than_rounding():
    # A gradient that is read twice is stored, and then rounded where it was not before.
    plain, run = new_run(), new_run()
    wb.fit(plain, [], rows(60), None, step)
    wb.fit(run, [], rows(60), None, watched)
    for left, right in zip(leaves(plain), leaves(run), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)


def test_batch_hooks_see_the_values_so_far():
    seen = []
    note = at("BATCH_END", lambda e: seen.append(np.isfinite(e.run.series["gradient_norm"]).sum()))
    wb.fit(new_run(1), [note], rows(20), None, watched)
    assert seen == [1, 2, 3]


def test_the_norm_is_the_length_of_all_gradients():
    params = perceptron(5, 6, 3, dtype=np.float64)
    run = wb.Run(params, wb.sgd(params), wb.Config(1, 20, 0.5, 7, verbose=False))
    wb.fit(run, [], rows(20, dtype=np.float64), None, watched)
    pairs = zip(params, run.params, strict=True)
    moved = [(a[name] - b[name]) / 0.5 for a, b in pairs for name in ("w", "b")]
    length = np.sqrt(sum(float((part**2).sum()) for part in moved))
    assert run.series["gradient_norm"][0] == pytest.approx(length, rel=1e-6)


def test_a_norm_of_something_else_than_tensors_is_refused():
    with refused(wb.TracingError, "2 leaves, 0 of them"):
        global_norm({"w": np.zeros(2), "b": 1.0})
    with refused(wb.TracingError, "0 leaves"):
        global_norm([])


@pytest.mark.parametrize(
    "metrics",
    [
        lambda p, o, x, value: {"same": value, "again": value},
        lambda p, o, x, value: {"a view": p[0]["b"][:1].reshape(())},
        lambda p, o, x, value: {"a leaf": o.t.astype("float32")},
        lambda p, o, x, value: {"rows": x[:, 0].sum().astype("float64")},
    ],
)
def test_a_metric_may_be_any_floating_scalar(metrics):
    def reporting(params, opt, x, y, lr):
        result = step(params, opt, x, y, lr)
        return wb.StepResult(
            result.loss, result.params, result.opt, metrics(params, opt, x, result.loss)
        )

    plain, run = new_run(), new_run()
    wb.fit(plain, [], rows(60), None, step)
    wb.fit(run, [], rows(60), None, reporting)
    assert same_bits(plain, run)
    for name, series in run.series.items():
        assert np.isfinite(series).all()
        if name in ("same", "again"):
            assert series.tolist() == run.losses.tolist()


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        (lambda x: {"norm": x}, "the step's metric `norm` is"),
        (lambda x: {"norm": 1.0}, "the step's metric `norm` is 1.0"),
        (lambda x: {"loss": x.mean()}, "a metric called `loss`"),
        (lambda x: x.mean(), "the step's metrics are a `Tensor`"),
    ],
)
def test_metrics_that_are_no_named_scalars_are_refused(metrics, text):
    def wrong(params, opt, x, y, lr):
        return wb.StepResult(x.mean(), params, opt, metrics(x))

    with refused(wb.TracingError, text):
        wb.fit(new_run(), [], rows(20), None, wrong)


@pytest.mark.parametrize("batches", [2, 3, 4])
def test_a_checkpoint_within_an_epoch_keeps_the_series(tmp_path, batches):
    whole, first, second = new_run(), new_run(), new_run()
    wb.fit(whole, [], rows(20), None, watched)
    stop = at("BATCH_END", lambda e: first.stop() if e.state.global_step == batches else None)
    wb.fit(first, [stop], rows(20), None, watched)
    file = save_checkpoint(first, tmp_path / "run.safetensors")
    restore(second, file)
    for run in (first, second):
        wb.fit(run, [], rows(20), None, watched)
        assert same_bits(whole, run)
        for name in ("train_gradient_norm", "train_first"):
            assert run.history.column(name).tolist() == whole.history.column(name).tolist()
    restore(second, save_checkpoint(whole, tmp_path / "end.safetensors"))
    assert second.history.rows == whole.history.rows


def test_a_changed_step_begins_its_series_where_it_takes_over():
    run = new_run(1)
    stop = at("BATCH_END", lambda event: run.stop() if event.batch == 0 else None)
    wb.fit(run, [stop], rows(20), None, step)
    assert run.series == {}
    wb.fit(run, [], rows(20), None, watched)
    assert np.isnan(run.series["first"]).tolist() == [True, False, False]


def test_a_monitor_records_the_norms_of_all_epochs():
    monitor = GradientNorm()
    run = new_run(2)
    wb.fit(run, [monitor], rows(20), None, watched)
    assert monitor.norms.shape == (6,)
    assert monitor.norms[3:].tolist() == run.series["gradient_norm"].tolist()
    assert monitor.epochs.tolist() == [0, 0, 0, 1, 1, 1]
    frame = monitor.frame()
    assert list(frame.columns) == ["epoch", "batch", "gradient_norm"]
    assert frame["batch"].tolist() == [0, 1, 2] * 2
    assert not run.reports


def test_a_monitor_says_once_that_the_step_has_no_such_metric():
    monitor = GradientNorm("norm")
    run = new_run(3)
    wb.fit(run, [monitor], rows(20), None, watched)
    (report,) = run.reports
    assert "`norm` is not a metric of the step, which has `gradient_norm`, `first`" in report.text
    assert len(monitor.norms) == len(monitor.frame()) == 0


def test_accumulated_batches_report_each_of_them():
    params = perceptron(5, 6, 3)
    config = wb.Config(1, 8, 0.01, 7, verbose=False, accum_steps=2)
    run = wb.Run(params, wb.adam(params), config)
    wb.fit(run, [], rows(20), None, watched)
    assert np.isfinite(run.series["gradient_norm"]).all()
    assert len(run.series["gradient_norm"]) == 3

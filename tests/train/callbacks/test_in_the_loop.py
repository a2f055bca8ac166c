"""What the loop does for callbacks and metrics beyond calling them."""

import itertools
import json
import threading
import time

import numpy as np
import pytest

import workbench as wb
from workbench.train.callbacks.budget_rate import BudgetRate
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.one_cycle import OneCycleRate
from workbench.train.callbacks.progress import Progress
from workbench.train.callbacks.rate_monitor import RateMonitor
from workbench.train.callbacks.schedule import StepSchedule
from workbench.train.class_counts import confusion_matrix, f1, precision
from workbench.train.ranking import auc
from workbench.train.statistic import Statistic

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(50, 4))
Y = (X[:, 0] + 0.5 * RANDOM.normal(size=50) > 0).astype(np.int32)
DATA = wb.data.Dataset(X, Y, dtype=np.float64)
START = {"w": RANDOM.normal(size=(4, 2)), "b": np.zeros(2)}


def logits(params, x):
    return x @ params["w"] + params["b"]


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x), y))


def measure(params, x, y):
    scores = logits(params, x)
    return {
        "loss": wb.cross_entropy(scores, y),
        "precision": precision(scores, y),
        "auc": auc(scores, y),
        "matrix": confusion_matrix(scores, y),
        "accuracy": wb.accuracy(scores, y),
    }


def new_run(epochs=3, batch_size=8, **options):
    options.setdefault("verbose", False)
    return wb.Run(START, wb.sgd(START), wb.Config(epochs, batch_size, 0.5, 7, **options))


# -- rates by the step -----------------------------------------------------------------------------


class Count:
    """Bring the loop back to Python at every batch."""

    def __init__(self):
        self.rates = []

    def on_batch_end(self, event):
        self.rates.append(event.state.lr)


def drifted(callbacks, **options):
    """Train a parameter whose gradient is 1: it moves by the sum of the rates."""
    start = {"w": np.zeros(())}
    run = wb.Run(start, wb.sgd(start), wb.Config(3, 8, 0.5, 7, verbose=False, **options))

    def drift(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: -p["w"] + 0.0 * x.mean())

    wb.fit(run, callbacks, DATA, None, drift)
    return run


@pytest.mark.parametrize("rate", [OneCycleRate(0.5, 21), BudgetRate(0.5, 18, warmup=4)])
@pytest.mark.parametrize("by_one", [False, True])
def test_every_update_has_the_rate_of_its_own_step(rate, by_one):
    run = drifted([StepSchedule(rate), *([Count()] if by_one else [])])
    assert run.params["w"] == pytest.approx(sum(rate(step) for step in range(21)), rel=1e-12)
    assert run.history.column("lr").tolist() == [rate(6), rate(13), rate(20)]


def test_updates_of_a_last_short_batch_that_is_dropped_have_no_rate():
    rate = OneCycleRate(0.5, 18)
    run = drifted([StepSchedule(rate)], drop_last=True)
    assert run.params["w"] == pytest.approx(sum(rate(step) for step in range(18)), rel=1e-12)


def test_callbacks_see_the_rate_of_the_batch_at_hand():
    rate, monitor, count = OneCycleRate(0.5, 21), RateMonitor("step"), Count()
    drifted([StepSchedule(rate), monitor, count])
    expected = [rate(step) for step in range(21)]
    assert monitor.rates.tolist() == count.rates == expected


def test_a_callback_that_writes_what_a_schedule_writes_is_refused_and_the_schedule_holds():
    rate = OneCycleRate(0.5, 21)

    class Skip:
        band = 20

        def on_batch_begin(self, event):
            if event.state.global_step == 5:
                event.state.lr = 0.0

    run = drifted([StepSchedule(rate), Skip()])
    assert run.params["w"] == pytest.approx(sum(map(rate, range(21))), rel=1e-12)
    (report,) = [report for report in run.reports if report.severity == "error"]
    assert "`Skip` writes 0.0 into `state.lr`, which `StepSchedule" in report.text


def test_a_run_that_was_left_within_an_epoch_goes_on_with_the_rates_of_its_steps():
    rate = OneCycleRate(0.5, 21)

    class Stop:
        def on_batch_end(self, event):
            if event.state.global_step == 10:
                event.run.stop()

    whole, halves = new_run(), new_run()
    wb.fit(whole, [StepSchedule(rate)], DATA, None, step)
    wb.fit(halves, [StepSchedule(rate), Stop()], DATA, None, step)
    assert halves.state.global_step == 10
    wb.fit(halves, [StepSchedule(rate)], DATA, None, step)
    assert whole.params["w"].tobytes() == halves.params["w"].tobytes()


# -- metrics over the whole set --------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 8, 50, 64])
def test_an_evaluation_in_a_run_is_that_of_all_rows_whatever_the_batch(size):
    values = wb.evaluate(new_run(), DATA, measure, batch_size=size)
    scores = X @ START["w"]
    said = scores.argmax(1)
    matrix = np.array([[np.sum((r == Y) & (said == c)) for c in (0, 1)] for r in (0, 1)])
    margin = scores[:, 1] - scores[:, 0]
    pairs = margin[Y == 1][:, None] - margin[Y == 0]
    np.testing.assert_array_equal(values["matrix"], matrix)
    assert values["precision"] == pytest.approx(np.mean(matrix.diagonal() / matrix.sum(0)))
    assert values["auc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)))
    assert values["accuracy"] == pytest.approx(np.mean(said == Y))
    assert list(values) == ["loss", "precision", "auc", "matrix", "accuracy"]


def test_metrics_over_the_whole_set_are_monitored_like_means_and_matrices_are_left_out():
    run = new_run()
    wb.fit(run, [], DATA, DATA, step, measure)
    assert run.state.val.names == ("loss", "precision", "auc", "accuracy")
    assert run.history.metric_names == ("loss", "precision", "auc", "accuracy")
    assert run.state.val.value("auc") == wb.evaluate(run, DATA, measure)["auc"]


def test_parts_may_be_the_data_themselves_and_one_part_may_serve_two_metrics():
    def own(params, x, y):
        hits = (x.sum(1) > 0).astype("int32")
        rows = {"x": x, "y": y, "first": x[:, 0]}
        return {
            "labels": Statistic(lambda all_: float(all_.per_row["y"].sum()), per_row=rows),
            "hits": Statistic(lambda all_: float(all_.total("hits")), {"hits": hits.sum()}),
            "again": Statistic(lambda all_: 2.0 * all_.total("hits"), {"hits": hits.sum()}),
        }

    values = wb.evaluate(new_run(), DATA, own, batch_size=8)
    hits = int((X.sum(1) > 0).sum())
    assert values == {"labels": float(Y.sum()), "hits": hits, "again": 2.0 * hits}


def test_f1_of_a_short_last_batch_weighs_no_more_than_its_rows():
    def only_f1(params, x, y):
        return {"f1": f1(logits(params, x), y)}

    sizes = (3, 49, 50)
    values = [wb.evaluate(new_run(), DATA, only_f1, batch_size=size)["f1"] for size in sizes]
    assert values == values[:1] * 3


# -- what is shown ---------------------------------------------------------------------------------


def test_a_run_that_talks_has_a_line_for_each_epoch_and_says_why_it_stopped(capsys):
    class Stop:
        def on_epoch_end(self, event):
            if event.epoch == 2:
                event.state.request_stop("enough")

    run = new_run(5, verbose=True)
    wb.fit(run, [Stop()], DATA, None, step)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["epoch 1/5", "epoch 2/5", "stopped: enough"]


def test_a_log_of_ones_own_takes_the_place_of_the_lines(capsys):
    wb.fit(new_run(2, verbose=True), [MetricLog(as_json=True)], DATA, None, step)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]


def test_progress_is_plain_lines_in_a_pipe_and_one_report_in_a_run(capsys):
    ticks = iter(range(10**6))
    run = new_run(4, verbose=True)
    wb.fit(run, [Progress(8, clock=lambda: next(ticks))], DATA, None, step)
    out = capsys.readouterr().out
    assert "\r" not in out
    assert out.splitlines()[-1].startswith("epoch 4/4  [########]  loss ")
    in_place = [report.in_place for report in run.reports]
    assert not any(a and b for a, b in itertools.pairwise(in_place))


def test_pauses_and_evaluations_are_told_apart_from_training():
    told = []

    class Ear:
        def on_eval_end(self, event):
            told.append((event.run.evaluates, event.seconds))

        def on_epoch_begin(self, event):
            if event.epoch == 1:
                event.run.pause()
                threading.Timer(0.3, event.run.resume).start()

    run = new_run(3)
    began = time.monotonic()
    wb.fit(run, [Ear()], DATA, DATA, step, measure)
    taken = time.monotonic() - began
    assert all(evaluates and 0.0 <= seconds < 0.2 for evaluates, seconds in told)
    assert 0.2 <= run.paused_s <= taken
    assert not new_run().evaluates

"""A classifier with a schedule and an early stop, both callbacks of a user, replayed by ``fit``."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import workbench as wb

ORACLE = Path(__file__).resolve().parents[1] / "oracles" / "classifier.json"
TOLERANCE = 1e-9  # float64 over 270 updates; the log was computed in another order of additions
PRINTED = 4  # digits of losses in the lines that a run prints


class Cosine(wb.Callback):
    """From ``base`` to ``low`` over ``horizon`` epochs, after ``warmup`` epochs of climbing."""

    band = 10
    writes = ("lr",)

    def __init__(self, base, low, horizon, warmup):
        self.base, self.low, self.horizon, self.warmup = base, low, horizon, warmup

    def rate(self, epoch):
        if epoch < self.warmup:
            return self.base * (epoch + 1) / (self.warmup + 1)
        t = min((epoch - self.warmup) / (self.horizon - self.warmup), 1.0)
        return self.low + (self.base - self.low) * 0.5 * (1.0 + math.cos(math.pi * t))

    def on_epoch_begin(self, event):
        event.state.lr = self.rate(event.epoch)


class Patience(wb.Callback):
    """Stops when a metric has not improved for more than ``patience`` evaluations."""

    band = 20

    def __init__(self, monitor, patience, min_delta):
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.best, self.best_epoch, self.wait = -math.inf, 0, 0

    def on_eval_end(self, event):
        value = event.metrics.value(self.monitor)
        if value > self.best + self.min_delta:
            self.best, self.best_epoch, self.wait = value, event.epoch, 0
            return
        self.wait += 1
        if self.wait > self.patience:
            event.state.request_stop(
                f"{self.monitor} has not improved for {self.wait} evaluations; "
                f"best was {self.best:.4f} at epoch {self.best_epoch}"
            )


class Snapshot(wb.Callback):
    """Remembers what the run had reached at one epoch."""

    def __init__(self, epoch):
        self.epoch, self.seen = epoch, {}

    def on_epoch_end(self, event):
        if event.epoch == self.epoch:
            state = event.state
            self.seen = {
                "opt_t": int(event.run.opt.t),
                "epoch": state.epoch,
                "lr": state.lr,
                "train_loss": event.loss,
                "val_loss": state.val_loss,
            }


def logits(params, x):
    hidden = wb.relu(x @ params["w1"].T + params["b1"])
    return hidden @ params["w2"].T + params["b2"]


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x), y))


def measure(params, x, y):
    out = logits(params, x)
    return {"loss": wb.cross_entropy(out, y), "accuracy": wb.accuracy(out, y)}


@pytest.fixture(scope="module")
def oracle():
    return json.loads(ORACLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def replayed(oracle):
    config = oracle["config"]
    raw = np.array(oracle["raw_x"])
    standard = (raw - raw.mean(axis=0)) / (raw.std(axis=0) + 1e-8)
    data = wb.data.Dataset(standard, oracle["labels"], dtype=np.float64)
    order, cut = oracle["split_order"], oracle["split_cut"]
    train, val = data.take(order[:cut]), data.take(order[cut:])
    params = {name: np.array(value) for name, value in oracle["init"].items()}
    b1, b2, eps = config["adam"]
    cosine, early = config["cosine"], config["early"]
    stopper = Patience(early["monitor"], early["patience"], early["min_delta"])
    snapshot = Snapshot(10)
    callbacks = [
        snapshot,
        stopper,
        Cosine(cosine["base"], cosine["min"], cosine["horizon"], cosine["warmup"]),
    ]
    run = wb.Run(
        params,
        wb.adam(params, b1=b1, b2=b2, eps=eps),
        wb.Config(config["epochs"], config["batch_size"], config["lr"], 20260807, verbose=False),
        context=wb.Context.cpu(2),
    )
    orders = oracle["epoch_orders"]
    wb.fit(run, callbacks, train, val, step, measure, row_order=orders.__getitem__)
    return run, stopper, snapshot


def test_the_run_stops_where_the_log_ends(oracle, replayed):
    run, stopper, _ = replayed
    assert run.status == "stopped"
    assert run.state.epoch == len(oracle["log"]) == 15
    assert run.state.global_step == 270
    assert (stopper.best_epoch, stopper.wait) == (6, 9)
    assert run.state.stop_reason == (
        "accuracy has not improved for 9 evaluations; best was 0.9583 at epoch 6"
    )


@pytest.mark.parametrize("column", ["train_loss", "lr", "val_loss", "val_accuracy"])
def test_a_column_of_the_log_is_met_in_every_epoch(oracle, replayed, column):
    actual = replayed[0].history.column(column)
    expected = np.array([row[column] for row in oracle["log"]])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)
    assert [f"{x:.{PRINTED}f}" for x in actual] == [f"{x:.{PRINTED}f}" for x in expected]


@pytest.mark.parametrize("name", ["w1", "b1", "w2", "b2"])
def test_a_parameter_ends_where_it_should(oracle, replayed, name):
    expected = np.array(oracle["final_params"][name])
    actual = replayed[0].params[name]
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def test_epoch_10_holds_what_a_file_of_it_would(oracle, replayed):
    expected = oracle["at_epoch_10"]
    seen = replayed[2].seen
    assert (seen["opt_t"], seen["epoch"]) == (expected["opt_t"], expected["epoch"]) == (180, 10)
    for name in ("lr", "train_loss", "val_loss"):
        assert seen[name] == pytest.approx(expected[name], rel=0, abs=TOLERANCE)

"""The callbacks in the loop itself, over the linear toy."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.callbacks.paper import Clock
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.non_finite import TerminateOnNonFinite
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.rate import ExponentialRate, StepRate
from workbench.train.callbacks.rate_monitor import RateMonitor
from workbench.train.callbacks.schedule import EpochSchedule
from workbench.train.callbacks.time_budget import TimeBudget

TOY = json.loads(
    (Path(__file__).resolve().parents[2] / "oracles" / "linear_toy.json").read_text("utf-8")
)
DATA = wb.data.Dataset(TOY["x"], TOY["y"], dtype=np.float64)


def squared_error(params, x, y):
    return wb.mse(x @ params["w"] + params["b"], y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, squared_error)


def measure(params, x, y):
    return {"loss": squared_error(params, x, y)}


def order(epoch):
    return TOY["epoch_orders"][epoch]


def trained(callbacks, *, epochs=50, lr=0.05, opt=wb.adam, val: wb.data.Dataset | None = DATA):
    params = {"w": np.zeros(2), "b": np.zeros(())}
    config = wb.Config(epochs, 4, lr, 3, verbose=False)
    run = wb.Run(params, opt(params), config)
    wb.fit(run, callbacks, DATA, val, step, measure, row_order=order)
    return run


def test_a_run_that_never_improves_by_a_thousand_stops_at_its_third_epoch():
    stopper = EarlyStopping("loss", 1, higher_is_better=False, min_delta=1000)
    run = trained([stopper])
    assert (run.state.epoch, run.status) == (3, "stopped")
    assert (stopper.best.value, stopper.best.epoch) == (pytest.approx(9.171418468654288), 1)
    assert run.state.stop_reason == (
        "loss has not improved for 2 evaluations (patience 1); best was 9.1714 at epoch 1"
    )


def test_a_halving_rate_ends_at_an_eighth_of_a_tenth_after_five_epochs():
    run = trained([EpochSchedule(StepRate(0.05, 0.5, every=2))], epochs=5)
    assert run.state.lr == 0.0125
    assert run.history.column("lr").tolist() == [0.05, 0.05, 0.025, 0.025, 0.0125]


def test_two_schedules_are_refused_before_anything_runs():
    pair = [EpochSchedule(StepRate(0.05, 0.5, every=2)), EpochSchedule(ExponentialRate(0.05, 0.9))]
    params = {"w": np.zeros(2), "b": np.zeros(())}
    run = wb.Run(params, wb.adam(params), wb.Config(5, 4, 0.05, 3))
    with refused(wb.ConfigurationError, "both write `lr`"):
        wb.fit(run, pair, DATA, None, step)
    assert (run.state.epoch, run.state.global_step) == (0, 0)


def test_a_plateau_cuts_the_rate_of_the_next_epoch():
    plateau = PlateauSchedule("loss", 0.5, patience=0, higher_is_better=False, min_delta=1000)
    run = trained([plateau], epochs=4)
    assert run.history.column("lr").tolist() == [0.05, 0.05, 0.025, 0.0125]


def test_a_run_without_a_validation_set_is_told_that_it_cannot_stop_early():
    run = trained([EarlyStopping("loss", higher_is_better=False)], epochs=3, val=None)
    useless, text = [report.text for report in run.reports]
    assert "no validation set" in useless
    assert text.startswith("`loss` cannot stop this run: nothing is evaluated")


class Climb:
    """Make every epoch after the second one worse, by a rate that climbs."""

    band = 10
    writes = ("lr",)

    def on_epoch_begin(self, event):
        event.state.lr = 0.01 if event.epoch < 2 else 60.0


def test_the_parameters_of_the_best_evaluation_are_given_back():
    stopper = EarlyStopping("loss", 1, higher_is_better=False, restore_best=True)
    run = trained([stopper, Climb()], opt=wb.sgd)
    short = trained([Climb()], epochs=2, opt=wb.sgd)
    assert (stopper.best.epoch, run.state.epoch) == (2, 4)
    np.testing.assert_array_equal(run.params["w"], short.params["w"])
    assert wb.evaluate(run, DATA, measure)["loss"] == stopper.best.value


def test_a_run_whose_loss_is_nan_ends_at_that_epoch():
    run = trained([TerminateOnNonFinite()], lr=1e30, opt=wb.sgd)
    assert (run.state.epoch, run.status) == (run.history.rows[-1].epoch, "stopped")
    assert run.state.epoch < 10
    assert not math.isfinite(run.history.rows[-1].train_loss)


def test_a_run_whose_loss_is_nan_ends_at_that_batch_if_it_was_asked_to():
    run = trained([TerminateOnNonFinite(every_batch=True)], lr=1e200, opt=wb.sgd)
    assert (run.state.epoch, run.state.global_step, run.status) == (0, 2, "stopped")
    assert run.state.stop_reason == "the training loss is inf at step 2"


def test_a_run_ends_when_its_time_is_over():
    clock = Clock()

    class Slow:
        def on_epoch_begin(self, event):
            clock.move(20)

    run = trained([TimeBudget(50, clock=clock), Slow()])
    assert (run.state.epoch, run.state.stop_reason) == (3, "the time budget of 50 s is used up")


def test_rates_are_recorded_as_they_were_used():
    monitor = RateMonitor()
    trained([monitor, EpochSchedule(ExponentialRate(0.08, 0.5))], epochs=3)
    assert monitor.frame().to_dict("list") == {"step": [0, 3, 6], "lr": [0.08, 0.04, 0.02]}


def test_a_log_of_json_lines_is_the_history(tmp_path):
    path = tmp_path / "log.jsonl"
    run = trained([MetricLog(path, as_json=True)], epochs=3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["train_loss"] for line in lines] == run.history.column("train_loss").tolist()
    assert [line["val_loss"] for line in lines] == run.history.column("val_loss").tolist()

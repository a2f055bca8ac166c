"""What is used for several runs: each is as if it had been made for that run alone."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.train.problems import logits, loss, measure, new_run, perceptron, rows, same_bits, step
from workbench.errors import ConfigurationError
from workbench.train.checkpoint import restore, save_checkpoint

TRAIN = rows(24)
VAL = rows(9, seed=1)


def measured_step(params, opt, x, y, lr):
    value, grads = wb.loss_and_gradients(loss, params, x, y)
    norm = wb.global_norm(grads)
    return wb.apply_gradients(params, grads, opt, lr, value).with_metrics(gradient_norm=norm)


class Growing(wb.Callback):
    """Somebody's own: raises the rate with each epoch that it has seen."""

    band = 10
    writes = ("lr",)

    def __init__(self):
        self.seen = []

    def on_epoch_begin(self, event):
        self.seen.append(event.epoch)
        event.state.lr = 0.001 * len(self.seen)

    def pack(self):
        return {"seen": self.seen}

    def unpack(self, packed):
        self.seen = packed["seen"]


KINDS = {
    "early stopping": lambda folder: wb.EarlyStopping(
        "loss", 1, higher_is_better=False, restore_best=True
    ),
    "plateau": lambda folder: wb.PlateauSchedule("loss", patience=0, higher_is_better=False),
    "one cycle": lambda folder: wb.StepSchedule(wb.OneCycleRate(0.0, 15)),
    "budget": lambda folder: wb.EpochSchedule(wb.BudgetRate(0.0, 5, course="linear")),
    "best file": lambda folder: wb.Checkpointing(
        folder / "c.safetensors", monitor="loss", higher_is_better=False, restore_best=True
    ),
    "rates": lambda folder: wb.RateMonitor(),
    "norms": lambda folder: wb.GradientNorm(),
    "time": lambda folder: wb.TimeBudget(1e9),
    "log": lambda folder: wb.MetricLog(folder / "log.txt"),
    "progress": lambda folder: wb.Progress(),
    "not finite": lambda folder: wb.TerminateOnNonFinite(every_batch=True),
    "somebody's own": lambda folder: Growing(),
}
RECORDS = ("steps", "rates", "epochs", "norms", "scales", "skipped", "seen")


def learned(run, callback):
    """Return all that a run shows of itself, and all that its callback has recorded."""
    shown = {name: np.asarray(getattr(callback, name, 0)).tolist() for name in RECORDS}
    columns = {name: run.history.column(name).tolist() for name in ("lr", "train_loss")}
    reports = [report.text for report in run.reports if not report.in_place]
    # "Best" of a fold says which epoch and value.
    state = run.state.epoch, run.state.stop_reason, run.state.lr
    return shown, columns, reports, state, [layer["w"].tobytes() for layer in run.params]


def fold(number, lr):
    return rows(24 + number, seed=number), {"epochs": 5, "lr": lr, "seed": number}


def trained(run, callbacks, train=TRAIN):
    wb.fit(run, callbacks, train, VAL, measured_step, measure)
    return run


@pytest.mark.parametrize("kind", KINDS)
def test_one_callback_for_three_folds_is_three_callbacks(kind, tmp_path):
    shared = KINDS[kind](tmp_path)
    for number, lr in enumerate((0.5, 1e-6, 0.05)):
        train, config = fold(number, lr)
        run = trained(new_run(**config), [shared], train)
        alone = KINDS[kind](tmp_path / "alone" / str(number))
        expected = trained(new_run(**config), [alone], train)
        assert learned(run, shared) == learned(expected, alone), number


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"best file"}))
def test_runs_that_take_turns_with_one_callback_keep_their_memories_apart(kind, tmp_path):
    shared = KINDS[kind](tmp_path)
    runs = [new_run(1, lr=lr) for lr in (0.5, 1e-6)]
    alone = [KINDS[kind](tmp_path / "alone" / str(number)) for number in range(2)]
    expected = [new_run(1, lr=lr) for lr in (0.5, 1e-6)]
    for epochs in range(1, 6):
        for run, other, own in zip(runs, expected, alone, strict=True):
            run.epochs = other.epochs = epochs
            trained(run, [shared])
            trained(other, [own])
            assert learned(run, shared) == learned(other, own)


def test_a_best_file_that_another_run_wrote_since_is_not_taken_for_ones_own(tmp_path):
    shared = KINDS["best file"](tmp_path)
    run = trained(new_run(2, lr=0.05), [shared])
    trained(new_run(2, lr=1e-6), [shared])
    before = [layer["w"].tobytes() for layer in run.params]
    run.restore_best().wait(5.0)
    assert [layer["w"].tobytes() for layer in run.params] == before
    assert "was written by another run since" in run.reports[-1].text


def test_a_checkpoint_of_a_run_holds_what_its_callback_remembers_of_it(tmp_path):
    shared, own = KINDS["early stopping"](tmp_path), KINDS["early stopping"](tmp_path)
    run = trained(new_run(3, lr=0.5), [shared])
    expected = trained(new_run(3, lr=0.5), [own])
    trained(new_run(3, lr=1e-6), [shared])
    kept = [
        wb.inspect(save_checkpoint(each, tmp_path / "x")).document["callbacks"]
        for each in (run, expected)
    ]
    assert kept[0] == kept[1]


def test_the_best_parameters_of_a_run_are_its_own_after_another_one():
    shared = wb.EarlyStopping("loss", 9, higher_is_better=False, restore_best=True)
    run = trained(new_run(3, lr=0.05), [shared])
    best = [layer["w"].copy() for layer in run.params]
    trained(new_run(3, lr=1e-6), [shared])
    run.params = perceptron(5, 6, 3, seed=5)
    run.restore_best().wait(5.0)
    assert all((a == b["w"]).all() for a, b in zip(best, run.params, strict=True))


def test_patience_that_was_set_in_one_run_is_not_that_of_the_next():
    shared = wb.EarlyStopping("loss", 4, higher_is_better=False)
    run = trained(new_run(1), [shared])
    run.patience = 20
    assert shared.patience == 20
    other = trained(new_run(1), [shared])
    assert other.patience == 4
    run.epochs = 2
    assert trained(run, [shared]).patience == 20


def test_patience_that_was_set_by_hand_comes_back_from_a_file(tmp_path):
    first = wb.EarlyStopping("loss", 4, higher_is_better=False)
    run = trained(new_run(1), [first])
    run.patience = 20
    path = save_checkpoint(run, tmp_path / "x")
    again, second = new_run(3), wb.EarlyStopping("loss", 4, higher_is_better=False)
    restore(again, path, callbacks=[second])
    assert second.patience == 20


def test_two_runs_at_once_cannot_share_a_callback():
    shared, reached, go_on = wb.RateMonitor(), threading.Event(), threading.Event()

    class Waits(wb.Callback):
        def on_epoch_begin(self, event):
            reached.set()
            go_on.wait(10.0)

    run = new_run(1)
    run.start([shared, Waits()], TRAIN, VAL, step, measure)
    try:
        assert reached.wait(10.0)
        other = new_run(1)
        with refused(ConfigurationError, "`RateMonitor` serves another run, which is training"):
            wb.fit(other, [shared], TRAIN, VAL, step, measure)
        assert other.status == "ready"
    finally:
        go_on.set()
    run.wait(10.0)
    wb.fit(other, [shared], TRAIN, VAL, step, measure)
    assert shared.steps.tolist() == [0]


def test_a_callback_that_does_not_tell_its_memory_from_its_settings_is_told_of():
    class Tall(wb.Callback):
        def __init__(self):
            self.least, self.losses = 0.5, []

        def on_epoch_end(self, event):
            self.losses.append(event.loss)

    class Set(wb.Callback):
        def __init__(self):
            self.least = 0.5

        def on_epoch_end(self, event):
            return None

    tall, only_set = Tall(), Set()
    runs = [trained(new_run(1), [tall, only_set]) for _ in range(2)]
    assert [report.text[:60] for report in runs[0].reports] == []
    (report,) = runs[1].reports
    assert (report.severity, "`Tall` served another run" in report.text) == ("warning", True)
    assert len(tall.losses) == 2


def test_a_memory_that_cannot_be_told_is_no_end_of_a_run():
    class Late(wb.Callback):
        """Has no memory before its run."""

        def on_run_begin(self, event):
            self.count = 0

        def pack(self):
            return {"count": self.count}

        def unpack(self, packed):
            self.count = packed["count"]

    late = Late()
    assert [trained(new_run(1), [late]).status for _ in range(2)] == ["completed"] * 2


@given(order=st.lists(st.integers(0, 2), min_size=2, max_size=7))
@settings(max_examples=8, deadline=None)
def test_whoever_takes_turns_and_how_often_ends_as_if_alone(order):
    def callbacks():
        return [
            wb.EarlyStopping("loss", 2, higher_is_better=False, restore_best=True),
            wb.PlateauSchedule("accuracy", 0.5, patience=0, higher_is_better=True),
            wb.RateMonitor("step"),
        ]

    shared = callbacks()
    runs = [new_run(0, lr=lr) for lr in (0.3, 0.01, 1e-6)]
    for number in order:
        runs[number].epochs += 1
        trained(runs[number], shared)
    for number, lr in enumerate((0.3, 0.01, 1e-6)):
        alone, expected = callbacks(), new_run(0, lr=lr)
        for _ in range(order.count(number)):
            expected.epochs += 1
            trained(expected, alone)
        assert same_bits(runs[number], expected)
        assert [r.text for r in runs[number].reports] == [r.text for r in expected.reports]


# -- what else is used for several runs


def _set_of_streams():
    def batches(epoch, start):
        for number in range(start, 3):
            yield TRAIN.x[number * 8 :][:8], TRAIN.y[number * 8 :][:8]

    return wb.data.Stream(batches, batch_size=8, steps_per_epoch=3)


@pytest.mark.parametrize("make", [lambda: TRAIN, _set_of_streams], ids=["rows", "stream"])
@pytest.mark.parametrize("mixed", [False, True])
def test_one_tree_of_parameters_optimizer_configuration_and_rows_serve_several_runs(make, mixed):
    def new():
        params = perceptron(5, 6, 3)
        opt = wb.adam(params)
        config = wb.Config(3, 8, 0.05, 7, verbose=False, accum_steps=1 if mixed else 2)
        return params, wb.mixed_f16(opt) if mixed else opt, config

    params, opt, config = new()
    train, val = make(), VAL
    before = [layer["w"].tobytes() for layer in params]
    runs = []
    for _ in range(2):
        run = wb.Run(params, opt, config)
        wb.fit(run, [], train, val, step, measure)
        runs.append(run)
    fresh = wb.Run(*new())
    wb.fit(fresh, [], make(), rows(9, seed=1), step, measure)
    expected = [layer["w"].tobytes() for layer in fresh.params]
    for run in runs:
        assert [layer["w"].tobytes() for layer in run.params] == expected
    assert [layer["w"].tobytes() for layer in params] == before


def test_two_runs_of_one_tree_of_parameters_train_at_once_as_if_alone():
    params = perceptron(5, 6, 3)
    opt, config = wb.adam(params), wb.Config(4, 8, 0.05, 7, verbose=False)
    runs = [wb.Run(params, opt, config) for _ in range(2)]
    for run in runs:
        run.start([], TRAIN, VAL, step, measure)
    for run in runs:
        run.wait(30.0)
    fresh = wb.fit(wb.Run(perceptron(5, 6, 3), opt, config), [], TRAIN, VAL, step, measure)
    for run in runs:
        assert run.history.column("train_loss").tolist() == fresh.column("train_loss").tolist()


def test_what_a_run_is_made_of_may_be_changed_after_it_was_made():
    params = perceptron(5, 6, 3)
    run, other = (wb.Run(params, wb.adam(params), wb.Config(2, 8, 0.05, 7, verbose=False)),) * 2
    expected = wb.predict(run, TRAIN.x, 8, logits)
    for layer in params:
        layer["w"][...] = 7.0
    assert (wb.predict(other, TRAIN.x, 8, logits) == expected).all()

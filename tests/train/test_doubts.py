"""Arguments without effect, and odd data, are told of before a training begins."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import leaves, measure, new_run, rows, step

DATA, VAL = rows(20), rows(9, seed=1)


def told(run, *callbacks, train=DATA, val=None, eval_batch=None):
    wb.fit(run, list(callbacks), train, val, step, eval_batch)
    return [report.text for report in run.reports if report.severity == "warning"]


@pytest.mark.parametrize(
    ("given", "config", "said"),
    [
        ({"val": VAL}, {}, "no `eval_batch`"),
        ({"eval_batch": measure}, {}, "no validation set"),
        ({"val": VAL, "eval_batch": measure}, {"eval_every": 0}, "eval_every is 0"),
        ({"val": VAL, "eval_batch": measure}, {"eval_every": 9}, "eval_every is 9"),
    ],
)
def test_an_evaluation_that_will_never_be_is_told(given, config, said):
    (text,) = told(new_run(2, **config), **given)
    assert said in text
    assert text.endswith("nothing is evaluated")


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({}, {}),
        ({"val": VAL, "eval_batch": measure}, {}),
        ({"val": VAL, "eval_batch": measure}, {"eval_every": 0, "eval_every_steps": 2}),
        ({"val": wb.data.empty(), "eval_batch": measure}, {}),
    ],
)
def test_what_will_have_its_effect_is_not_told(given, config):
    assert told(new_run(2, **config), **given) == []


def test_fit_of_a_run_that_has_all_its_epochs_says_how_to_train_on():
    run = new_run(2)
    assert told(run) == []
    (text,) = told(run)
    assert "nothing is trained" in text
    assert "`run.epochs = 4`" in text
    run.epochs = 4
    wb.fit(run, [], DATA, None, step)
    assert len(run.reports) == 1
    assert run.state.epoch == 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["x", "y"])
@pytest.mark.parametrize("of", ["training", "validation"])
def test_what_is_not_finite_in_data_is_told_with_its_place(value, part, of):
    x = np.ones((20, 5), np.float32)
    y = np.ones(20, np.float32)
    {"x": x, "y": y}[part][3] = value
    odd, plain = wb.data.Dataset(x, y), wb.data.Dataset(np.ones((20, 5)), np.ones(20))
    train, val = (odd, plain) if of == "training" else (plain, odd)

    def loss(params, x, y):
        return wb.mse((x @ params[0]["w"] + params[0]["b"]).sum(1), y)

    run = new_run(1, sizes=(5, 1))
    wb.fit(
        run,
        [],
        train,
        val,
        lambda p, o, x, y, lr: wb.default_step(p, o, x, y, lr, loss),
        lambda p, x, y: {"loss": loss(p, x, y)},
    )
    (text,) = [r.text for r in run.reports if r.severity == "warning" and "set holds" in r.text]
    assert text.startswith(f"the {of} set holds ")
    assert f" {'NaN' if np.isnan(value) else 'infinite'}: {part}" in text
    assert text.endswith("in 1 row from row 3 on")


MONITORS = {
    "stopping": lambda name: wb.EarlyStopping(name, 0, higher_is_better=False),
    "plateau": lambda name: wb.PlateauSchedule(name, 0.5, patience=0, higher_is_better=False),
}


@pytest.mark.parametrize("make", MONITORS.values(), ids=MONITORS)
def test_a_metric_has_the_name_that_log_and_history_show(make):
    short, long = make("loss"), make("val_loss")
    runs = []
    for callback in (short, long):
        run = new_run(6, lr=0.5)
        wb.fit(run, [callback], DATA, VAL, step, measure)
        runs.append(run)
    assert short.best.value == long.best.value
    assert runs[0].state.epoch == runs[1].state.epoch
    assert all(np.array_equal(a, b) for a, b in zip(leaves(runs[0]), leaves(runs[1]), strict=True))


@pytest.mark.parametrize("make", MONITORS.values(), ids=MONITORS)
def test_a_metric_that_cannot_exist_is_refused_before_the_run(make):
    run = new_run(2)
    with refused(wb.ConfigurationError, "`val_acuracy`", remedy="did you mean `val_accuracy`?"):
        wb.fit(run, [make("val_acuracy")], DATA, VAL, step, measure)
    assert run.state.global_step == 0


@pytest.mark.parametrize("value", [None, 3, "text", wb.EarlyStopping])
def test_callbacks_that_are_no_list_are_refused(value):
    with refused(wb.ConfigurationError, "`callbacks` must be a list of callbacks, got "):
        wb.fit(new_run(1), value, DATA, None, step)


def test_what_is_written_into_a_copy_that_a_run_hands_out_is_refused():
    run = new_run(1)
    wb.fit(run, [], DATA, None, step)
    for tree in (run.params, run.opt.m):
        with pytest.raises(ValueError, match="read-only"):
            tree[0]["w"][...] = 7.0

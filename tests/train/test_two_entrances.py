"""A wrong value is refused with the same sentence wherever it enters."""

import math
from functools import partial

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import new_run, rows, step
from workbench.errors import ConfigurationError

PARAMS = {"w": np.ones(2, np.float32)}
WRONG = ["0.1", None, True, math.nan, math.inf, -0.5, object, [0.1]]
SHARES = {"b1", "b2", "decay", "momentum"}
PAIRS = [
    (wb.sgd, wb.sgd_update, ["momentum", "weight_decay"]),
    (wb.adam, wb.adam_update, ["b1", "b2", "eps", "weight_decay"]),
    (wb.adamw, wb.adamw_update, ["b1", "b2", "eps", "weight_decay"]),
    (wb.rmsprop, wb.rmsprop_update, ["decay", "eps", "momentum", "weight_decay"]),
    (wb.lion, wb.lion_update, ["b1", "b2", "weight_decay"]),
]
CASES = [(fit, built, name) for fit, built, names in PAIRS for name in names]


def loss():
    w = wb.parameter(np.ones(2, np.float32), "w")
    return (w * w).sum()


def sentence(call):
    with pytest.raises(ConfigurationError) as caught:
        call()
    return str(caught.value), caught.value.remedy


@pytest.mark.parametrize(("fit", "built", "name"), CASES)
def test_a_hyper_parameter_is_refused_alike_in_fit_and_in_the_builders(fit, built, name):
    for value in [*WRONG, *([1.0, 1.5] if name in SHARES else [])]:
        wrong = {name: value}
        told = sentence(partial(fit, PARAMS, **wrong))
        assert told == sentence(partial(built, loss(), learning_rate=0.1, **wrong))
        assert told[0].startswith(f"`{name}` must be a ")
        assert ", got " in told[0]


@pytest.mark.parametrize("pair", PAIRS)
def test_looking_ahead_is_true_or_false_in_fit_and_in_the_builders(pair):
    fit, built, _ = pair
    if fit is wb.lion:
        return
    told = sentence(lambda: fit(PARAMS, nesterov="no"))
    assert told == sentence(lambda: built(loss(), learning_rate=0.1, nesterov="no"))
    assert told[0] == "`nesterov` must be True or False, got 'no'"


def rates(value):
    """Return every entrance of a learning rate."""
    run = new_run(1)

    def by_hand():
        run.lr = value

    def written():
        class Writing(wb.Callback):
            band = 10
            writes = ("lr",)
            fatal = True

            def on_epoch_begin(self, event):
                event.state.lr = value

        wb.fit(new_run(1), [Writing()], rows(8), None, step)

    return {
        "config": lambda: wb.Config(1, 8, value, 1),
        "run": by_hand,
        "callback": written,
        "epoch schedule": lambda: wb.fit(
            new_run(1), [wb.EpochSchedule(lambda epoch: value)], rows(8), None, step
        ),
        "step schedule": lambda: wb.StepSchedule(lambda step: value).step_rates(0, 1),
        "constant rate": lambda: wb.ConstantRate(value),
        **{
            f"{built.__name__}": lambda built=built: built(loss(), learning_rate=value)
            for _, built, _ in PAIRS
        },
    }


@pytest.mark.parametrize("value", WRONG, ids=str)
def test_a_rate_is_refused_alike_at_every_entrance(value):
    told = {name: sentence(call)[0] for name, call in rates(value).items()}
    ends = {text.partition(" must be ")[2] for text in told.values()}
    assert len(ends) == 1, told
    assert next(iter(ends)).startswith("a finite number of at least 0, got ")


@pytest.mark.parametrize("built", [pair[1] for pair in PAIRS])
def test_a_forgotten_or_misnamed_option_names_the_function_that_was_called(built):
    text, remedy = sentence(lambda: built(loss()))
    assert text == f"`{built.__name__}` needs `learning_rate`"
    assert "learning_rate=" in remedy
    text, remedy = sentence(lambda: built(loss(), lr=0.1))
    assert f"`{built.__name__}` has no argument `lr`" in text
    assert "learning_rate" in remedy


FIELDS = ["epoch", "epochs", "batch", "batches", "rows", "global_step", "train_loss", "seed"]
HOOKS = ["run_begin", "epoch_begin", "batch_begin", "batch_end", "epoch_end", "run_end"]


def writing(hook, field, value, **attributes):
    def write(self, event):
        setattr(event.state, field, value)

    return type("Writing", (wb.Callback,), {f"on_{hook}": write} | attributes)()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("field", FIELDS)
def test_what_the_loop_writes_a_callback_may_not(field, hook):
    plain, run = new_run(2), new_run(2)
    wb.fit(plain, [], rows(20), None, step)
    wb.fit(run, [writing(hook, field, 0)], rows(20), None, step)
    (report,) = run.reports
    assert report.severity == "error"
    assert f"`Writing` writes 0 into `state.{field}`, which the loop alone writes" in report.text
    assert run.status == "completed"
    assert run.history.column("train_loss").tolist() == plain.history.column("train_loss").tolist()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("rate", [wb.EpochSchedule, wb.StepSchedule])
def test_an_undeclared_write_does_not_win_over_a_schedule(hook, rate):
    run = new_run(3)
    callbacks = [rate(wb.ConstantRate(0.01)), writing(hook, "lr", 0.5)]
    history = wb.fit(run, callbacks, rows(20), None, step)
    assert history.column("lr").tolist() == [0.01] * 3
    (report,) = run.reports
    assert "`Writing` writes 0.5 into `state.lr`, which `" in report.text
    assert rate.__name__ in report.text


@pytest.mark.parametrize("value", WRONG, ids=str)
def test_a_written_rate_that_is_none_is_refused_and_named(value):
    run = new_run(2)
    wb.fit(run, [writing("epoch_begin", "lr", value, writes=("lr",))], rows(20), None, step)
    (report,) = run.reports
    assert report.severity == "error"
    assert "state.lr of the callback Writing" in report.text
    assert np.isfinite(run.params[0]["w"]).all()
    assert run.history.column("lr").tolist() == [0.01, 0.01]


def test_of_two_callbacks_that_write_what_none_declares_the_second_is_refused():
    run = new_run(2)
    first, second = writing("epoch_begin", "lr", 0.5), writing("epoch_begin", "lr", 0.25)
    history = wb.fit(run, [first, second], rows(20), None, step)
    assert history.column("lr").tolist() == [0.5, 0.5]
    assert [report.severity for report in run.reports] == ["error"]

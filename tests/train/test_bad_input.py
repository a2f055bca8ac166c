"""What is wrong with data, steps and settings is said where it enters, with what to do about it."""

import warnings
from typing import Any, cast

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import (
    logits,
    loss,
    measure,
    new_run,
    perceptron,
    rows,
    same_bits,
    step,
)

DATA = rows(20)


def fitted(data=DATA, step=step, **config):
    run = new_run(1, **config)
    wb.fit(run, [], data, None, step)
    return run


def labelled(labels):
    return wb.data.Dataset(DATA.x, labels)


def with_label(row, value):
    labels = np.zeros(20, np.int32)
    labels[row] = value
    return labelled(labels)


# -- data


def test_rows_of_another_width_are_refused_naming_both_shapes():
    narrow = rows(20, features=4)
    for act in (
        lambda: fitted(narrow),
        lambda: wb.evaluate(new_run(), narrow, measure),
        lambda: wb.predict(new_run(), narrow.x, 4, logits),
    ):
        with refused(
            wb.ShapeError, "matmul", "`x`", "(batch, 4)", "`0.w`", "(5, 6)", remedy="input width"
        ):
            act()


def test_labels_for_another_number_of_rows_are_refused():
    with refused(wb.DataError, "x has 20 rows and y has 19", remedy="one row of y"):
        wb.data.Dataset(DATA.x, np.zeros(19, np.int32))


def test_features_of_another_type_are_refused_naming_both():
    wide = rows(20, dtype=np.float64)
    with refused(wb.DTypeError, "`x`", "float64", "`0.w`", "float32", remedy="astype"):
        fitted(wide)
    whole = wb.data.Dataset(np.ones((20, 5), np.int64), DATA.y)
    with refused(wb.DTypeError, "int64", "float32", remedy="astype"):
        fitted(whole)


def test_features_that_are_no_numbers_are_refused():
    with refused(wb.DataError, "complex128", remedy="numeric"):
        wb.data.Dataset(np.ones((2, 2), complex), [0, 0])


def test_labels_that_are_no_whole_numbers_are_refused():
    with refused(wb.DTypeError, "`y`", "float32", remedy="int32"):
        fitted(labelled(np.zeros(20)))


@pytest.mark.parametrize(("row", "value"), [(0, 3), (13, 3), (19, 2_000_000_000), (4, -1)])
def test_a_label_out_of_range_is_refused_naming_its_row_and_value(row, value):
    wrong = with_label(row, value)
    advice = "from 0" if value < 0 else f"{value + 1} or more"
    for act in (
        lambda: fitted(wrong),
        lambda: new_run().start([], wrong, None, step),
        lambda: wb.fit(new_run(), [], DATA, wrong, step, measure),
        lambda: wb.evaluate(new_run(), wrong, measure),
    ):
        with refused(wb.DataError, f"y[{row}] is {value}", "0 to 2", remedy=advice):
            act()


def test_of_several_wrong_labels_the_first_is_named():
    labels = np.zeros(20, np.int64)
    labels[[7, 11, 17]] = [5, -4, 9]
    with refused(wb.DataError, "y[7] is 5"):
        fitted(labelled(labels))


def test_an_index_into_a_table_is_checked_as_a_label_is():
    tokens = np.tile(np.array([[0, 1], [3, 2]], np.int32), (10, 1))
    tokens[9, 1] = 4
    table = {"table": np.zeros((4, 3), np.float32)}
    run = wb.Run(table, wb.sgd(table), wb.Config(1, 4, 0.1, 1, verbose=False))

    def lookup(params, opt, x, y, lr):
        def mean(p, x, y):
            return wb.take(p["table"], x).mean()

        return wb.default_step(params, opt, x, y, lr, mean)

    with refused(wb.DataError, "x[9] is 4", "0 to 3", remedy="5 or more"):
        wb.fit(run, [], wb.data.Dataset(tokens, np.zeros(20)), None, lookup)
    with refused(wb.DataError, "x[9] is 4"):
        wb.predict(run, tokens, 4, lambda p, x: wb.take(p["table"], x))


def test_labels_that_are_only_compared_may_be_any_numbers():
    def hits(params, x, y):
        return {"accuracy": wb.accuracy(logits(params, x), y)}

    assert 0.0 <= wb.evaluate(new_run(), with_label(3, 99), hits)["accuracy"] < 1.0


def test_nan_in_the_data_is_allowed_and_reported(capsys):
    x = DATA.x.copy()
    x[3, 2] = x[4, 0] = np.nan
    holed = wb.data.Dataset(x, DATA.y)
    run = new_run(1, verbose=True)
    wb.fit(run, [], holed, holed, step, measure)
    assert [report.text for report in run.reports[:2]] == [
        "the training set holds 2 NaN: x of columns 0, 2, in 2 rows from row 3 on",
        "the validation set holds 2 NaN: x of columns 0, 2, in 2 rows from row 3 on",
    ]
    assert "the training set holds 2 NaN" in capsys.readouterr().out
    assert np.isnan(run.history.column("train_loss")).all()
    assert "loss nan" in run.reports[-1].text
    assert run.status == "completed"


def test_an_empty_training_set_is_refused():
    for none in (DATA.take([]), wb.data.empty()):
        with refused(wb.DataError, "the training set is empty", remedy="at least one row"):
            fitted(none)


def test_something_that_is_no_data_set_is_refused():
    pair: Any = (DATA.x, DATA.y)
    with refused(wb.DataError, "`tuple`", "training", remedy="wb.data.Dataset(x, y)"):
        fitted(pair)
    with refused(wb.DataError, "`tuple`", "validation", remedy="wb.data.Dataset(x, y)"):
        wb.fit(new_run(), [], DATA, pair, step, measure)


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_batch_size_that_is_none_is_refused(size):
    with refused(wb.ConfigurationError, "batch_size", str(size)):
        new_run(1, size)


def test_dropping_the_only_batch_is_refused():
    with refused(wb.DataError, "5 rows make no batch of 8", remedy="drop_last=False"):
        fitted(rows(5), drop_last=True)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        (lambda epoch: [0, 1], "shape (2,) for 20 rows"),
        (lambda epoch: np.linspace(0, 19, 20), "float64"),
        (lambda epoch: range(1, 21), "[19] is 20"),
        (lambda epoch: [-1, *range(19)], "[0] is -1"),
    ],
)
def test_an_order_that_does_not_fit_the_rows_is_refused(order, named):
    run = new_run(1)
    with refused(wb.DataError, "row_order(0)", named):
        wb.fit(run, [], DATA, None, step, row_order=order)
    wb.fit(run, [], DATA, None, step)
    assert run.status == "completed"


def big_endian(array):
    return array.astype(array.dtype.newbyteorder(">"))


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def every_second(array):
    return np.repeat(array, 2, axis=0)[::2]


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)
    moved = raw[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


LAYOUTS = [big_endian, read_only, every_second, misaligned, np.asfortranarray]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_of_any_layout_are_learned_alike(layout):
    other = wb.data.Dataset(layout(DATA.x), layout(DATA.y))
    assert same_bits(fitted(), fitted(other))
    assert np.array_equal(
        wb.predict(new_run(), layout(DATA.x), 4, logits), wb.predict(new_run(), DATA.x, 4, logits)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_of_any_layout_are_learned_alike(layout):
    plain = perceptron(5, 6, 3)
    other = [{name: layout(value) for name, value in layer.items()} for layer in plain]
    config = wb.Config(2, 8, 0.01, 7, verbose=False)
    runs = [wb.Run(params, wb.adam(params), config) for params in (plain, other)]
    for run in runs:
        wb.fit(run, [], DATA, None, step)
    assert same_bits(*runs)


# -- steps


def if_positive(params, opt, x, y, lr):
    if x.mean() > 0.0:
        return step(params, opt, x, y, lr)
    return step(params, opt, x, y, lr)


def while_large(params, opt, x, y, lr):
    while loss(params, x, y) > 0.1:
        pass
    return step(params, opt, x, y, lr)


def both(params, opt, x, y, lr):
    return step(params, opt, wb.where((x > 0.0) and (x < 1.0), x, 0.0), y, lr)


def as_float(params, opt, x, y, lr):
    return step(params, opt, x, y, float(lr) * 0.5)


def as_int(params, opt, x, y, lr):
    return step(params, opt, x, y, lr * int(x.sum()))


def through_numpy(params, opt, x, y, lr):
    return step(params, opt, np.exp(x), y, lr)


def row_by_row(params, opt, x, y, lr):
    return step(params, opt, wb.stack([row * 2.0 for row in x]), y, lr)


@pytest.mark.parametrize(
    ("wrong", "named", "remedy"),
    [
        (if_positive, "a truth value", "wb.where"),
        (while_large, "a truth value", "wb.where"),
        (both, "a truth value", "`&`"),
        (as_float, "a Python float", "in tensors"),
        (as_int, "a Python int", "in tensors"),
        (through_numpy, "a numpy array", "wb.exp"),
        (row_by_row, "the number of rows", "all rows at once"),
    ],
)
def test_a_step_that_asks_for_a_value_is_told_what_to_write(wrong, named, remedy):
    with refused(wb.TracingError, named, "not known while a graph is built", remedy=remedy):
        fitted(step=wrong)


def returning(result):
    return lambda params, opt, x, y, lr: result(params, opt, x)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (lambda p, o, x: None, "`NoneType`"),
        (lambda p, o, x: (x.mean(), p, o), "`tuple`"),
        (lambda p, o, x: x.mean(), "`Tensor`"),
    ],
)
def test_a_step_that_returns_no_result_is_refused(result, named):
    with refused(wb.TracingError, named, "StepResult", remedy="wb.StepResult("):
        fitted(step=returning(result))


def changed(params, **leaves):
    return [{**params[0], **leaves}, *params[1:]]


@pytest.mark.parametrize(
    ("result", "kind", "named", "remedy"),
    [
        (
            lambda p, o, x: wb.StepResult(x.mean(), p[:1], o),
            wb.TracingError,
            ("params", "another structure", "expected 2 entries, found 1"),
            "same types, keys and lengths",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), {"w": p}, o),
            wb.TracingError,
            ("params", "another structure"),
            "",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), p, None),
            wb.TracingError,
            ("opt", "another structure"),
            "",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), p, wb.sgd({})),
            wb.TracingError,
            ("opt", "`kind`", "'adam'", "'sgd'"),
            "",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), changed(p, w=p[0]["w"].T), o),
            wb.GraphError,
            ("`params.0.w`", "(5, 6)", "(6, 5)"),
            "shape and type",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), changed(p, b=p[0]["b"].astype("float64")), o),
            wb.GraphError,
            ("`params.0.b`", "float32", "float64"),
            "shape and type",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(), changed(p, b=np.zeros(6)), o),
            wb.TracingError,
            ("`params.0.b`", "`ndarray`"),
            "tensors",
        ),
        (
            lambda p, o, x: wb.StepResult(x.mean(1), p, o),
            wb.TracingError,
            ("the step's loss", "(batch,)"),
            ".mean()",
        ),
        (
            lambda p, o, x: wb.StepResult(cast("Any", 0.5), p, o),
            wb.TracingError,
            ("the step's loss", "0.5"),
            ".mean()",
        ),
    ],
)
def test_a_step_that_returns_something_else_than_it_was_given_is_refused(
    result, kind, named, remedy
):
    run = new_run(1)
    before = run.params[0]["w"]
    with refused(kind, *named, remedy=remedy):
        wb.fit(run, [], DATA, None, returning(result))
    assert (run.status, run.state.global_step) == ("ready", 0)
    assert np.array_equal(run.params[0]["w"], before)
    wb.fit(run, [], DATA, None, step)
    assert run.status == "completed"


def test_a_loss_of_one_number_a_row_is_told_to_be_reduced():
    def rowwise(params, opt, x, y, lr):
        return wb.default_step(
            params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy_rows(logits(p, x), y)
        )

    with refused(wb.GradientError, "(batch,)", remedy="mean()"):
        fitted(step=rowwise)


def test_an_optimizer_of_other_parameters_is_refused():
    run = wb.Run(perceptron(5, 6, 3), wb.adam(perceptron(5, 3)), wb.Config(1, 8, 0.1, 1))
    with refused(wb.TracingError, "opt.m", "expected 2 entries, found 1"):
        wb.fit(run, [], DATA, None, step)


def test_a_parameter_that_is_no_number_is_refused():
    with refused(wb.TracingError, "`a`", "`str`"):
        wb.Run({"a": "x"}, wb.sgd({}), wb.Config(1, 1, 0.1, 1))


def test_a_parameter_that_the_loss_does_not_reach_is_named_and_stays():
    params = {"used": np.ones(5, np.float32), "idle": np.ones(3, np.float32)}
    run = wb.Run(params, wb.adam(params), wb.Config(1, 8, 0.1, 1, verbose=False))

    def partly(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: (x @ p["used"]).mean())

    with pytest.warns(wb.UnreachedParameterWarning, match="idle"):
        wb.fit(run, [], DATA, None, partly)
    assert (run.params["idle"] == 1.0).all()
    assert (run.params["used"] != 1.0).all()


def test_a_mistake_in_a_step_is_raised_as_it_is():
    def broken(params, opt, x, y, lr):
        return params["no such key"]

    with pytest.raises(TypeError, match="list indices"):
        fitted(step=broken)


# -- the cache


def test_a_good_run_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted().status == "completed"

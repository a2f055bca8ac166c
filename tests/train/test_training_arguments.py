"""The arguments of `fit` and `start`, which are listed in one place."""

import inspect

import pytest

import workbench as wb
from tests.train.problems import measure, new_run, rows, step

DATA = rows(60)


def test_fit_and_start_take_the_same_arguments():
    fit, start = (list(inspect.signature(each).parameters) for each in (wb.fit, wb.Run.start))
    assert fit == ["run", "callbacks", "train", "val", "step", "eval_batch", "row_order"]
    assert start == ["self", *fit[1:]]


@pytest.mark.parametrize("function", [wb.fit, wb.Run.start])
def test_the_help_describes_every_argument(function):
    text = inspect.getdoc(function)
    assert text is not None
    assert "<" not in text.replace("<name>", "")
    for name in inspect.signature(function).parameters:
        assert name == "self" or f"\n{name}\n" in text


def test_arguments_may_be_given_by_name():
    run, plain = new_run(), new_run()
    wb.fit(run, eval_batch=measure, step=step, val=None, train=DATA, callbacks=[])
    wb.fit(plain, [], DATA, None, step, measure)
    assert repr(run.history) == repr(plain.history)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        (([], DATA), {}, "fit: missing a required argument: 'val'"),
        (([], DATA, None, step, measure, None), {}, "fit: too many positional arguments"),
        (([], DATA, None), {"stpe": step}, "fit: got an unexpected keyword argument 'stpe'"),
    ],
)
def test_wrong_arguments_are_refused_under_the_name_of_what_was_called(arguments, named, said):
    with pytest.raises(TypeError, match=said):
        wb.fit(new_run(), *arguments, **named)

"""Whether a function would compute now what it computed before."""

import types

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import new_run, rows, step
from workbench.train.references import record_of
from workbench.train.trace import trace_step


def defined(text, **known):
    """Return the function ``f`` of a text, in a namespace of its own, as a notebook has one."""
    space = {"wb": wb, "np": np, **known}
    exec(text, space)
    return space["f"]


PLAIN = """
def helper(x): return wb.relu(x) * factor
def f(x): return [helper(y) for y in (x,)]
"""


def test_a_function_that_nothing_happened_to_has_the_same_record():
    f = defined(PLAIN, factor=2.0)
    assert record_of(f) is not None
    assert record_of(f) == record_of(f)
    assert record_of(step) == record_of(step) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"factor": 3.0},
        {"factor": 2},
        {"helper": defined("def f(x): return x")},
        {"wb": types.ModuleType("workbench_of_another_kind")},
    ],
)
def test_a_name_that_stands_for_something_else_changes_the_record(change):
    f = defined(PLAIN, factor=2.0)
    before = record_of(f)
    f.__globals__.update(change)
    assert record_of(f) != before


def test_a_name_within_an_inner_function_counts():
    f = defined("def f(x): return (lambda y: y * factor)(x)", factor=2.0)
    before = record_of(f)
    f.__globals__["factor"] = 3.0
    assert record_of(f) != before


def test_what_a_function_closes_over_counts():
    factor = 2.0

    def f(x):
        return x * factor

    before = record_of(f)
    assert record_of(f) == before
    factor = 3.0
    assert record_of(f) != before


def test_defaults_count():
    f = defined("def f(x, a=(1, 2.0), *, b='x'): return x")
    before = record_of(f)
    f.__kwdefaults__["b"] = "y"
    assert record_of(f) != before
    f.__kwdefaults__["b"] = "x"
    f.__defaults__ = ((1, 3.0),)
    assert record_of(f) != before


@pytest.mark.parametrize(
    "value", [[1.0], {"a": 1}, np.ones(2), object(), types.ModuleType("mine"), {"a": 1}.get]
)
def test_what_could_change_unseen_makes_no_record(value):
    assert record_of(defined(PLAIN, factor=value)) is None


def test_other_callables_make_no_record():
    class Callable:
        def __call__(self, x):
            return x

    assert record_of(Callable()) is None
    assert record_of(Callable().__call__) is None


def test_functions_that_call_each_other_have_a_record():
    f = defined("def f(x): return g(x)\ndef g(x): return f(x)")
    assert record_of(f) == record_of(f) is not None


def test_a_step_is_traced_again_only_if_something_may_have_changed(monkeypatch):
    calls = []

    def counted(*given):
        calls.append(1)
        return trace_step(*given)

    monkeypatch.setattr("workbench.train.program.trace_step", counted)
    text = "def f(params, opt, x, y, lr): return inner(params, opt, x, y, lr)"
    traced = defined(text, inner=step)
    run, data = new_run(9), rows(60)
    for _ in range(3):
        wb.fit(run, [], data, None, traced)
    assert len(calls) == 1
    traced.__globals__["other"] = 1
    wb.fit(run, [], data, None, traced)
    assert len(calls) == 1
    traced.__globals__["inner"] = defined("def f(*given): return step(*given)", step=step)
    wb.fit(run, [], data, None, traced)
    assert len(calls) == 2


def test_settings_that_differ_compile_anew():
    run, data = new_run(1), rows(60)
    wb.fit(run, [], data, None, step)
    with wb.settings(fuse=False):
        wb.fit(run, [], data, None, step)
    assert len(run.edits.programs.steps) == 2

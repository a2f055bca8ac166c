"""A run's cell that is executed again, in a notebook."""

import sys
import types

import pytest

import workbench as wb
from tests.train.problems import new_run, rows, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until


@pytest.fixture
def shell(monkeypatch):
    """A kernel's shell that tells which cell is executed."""
    told = {"metadata": {"cellId": "a"}, "header": {"msg_id": "1"}}
    shell = types.SimpleNamespace(get_parent=lambda: told)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return told


@pytest.fixture
def begun():
    """Return a function that starts a run; all are stopped at the end."""
    runs = []

    def begin(run=None):
        run = new_run(LONG) if run is None else run
        runs.append(run)
        run.start([], rows(60), None, step)
        return run

    yield begin
    for run in runs:
        run.stop()
        run.wait(PATIENCE_S)


def test_a_cell_that_is_run_again_stops_the_run_that_it_started_before(shell, begun):
    first = begun()
    shell["header"] = {"msg_id": "2"}
    second = begun()
    assert (first.is_training, second.is_training) == (False, True)
    assert (first.status, first.state.stop_reason) == ("stopped", "its cell was run again")


def test_a_cell_that_starts_several_runs_stops_none_of_them(shell, begun):
    first, second = begun(), begun()
    assert first.is_training
    assert second.is_training


def test_another_cell_stops_nothing(shell, begun):
    first = begun()
    shell.update(metadata={"cellId": "b"}, header={"msg_id": "2"})
    begun()
    assert first.is_training


def test_a_start_in_a_cell_that_is_run_again_goes_on_with_the_same_run(shell, begun):
    run = begun()
    until(lambda: run.state.global_step > 10)
    shell["header"] = {"msg_id": "2"}
    before = run.state.global_step
    assert begun(run) is run
    until(lambda: run.state.global_step > before)


def test_a_run_that_was_stopped_by_its_cell_goes_on_to_the_same_bits(shell, begun):
    plain, run = new_run(200), new_run(200)
    data = rows(60)
    wb.fit(plain, [], data, None, step)
    run.start([], data, None, step)
    shell["header"] = {"msg_id": "2"}
    begun()
    wb.fit(run, [], data, None, step)
    assert same_bits(plain, run)


def test_a_front_end_that_names_no_cell_is_told_by_the_text_of_the_cell(shell, begun):
    shell["metadata"] = {}
    text = compile("begun()", "/tmp/ipykernel_7/123.py", "eval")
    first = eval(text, {"begun": begun})
    shell["header"] = {"msg_id": "2"}
    eval(text, {"begun": begun})
    assert not first.is_training


def test_without_a_cell_a_run_that_trains_is_refused(begun):
    run = begun()
    with pytest.raises(wb.ExecutionError, match="training already"):
        run.start([], rows(60), None, step)

"""Starting, waiting, stopping, pausing and interrupting a run."""

import asyncio
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, measure, new_run, rows, same_bits, step

LONG = 1_000_000  # epochs that no test waits for
PATIENCE_S = 20.0  # far longer than anything here takes, so that a hang fails
SOON_S = 0.2 + 0.2  # what is promised after an interrupt, and what a busy machine may add


def until(condition):
    """Wait until ``condition()`` holds."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "it never came to pass"
        time.sleep(0.001)


@pytest.fixture
def endless():
    """A run that trains in the background until the test is over."""
    run = new_run(LONG)
    run.start([], rows(60), None, step)
    yield run
    run.stop()
    run.wait(PATIENCE_S)


def test_a_started_run_trains_while_the_caller_goes_on(endless):
    until(lambda: endless.state.global_step > 100)
    assert endless.is_training
    assert endless.status == "running"


def test_waiting_gives_the_history_of_a_run_that_is_complete():
    plain, run = new_run(), new_run()
    data, val = rows(60), rows(9, seed=1)
    wb.fit(plain, [], data, val, step, measure)
    assert run.start([], data, val, step, measure) is run
    history = run.wait(PATIENCE_S)
    assert history is run.history
    assert run.status == "completed"
    assert not run.is_training
    assert same_bits(plain, run)


def test_a_started_run_prints_nothing_and_keeps_its_reports(capsys):
    run = new_run(2, verbose=True)
    run.start([], rows(60), None, step).wait(PATIENCE_S)
    assert capsys.readouterr() == ("", "")
    assert [report.text[:9] for report in run.reports] == ["epoch 1/2", "epoch 2/2"]


def test_awaiting_a_run_leaves_the_event_loop_free():
    async def cell():
        run = new_run(LONG)
        run.start([], rows(60), None, step)
        ticks = 0

        async def tick():
            nonlocal ticks
            for _ in range(5):
                await asyncio.sleep(0.01)
                ticks += 1
            run.stop()

        ticking = asyncio.create_task(tick())
        history = await run
        await ticking
        return run, history, ticks

    run, history, ticks = asyncio.run(cell())
    assert ticks == 5
    assert history is run.history
    assert run.status == "stopped"


def test_waiting_may_be_given_a_limit(endless):
    with pytest.raises(TimeoutError, match=r"0\.2 s"):
        endless.wait(0.2)
    assert endless.is_training


def test_waiting_for_a_run_that_never_started_returns_at_once():
    assert len(new_run().wait()) == 0


def test_stopping_takes_effect_within_a_native_call():
    run = new_run(LONG)
    run.start([], rows(60), None, step)
    until(lambda: run.state.global_step > 100)
    began = time.monotonic()
    run.stop(reason="pressed")
    run.wait(PATIENCE_S)
    assert time.monotonic() - began < 0.5
    assert (run.status, run.state.stop_reason) == ("stopped", "pressed")


def test_a_pause_holds_the_run_until_it_is_resumed(endless):
    until(lambda: endless.state.global_step > 10)
    endless.pause()
    until(lambda: endless.status == "paused")
    held = endless.state.global_step
    first = endless.params[0]["w"]
    time.sleep(0.1)
    assert endless.state.global_step == held
    assert np.array_equal(first, endless.params[0]["w"])
    endless.resume()
    until(lambda: endless.state.global_step > held)
    assert endless.status == "running"


@pytest.mark.parametrize("after", ["batch", "epoch"])
def test_a_paused_run_can_be_stopped(after):
    run = new_run(LONG)
    run.start([], rows(60), None, step)
    run.pause()
    until(lambda: run.status == "paused")
    run.stop(after=after)
    run.wait(PATIENCE_S)
    assert run.status == "stopped"


def test_a_run_can_be_paused_resumed_and_stopped_many_times():
    run = new_run(LONG)
    data = rows(60)
    for _ in range(3):
        run.start([], data, None, step)
        for _ in range(5):
            run.pause()
            run.resume()
        before = run.state.global_step
        until(lambda before=before: run.state.global_step > before)
        run.stop()
        run.wait(PATIENCE_S)
        assert run.status == "stopped"


def test_a_rate_assigned_while_the_run_goes_on_takes_effect(endless):
    until(lambda: endless.state.global_step > 10)
    endless.lr = 0.0
    time.sleep(0.2)  # longer than a native call, the batches of which may still have the old rate
    first = endless.params[0]["w"]
    steps = endless.state.global_step
    until(lambda: endless.state.global_step > steps + 100)
    # Adam moves no parameter at a rate of zero.
    assert np.array_equal(first, endless.params[0]["w"])
    assert endless.state.lr == 0.0


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    run = new_run()
    with refused(wb.ConfigurationError, str(rate)):
        run.lr = rate
    assert run.lr == 0.01


def test_parameters_read_while_the_run_goes_on_belong_to_one_batch():
    # Both parameters hold the number of the step, so a torn read would show two numbers.
    def count(params, opt, x, y, lr):
        return wb.StepResult(x.mean(), {k: v + 1.0 for k, v in params.items()}, opt)

    params = {"a": np.zeros(2000), "b": np.zeros(2000)}
    run = wb.Run(params, wb.sgd(params), wb.Config(LONG, 4, 0.1, 1, verbose=False))
    run.start([], rows(60), None, count)
    for _ in range(50):
        now = run.params
        assert {len(set(now["a"])), len(set(now["b"]))} == {1}
        assert now["a"][0] == now["b"][0]
    run.stop()
    run.wait(PATIENCE_S)
    assert run.params["a"][0] == run.state.global_step


def test_evaluating_while_the_run_goes_on_gives_a_number(endless):
    data = rows(9, seed=1)
    for _ in range(3):
        assert 0.0 < wb.evaluate(endless, data, measure)["loss"] < 100.0
    assert endless.is_training


@pytest.mark.parametrize("begin", [wb.fit, wb.Run.start])
def test_a_run_that_trains_refuses_to_be_started_again(endless, begin):
    with refused(wb.ExecutionError, "training already"):
        begin(endless, [], rows(60), None, step)
    assert endless.is_training


def test_what_is_wrong_with_a_step_is_raised_where_it_was_started():
    def wrong(params, opt, x, y, lr):
        return params

    run = new_run()
    with refused(wb.TracingError, "not a StepResult"):
        run.start([], rows(60), None, wrong)
    assert not run.is_training
    run.start([], rows(60), None, step).wait(PATIENCE_S)
    assert run.status == "completed"


def test_what_goes_wrong_in_the_background_is_raised_once_where_somebody_waits():
    class Guard(wb.Callback):
        fatal = True

        def on_epoch_end(self, event):
            raise ArithmeticError("not finite")

    run = new_run()
    run.start([Guard()], rows(60), None, step)
    with pytest.raises(ArithmeticError, match="not finite"):
        run.wait(PATIENCE_S)
    assert run.status == "failed"
    assert run.wait() is run.history
    run.start([], rows(60), None, step).wait(PATIENCE_S)
    assert run.status == "completed"


def test_a_run_is_not_pickled():
    with refused(wb.ExecutionError, "pickled"):
        pickle.dumps(new_run())


# -- interrupts: in a process of its own, since a signal goes to the main thread

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, signal, sys, threading, time
import workbench as wb
from tests.train.problems import new_run, rows, same_bits, step

data = rows(60_000)
epochs = 4
plain, run = new_run(epochs), new_run(epochs)
times = []

def interrupt():
    while run.state.global_step == 0:
        time.sleep(0.001)
    time.sleep(0.02)
    times.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

"""


def in_a_process(code):
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels"), str(ROOT / "widgets")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_interrupt_during_a_native_call_returns_soon_and_the_run_goes_on_to_the_same_bits():
    late, status, step_, reason, same, handler = in_a_process(
        """
        threading.Thread(target=interrupt).start()
        wb.fit(run, [], data, None, step)
        print(time.monotonic() - times[0])
        print(run.status)
        print(run.state.global_step < epochs * run.state.batches)
        print(run.state.stop_reason)
        wb.fit(run, [], data, None, step)
        wb.fit(plain, [], data, None, step)
        print(same_bits(plain, run))
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
    )
    assert float(late) < SOON_S
    assert status == "interrupted"
    assert step_ == "True"
    assert reason == "interrupted from the keyboard"
    assert same == "True"
    assert handler == "True"


def test_an_interrupt_during_an_evaluation_returns_soon_and_the_run_goes_on_to_the_same_bits():
    late, status, rows_before, same = in_a_process(
        """
        from tests.train.problems import measure
        val = rows(3_000_000, seed=1)
        few = rows(60)
        epochs = 1
        plain, run = new_run(1), new_run(1)

        def interrupt():
            while run.state.global_step < 8:
                time.sleep(0.001)
            time.sleep(0.03)
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        wb.fit(run, [], few, val, step, measure)
        print(time.monotonic() - times[0])
        print(run.status)
        print(len(run.history))
        wb.fit(run, [], few, val, step, measure)
        wb.fit(plain, [], few, val, step, measure)
        print(same_bits(plain, run) and run.state.val_loss == plain.state.val_loss)
        """
    )
    assert float(late) < SOON_S
    assert status == "interrupted"
    assert rows_before == "0"
    assert same == "True"


def test_an_interrupt_while_waiting_stops_the_run_in_the_background():
    late, status, same = in_a_process(
        """
        threading.Thread(target=interrupt).start()
        run.start([], data, None, step)
        run.wait()
        print(time.monotonic() - times[0])
        print(run.status)
        wb.fit(run, [], data, None, step)
        wb.fit(plain, [], data, None, step)
        print(same_bits(plain, run))
        """
    )
    assert float(late) < SOON_S
    assert status == "interrupted"
    assert same == "True"


def test_an_interrupt_ends_a_pause():
    status, late = in_a_process(
        """
        from tests.train.problems import at
        threading.Thread(target=interrupt).start()
        wb.fit(run, [at("BATCH_END", lambda event: run.pause())], data, None, step)
        print(run.status)
        print(time.monotonic() - times[0])
        """
    )
    assert status == "interrupted"
    assert float(late) < SOON_S


def test_the_second_interrupt_is_raised():
    (said,) = in_a_process(
        """
        from tests.train.problems import at

        def twice(event):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

        try:
            wb.fit(run, [at("BATCH_END", twice)], data, None, step)
        except KeyboardInterrupt:
            print(run.status)
        """
    )
    assert said == "failed"


def test_a_run_that_is_fitted_in_another_thread_leaves_signals_alone():
    run = new_run()
    thread = threading.Thread(target=lambda: wb.fit(run, [], rows(60), None, step))
    thread.start()
    thread.join(PATIENCE_S)
    assert run.status == "completed"


def test_a_stop_asked_for_by_a_batch_hook_takes_effect_after_that_batch():
    run = new_run()
    wb.fit(run, [at("BATCH_BEGIN", lambda event: run.stop())], rows(60), None, step)
    assert run.state.global_step == 1


def test_a_process_that_ends_while_a_run_trains_ends_cleanly():
    (said,) = in_a_process(
        """
        endless = new_run(1_000_000)
        endless.start([], data, None, step)
        while endless.state.global_step == 0:
            time.sleep(0.001)
        print("over")
        """
    )
    assert said == "over"

"""The life of a run in the background: how it begins, ends, is waited for and is looked at."""

import asyncio
import threading
import time

import pytest

import workbench as wb
from tests.train.problems import at, measure, new_run, rows, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until
from tests.train.test_step_swap import after, steeper
from workbench.loops.settings import current_settings

DATA, VAL = rows(60), rows(9, seed=1)


def test_settings_in_force_where_a_run_is_started_hold_in_its_thread():
    seen = []
    run = new_run(1)
    with wb.settings(fuse=False):
        run.start(
            [at("EPOCH_END", lambda event: seen.append(current_settings()))], DATA, None, step
        )
    run.wait(PATIENCE_S)
    assert [settings.fuse for settings in seen] == [False]
    assert current_settings().fuse


def test_a_step_that_is_edited_under_settings_is_compiled_under_them():
    run = new_run(LONG)
    run.start([], DATA, None, step)
    with wb.settings(fuse=False):
        run.step(steeper)
    run.step_history[-1].wait(PATIENCE_S)
    before, now = (program.routine for program in run.edits.programs.steps.values())
    assert len(now.program.kernels) > len(before.program.kernels)
    run.stop()
    run.wait(PATIENCE_S)


def test_to_be_cancelled_while_awaiting_a_run_stops_it():
    async def cell(run):
        waiting = asyncio.ensure_future(until_done(run))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async def until_done(run):
        return await run

    run = new_run(LONG)
    run.start([], DATA, None, step)
    asyncio.run(cell(run))
    run.wait(PATIENCE_S)
    assert run.status == "interrupted"
    assert run.step_history[0].state == "in force"


def test_a_shielded_wait_that_is_cancelled_leaves_the_run_at_work():
    async def cell(run):
        task = asyncio.ensure_future(until_done(run))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.05)
        before = run.state.global_step
        await asyncio.sleep(0.05)
        assert run.state.global_step > before
        run.stop()
        await task

    async def until_done(run):
        return await run

    run = new_run(LONG)
    run.start([], DATA, None, step)
    asyncio.run(cell(run))
    assert run.status == "stopped"


def test_what_goes_wrong_in_the_thread_is_raised_where_a_run_is_awaited():
    class Guard(wb.Callback):
        fatal = True

        def on_epoch_end(self, event):
            raise ArithmeticError("not finite")

    async def cell():
        run = new_run()
        run.start([Guard()], DATA, None, step)
        with pytest.raises(ArithmeticError, match="not finite"):
            await run
        assert await run is run.history
        return run.status

    assert asyncio.run(cell()) == "failed"


def test_of_several_threads_that_start_one_run_one_succeeds():
    run, refused = new_run(LONG), []

    def start():
        try:
            run.start([], DATA, None, step)
        except wb.ExecutionError:
            refused.append(1)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(refused) == 5
    run.stop()
    run.wait(PATIENCE_S)
    assert run.status == "stopped"


def test_runs_that_ended_leave_no_thread():
    def training():
        return [thread for thread in threading.enumerate() if thread.name == "wb-train"]

    known = set(training())
    runs = [new_run(2).start([], DATA, None, step) for _ in range(4)]
    for run in runs:
        run.wait(PATIENCE_S)
    until(lambda: set(training()) <= known)


def test_looking_at_a_run_changes_no_bit():
    run, plain = new_run(300), new_run(300)
    edit = [after(50, lambda run: run.step(steeper))]
    wb.fit(plain, edit, DATA, VAL, step, measure)
    run.start([after(50, lambda run: run.step(steeper))], DATA, VAL, step, measure)
    while run.is_training:
        shown = [
            repr(run),
            run._repr_html_(),
            repr(run.step_history),
            run.step_history._repr_html_(),
        ]
        shown += [repr(run.step), repr(run.schedule), repr(run.history.actions), repr(run.reports)]
        assert all(shown)
        assert run.params[0]["w"].shape == (5, 6)
        wb.evaluate(run, VAL, measure)
    run.wait(PATIENCE_S)
    assert same_bits(run, plain)


def test_an_edit_says_nothing_on_the_screen(capsys):
    run = new_run(LONG, verbose=True, eval_every=1000)
    run.start([], DATA, None, step)
    run.step(steeper)
    with pytest.raises(wb.TracingError):
        run.step(lambda params, opt, x, y, lr: 7)
    run.step_history[1].wait(PATIENCE_S)
    run.lr = 0.5
    run.stop()
    run.wait(PATIENCE_S)
    assert capsys.readouterr() == ("", "")


def test_a_run_that_was_interrupted_while_waiting_takes_an_edit_and_goes_on(monkeypatch):
    run = new_run(LONG)
    run.start([], DATA, None, step)
    waited = run._background._done.wait

    def interrupt(timeout=None):
        monkeypatch.setattr(run._background._done, "wait", waited)
        raise KeyboardInterrupt

    monkeypatch.setattr(run._background._done, "wait", interrupt)
    run.wait()
    assert run.status == "interrupted"
    run.step(steeper)
    run.start([], DATA, None)
    before = run.state.global_step
    until(lambda: run.state.global_step > before)
    run.stop()
    run.wait(PATIENCE_S)


def test_waiting_ends_close_to_the_limit_that_was_given():
    run = new_run(LONG)
    run.start([], DATA, None, step)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run.wait(0.25)
    assert 0.25 <= time.monotonic() - began < 2.0
    run.stop()
    run.wait(PATIENCE_S)

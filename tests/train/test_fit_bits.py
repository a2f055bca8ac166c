"""The same bits, whatever the threads, the hooks, the stops and the pauses."""

import threading
import time

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import (
    at,
    leaves,
    measure,
    new_run,
    perceptron,
    rows,
    same_bits,
    step,
)
from workbench.train.sweep import Sweep

WIDE = (784, 128, 10)


def trained(threads=2, *, seed=7, callbacks=(), epochs=3, optimizer=wb.adam):
    run = new_run(epochs, optimizer=optimizer, seed=seed, context=wb.Context.cpu(threads))
    wb.fit(run, list(callbacks), rows(60), rows(9, seed=1), step, measure)
    return run


@pytest.fixture(scope="module")
def plain():
    return trained()


def test_two_runs_of_one_seed_hold_the_same_bits(plain):
    assert same_bits(plain, trained())


def test_another_seed_visits_the_rows_in_another_order(plain):
    other = trained(seed=8)
    assert not same_bits(plain, other)
    assert plain.history.column("train_loss")[0] != other.history.column("train_loss")[0]


def test_one_thread_and_two_hold_the_same_bits(plain):
    assert same_bits(plain, trained(threads=1))


@pytest.fixture(scope="module")
def images():
    """Random images: enough of them for the products to be cut into chunks."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(384, 784))
    return wb.data.Dataset(x, rng.integers(0, 10, 384))


def wide(threads, images):
    params = perceptron(*WIDE)
    config = wb.Config(2, 128, 0.001, 5, verbose=False)
    run = wb.Run(params, wb.adam(params), config, context=wb.Context.cpu(threads))
    wb.fit(run, [], images, images, step, measure)
    return run


def test_a_model_that_is_cut_into_chunks_holds_the_same_bits_on_any_number_of_threads(images):
    one, two, again = wide(1, images), wide(2, images), wide(2, images)
    cuts = [
        bound.describe()
        for program in two.edits.programs.steps.values()
        for bound in program.routine._bound.values()
    ]
    assert max(launch.chunks for launches in cuts for launch in launches) > 1
    assert same_bits(one, two)
    assert same_bits(two, again)
    assert one.state.val_loss == two.state.val_loss == again.state.val_loss


def test_one_native_call_for_each_batch_gives_the_same_bits(plain):
    def look(event):
        return None

    assert same_bits(plain, trained(callbacks=[at("BATCH_BEGIN", look)]))
    assert same_bits(plain, trained(callbacks=[at("BATCH_END", look)]))


def test_native_calls_of_any_length_give_the_same_bits(plain, monkeypatch):
    # The loss of an epoch too: it is added up in one order however the calls were cut.
    for seconds in (0.0, 1e-5, 10.0):
        monkeypatch.setattr("workbench.train.sweep.CALL_SECONDS", seconds)
        assert same_bits(plain, trained())


@pytest.mark.parametrize("batches", [1, 7, 8, 9, 23])
def test_a_run_that_was_stopped_after_a_batch_goes_on_to_the_same_bits(plain, batches):
    run = new_run()
    calls = 0

    def stop(event):
        nonlocal calls
        calls += 1
        if calls == batches:
            run.stop()

    watch = at("BATCH_END", stop)
    data, val = rows(60), rows(9, seed=1)
    wb.fit(run, [watch], data, val, step, measure)
    assert run.state.global_step == batches
    assert run.status == "stopped"
    wb.fit(run, [], data, val, step, measure)
    assert run.status == "completed"
    assert same_bits(plain, run)
    assert run.history.column("val_loss").tolist() == plain.history.column("val_loss").tolist()


def test_a_run_that_was_stopped_many_times_goes_on_to_the_same_bits(plain):
    run = new_run()
    data, val = rows(60), rows(9, seed=1)
    rounds = 0
    watch = at("BATCH_END", lambda event: run.stop())
    while run.status != "completed":
        wb.fit(run, [watch], data, val, step, measure)
        rounds += 1
        assert rounds <= 25
    assert same_bits(plain, run)
    assert run.state.global_step == 24


def test_stopping_before_the_first_batch_does_not_begin_the_epoch_twice():
    run = new_run()
    begun = []

    def stop_at_once(event):
        begun.append(event.epoch)
        run.stop()

    for _ in range(3):
        wb.fit(run, [at("EPOCH_BEGIN", stop_at_once)], rows(60), None, step)
    # Each call goes on with the epoch that the one before has begun, up to where the next begins.
    assert begun == [0, 1, 2]
    assert run.state.global_step == 16


def test_stopping_after_the_epoch_finishes_it(plain):
    run = new_run()
    data, val = rows(60), rows(9, seed=1)
    watch = at("BATCH_END", lambda event: run.stop(after="epoch", reason="enough"))
    wb.fit(run, [watch], data, val, step, measure)
    assert (run.state.epoch, run.status, run.state.stop_reason) == (1, "stopped", "enough")
    assert len(run.history) == 1
    wb.fit(run, [], data, val, step, measure)
    assert same_bits(plain, run)


def test_a_pause_between_two_batches_changes_nothing(plain):
    run = new_run()

    def pause(event):
        if event.batch == 3:
            run.pause()
            threading.Timer(0.15, run.resume).start()

    began = time.monotonic()
    wb.fit(run, [at("BATCH_END", pause)], rows(60), rows(9, seed=1), step, measure)
    assert time.monotonic() - began >= 3 * 0.15
    assert same_bits(plain, run)
    # The time of an epoch is the time it was worked on.
    assert run.history.column("seconds").sum() < 3 * 0.15


def test_reading_and_evaluating_between_batches_changes_nothing(plain):
    data = rows(9, seed=1)
    run = new_run()

    def look(event):
        wb.evaluate(run, data, measure, batch_size=4)
        wb.predict(run, data.x, 3, lambda p, x: x @ p[0]["w"])
        leaves(run)
        repr(run)

    wb.fit(run, [at("BATCH_END", look)], rows(60), rows(9, seed=1), step, measure)
    assert same_bits(plain, run)


def test_a_changed_step_takes_over_where_the_old_one_was_stopped(plain):
    # The same arithmetic in another function: compiled anew, memory and moments kept.
    def same_step(params, opt, x, y, lr):
        return step(params, opt, x, y, lr)

    run = new_run()
    data, val = rows(60), rows(9, seed=1)
    watch = at("BATCH_END", lambda event: run.stop() if event.batch == 4 else None)
    wb.fit(run, [watch], data, val, step, measure)
    wb.fit(run, [], data, val, same_step, measure)
    assert same_bits(plain, run)


def test_a_cell_that_is_run_twice_trains_twice_from_the_beginning():
    def cell():
        run = new_run(2)
        wb.fit(run, [], rows(60), None, step)
        return run

    assert same_bits(cell(), cell())


def test_every_batch_of_a_sweep_is_run_once_whatever_is_asked_of_it(plain):
    program = next(iter(plain.edits.programs.steps.values()))
    sweep = program.sweep
    assert isinstance(sweep, Sweep)
    assert [sweep.rows_of(batch) for batch in range(sweep.batches)] == [8] * 7 + [4]
    assert sweep.weights(6, 8).tolist() == [8.0, 4.0]

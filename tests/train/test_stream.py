"""Training on batches that come as a stream."""

import threading
import time

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, leaves, measure, new_run, perceptron, rows, same_bits, step
from workbench.data.stream import Stream
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.feed import Feed
from workbench.train.stream_sweep import StreamSweep

N, SIZE = 48, 8
DATA = rows(N)
PATIENCE_S = 20.0


def batches_of(data, epoch, start, *, seed=7):
    """Yield the batches that a run over ``data`` would draw."""
    order = wb.data.row_order(data.n, seed=seed, epoch=epoch)
    for batch in range(start, data.n // SIZE):
        chosen = order[batch * SIZE : (batch + 1) * SIZE]
        yield data.x[chosen], data.y[chosen]


def stream(source=None, *, size=SIZE, steps=N // SIZE):
    def batches(epoch, start):
        return batches_of(DATA, epoch, start)

    return Stream(source or batches, batch_size=size, steps_per_epoch=steps)


def plain(epochs=3, **options):
    run = new_run(epochs, **options)
    wb.fit(run, [], DATA, rows(9, seed=1), step, measure)
    return run


def threads():
    return [t for t in threading.enumerate() if t.name == "wb-stream"]


def wait_until(condition):
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "it never came to pass"
        time.sleep(0.001)


def test_a_stream_of_the_same_batches_trains_to_the_same_bits():
    run = new_run()
    wb.fit(run, [], stream(), rows(9, seed=1), step, measure)
    assert same_bits(run, plain())
    assert run.history.column("val_loss").tolist() == plain().history.column("val_loss").tolist()
    assert (run.state.rows, run.state.batches) == (N, 6)


def test_a_ring_smaller_than_the_epoch_goes_round(monkeypatch):
    monkeypatch.setattr("workbench.train.feed._MOST_PLACES", 4)
    run = new_run()
    wb.fit(run, [], stream(), None, step)
    sweep = next(iter(run.edits.programs.steps.values())).sweep
    assert isinstance(sweep, StreamSweep)
    assert sweep.feed.places == 4
    assert same_bits(run, plain())


def test_the_ring_is_bounded_by_bytes():
    x = np.zeros((4, 1 << 20), np.float32)

    def large(epoch, start):
        for _ in range(start, 100):
            yield x, np.zeros(4, np.int64)

    feed = Feed(Stream(large, batch_size=4, steps_per_epoch=100), lambda *_: None)
    assert feed.places == 3


def test_the_source_is_read_ahead_but_no_further_than_the_ring(monkeypatch):
    monkeypatch.setattr("workbench.train.feed._MOST_PLACES", 3)
    made, seen = [], []

    def batches(epoch, start):
        for batch in range(start, 30):
            made.append(batch)
            yield DATA.x[:SIZE], DATA.y[:SIZE]

    def look(event):
        if event.batch == 5:
            wait_until(lambda: made[-1] >= 7)
            time.sleep(0.05)
            seen.append(made[-1])

    run = new_run(1)
    wb.fit(run, [at("BATCH_BEGIN", look)], stream(batches, steps=30), None, step)
    # Batch 4 can be looked at still, 5 and 6 lie ready, and one more may have been asked for.
    assert seen == [7]
    assert made[-1] == 29


def test_batches_with_hooks_and_schedules_are_the_same():
    def rate(at_step):
        return 0.01 / (1 + at_step)

    runs = []
    for train in (DATA, stream()):
        run = new_run()
        watch = at("BATCH_END", lambda event: None)
        wb.fit(run, [watch, wb.StepSchedule(rate)], train, None, step)
        runs.append(run)
    assert same_bits(*runs)


def test_accumulation_knows_the_end_of_a_streamed_epoch():
    runs = []
    for train in (DATA, stream()):
        params = perceptron(5, 6, 3)
        config = wb.Config(3, SIZE, 0.01, 7, verbose=False, accum_steps=4)
        run = wb.Run(params, wb.adam(params), config, context=wb.Context.cpu(2))
        wb.fit(run, [], train, None, step)
        runs.append(run)
    left, right = (run.params for run in runs)
    assert all(np.array_equal(a["w"], b["w"]) for a, b in zip(left, right, strict=True))
    assert runs[0].state.global_step == runs[1].state.global_step == 6


@pytest.mark.parametrize("places", [2, 64])
def test_a_run_stopped_after_every_batch_asks_for_the_next_one_and_ends_with_the_same_bits(
    places, monkeypatch
):
    monkeypatch.setattr("workbench.train.feed._MOST_PLACES", places)
    asked = []

    def batches(epoch, start):
        asked.append((epoch, start))
        return batches_of(DATA, epoch, start)

    run, train = new_run(2), stream(batches)
    watch = at("BATCH_END", lambda event: run.stop())
    while run.status != "completed":
        wb.fit(run, [watch], train, None, step)
    # The first call is for an example.
    assert asked == [(0, 0)] + [(epoch, start) for epoch in range(2) for start in range(6)]
    assert same_bits(run, plain(2))
    assert not threads()


def test_a_checkpoint_within_an_epoch_is_gone_on_with_from_its_batch(tmp_path):
    first, second = new_run(), new_run()
    stop = at("BATCH_END", lambda event: first.stop() if event.state.global_step == 8 else None)
    wb.fit(first, [stop], stream(), None, step)
    file = save_checkpoint(first, tmp_path / "run.safetensors")
    restore(second, file, train=stream())
    wb.fit(second, [], stream(), None, step)
    assert same_bits(second, plain())


def test_weights_may_come_with_the_rows():
    def batches(epoch, start):
        for x, y in batches_of(DATA, epoch, start):
            yield x, y, np.full(SIZE, 2.0)

    def weighted(params, opt, x, y, lr, weights):
        def loss(params, x, y, weights):
            out = wb.relu(x @ params[0]["w"] + params[0]["b"]) @ params[1]["w"] + params[1]["b"]
            return (wb.cross_entropy_rows(out, y) * weights).sum() / weights.sum()

        return wb.default_step(params, opt, x, y, lr, loss, weights=weights)

    run, other = new_run(), plain()
    wb.fit(run, [], stream(batches), None, weighted)
    for a, b in zip(leaves(run), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    with refused(wb.DataError, "no parameter `weights`"):
        wb.fit(new_run(), [], stream(batches), None, step)


def test_a_step_may_leave_the_targets_alone():
    def only_x(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, lambda p, x, y: (x @ p[0]["w"]).mean())

    run = new_run(1)
    with pytest.warns(wb.UnreachedParameterWarning):
        wb.fit(run, [], stream(), None, only_x)
    assert run.status == "completed"


# -- what goes wrong


@pytest.mark.parametrize("fails_at", [0, 4])
def test_a_source_that_raises_ends_the_run_with_its_error_and_leaves_it_usable(fails_at):
    broken = True

    def batches(epoch, start):
        for number, batch in enumerate(batches_of(DATA, epoch, start), start):
            if broken and (epoch, number) == (1, fails_at):
                raise OSError("the disk is gone")
            yield batch

    run, train = new_run(), stream(batches)
    with pytest.raises(OSError, match="the disk is gone"):
        wb.fit(run, [], train, None, step)
    assert run.status == "failed"
    assert run.state.global_step == 6 + fails_at  # what came before it was learned
    assert not threads()
    broken = False
    wb.fit(run, [], train, None, step)
    assert run.status == "completed"
    assert same_bits(run, plain())


def test_an_error_in_the_background_is_raised_where_somebody_waits():
    def batches(epoch, start):
        yield from list(batches_of(DATA, epoch, start))[: 6 if epoch == 0 and not begun else 2]

    begun = []
    run = new_run()
    run.start([at("RUN_BEGIN", begun.append)], stream(batches), None, step)
    with refused(wb.DataError, "ended after 2 of 6 batches in epoch 0"):
        run.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ((DATA.x[:7], DATA.y[:7]), "x of batch 3 of epoch 0 has 7 rows, and every batch has 8"),
        ((DATA.x[:8], DATA.y[:7]), "y of batch 3 of epoch 0 has 7 rows"),
        ((DATA.x[:8, :4], DATA.y[:8]), "batch 3 of epoch 0 is x float32 (4,), y int64 ()"),
        ((DATA.x[:8], DATA.y[:8] * 0.5), "y float32 (); the first batch was"),
        ((DATA.x[:8], DATA.y[:8] + 5), "in batch 3 of epoch 0, y[0] is"),
        ((DATA.x[:8],), "is a `tuple`, not a pair"),
        (DATA.x[:8], "is a `ndarray`, not a pair"),
        ((DATA.x[:8], DATA.y[:8], np.full(8, -1.0)), "weights of batch 3 of epoch 0 are not all"),
        ((np.full((8, 5), "a"), DATA.y[:8]), "x of batch 3 of epoch 0 has dtype"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_by_its_number(batch, text):
    def batches(epoch, start):
        for number in range(start, 6):
            yield batch if number == 3 else (DATA.x[:8], DATA.y[:8])

    run = new_run()
    with refused(wb.DataError, text):
        wb.fit(run, [], stream(batches), None, step)
    assert run.state.global_step == 3


def test_a_stream_without_batches_is_refused():
    with refused(wb.DataError, "yields no batch"):
        wb.fit(new_run(), [], stream(lambda epoch, start: []), None, step)


def test_settings_that_a_stream_has_no_use_for_are_refused():
    with refused(wb.ConfigurationError, "batch_size is 5", "have 8 rows"):
        wb.fit(new_run(batch_size=5), [], stream(), None, step)
    with refused(wb.ConfigurationError, "steps_per_epoch is 5", "has 6"):
        wb.fit(new_run(steps_per_epoch=5), [], stream(), None, step)
    with refused(wb.ConfigurationError, "validation_split is 0.2"):
        wb.fit(new_run(validation_split=0.2), [], stream(), None, step)
    with refused(wb.ConfigurationError, "row_order is given"):
        wb.fit(new_run(), [], stream(), None, step, row_order=lambda epoch: np.arange(N))
    with refused(wb.ConfigurationError, "`batch_size` must be an integer of at least 1, got 0"):
        stream(size=0)


# -- stop and pause


def gated(limit):
    """Return a stream that yields ``limit`` batches and then waits, and what lets it go on."""
    go = threading.Event()

    def batches(epoch, start):
        for number, batch in enumerate(batches_of(DATA, epoch, start), start):
            if number >= limit and epoch == 0:
                go.wait(PATIENCE_S)
            yield batch

    return stream(batches), go


def test_stop_ends_the_wait_for_a_slow_source():
    train, go = gated(2)
    run = new_run()
    run.start([], train, None, step)
    wait_until(lambda: run.state.global_step == 2)
    began = time.monotonic()
    run.stop()
    run.wait(PATIENCE_S)
    assert time.monotonic() - began < 1.0
    assert (run.status, run.state.global_step) == ("stopped", 2)
    go.set()
    wait_until(lambda: not threads())
    wb.fit(run, [], train, None, step)
    assert same_bits(run, plain())


def test_pausing_while_a_slow_source_is_waited_for():
    train, go = gated(2)
    run = new_run()
    run.start([], train, None, step)
    wait_until(lambda: run.state.global_step == 2)
    run.pause()
    wait_until(lambda: run.status == "paused")
    go.set()
    time.sleep(0.05)
    assert run.state.global_step == 2
    run.resume()
    run.wait(PATIENCE_S)
    assert same_bits(run, plain())


def test_a_run_that_waits_for_its_source_can_be_looked_at():
    train, go = gated(2)
    run = new_run()
    run.start([], train, None, step)
    wait_until(lambda: run.state.global_step == 2)
    assert 0.0 < wb.evaluate(run, DATA, measure)["loss"] < 10.0
    assert run.params[0]["w"].shape == (5, 6)
    go.set()
    run.wait(PATIENCE_S)


def test_a_generator_is_closed_when_its_epoch_is_over():
    closed = []

    def batches(epoch, start):
        try:
            while True:  # goes on after the epoch's last batch
                yield DATA.x[:8], DATA.y[:8]
        finally:
            closed.append(epoch)

    wb.fit(new_run(2), [], stream(batches), None, step)
    assert closed == [0, 0, 1]  # the example, and two epochs
    assert not threads()


def test_a_stream_shows_itself():
    shown = stream()
    assert repr(shown) == "Stream: 6 batches of 8 rows"
    assert shown.names == ("x", "y")
    assert repr(shown) == "Stream: 6 batches of 8 rows, x float32 (5,), y int64 ()"

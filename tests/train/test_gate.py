"""The gate between the loop and those who look, and the words that others ask with."""

import threading
import time

import numpy as np
import pytest

from workbench.train.controls import Controls
from workbench.train.gate import Gate

PATIENCE_S = 20.0


def test_nobody_looks_while_a_batch_runs_and_no_batch_runs_while_somebody_looks():
    gate, inside, wrong, over = Gate(), {"running": 0, "visiting": 0}, [], time.monotonic() + 0.3

    def enter(name, other, hold):
        while time.monotonic() < over:
            with hold():
                inside[name] += 1
                if inside[other]:
                    wrong.append((name, dict(inside)))
                time.sleep(0.0001)
                inside[name] -= 1
            time.sleep(0.0001)

    threads = [
        threading.Thread(target=enter, args=("running", "visiting", gate.running)),
        threading.Thread(target=enter, args=("visiting", "running", gate.visiting)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wrong == []


def test_several_may_look_at_once_and_one_may_look_twice():
    gate = Gate()
    with gate.visiting(), gate.visiting():
        done = threading.Event()

        def look():
            with gate.visiting():
                done.set()

        threading.Thread(target=look).start()
        assert done.wait(PATIENCE_S)


def test_a_visitor_does_not_starve_while_batches_follow_each_other():
    gate, stop, waits = Gate(), threading.Event(), []

    def train():
        while not stop.is_set():
            with gate.running():
                time.sleep(0.01)

    trainer = threading.Thread(target=train)
    trainer.start()
    for _ in range(10):
        began = time.monotonic()
        with gate.visiting():
            waits.append(time.monotonic() - began)
    stop.set()
    trainer.join(PATIENCE_S)
    assert max(waits) < 1.0


def test_a_fault_inside_leaves_the_gate_open():
    gate = Gate()
    for hold in (gate.running, gate.visiting):
        with pytest.raises(KeyError), hold():
            raise KeyError("inside")
        with gate.running():
            pass
        with gate.visiting():
            pass


def test_requests_set_the_words_of_all_that_are_attached():
    controls, words = Controls(), [np.zeros(8, np.int64) for _ in range(2)]
    for word in [*words, words[0]]:
        controls.attach(word)
    controls.pause()
    assert [word[0] for word in words] == [1, 1]
    assert controls.is_paused
    controls.resume()
    assert [word[0] for word in words] == [0, 0]
    controls.request_stop("batch")
    assert [word[0] for word in words] == [1, 1]
    controls.clear()
    assert [word[0] for word in words] == [0, 0]
    controls.detach()
    controls.request_stop("batch")
    assert [word[0] for word in words] == [0, 0]


def test_attaching_forgets_an_old_request_and_heeds_a_new_one():
    controls, word = Controls(), np.ones(8, np.int64)
    controls.attach(word)
    assert word[0] == 0
    for ask in (controls.pause, controls.request_stop):
        fresh = np.zeros(8, np.int64)
        ask()
        controls.attach(fresh)
        assert fresh[0] == 1


def test_the_first_reason_is_kept_and_the_nearer_end_wins():
    controls = Controls()
    controls.request_stop("epoch", "one")
    assert (controls.stops_now, controls.stops_after_epoch) == (False, True)
    controls.request_stop("batch", "two")
    controls.request_stop("epoch", "three")
    assert (controls.stops_now, controls.reason) == (True, "one")


@pytest.mark.parametrize("after", ["batch", "epoch"])
def test_a_stop_ends_a_pause(after):
    controls, word = Controls(), np.zeros(8, np.int64)
    controls.attach(word)
    controls.pause()

    def wait():
        while controls.is_paused:
            controls.wait_in_pause()
        controls.calm()

    waiting = threading.Thread(target=wait)
    waiting.start()
    controls.request_stop(after)
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert not controls.is_paused
    # After an epoch there are batches left to run; after this batch there are none.
    assert word[0] == (after == "batch")

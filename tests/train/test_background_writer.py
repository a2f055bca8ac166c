import threading
import time
from itertools import pairwise

import pytest

from workbench.errors import DataError
from workbench.train.background_writer import BackgroundWriter


@pytest.fixture
def writer():
    made = BackgroundWriter()
    yield made
    made.wait()


def test_jobs_are_done_in_their_order_by_another_thread(writer):
    done = []
    for number in range(5):
        writer.submit(lambda n=number: done.append((n, threading.current_thread().name)))
    writer.wait()
    assert done == [(number, "wb-write") for number in range(5)]


def test_of_one_name_the_last_is_done_and_those_in_between_are_given_up(writer):
    begun, hold, done = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        hold.wait(10.0)

    writer.submit(first, name="file")
    begun.wait(10.0)
    for number in range(100):
        writer.submit(lambda n=number: done.append(n), name="file")
    hold.set()
    writer.wait()
    assert done == [99]


def test_a_file_is_never_ahead_of_one_that_was_submitted_before_it(writer):
    # The latest checkpoint knows of the best file: written first, and the process killed, it would
    # tell of a file that is not there.
    begun, hold, done = threading.Event(), threading.Event(), []

    def first():
        begun.set()
        hold.wait(10.0)

    writer.submit(first)
    begun.wait(10.0)
    for name, number in (("latest", 9), ("best", 10), ("latest", 10)):
        writer.submit(lambda n=name, k=number: done.append((n, k)), name=name)
    hold.set()
    writer.wait()
    assert done == [("best", 10), ("latest", 10)]


def test_a_name_is_begun_ten_times_a_second_at_most(writer):
    begun = []
    end = time.monotonic() + 0.35
    while time.monotonic() < end:
        writer.submit(lambda: begun.append(time.monotonic()), name="file")
        time.sleep(0.002)
    writer.wait()
    # The last one was hurried.
    gaps = [later - earlier for earlier, later in pairwise(begun[:-1])]
    assert 2 <= len(begun) <= 5
    assert min(gaps) >= 0.099


def test_two_names_do_not_wait_for_each_other(writer):
    begun = {}
    for name in ("a", "b"):
        writer.submit(lambda n=name: begun.setdefault(n, time.monotonic()), name=name)
    while len(begun) < 2:
        time.sleep(0.001)
    assert abs(begun["a"] - begun["b"]) < 0.09


def test_waiting_does_not_pause(writer):
    done = []
    writer.submit(lambda: done.append(1), name="file")
    while not done:
        time.sleep(0.001)
    began = time.monotonic()
    writer.submit(lambda: done.append(2), name="file")
    writer.wait()
    assert done == [1, 2]
    assert time.monotonic() - began < 0.09


def test_where_too_many_wait_so_does_who_submits(writer):
    hold, done = threading.Event(), []
    writer.submit(lambda: hold.wait(10.0))
    threading.Timer(0.05, hold.set).start()
    for number in range(6):
        writer.submit(lambda n=number: done.append(n))
    # The last ones could only be taken on after the first ones were begun.
    assert hold.is_set()
    writer.wait()
    assert done == list(range(6))


def test_what_went_wrong_is_told_once_and_the_next_job_is_done(writer):
    def fail():
        raise DataError("no room", remedy="make room")

    def break_():
        raise ZeroDivisionError

    done = []
    writer.submit(fail)
    writer.submit(lambda: done.append(1))
    writer.wait()
    (fault,) = writer.take_faults().values()
    assert fault is not None
    assert fault.problem == "no room"
    assert not writer.take_faults()
    assert done == [1]
    writer.submit(break_)
    writer.wait()
    (fault,) = writer.take_faults().values()
    assert fault is not None
    assert "ZeroDivisionError" in fault.problem


def test_in_the_foreground_a_job_is_done_at_once():
    writer, done = BackgroundWriter(in_background=False), []
    writer.submit(lambda: done.append(threading.current_thread()), name="file")
    assert done == [threading.current_thread()]


def test_no_thread_is_left_after_waiting(writer):
    writer.submit(lambda: None)
    writer.wait()
    assert not [t for t in threading.enumerate() if t.name == "wb-write"]
    writer.submit(lambda: None)
    writer.wait()

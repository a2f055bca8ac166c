"""Orders of the rows, made by the loop or ahead of it: the same ones."""

import threading

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import at, new_run, rows, same_bits, step
from workbench.data.batch import row_order
from workbench.train import row_orders
from workbench.train.row_orders import RowOrders

N = 12_000


def made(orders, passes):
    found = []
    for number in passes:
        into = np.zeros(orders.rows, np.int64)
        orders.write_pass(number, into, go_on=True)
        found.append(into)
    return found


@pytest.mark.parametrize("passes", [(0, 1, 2, 3), (5, 6, 6, 7), (3, 9, 2, 0)])
def test_orders_made_ahead_are_those_of_their_pass_whatever_is_asked_for(passes):
    orders = RowOrders(N, seed=7, shuffle=True, given=None)
    found = made(orders, passes)
    orders.close()
    for number, order in zip(passes, found, strict=True):
        expected = row_order(N, seed=7, epoch=number, shuffle=True)
        assert np.array_equal(order, expected)


def test_parts_of_an_endless_sequence_follow_one_another():
    orders = RowOrders(N, seed=7, shuffle=True, given=None)
    parts = []
    for first in range(0, 3 * N, 4_500):
        into = np.zeros(4_500, np.int64)
        orders.write_part(first, into)
        parts.append(into)
    orders.close()
    whole = np.concatenate([row_order(N, seed=7, epoch=e, shuffle=True) for e in range(3)])
    assert np.array_equal(np.concatenate(parts)[: 3 * N], whole)


def ahead():
    return {thread for thread in threading.enumerate() if thread.name == "wb-order"}


@pytest.fixture(autouse=True)
def _alone():
    # Threads that were told to end may take a moment on a busy machine.
    for thread in ahead():
        thread.join(30)
    yield
    for thread in ahead():
        thread.join(30)
    assert not ahead()


def test_few_rows_and_given_orders_need_no_thread_and_none_is_left_at_the_end():
    few = RowOrders(100, seed=7, shuffle=True, given=None)
    own = RowOrders(N, seed=7, shuffle=True, given=lambda number: np.arange(N))
    made(few, (0, 1))
    made(own, (0, 1))
    assert not ahead()
    many = RowOrders(N, seed=7, shuffle=True, given=None)
    made(many, (0, 1))
    (thread,) = ahead()
    many.close()
    many.close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("left_after", [None, 1, 3])
def test_a_run_learns_the_same_bits_whoever_makes_its_orders(monkeypatch, left_after):
    plain = new_run(3)
    wb.fit(plain, [], rows(40), None, step)
    monkeypatch.setattr(row_orders, "_WORTH_A_THREAD", 1)
    run = new_run(3)
    if left_after is not None:
        seen = at("BATCH_END", lambda event: run.stop() if event.batch == left_after else None)
        wb.fit(run, [seen], rows(40), None, step)
        assert run.status == "stopped"
    wb.fit(run, [], rows(40), None, step)
    assert same_bits(plain, run)

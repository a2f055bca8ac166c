"""Batches: their number, their ends, and the order of the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data import batch_count, batch_end, row_order
from workbench.errors import ConfigurationError
from workbench.seeds import epoch_seed, permutation


@pytest.mark.parametrize(
    ("n", "batch", "count"), [(10, 4, 3), (12, 4, 3), (1, 4, 1), (0, 4, 0), (23, 5, 5)]
)
def test_batches_are_counted_with_the_short_last_one(n, batch, count):
    assert batch_count(n, batch) == count


def test_the_last_batch_ends_with_the_rows():
    assert [batch_end(10, 4, number) for number in range(3)] == [4, 8, 10]


@given(st.integers(0, 300), st.integers(1, 50))
def test_the_batches_cover_every_row_once(n, batch):
    covered = [
        row
        for number in range(batch_count(n, batch))
        for row in range(number * batch, batch_end(n, batch, number))
    ]
    assert covered == list(range(n))


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_of_less_than_one_row_is_refused(batch):
    for ask in (lambda: batch_count(10, batch), lambda: batch_end(10, batch, 0)):
        with pytest.raises(ConfigurationError, match=f"`batch` must be .*, got {batch}") as caught:
            ask()
        assert "at least 1" in caught.value.remedy


@pytest.mark.parametrize("number", [-1, 3])
def test_a_batch_that_does_not_exist_is_refused(number):
    with pytest.raises(ConfigurationError, match=f"no batch {number}: 10 rows in batches of 4"):
        batch_end(10, 4, number)


def test_a_negative_number_of_rows_is_refused():
    for ask in (lambda: batch_count(-1, 4), lambda: row_order(-1, seed=0, epoch=0, shuffle=False)):
        with pytest.raises(
            ConfigurationError, match="`n` must be an integer of at least 0, got -1"
        ):
            ask()


def test_without_shuffling_the_rows_keep_their_order():
    order = row_order(5, seed=3, epoch=0, shuffle=False)
    assert order.tolist() == [0, 1, 2, 3, 4]
    assert order.dtype == np.int64


def test_shuffled_rows_follow_the_seed_of_their_epoch():
    assert (row_order(40, seed=3, epoch=1) == permutation(epoch_seed(3, 1), 40)).all()


def test_every_epoch_has_its_own_order():
    orders = {tuple(row_order(20, seed=3, epoch=epoch).tolist()) for epoch in range(10)}
    assert len(orders) == 10

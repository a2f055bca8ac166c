"""Splitting: seeded, disjoint, and never into nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data import Dataset, split
from workbench.errors import ConfigurationError, DataError
from workbench.seeds import derive, permutation


def rows(n):
    return Dataset(np.arange(n, dtype=np.float32)[:, None], np.arange(n), source="counted")


def test_the_larger_part_leaves_one_row_held_out():
    train, held_out = split(rows(4), 0.999, seed=11)
    assert (train.n, held_out.n) == (3, 1)


def test_the_smaller_part_gets_one_row_to_train_on():
    train, held_out = split(rows(4), 0.0001, seed=11)
    assert (train.n, held_out.n) == (1, 3)


def test_one_seed_splits_alike_and_another_differently():
    first, again, other = (split(rows(6), 0.5, seed=seed)[0].y.tolist() for seed in (42, 42, 43))
    assert first == again
    assert first != other


@given(st.integers(2, 60), st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(0, 9))
def test_every_row_lands_in_one_part_with_its_label(n, fraction, seed):
    train, held_out = split(rows(n), fraction, seed=seed)
    assert train.n == min(max(int(n * fraction), 1), n - 1)
    assert sorted([*train.y.tolist(), *held_out.y.tolist()]) == list(range(n))
    assert (train.x[:, 0] == train.y).all()


def test_the_order_is_that_of_the_seed_derived_for_splitting():
    train, held_out = split(rows(10), 0.7, seed=5)
    order = permutation(derive(5, "split"), 10)
    assert [*train.y.tolist(), *held_out.y.tolist()] == order.tolist()


def test_the_parts_keep_names_source_and_element_type():
    whole = Dataset([[0.1], [0.2]], [0, 1], names=("a", "b"), source="here", dtype=np.float64)
    for part in split(whole, 0.5, seed=0):
        assert (part.names, part.source, part.x.dtype) == (("a", "b"), "here", np.float64)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, 1.5, float("nan")])
def test_a_fraction_that_is_not_inside_0_and_1_is_refused(fraction):
    with pytest.raises(ConfigurationError, match=f"`fraction` must .* got {fraction}") as caught:
        split(rows(4), fraction, seed=0)
    assert "0.8" in caught.value.remedy


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_cannot_be_split(n):
    with pytest.raises(DataError, match=f"{n} rows cannot be split"):
        split(rows(n), 0.5, seed=0)

"""Seeds and streams against their reference vectors, and as contracts."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import ConfigurationError
from workbench.seeds import derive, epoch_seed, generator, mix, permutation

VECTORS = json.loads((Path(__file__).parent / "oracles" / "rng.json").read_text())
WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
words = st.integers(-(1 << 63), WORD)


@pytest.mark.parametrize(("z", "mixed"), VECTORS["mix"])
def test_mix_agrees_with_the_reference(z, mixed):
    assert mix(z) == mixed


@pytest.mark.parametrize(("base", "epoch", "seed"), VECTORS["epoch_seed"])
def test_epoch_seeds_agree_with_the_reference(base, epoch, seed):
    assert epoch_seed(base, epoch) == seed


@pytest.mark.parametrize(("base", "tag", "seed"), VECTORS["derive"])
def test_derived_seeds_agree_with_the_reference(base, tag, seed):
    assert derive(base, tag) == seed


def test_mix_is_the_output_function_of_plain_splitmix64():
    stream = [mix((GOLDEN * turn) & WORD) & WORD for turn in (1, 2, 3)]
    assert stream == VECTORS["stream_seed0"]


@given(words)
def test_signed_and_unsigned_readings_of_a_word_are_one_seed(z):
    other = z + (1 << 64) if z < 0 else z - (1 << 64) if z > WORD >> 1 else z
    assert (mix(z), derive(z, "init"), epoch_seed(z, 2)) == (
        mix(other),
        derive(other, "init"),
        epoch_seed(other, 2),
    )


@given(words, words)
def test_mix_is_a_bijection_of_words(a, b):
    assert (mix(a) == mix(b)) == ((a - b) % (1 << 64) == 0)


@given(words, st.integers(0, (1 << 63) - 1), st.text())
def test_seeds_are_never_negative_and_fit_in_63_bits(base, epoch, tag):
    assert 0 <= epoch_seed(base, epoch) < 1 << 63
    assert 0 <= derive(base, tag) < 1 << 63


def test_adjacent_words_mix_to_distinct_ones():
    assert len({mix(z) for z in range(64)}) == 64


def test_epochs_bases_and_tags_all_change_the_seed():
    assert epoch_seed(3, 0) != epoch_seed(3, 1)
    assert epoch_seed(3, 0) != epoch_seed(4, 0)
    assert derive(3, "init") != derive(3, "split")
    assert derive(0, "init") != epoch_seed(0, 0)
    assert abs(epoch_seed(1000, 3) - epoch_seed(1000, 4)) > 1_000_000
    assert all(epoch_seed(-7919, epoch) >= 0 for epoch in range(64))


def test_numpy_integers_are_seeds_like_any_other():
    assert mix(np.int64(-1)) == mix(np.uint64(WORD)) == mix(-1)


@pytest.mark.parametrize("wide", [1 << 64, -(1 << 63) - 1])
def test_a_seed_of_more_than_64_bits_is_refused_rather_than_cut(wide):
    with pytest.raises(ConfigurationError, match=f"`base` must be .*64 bits, got {wide}") as caught:
        derive(wide, "init")
    assert "2**64" in caught.value.remedy


@pytest.mark.parametrize("value", [1.0, "1", None])
def test_a_seed_that_is_not_an_integer_is_refused(value):
    with pytest.raises(ConfigurationError, match=r"`base` must be an integer of 64 bits, got "):
        epoch_seed(value, 0)


def test_a_negative_epoch_is_refused():
    with pytest.raises(ConfigurationError, match=r"must be a count from 0 .*, got -1"):
        epoch_seed(3, -1)


@given(words, st.integers(0, 200))
def test_a_permutation_holds_every_row_once(seed, n):
    order = permutation(seed, n)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


def test_a_permutation_is_the_same_every_time_and_owns_its_memory():
    first, again = permutation(42, 1000), permutation(42, 1000)
    first[0] = -1
    assert (first[1:] == again[1:]).all()
    assert again[0] != -1


def test_permutations_are_pinned_to_these_orders():
    # Raw Philox output is stable across numpy releases and machines, hence so are these.
    assert permutation(0, 8).tolist() == [0, 2, 1, 5, 4, 3, 6, 7]
    assert permutation(-7919, 8).tolist() == [2, 5, 0, 1, 3, 6, 7, 4]


@given(st.integers(0, WORD), st.integers(0, 60))
def test_a_permutation_orders_rows_by_the_raw_stream_of_its_seed(seed, n):
    low = (1 << max(n - 1, 0).bit_length()) - 1
    drawn = np.random.Philox(key=seed).random_raw(n)
    keys = [(int(word) & ~low & WORD) | row for row, word in enumerate(drawn)]
    assert permutation(seed, n).tolist() == [key & low for key in sorted(keys)]


def test_permutations_of_other_seeds_differ():
    assert (permutation(42, 6) != permutation(43, 6)).any()


def test_every_order_of_four_rows_is_equally_likely():
    seeds = 4800
    orders, counts = np.unique(
        [permutation(seed, 4) for seed in range(seeds)], axis=0, return_counts=True
    )
    chi_square = float(((counts - seeds / 24) ** 2 / (seeds / 24)).sum())
    assert len(orders) == 24
    assert chi_square < 49.7  # the 99.9 % point of chi-square with 23 degrees of freedom


@pytest.mark.parametrize("n", [-1, (1 << 32) + 1])
def test_a_permutation_of_an_impossible_number_of_rows_is_refused(n):
    with pytest.raises(ConfigurationError, match=f"`?n`? (is|must be .*, got) {n}"):
        permutation(0, n)


def test_a_generator_depends_on_each_part_of_its_address():
    draws = [
        generator(base, purpose, epoch=epoch, step=step).random()
        for base in (0, 1)
        for purpose in ("dropout", "noise")
        for epoch in (0, 1)
        for step in (0, 1)
    ]
    assert len(set(draws)) == 16


def test_a_generator_has_no_state_beyond_its_address():
    alone = generator(7, "noise", epoch=3, step=9).random(5)
    generator(7, "noise", epoch=3, step=8).random(1000)
    assert (generator(7, "noise", epoch=3, step=9).random(5) == alone).all()


def test_the_address_is_laid_out_as_documented():
    # Checkpoints rely on it: a stream must be found again by a later release.
    counter = np.array([0, 0, 9, 3], np.uint64)
    expected = np.random.Philox(key=derive(7, "noise"), counter=counter).random_raw(4)
    found = generator(7, "noise", epoch=3, step=9).bit_generator.random_raw(4)
    assert (found == expected).all()


def test_neighbouring_steps_do_not_overlap():
    first = generator(7, "noise", step=0).bit_generator.random_raw(4096)
    second = generator(7, "noise", step=1).bit_generator.random_raw(4096)
    assert not np.intersect1d(first, second).size


@pytest.mark.parametrize("address", [{"epoch": -1}, {"step": -1}])
def test_a_negative_position_is_refused(address):
    with pytest.raises(ConfigurationError, match=r"must be a count from 0 .*, got -1"):
        generator(0, "noise", **address)

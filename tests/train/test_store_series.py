import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.train.store_series import EXACT, Series


def _series(values, *, cut=1000):
    made = Series()
    for start in range(0, len(values), cut):
        made.extend(values[start : start + cut])
    return made


def _waves(count):
    steps = np.arange(count)
    return (np.sin(steps / 97) + steps % 7).astype(np.float32)


def test_a_short_series_is_exact():
    read = _series(_waves(500)).read()
    assert (read.first, read.width) == (0, 1)
    assert np.array_equal(read.mean, _waves(500))
    assert np.array_equal(read.least, read.greatest)


def test_the_latest_values_of_a_long_series_are_exact():
    values = _waves(1_000_000)
    read = _series(values).read(980_000, most=50_000)
    assert read.width == 1
    assert np.array_equal(read.mean, values[980_000:])


@given(
    count=st.integers(1, 200_000),
    cut=st.integers(1, 9000),
    most=st.integers(1, 3000),
    part=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_each_point_tells_the_least_and_greatest_of_its_values(count, cut, most, part):
    values = _waves(count)
    first, stop = sorted(int(each * count) for each in part)
    read = _series(values, cut=max(cut, count // 50)).read(first, stop, most=most)
    assert read.first <= first
    assert first - read.first < read.width
    for number in {0, len(read) // 2, len(read) - 1} if len(read) else ():
        begin = read.first + number * read.width
        covered = values[begin : begin + read.width]
        assert read.least[number] == covered.min()
        assert read.greatest[number] == covered.max()
    assert read.first + len(read) * read.width >= stop


@given(count=st.integers(1, 300_000), most=st.integers(16, 2000))
def test_no_more_points_are_given_than_were_asked_for(count, most):
    assert len(_series(_waves(count), cut=8000).read(most=most)) <= most + 2


def test_a_single_spike_is_seen_however_long_ago_it_was():
    values = np.zeros(3_000_000, np.float32)
    values[1234] = 77
    assert _series(values, cut=4096).read(most=100).greatest.max() == 77


def test_means_of_whole_points_are_those_of_their_values():
    values = _waves(1 << 18)
    read = _series(values).read(most=64)
    expected = values.reshape(-1, read.width).mean(axis=1)
    np.testing.assert_allclose(read.mean, expected, rtol=1e-5)


def test_memory_stays_the_same_however_long_the_series_becomes():
    made = Series()
    sizes = []
    for _ in range(20):
        made.extend(np.ones(500_000, np.float32))
        sizes.append(made.nbytes)
    assert max(sizes) < 1_000_000
    # A new level of 1 kB comes with each fourfold length.
    assert sizes[-1] - sizes[9] < 60_000


def test_what_is_not_finite_is_counted_and_leaves_the_rest_as_it_is():
    values = np.arange(10_000, dtype=np.float32)
    values[[4321, 4322, 9000]] = [np.nan, np.inf, -np.inf]
    made = _series(values)
    read = made.read(most=100)
    assert made.bad == 3
    assert np.isfinite(read.mean).all()
    assert read.greatest.max() == 9999
    assert np.isnan(made.read(4321, 4323).mean).all()


def test_a_stretch_without_any_finite_value_is_a_gap():
    made = _series(np.full(8192, np.nan, np.float32))
    assert np.isnan(made.read(most=10).mean).all()


@pytest.mark.parametrize("count", [0, 1])
def test_a_series_of_length(count):
    made = _series(np.full(count, 2.5, np.float32))
    assert len(made.read()) == count
    assert made.last == 2.5 or (count == 0 and np.isnan(made.last))


def test_very_great_and_very_small_values_stand_side_by_side():
    made = _series(np.array([1e30, 1e-30] * 5000, np.float32))
    read = made.read(most=10)
    assert read.greatest.max() == np.float32(1e30)
    assert read.least.min() == np.float32(1e-30)
    assert np.isfinite(read.mean).all()


def test_a_reader_beside_the_writer_never_sees_a_torn_stretch():
    made = Series()
    stop = threading.Event()
    faults = []

    def look():
        while not stop.is_set():
            for most in (100, 5000, EXACT):
                read = made.read(max(0, made.count - EXACT + 100), most=most)
                # Values count up, so each point is above the one before.
                if len(read) > 1 and not (np.diff(read.least) > 0).all():
                    faults.append(read)

    reader = threading.Thread(target=look)
    reader.start()
    for start in range(0, 4_000_000, 5000):
        made.extend(np.arange(start, start + 5000, dtype=np.float32))
    stop.set()
    reader.join()
    assert faults == []

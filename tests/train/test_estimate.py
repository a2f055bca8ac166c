"""The time left, from a clock that a test moves."""

import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.train.estimate import TimeEstimate, TimeLeft

EXACT = 1e-9


class Timed:
    """An estimate with a clock and counters of its own."""

    def __init__(self, done=0.0):
        self.estimate = TimeEstimate()
        self.done, self.now = done, 1000.0
        self.paused_s = self.validation_s = 0.0
        self.validations = 0
        self.feed()

    def feed(self):
        self.estimate.feed(
            self.done,
            self.now,
            paused_s=self.paused_s,
            validation_s=self.validation_s,
            validations=self.validations,
        )

    def work(self, *seconds, units=1.0):
        """Do ``units`` in each of these times, with a reading after each."""
        for taken in seconds:
            self.now += taken
            self.done += units
            self.feed()
        return self

    def pause(self, seconds):
        self.now += seconds
        self.paused_s += seconds
        return self

    def validate(self, seconds):
        self.now += seconds
        self.validation_s += seconds
        self.validations += 1
        return self

    def left(self, units, **options) -> Any:
        return self.estimate.left(units, **options)


def seconds(left):
    """The single number of an estimate that has one."""
    assert left is not None
    assert left.least_s == left.most_s
    return left.least_s


# -- blank until something is known


def test_nothing_done_gives_no_estimate():
    assert Timed().left(10) is None


def test_an_estimate_that_was_never_fed_is_blank():
    assert TimeEstimate().left(10) is None


def test_time_that_passes_without_work_gives_no_estimate():
    timed = Timed()
    timed.now += 60
    timed.feed()
    assert timed.left(10) is None


def test_epochs_of_another_process_give_no_estimate():
    assert Timed(done=10).left(10) is None


def test_a_single_unit_is_all_warming_up_and_gives_no_estimate():
    assert Timed().work(30.0).left(10) is None


def test_the_second_unit_gives_one():
    assert seconds(Timed().work(30.0, 2.0).left(10)) == 20.0


# -- resumed runs


def test_ten_resumed_epochs_and_two_in_four_seconds_leave_sixteen_of_twenty_not_three():
    left = Timed(done=10).work(2.0, 2.0).left(20 - 12)
    assert (seconds(left), str(left)) == (16.0, "16 s")


def test_the_same_from_a_single_reading_is_an_upper_bound():
    left = Timed(done=10).work(4.0, units=2).left(20 - 12)
    assert (seconds(left), left.bound) == (16.0, "at most")


@given(resumed=st.integers(0, 10**6), pace=st.floats(1e-6, 1e4), units=st.integers(2, 40))
def test_what_was_done_before_never_matters(resumed, pace, units):
    fresh, later = Timed(), Timed(done=resumed)
    for timed in (fresh, later):
        timed.work(*[pace] * units)
    assert seconds(later.left(100)) == pytest.approx(seconds(fresh.left(100)), rel=1e-6)


def test_a_run_set_back_to_an_earlier_checkpoint_goes_on_measuring():
    timed = Timed().work(1.0, 2.0, 2.0)
    timed.done = 0
    timed.feed()
    timed.work(2.0)
    assert seconds(timed.left(10)) == pytest.approx(20.0)


def test_going_back_costs_no_time():
    timed = Timed().work(1.0, 2.0)
    timed.now += 500
    timed.done = 0
    timed.feed()
    assert seconds(timed.work(2.0).left(10)) == pytest.approx(20.0)


def test_a_run_started_anew_forgets_its_speed():
    timed = Timed().work(1.0, 2.0)
    timed.estimate.restart()
    timed.feed()
    assert timed.left(10) is None
    assert seconds(timed.work(9.0, 5.0).left(10)) == 50.0


# -- warming up


@pytest.mark.parametrize("compiling", [0.0, 1.0, 60.0, 3600.0])
def test_compiling_before_the_first_step_is_left_out(compiling):
    assert seconds(Timed().work(compiling + 1.0, *[1.0] * 5).left(100)) == pytest.approx(100.0)


def test_a_first_epoch_that_contains_compiling_gives_an_upper_bound_until_the_second():
    timed = Timed().work(30.0 + 10.0, units=10)
    first = timed.left(90)
    assert (seconds(first), first.bound) == (360.0, "at most")
    second = timed.work(10.0, units=10).left(80)
    assert (seconds(second), second.bound) == (80.0, "")


def test_a_first_step_faster_than_the_others_is_left_out_too():
    assert seconds(Timed().work(0.0, 3.0, 3.0).left(10)) == 30.0


# -- pauses


@pytest.mark.parametrize("paused", [1.0, 3600.0, 1e6])
def test_a_pause_is_left_out(paused):
    assert seconds(Timed().work(1.0, 2.0).pause(paused).work(2.0).left(10)) == pytest.approx(20.0)


def test_a_pause_while_warming_up_is_left_out():
    left = Timed().pause(100).work(20.0, units=10).left(10)
    assert (seconds(left), left.bound) == (20.0, "at most")


def test_a_pause_that_is_read_while_it_lasts_is_left_out():
    timed = Timed().work(1.0, 2.0)
    for _ in range(5):
        timed.pause(10)
        timed.feed()
    assert seconds(timed.work(2.0).left(10)) == pytest.approx(20.0)


def test_several_pauses_add_up():
    timed = Timed().work(1.0)
    for _ in range(4):
        timed.pause(7).work(2.0)
    assert seconds(timed.left(10)) == pytest.approx(20.0)


def test_an_estimate_asked_for_during_a_pause_is_the_one_from_before():
    timed = Timed().work(1.0, 2.0)
    before = timed.left(10)
    timed.pause(1000)
    timed.feed()
    assert timed.left(10) == before


def test_a_pause_reported_longer_than_the_time_that_passed_gives_no_negative_time():
    timed = Timed().work(1.0)
    timed.paused_s += 100
    assert seconds(timed.work(1.0).left(10)) == 0.0


# -- evaluations


def test_evaluations_are_taken_out_of_the_steps_and_counted_on_their_own():
    timed = Timed().work(1.0, 1.0).validate(5.0).work(1.0).validate(7.0).work(1.0)
    assert seconds(timed.left(10)) == pytest.approx(10.0)
    assert seconds(timed.left(10, validations=2)) == pytest.approx(22.0)


def test_an_evaluation_that_is_read_before_the_next_step_is_counted_once():
    timed = Timed().work(1.0, 1.0).validate(5.0)
    timed.feed()
    assert seconds(timed.work(1.0).left(10, validations=1)) == pytest.approx(15.0)


def test_evaluations_that_were_never_timed_make_a_lower_bound():
    left = Timed().work(1.0, 1.0).left(10, validations=3)
    assert (seconds(left), left.bound, str(left)) == (10.0, "at least", "at least 10 s")


def test_only_an_evaluation_being_left_is_an_estimate():
    timed = Timed().work(1.0, 1.0).validate(4.0).work(1.0)
    assert seconds(timed.left(0, validations=1)) == pytest.approx(4.0)


def test_evaluations_before_a_resume_are_not_counted():
    timed = Timed(done=10)
    timed.validations, timed.validation_s = 5, 500.0
    timed.estimate.restart()
    timed.feed()
    timed.work(1.0, 1.0).validate(2.0).work(1.0)
    assert seconds(timed.left(1, validations=1)) == pytest.approx(3.0)


# -- runs that may end early


def test_a_run_that_may_stop_takes_at_most_so_long():
    left = Timed().work(1.0, 2.0).left(10, may_stop=True)
    assert (left.bound, str(left)) == ("at most", "at most 20 s")


def test_a_bound_from_above_and_one_from_below_leave_about():
    left = Timed().work(1.0, 2.0).left(10, may_stop=True, validations=1)
    assert (left.bound, str(left)) == ("about", "about 20 s")


# -- steps of different length


def test_steps_that_vary_by_more_than_two_give_a_range():
    left = Timed().work(1.0, 1.0, 3.0).left(60)
    assert (left.least_s, left.most_s) == (60.0, 180.0)
    assert str(left) == "1 min to 3 min"


def test_steps_that_vary_by_two_or_less_give_their_mean():
    assert seconds(Timed().work(1.0, 1.0, 2.0).left(60)) == pytest.approx(90.0)


def test_a_range_that_may_end_early_is_its_upper_end():
    left = Timed().work(1.0, 1.0, 3.0).left(60, may_stop=True)
    assert str(left) == "at most 3 min"


def test_a_range_with_something_left_out_is_its_lower_end():
    left = Timed().work(1.0, 1.0, 3.0).left(60, validations=1)
    assert str(left) == "at least 1 min"


def test_long_and_short_steps_in_turn_are_as_predictable_as_their_mean():
    timed = Timed().work(1.0)
    for _ in range(200):
        timed.work(1.0, 3.0)
    assert seconds(timed.left(100)) == pytest.approx(200.0, rel=0.02)


def test_a_long_step_every_hundred_is_part_of_the_mean():
    # A checkpoint of ten seconds after each hundred steps of one second.
    timed = Timed().work(1.0)
    for step in range(1, 1001):
        timed.work(11.0 if step % 100 == 0 else 1.0)
    assert seconds(timed.left(1000)) == pytest.approx(1100.0, rel=0.02)


def test_just_after_a_long_step_the_estimate_does_not_jump():
    timed = Timed().work(1.0)
    for step in range(1, 500):
        timed.work(11.0 if step % 100 == 0 else 1.0)
    before = seconds(timed.left(1000))
    after = seconds(timed.work(11.0).left(1000))
    assert after == pytest.approx(before, rel=0.03)


def test_a_machine_that_became_three_times_slower_is_a_range_of_both():
    left = Timed().work(*[1.0] * 20, *[3.0] * 20).left(100)
    assert left.least_s == pytest.approx(100.0)
    assert left.most_s == pytest.approx(300.0)


def test_steps_too_short_for_the_clock_take_no_time():
    assert seconds(Timed().work(0.0, 0.0, 0.0).left(1000)) == 0.0


# -- a budget that changes while the run goes on


def test_more_epochs_take_more_time_at_the_same_speed():
    timed = Timed().work(1.0, 2.0, 2.0)
    assert seconds(timed.left(10)) == pytest.approx(20.0)
    assert seconds(timed.left(100)) == pytest.approx(200.0)


def test_fewer_epochs_than_are_done_leave_nothing():
    assert seconds(Timed().work(1.0, 2.0).left(-5, validations=-1)) == 0.0


def test_another_batch_size_is_blank_until_its_own_units_were_timed():
    timed = Timed().work(1.0, *[2.0] * 9)
    timed.estimate.restart()
    timed.feed()
    assert timed.left(10) is None
    # The first unit of the new size compiles again.
    timed.work(30.0)
    assert timed.left(10) is None
    timed.work(8.0)
    assert seconds(timed.left(10)) == pytest.approx(80.0)


# -- all of it at once


@given(
    pace=st.floats(1e-3, 100.0),
    portions=st.lists(st.integers(1, 50), min_size=2, max_size=60),
    pauses=st.lists(st.floats(0.0, 1e3), min_size=60, max_size=60),
)
def test_a_steady_run_is_estimated_exactly_however_it_is_read(pace, portions, pauses):
    timed = Timed(done=7)
    for units, paused in zip(portions, pauses, strict=False):
        timed.pause(paused).work(units * pace, units=units)
    assert seconds(timed.left(1000)) == pytest.approx(1000 * pace, rel=1e-6)


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=200))
def test_an_estimate_lies_between_the_fastest_and_the_slowest_step(times):
    left = Timed().work(1.0, *times).left(10)
    assert 10 * min(times) * (1 - EXACT) <= left.least_s <= left.most_s
    assert left.most_s <= 10 * max(times) * (1 + EXACT)


def test_memory_does_not_grow_with_the_run():
    timed = Timed().work(*[1.0] * 5000)
    assert len(timed.estimate._blocks) <= 16


def test_a_reading_costs_little():
    # Ten times what it takes: other programs come and go.
    estimate = TimeEstimate()
    steps = iter(range(10**9))
    each = min(timeit.repeat(lambda: estimate.feed(next(steps), 0.0), number=2000, repeat=5)) / 2000
    assert each < 20e-6


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (TimeLeft(16.0, 16.0), "16 s"),
        (TimeLeft(16.1, 16.2), "16 s"),
        (TimeLeft(100.0, 300.0), "1 min 40 s to 5 min"),
        (TimeLeft(100.0, 300.0, "about"), "about 1 min 40 s to 5 min"),
        (TimeLeft(0.0, 0.0), "under 1 s"),
    ],
)
def test_an_estimate_reads_as_people_say_it(left, text):
    assert str(left) == text

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusal import refused
from workbench.errors import ConfigurationError
from workbench.train.callbacks.budget_rate import BudgetRate
from workbench.train.callbacks.one_cycle import OneCycleRate
from workbench.train.callbacks.rate import ConstantRate, CosineRate, ExponentialRate, StepRate

DIGITS = 1e-9

# What a type checker would refuse before the test could.
ODD: Any = {"base": "fast", "every": 1.5, "course": "sine"}

KINDS = [
    ConstantRate(0.1),
    StepRate(0.1, 0.5, every=2, least=0.001, warmup=3),
    ExponentialRate(0.1, 0.9, warmup=2),
    CosineRate(0.1, 20, warmup=2),
    BudgetRate(0.1, 25, warmup=5, final_frac=0.1),
    OneCycleRate(0.1, 30),
]


@pytest.mark.parametrize(("epoch", "lr"), [(0, 0.1), (1, 0.1), (2, 0.05), (5, 0.025), (6, 0.0125)])
def test_a_step_rate_is_multiplied_after_each_so_many_epochs(epoch, lr):
    assert StepRate(0.1, 0.5, every=2)(epoch) == pytest.approx(lr, abs=DIGITS)


@pytest.mark.parametrize(("epoch", "lr"), [(0, 1.0), (3, 0.125)])
def test_an_exponential_rate_is_multiplied_at_each_epoch(epoch, lr):
    assert ExponentialRate(1.0, 0.5)(epoch) == lr


def test_an_exponential_rate_follows_its_table():
    rate = ExponentialRate(0.1, 0.9)
    expected = [0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049]
    assert [rate(epoch) for epoch in range(6)] == pytest.approx(expected, abs=DIGITS)


@pytest.mark.parametrize(("epoch", "lr"), [(0, 0.1), (10, 0.001), (5, 0.0505), (40, 0.001)])
def test_a_cosine_falls_to_its_least_rate_and_stays(epoch, lr):
    assert CosineRate(0.1, 10, least=0.001)(epoch) == pytest.approx(lr, abs=1e-6)


@pytest.mark.parametrize(("epoch", "lr"), [(0, 0.025), (2, 0.075), (3, 0.1)])
def test_a_warm_up_starts_above_zero_and_ends_at_the_base(epoch, lr):
    assert CosineRate(0.1, 10, warmup=3)(epoch) == pytest.approx(lr, abs=1e-12)


def test_a_rate_is_the_same_whatever_was_asked_before():
    rate = CosineRate(0.1, 20, warmup=2)
    first = rate(13)
    for epoch in (0, 19, 40, 13, 2):
        rate(epoch)
    assert rate(13) == first == CosineRate(0.1, 20, warmup=2)(13) == 0.032898992833716646


@pytest.mark.parametrize(
    ("epoch", "lr"),
    [
        (0, 0.0025),
        (1, 0.005),
        (2, 0.0075),
        (3, 0.01),
        (4, 0.0099925594),
        (10, 0.0096398209),
        (14, 0.0091267113),
        (31, 0.0052350163),
        (59, 0.0002074406),
        (60, 0.0002),
    ],
)
def test_a_cosine_with_warm_up_follows_its_table(epoch, lr):
    rate = CosineRate(0.01, 60, least=0.0002, warmup=3)
    assert rate(epoch) == pytest.approx(lr, abs=6e-11)


@pytest.mark.parametrize("horizon", [0, 2, 3])
def test_a_horizon_that_the_warm_up_swallows_leaves_the_base(horizon):
    rate = CosineRate(0.1, horizon, least=0.01, warmup=3)
    assert [rate(3), rate(50)] == [0.1, 0.1]


@pytest.mark.parametrize("kind", [StepRate(0.1, 0.5, every=1), ExponentialRate(0.1, 0.5)])
def test_a_least_rate_holds_after_the_warm_up_and_not_in_it(kind):
    bounded = type(kind)(
        **{n: getattr(kind, n) for n in ("base", "factor")},
        least=0.04,
        warmup=4,
        **({"every": 1} if isinstance(kind, StepRate) else {}),
    )
    assert bounded(0) == pytest.approx(0.02)
    assert [bounded(4), bounded(5), bounded(6)] == [0.1, 0.05, 0.04]


def test_a_constant_rate_is_constant():
    assert {ConstantRate(0.3)(position) for position in range(9)} == {0.3}


@pytest.mark.parametrize("rate", KINDS)
def test_a_rate_scales_with_its_base(rate):
    doubled = rate.with_base(0.2)
    # The least rate of a step rate is absolute.
    ratios = [doubled(p) / rate(p) for p in range(12)]
    assert ratios == pytest.approx([2.0] * 12)


@given(position=st.integers(0, 10**7), factor=st.floats(0.5, 1.5))
def test_powers_are_what_they_are_called_however_far_a_run_goes(position, factor):
    rate = ExponentialRate(1.0, factor)(position % 300)
    assert rate == pytest.approx(factor ** (position % 300), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ConstantRate(-0.1), "`base` must be a finite number of at least 0, got -0.1"),
        (
            lambda: ConstantRate(float("nan")),
            "`base` must be a finite number of at least 0, got nan",
        ),
        (
            lambda: ConstantRate(ODD["base"]),
            "`base` must be a finite number of at least 0, got 'fast'",
        ),
        (lambda: StepRate(0.1, 0.0, every=2), "`factor` must be a finite number above 0, got 0.0"),
        (lambda: StepRate(0.1, 0.5, every=0), "`every` must be an integer of at least 1, got 0"),
        (
            lambda: StepRate(0.1, 0.5, every=ODD["every"]),
            "`every` must be an integer of at least 1, got 1.5",
        ),
        (lambda: ExponentialRate(0.1, -1.0), "`factor` must be a finite number above 0, got -1.0"),
        (
            lambda: ExponentialRate(0.1, 0.5, least=-1.0),
            "`least` must be a finite number of at least 0, got -1.0",
        ),
        (lambda: CosineRate(0.1, -1), "`horizon` must be an integer of at least 0, got -1"),
        (
            lambda: CosineRate(0.1, 9, warmup=True),
            "`warmup` must be an integer of at least 0, got True",
        ),
        (lambda: BudgetRate(0.1, 0), "`total` must be an integer of at least 1, got 0"),
        (lambda: BudgetRate(0.1, 5, course=ODD["course"]), "course is 'sine'"),
        (
            lambda: BudgetRate(0.1, 5, final_frac=10),
            "`final_frac` must be a number from 0 to 1, got 10",
        ),
        (lambda: OneCycleRate(0.1, 5, rise=1.5), "`rise` must be a number from 0 to 1, got 1.5"),
        (
            lambda: OneCycleRate(0.1, 5, end_div=0),
            "`end_div` must be a finite number above 0, got 0",
        ),
    ],
)
def test_an_option_out_of_range_is_refused_naming_its_value(make, named):
    with refused(ConfigurationError, named):
        make()


# -- a budget with warm-up: base 1, warm-up 5, total 25, final fraction 0.1

STEPS = (0, 2, 4, 5, 10, 15, 19, 20, 21, 22, 24, 25, 30)
COURSES = {
    "constant": (0.2, 0.6, *[1.0] * 11),
    "cosine": (
        *(0.2, 0.6, 1.0, 1.0, 0.868198, 0.55, 0.285497),
        *(0.231802, 0.185942, 0.149047, 0.105540, 0.1, 0.1),
    ),
    "linear": (0.2, 0.6, 1.0, 1.0, 0.775, 0.55, 0.37, 0.325, 0.28, 0.235, 0.145, 0.1, 0.1),
    "wsd": (0.2, 0.6, *[1.0] * 6, 0.597508, 0.430790, 0.195016, 0.1, 0.1),
}


@pytest.mark.parametrize("course", COURSES)
def test_a_budget_follows_its_table(course):
    rate = BudgetRate(1.0, 25, course=course, warmup=5, final_frac=0.1, decay_frac=0.2)
    assert [rate(step) for step in STEPS] == pytest.approx(COURSES[course], abs=6e-7)


def test_a_linear_budget_without_warm_up_follows_its_table():
    rate = BudgetRate(0.05, 10, course="linear", final_frac=0.2)
    expected = [0.05, 0.046, 0.03, 0.018, 0.01, 0.01]
    assert [rate(step) for step in (0, 1, 5, 8, 10, 12)] == pytest.approx(expected, abs=1e-15)


def test_the_end_of_a_budget_beats_a_longer_warm_up():
    rate = BudgetRate(1.0, 5, course="cosine", warmup=10, final_frac=0.1)
    assert [rate(step) for step in (0, 4, 5, 6)] == pytest.approx([0.1, 0.5, 0.1, 0.1])


@pytest.mark.parametrize("course", COURSES)
def test_every_course_begins_at_its_base_over_the_warm_up(course):
    assert BudgetRate(1.0, 25, course=course, warmup=5)(0) == 0.2


def test_a_cosine_budget_never_rises_after_the_warm_up():
    rate = BudgetRate(1.0, 25, warmup=5, final_frac=0.1)
    rates = [rate(step) for step in range(5, 30)]
    assert rates == sorted(rates, reverse=True)


# -- one cycle


def test_one_cycle_follows_its_table():
    # Computed once with another implementation of the same cycle, to ten digits.
    rate = OneCycleRate(0.1, 20)
    expected = {
        0: 0.004,
        1: 0.01316718427,
        4: 0.09083281573,
        5: 0.1,
        6: 0.098746400624,
        10: 0.071694300179,
        15: 0.018825834605,
        18: 0.001253999376,
        19: 4e-07,
    }
    assert {step: rate(step) for step in expected} == pytest.approx(expected, abs=1e-10)


def test_one_cycle_rises_to_its_peak_once_and_then_falls():
    rate = OneCycleRate(1.0, 100)
    rates = [rate(step) for step in range(100)]
    peak = rates.index(max(rates))
    assert (peak, rates[peak]) == (29, 1.0)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert (rates[0], rates[-1]) == pytest.approx((1 / 25, 1 / 25e4))


@pytest.mark.parametrize("total", [1, 2, 3])
@pytest.mark.parametrize("rise", [0.0, 0.3, 1.0])
def test_a_short_cycle_stays_within_its_bounds(total, rise):
    rate = OneCycleRate(1.0, total, rise=rise)
    assert all(1 / 25e4 <= rate(step) <= 1.0 for step in range(10))


def test_a_cycle_that_is_over_holds_its_last_rate():
    rate = OneCycleRate(1.0, 10)
    assert rate(10_000) == rate(9)

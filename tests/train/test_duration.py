import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.train.duration import duration

SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "under 1 s"),
        (0.49, "under 1 s"),
        (0.5, "under 1 s"),
        (1.4, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60.0, "1 min"),
        (61.0, "1 min 1 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h"),
        (7260.0, "2 h 1 min"),
        (86_399.0, "1 d"),
        (100_000.0, "1 d 4 h"),
        (864_000.0, "10 d"),
    ],
)
def test_a_duration_is_shown_in_its_two_greatest_units(seconds, text):
    assert duration(seconds) == text


@given(st.floats(1.0, 1e8))
def test_what_is_shown_is_near(seconds):
    words = duration(seconds).split()
    shown = sum(int(n) * SECONDS[u] for n, u in zip(words[::2], words[1::2], strict=True))
    assert abs(shown - seconds) <= max(0.5, seconds / 48)

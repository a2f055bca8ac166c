import io
import json
import math
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.train.report import bar, colours, epoch_label, fixed, json_line, text_line


@pytest.mark.parametrize(
    ("x", "p", "text"),
    [
        (1, 4, "1.0000"),
        (0.5, 4, "0.5000"),
        (0.0001, 4, "0.0001"),
        (0, 4, "0.0000"),
        (0.12346, 4, "0.1235"),
        (0.12344, 4, "0.1234"),
        (0.9999, 3, "1.000"),
        (1.9996, 3, "2.000"),
        (-0.25, 4, "-0.2500"),
        (-0.9999, 3, "-1.000"),
        (0.125, 2, "0.13"),
        (-0.125, 2, "-0.13"),
        (-0.001, 2, "0.00"),
        (-0.0, 2, "0.00"),
        (2.5, 0, "3"),
        (1e22, 1, "10000000000000000000000.0"),
        (math.nan, 4, "nan"),
        (math.inf, 4, "inf"),
        (-math.inf, 4, "-inf"),
    ],
)
def test_numbers_have_a_fixed_number_of_digits_with_halves_away_from_zero(x, p, text):
    assert fixed(x, p) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 8))
def test_a_fixed_number_is_the_nearest_one_of_its_digits(x, p):
    text = fixed(x, p)
    assert len(text.partition(".")[2]) == p
    assert abs(Decimal(text) - Decimal(x)) <= Decimal(1).scaleb(-p) / 2
    assert not text.startswith("-") or Decimal(text) < 0


@given(st.integers(-(10**6), 10**6))
def test_halves_are_rounded_away_from_zero(eighths):
    x = eighths / 8
    expected = Decimal(x).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    assert Decimal(fixed(x, 2)) == expected


@pytest.mark.parametrize(
    ("epoch", "label"), [(7, "epoch   7/100"), (42, "epoch  42/100"), (100, "epoch 100/100")]
)
def test_an_epoch_is_aligned_to_the_digits_of_the_total(epoch, label):
    assert epoch_label(epoch, 100) == label


def test_a_line_shows_loss_rate_and_metrics_in_the_order_given():
    val = [("loss", 0.9345749078), ("accuracy", 0.5972222)]
    assert text_line("epoch  1/60", loss=1.0443699495, lr=0.0025, val=val) == (
        "epoch  1/60  loss 1.0444  lr 0.002500  val_loss 0.9346  val_accuracy 0.5972"
    )


def test_a_line_says_nan_in_words():
    assert text_line("epoch 1/1", loss=math.nan, lr=0.1) == "epoch 1/1  loss nan  lr 0.100000"


def test_a_metric_name_cannot_break_its_line():
    line = text_line("epoch 1/1", loss=1.0, lr=0.1, val=[("a\nb\x1b[2J", 0.5)])
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.endswith("val_a\\nb\\x1b[2J 0.5000")


def test_colours_appear_only_when_they_are_asked_for():
    plain = text_line("epoch 1/1", loss=1.0, lr=0.1)
    coloured = text_line("epoch 1/1", loss=1.0, lr=0.1, colour=True)
    assert "\x1b" not in plain + bar(5, 10, 10)
    assert "\x1b" in coloured
    assert "\x1b" in bar(5, 10, 10, colour=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_colours_and_a_pipe_has_none(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours(Terminal())
    assert not colours(io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused_by_the_environment(monkeypatch, name, value):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    assert not colours(Terminal())


@pytest.mark.parametrize(
    ("done", "total", "width", "text"),
    [
        (0, 10, 10, "[..........]"),
        (5, 10, 10, "[#####.....]"),
        (10, 10, 10, "[##########]"),
        (12, 10, 10, "[##########]"),
        (-3, 10, 10, "[..........]"),
        (3, 0, 4, "[    ]"),
        (1, 2, 0, "[]"),
    ],
)
def test_a_bar_is_filled_in_proportion_and_never_beyond_its_ends(done, total, width, text):
    assert bar(done, total, width) == text


def test_a_bar_may_be_drawn_in_unicode():
    assert bar(1, 4, 4, unicode=True) == "[█───]"


def test_a_json_line_keeps_its_order_and_every_digit():
    assert json_line(
        epoch=1,
        epochs=2,
        global_step=3,
        lr=0.05,
        train_loss=9.712926478846024,
        val=[("loss", 9.171418468654288)],
    ) == (
        '{"epoch":1,"epochs":2,"global_step":3,"lr":0.05,'
        '"train_loss":9.712926478846024,"val_loss":9.171418468654288}'
    )


def test_metrics_keep_their_order_in_json_and_their_names_are_escaped():
    val = [("loss", 1.0), ("accuracy", 0.5), ('f1"score', 0.25)]
    line = json_line(epoch=3, epochs=9, global_step=6, lr=0.1, train_loss=2.0, val=val)
    assert line.startswith('{"epoch":3')
    assert line.index("val_loss") < line.index("val_accuracy")
    assert '"val_f1\\"score":0.25' in line


def test_json_writes_null_for_what_is_not_finite():
    val = [("loss", math.inf)]
    line = json_line(epoch=1, epochs=1, global_step=1, lr=0.1, train_loss=math.nan, val=val)
    record = json.loads(line)
    assert (record["train_loss"], record["val_loss"]) == (None, None)

import io
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.callbacks.paper import Clock
from workbench.train.reports import Report
from workbench.train.screen import Screen, _clipped, draws_unicode, rewrites


class Terminal(io.StringIO):
    encoding = "UTF-8"

    def isatty(self):
        return True


def shown(text):
    """What a screen of one column after another shows of ``text``: carriage returns obeyed."""
    lines = []
    for line in text.split("\n"):
        cells = []
        at = 0
        for character in re.sub(r"\x1b\[[0-9;]*m", "", line):
            if character == "\r":
                at = 0
                continue
            cells[at : at + 1] = [character]
            at += 1
        lines.append("".join(cells).rstrip())
    return lines


class Seen:
    """A screen, its clock and what is on it."""

    def __init__(self, stream):
        self.clock, self.stream = Clock(), stream
        self.screen = Screen(stream, clock=self.clock)

    def bar(self, text, *, after=1.0):
        self.clock.move(after)
        self.screen.show(Report(text, in_place=True))

    def line(self, text):
        self.screen.show(Report(text))

    @property
    def lines(self):
        return shown(self.stream.getvalue())


def test_a_terminal_rewrites_one_line():
    seen = Seen(Terminal())
    for text in ("epoch 1", "epoch 22", "epoch 3"):
        seen.bar(text)
    seen.screen.close()
    assert seen.lines == ["epoch 3", ""]
    assert seen.stream.getvalue().count("\n") == 1


def test_a_pipe_gets_plain_lines():
    seen = Seen(io.StringIO())
    for text in ("epoch 1", "epoch 2"):
        seen.bar(text)
        seen.line(text.upper())
    seen.screen.close()
    assert seen.stream.getvalue() == "epoch 1\nEPOCH 1\nepoch 2\nEPOCH 2\n"


def test_other_reports_stay_above_the_line_that_is_rewritten():
    seen = Seen(Terminal())
    seen.line("log 1")
    seen.bar("a long bar of the first epoch")
    seen.line("log 2")
    assert seen.lines == ["log 1", "log 2", "a long bar of the first epoch"]
    seen.bar("bar 2")
    seen.screen.close()
    assert seen.lines == ["log 1", "log 2", "bar 2", ""]


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_thousand_updates_in_a_second_do_not_freeze_what_shows_them(stream):
    seen = Seen(stream())
    for number in range(1000):
        seen.bar(f"step {number}", after=0.001)
    assert len(re.findall("step", seen.stream.getvalue())) in (10, 11)


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_last_update_is_shown_even_if_it_came_too_soon(stream):
    seen = Seen(stream())
    seen.bar("step 1")
    seen.bar("step 2", after=0.01)
    seen.screen.close()
    assert seen.lines[-2:] == ["step 2", ""]


def test_a_line_does_not_wait_and_takes_the_newest_bar_along():
    seen = Seen(Terminal())
    seen.bar("bar 1")
    seen.bar("bar 2", after=0.01)
    seen.line("log")
    assert seen.lines == ["log", "bar 2"]


def test_a_bar_that_was_overtaken_is_not_written_into_a_pipe():
    seen = Seen(io.StringIO())
    seen.bar("bar 1")
    seen.bar("bar 2", after=0.01)
    seen.line("log 3")
    seen.screen.close()
    assert seen.stream.getvalue() == "bar 1\nlog 3\n"


def test_a_line_never_wraps_because_it_could_not_be_rewritten_then(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((20, 5)))
    stream = Terminal()
    stream.fileno = lambda: 1
    seen = Seen(stream)
    seen.bar("x" * 50)
    assert seen.lines == ["x" * 19]


def test_a_bar_of_several_lines_becomes_one():
    seen = Seen(Terminal())
    seen.bar("one\ntwo")
    assert seen.lines == ["one  two"]


@given(st.lists(st.sampled_from(["\x1b[36m", "\x1b[0m", "ab", "c"])), st.integers(0, 8))
def test_a_clipped_line_has_its_first_columns_and_ends_without_colour(parts, width):
    clipped = _clipped("".join(parts), width)
    plain = "".join(part for part in parts if not part.startswith("\x1b"))
    assert re.sub(r"\x1b\[[0-9;]*m", "", clipped) == plain[:width]
    codes = re.findall(r"\x1b\[[0-9;]*m", clipped)
    assert not codes or clipped.endswith("\x1b[0m")


@pytest.mark.parametrize("fault", [BrokenPipeError, ValueError("closed"), OSError("disk full")])
def test_a_stream_that_fails_costs_the_reports_and_not_the_run(fault):
    class Broken(io.StringIO):
        def write(self, text):
            raise fault

    seen = Seen(Broken())
    seen.line("log")
    seen.bar("bar")
    seen.screen.close()
    assert seen.stream.getvalue() == ""


def test_what_lets_lines_be_rewritten(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    assert rewrites(Terminal())
    assert rewrites(cell)
    assert not rewrites(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not rewrites(Terminal())


def test_glyphs_beyond_ascii_are_drawn_where_they_are_known(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    latin = Terminal()
    assert draws_unicode(latin)
    assert not draws_unicode(io.StringIO())
    latin.__class__ = type("Latin", (Terminal,), {"encoding": "latin-1"})
    assert not draws_unicode(latin)

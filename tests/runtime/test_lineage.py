"""Lineages: which call made which context."""

import gc
import re

import numpy as np

import workbench as wb
from workbench.runtime.context import Context


def without_numbers(text):
    """Numbers of contexts, which go on through the process, counted from 1 in order."""
    order = sorted({int(n) for n in re.findall(r"\d+(?=\.\.|  \w)", text)} | _ends(text))
    return re.sub(
        r"\d+(?=\.\.|  \w)|(?<=\.\.)\d+", lambda m: str(order.index(int(m[0])) + 1), text
    ).splitlines()


def _ends(text):
    return {int(n) for n in re.findall(r"\.\.(\d+)", text)}


def family():
    x = wb.input("x", (2,))
    doubled = x * 2.0
    root = Context.interpreter()
    compiled, double = root.compile([doubled], name="double")
    filled = compiled.set_values({x: [1.0, 2.0]})
    return filled, double, x


def test_a_straight_line_is_a_list_that_marks_the_context_asked():
    filled, double, _ = family()
    assert without_numbers(str(filled.lineage())) == [
        "1  root",
        "2  compile double",
        "3  set_values  <- this context",
    ]
    assert "<- this context" in repr(filled.run(double).lineage()).splitlines()[-1]


def test_siblings_are_branches():
    filled, double, x = family()
    left = filled.run(double)
    right, second = filled.compile([x + 1.0], name="second")
    last = right.run(second)
    assert without_numbers(str(left.lineage())) == [
        "1  root",
        "2  compile double",
        "3  set_values",
        "├─ 4  run double  <- this context",
        "└─ 5  compile second",
        "   6  run second",
    ]
    assert "run second  <- this context" in str(last.lineage())


def test_equal_calls_in_a_row_are_one_line():
    ctx, double, _ = family()
    for _ in range(100):
        ctx = ctx.run(double)
    assert without_numbers(str(ctx.lineage()))[3:] == [
        "4..5  run double (100 times)  <- this context"
    ]


def test_the_context_asked_is_marked_within_a_row_of_equal_calls():
    ctx, double, _ = family()
    middle = ctx.run(double).run(double)
    last = middle.run(double)
    assert without_numbers(str(middle.lineage()))[3:] == [
        "4..5  run double (2 times)  <- this context",
        "6  run double",
    ]
    assert last.id in {int(n) for n in re.findall(r"\d+", str(middle.lineage()))}


def test_of_a_long_line_the_middle_is_left_out():
    ctx, double, x = family()
    kept = ctx
    for turn in range(100):
        ctx = ctx.set_values({x: [turn, turn]}).run(double)
        kept = ctx if turn == 50 else kept
    lines = str(ctx.lineage()).splitlines()
    assert len(lines) == 41
    # The root, its compile, 2 times set_values, a run, then 99 pairs: 202 lines less 40.
    assert lines[20] == "... 162 more lines"
    assert "<- this context" in lines[-1]
    assert sum("<- this context" in line for line in str(kept.lineage()).splitlines()) == 1


def test_a_context_that_no_one_holds_is_not_listed_and_listing_holds_none():
    filled, _, x = family()
    other, second = filled.compile([x + 1.0], name="second")
    picture = filled.lineage()
    assert "second" in str(picture)
    del other, second
    gc.collect()
    assert "second" not in str(filled.lineage())
    assert "second" in str(picture)


def test_a_batch_that_grows_does_not_list_a_context_twice():
    x = wb.input("x", (wb.batch,))
    ctx, routine = Context.interpreter().compile([x * 2.0], name="double")
    contexts = [ctx]
    for rows in (2, 3):
        contexts.append(contexts[-1].set_values({x: np.ones(rows)}))
        contexts.append(contexts[-1].run(routine))
    lines = without_numbers(str(contexts[-1].lineage()))
    assert [line.split("  ")[1] for line in lines] == [
        "root",
        "compile double",
        "set_values",
        "run double",
        "set_values",
        "run double",
    ]


def test_html_nests_lists_and_escapes_names():
    x = wb.input("x", (2,))
    root = Context.interpreter()
    left, _ = root.compile([x * 2.0], name="<script>left</script>")
    right, _ = root.compile([x * 3.0], name="right\x1b[2J")
    html = left.lineage()._repr_html_()
    assert html.count("<ul>") == html.count("</ul>") == 3
    assert "<b>" in html
    assert "&lt;script&gt;left" in html
    assert "<script>" not in html
    assert r"right\x1b[2J" in html
    assert r"right\x1b[2J" in str(right.lineage())

"""The table of placements: rows, orders, text, HTML."""

import re

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.runtime.context import Context
from workbench.runtime.placement_table import ORDERS


@pytest.fixture
def ctx():
    x = wb.input("x", (4, 20))
    h = x.sum(1).named("h")
    v = wb.exp(h).named("v")
    out = wb.tanh(v).named("out")
    ctx, routine = Context.interpreter().compile([out])
    return ctx.set_values({x: np.ones((4, 20)), wb.input("later", (2,)): [1, 2]}).run(routine)


def test_the_table_says_of_each_node_where_who_how_large_and_whether_readable(ctx):
    *rows, summary = str(ctx.placement_table()).splitlines()
    assert [re.split("  +", row) for row in rows] == [
        ["node", "mode", "code", "who decided", "bytes", "readable"],
        [
            "x",
            "on device",
            "37",
            "it is read here and never written here: an input",
            "320",
            "stored",
        ],
        [
            "sum_h",
            "local",
            "39",
            "it combines 20 points, more than max_inline_reduction=16",
            "16",
            "no: Local",
        ],
        [
            "exp_v",
            "virtual",
            "0",
            "nothing asks for it to be stored: readers recompute it",
            "0",
            "no: reads Local h",
        ],
        ["tanh_out", "on device", "38", "a person asked for its value", "16", "stored"],
        ["later", "on device", "a person set its value; no routine uses it yet", "8", "stored"],
    ]
    assert len({row.index(word) for row, word in zip(rows[1:3], ["37", "39"], strict=True)}) == 1
    assert summary == "5 nodes, 2 of them cannot be read"


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("decided", ["x", "sum_h", "exp_v", "tanh_out", "later"]),
        ("node", ["exp_v", "later", "sum_h", "tanh_out", "x"]),
        ("mode", ["sum_h", "x", "tanh_out", "later", "exp_v"]),
        ("code", ["later", "exp_v", "x", "tanh_out", "sum_h"]),
        ("bytes", ["x", "sum_h", "tanh_out", "later", "exp_v"]),
        ("readable", ["sum_h", "exp_v", "x", "tanh_out", "later"]),
    ],
)
def test_the_table_can_be_put_in_the_order_of_each_column(ctx, order, names):
    table = ctx.placement_table(order)
    assert [row.name for row in table.rows] == names
    assert ctx.placement_table().ordered(order).rows == table.rows
    assert order in ORDERS


def test_an_order_that_is_none_is_refused_naming_all(ctx):
    with refused(wb.ConfigurationError, "`size`", remedy=", ".join(ORDERS)):
        ctx.placement_table("size")


def test_rows_are_data(ctx):
    rows = {row.name: row for row in ctx.placement_table().rows}
    assert (rows["sum_h"].size_bytes, rows["sum_h"].by_row) == (16, False)
    assert rows["exp_v"].observability.path[-1] is rows["sum_h"].node
    assert [name for name, row in rows.items() if not row.is_readable] == ["sum_h", "exp_v"]


def test_the_bytes_of_a_batch_are_those_it_has_or_those_of_a_row():
    x = wb.input("x", (wb.batch, 20))
    ctx, routine = Context.interpreter().compile([wb.exp(x.sum(1).named("h")) + 1.0])
    sizes = {row.name: row.cells()[4] for row in ctx.placement_table().rows}
    assert (sizes["x"], sizes["sum_h"]) == ("80 a row", "4 a row")
    ctx = ctx.set_values({x: np.ones((100, 20))}).run(routine)
    sizes = {row.name: row.cells()[4] for row in ctx.placement_table().rows}
    assert (sizes["x"], sizes["sum_h"]) == ("8,000", "4 a row")


def test_two_nodes_of_one_label_are_told_apart():
    x = wb.input("x", (2,))
    ctx, _ = Context.interpreter().compile([wb.exp(x).named("y"), wb.exp(x * 2.0).named("y")])
    names = [row.name for row in ctx.placement_table().rows]
    assert len(names) == len(set(names))
    assert {"exp_y", "exp_y (2)"} <= set(names)


def test_html_is_a_plain_table_with_everything_escaped():
    x = wb.input("<script>alert(1)</script>", (2,))
    ctx, _ = Context.interpreter().compile([wb.exp(x)])
    html = ctx.placement_table()._repr_html_()
    assert html.count("<tr>") == 1 + 2
    assert html.count("<th ") == 6
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script" not in html


def test_an_empty_context_has_an_empty_table():
    table = Context.interpreter().placement_table()
    assert str(table).splitlines()[-1] == "0 nodes, 0 of them cannot be read"
    assert repr(table) == str(table)

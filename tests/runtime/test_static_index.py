"""Numbers that a launch binds: read at the call, checked against what was declared."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.graph.static_index import declared_extent
from workbench.runtime.observe import Reading
from workbench.runtime.remedy import Remedy

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}
TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def chosen_row(root, bindings, extent=4):
    """A routine that shows one row of a table, its number bound at launch."""
    number = wb.static_index("number", extent)
    row = wb.take(wb.parameter(TABLE, "table"), number).named("row")
    ctx, routine = root.compile(
        [row * 1.0], name="show", bindings=bindings(number) if callable(bindings) else bindings
    )
    return ctx, routine, number, row


def test_a_binding_is_read_at_the_call_and_may_be_changed_as_soon_as_it_returns(root):
    bindings = {}
    ctx, routine, number, _ = chosen_row(root, bindings)
    shown = []
    for bindings[number] in (2, 0, 3):
        ctx = ctx.run(routine)
        bindings[number] = 1
        shown.append(ctx.get_values(routine.outputs[0]).tolist())
    assert shown == [TABLE[2].tolist(), TABLE[0].tolist(), TABLE[3].tolist()]


def test_two_routines_may_share_one_mapping(root):
    number, bindings = wb.static_index("number", 4), {}
    row, column = (wb.take(wb.parameter(t, "t"), number) * 1.0 for t in (TABLE, TABLE.T[[0] * 4]))
    ctx, first = root.compile([row], bindings=bindings)
    ctx, second = ctx.compile([column], bindings=bindings)
    bindings[number] = 3
    ctx = ctx.run(first).run(second)
    assert ctx.get_values(row).tolist() == TABLE[3].tolist()
    assert ctx.get_values(column).tolist() == TABLE.T[0].tolist()


def test_an_index_can_be_computed_with(root):
    step, bindings = wb.static_index("step", 10), {}
    total = wb.state("total", (), "int64")
    ctx, routine = root.compile([], updates={total: total + step * 10}, bindings=bindings)
    for bindings[step] in range(10):
        ctx = ctx.run(routine)
    assert ctx.get_values(total) == 450


def test_an_index_knows_its_extent_and_other_leaves_have_none():
    assert declared_extent(wb.static_index("number", 7)) == 7
    assert declared_extent(wb.input("number", (), "int64")) is None


@pytest.mark.parametrize("extent", [0, -1, 2.5, "3", True])
def test_an_index_without_values_is_refused(extent):
    with refused(wb.ShapeError, "`number`", repr(extent), remedy="at least 1"):
        wb.static_index("number", extent)


@pytest.mark.parametrize("value", [-1, 4, 1.5, None, True, "2"])
def test_a_value_out_of_range_is_refused_and_nothing_was_run(root, value):
    bindings = {}
    ctx, routine, number, _ = chosen_row(root, bindings)
    bindings[number] = 2
    ctx = ctx.run(routine)
    bindings[number] = value
    shown = "nothing" if value is None else repr(value)
    with refused(wb.ExecutionError, "`show`", "`number`", shown, remedy="bind"):
        ctx.run(routine)
    with refused(wb.ExecutionError, "`number`", shown, remedy="bind"):
        ctx.check_launch_bindings(routine)
    ctx.check_lineage_runnable(routine)
    assert ctx.get_values(routine.outputs[0]).tolist() == TABLE[2].tolist()


def test_an_index_bound_to_nothing_is_refused_naming_its_extent(root):
    ctx, routine, _, _ = chosen_row(root, None)
    with refused(wb.ExecutionError, "`number`", "extent 4", "nothing", remedy="bindings"):
        ctx.run(routine)


def test_an_index_of_more_than_31_bits_needs_the_setting(root):
    number = wb.static_index("number", 2**40)
    seen = (number + 0).named("seen")
    bindings = {number: 2**31 - 1}
    ctx, routine = root.compile([seen], bindings=bindings, name="far")
    assert ctx.run(routine).get_values(seen) == 2**31 - 1
    bindings[number] = 2**31
    with refused(wb.ExecutionError, "`number`", "2147483648", remedy="large_models"):
        ctx.run(routine)
    with wb.settings(large_models=True):
        assert ctx.run(routine).get_values(seen) == 2**31


@pytest.mark.parametrize(
    ("rows", "shown", "remedy"),
    [
        (None, "nothing", "rows="),
        (-3, "-3", "0 or more"),
        (2**31, "2147483648", "large_models"),
        (1.5, "1.5", "whole"),
    ],
)
def test_the_batch_is_bound_at_launch_as_well(root, rows, shown, remedy):
    ones = wb.iota((wb.batch,), 0)
    ctx, routine = root.compile([ones], name="count")
    with refused(wb.ExecutionError, "`count`", "batch", shown, remedy=remedy):
        ctx.run(routine, rows=rows)
    assert ctx.run(routine, rows=3).get_values(ones).tolist() == [0, 1, 2]


def test_a_number_that_is_no_index_cannot_be_bound(root):
    x = wb.input("x", (), "int64")
    with refused(wb.CompileError, "`x`", "no static index", remedy="static_index"):
        root.compile([x + 1], bindings={x: 1})


def test_the_value_of_an_index_cannot_be_set_from_outside(root):
    ctx, _, number, _ = chosen_row(root, {})
    with refused(wb.ExecutionError, "`number`", "bound at each launch", remedy="bindings"):
        ctx.set_values({number: 1})


def test_what_depends_on_an_index_has_no_value_outside_a_launch_unless_it_is_stored(root):
    bindings = {}
    ctx, routine, number, row = chosen_row(root, bindings)
    bindings[number] = 2
    ctx = ctx.run(routine)
    verdict = ctx.observability(row)
    assert (verdict.reading, verdict.path) == (Reading.LAUNCH_BOUND, (row, number))
    assert verdict.placeholder == "<unobservable: reads launch-bound number>"
    assert verdict.remedies == (Remedy("materialize", (row,), bindings=(number,)),)
    assert "read through row -> number" in verdict.problem
    assert ctx.observability(number).placeholder == "<unobservable: launch-bound>"
    with refused(wb.NotReadableError, "`row`", "`number`", "static index", remedy="bindings="):
        ctx.get_values(row)
    # Done as the remedy says.
    ctx, routine = root.compile([row], bindings=bindings)
    assert ctx.run(routine).get_values(row).tolist() == TABLE[2].tolist()

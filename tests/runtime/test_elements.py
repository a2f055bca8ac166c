"""Single elements, and points for plots."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}
VALUE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=CONTEXTS)
def ctx(request):
    return CONTEXTS[request.param]()


def test_one_element_is_set_and_the_others_are_kept(ctx):
    x = wb.input("x", (5,))
    ctx = ctx.set_values({x: [100.0, 101.0, 102.0, 103.0, 104.0]})
    ctx = ctx.set_value(x, 0, 42.0)
    assert [ctx.get_value(x, place) for place in (0, 3, -1)] == [42.0, 103.0, 104.0]


def test_a_literal_reads_the_same_in_two_contexts(ctx):
    literal = wb.constant([5.0, 6.0])
    other, routine = wb.Context.interpreter().compile([literal * 1.0])
    assert ctx.get_values(literal).tolist() == other.get_values(literal).tolist() == [5.0, 6.0]
    assert other.run(routine).get_values(literal).tolist() == [5.0, 6.0]


def test_a_number_is_read_and_set_at_no_position(ctx):
    a = wb.state("a", (), value=3.0)
    ctx, routine = ctx.compile([], updates={a: a * 2.0})
    assert ctx.get_value(a) == 3.0
    assert ctx.set_value(a, (), 5.0).run(routine).get_value(a) == 10.0


def test_an_element_of_what_is_virtual_is_computed(ctx):
    x = wb.parameter(VALUE, "x")
    double = x * 2.0
    ctx, _ = ctx.compile([wb.exp(double)])
    assert ctx.get_value(double, (1, 2, 3)) == 46.0


@pytest.mark.parametrize("position", [(2, 0, 0), (0, 0), 0, (0, 0, -5), (0, 0.5, 0), ()])
def test_a_position_outside_the_value_is_refused_and_nothing_is_written(ctx, position):
    x = wb.parameter(VALUE, "x")
    ctx = ctx.set_values({x: VALUE})
    with refused(wb.ShapeError, "`x`", "(2, 3, 4)", remedy="for each axis"):
        ctx.get_value(x, position)
    with refused(wb.ShapeError, "`x`"):
        ctx.set_value(x, position, 1.0)
    assert np.array_equal(ctx.get_values(x), VALUE)


def test_points_are_all_positions_of_the_other_axes(ctx):
    x = wb.parameter(VALUE, "x")
    assert ctx.points_1d(x, 1).tolist() == [1.0, 5.0, 9.0, 13.0, 17.0, 21.0]
    assert ctx.points_2d(x, 3, 0).tolist()[:2] == [[3.0, 0.0], [7.0, 4.0]]
    assert ctx.points_1d(x, 2, axis=1).tolist() == [8.0, 9.0, 10.0, 11.0, 20.0, 21.0, 22.0, 23.0]
    assert ctx.points_2d(x, 0, 1, axis=0).shape == (12, 2)


def test_points_of_what_has_no_such_axis_or_component_are_refused(ctx):
    x, a = wb.parameter(VALUE, "x"), wb.parameter(1.0, "a")
    with refused(wb.ShapeError, "`x`", "axis 3", remedy="axes"):
        ctx.points_1d(x, 0, axis=3)
    with refused(wb.ShapeError, "`x`", "(4)", remedy="within"):
        ctx.points_2d(x, 0, 4)
    with refused(wb.ShapeError, "`a`", "axis -1", remedy="get_values"):
        ctx.points_1d(a, 0)

import numpy as np
import pytest

import workbench as wb
from tests.present import present
from tests.refusal import refused
from tests.runtime.counting import counting_context
from tests.runtime.test_looking import state_of
from tests.runtime.test_show_tree import compiled, product_and_sum, wide_graph
from tests.runtime.test_why_card import step
from workbench.runtime.graph_view import GraphView
from workbench.runtime.show_tree import tree_text


def test_places_and_names_are_those_of_the_text():
    y, grads = product_and_sum()
    ctx = compiled([y, *grads.values()])
    view = GraphView(y, ctx, grads)
    rows = view.rows(range(len(view)))
    assert [row.name for row in rows] == ["#6 +_y", "#4 *", "#0 a", "#2 b", "[#0 a]"]
    assert view.below.tolist() == [2, 2, 0, 0, 0]
    assert [row.drawn_at for row in rows] == [0, 1, 2, 3, 2]
    text = tree_text(ctx, y, grads=grads)
    assert all(row.name in text for row in rows)
    assert str(view) == text


def test_the_detail_of_a_node_has_its_value_gradient_operands_and_readers():
    y, grads = product_and_sum()
    view = GraphView(y, compiled([y, *grads.values()]), grads)
    detail = view.detail(2)
    gradient = present(detail.gradient)
    values = [present(shown.summary).mean for shown in (detail.value, gradient)]
    assert values == [2.0, 4.0]
    assert gradient.name == "#1 grad_a"
    assert [row.name for row in detail.readers] == ["#6 +_y", "#4 *"]
    assert view.detail(4).row.place == 2
    root = view.detail(0)
    assert [row.name for row in root.operands] == ["#4 *", "#0 a"]
    assert root.readers == ()
    assert root.value.grid.strip() == "8.00"


def test_a_node_that_cannot_be_read_has_the_reason_in_place_of_a_value():
    ctx, routine, nodes = step()
    view = GraphView(nodes["loss"], ctx.run(routine))
    detail = view.detail(view.place_of(nodes["guess"]))
    assert detail.value.summary is None
    assert not detail.row.is_readable
    assert detail.row.reading == "unobservable: reads Local hidden"
    assert present(detail.placement).code == "0"


def test_search_finds_names_operations_and_shapes_where_a_node_is_drawn():
    y, grads = product_and_sum()
    view = GraphView(y, compiled([y, *grads.values()]), grads)
    assert view.find("A") == view.find("a")
    assert view.find("mul") == [1]
    assert view.find("#2 b") == [3]
    assert view.find("float32") == [0, 1, 2, 3]
    assert view.find("  ") == view.find("nowhere") == []


def test_a_place_that_is_not_there_is_refused():
    y, _ = product_and_sum()
    view = GraphView(y, compiled([y]))
    for place in (-1, 5, 10**9):
        with refused(wb.GraphError, f"no place {place}", remedy="0 to 4"):
            view.rows([place])
    with refused(wb.GraphError, "not drawn", remedy="computed from it"):
        view.place_of(wb.parameter(1.0, "elsewhere"))


def test_rows_compile_nothing_and_a_detail_compiles_one_routine_at_most():
    root = wide_graph(1000)
    context, backend = counting_context()
    with wb.settings(
        max_visits=10**6, max_inline_fanin=-1, max_inline_cost=10**9, max_shared_cost=10**9
    ):
        ctx, routine = context.compile([root.sum()])
    ctx = ctx.run(routine)
    backend.programs.clear()
    view = GraphView(root, ctx)
    assert len(view.rows(range(len(view)))) > 900
    assert backend.programs == []
    assert view.detail(1).value.summary is not None
    assert len(backend.programs) == 1


@pytest.mark.parametrize("make", [wb.Context.interpreter, lambda: wb.Context.cpu(1)])
def test_looking_through_a_view_changes_nothing(make):
    ctx, routine, nodes = step(make)
    ctx = ctx.run(routine)
    before = state_of(ctx)
    view = GraphView(nodes["loss"], ctx)
    answers = [str(view.rows(range(len(view))))]
    for place in range(len(view)):
        found = view.detail(place).value
        answers.append(found.grid or str(found.observability))
    assert state_of(ctx) == before
    assert "unobservable" in answers[0]


def test_values_are_those_of_the_moment():
    x = wb.parameter(np.ones(3, np.float32), "x")
    ctx, routine = wb.Context.interpreter().compile([], updates={x: x + 1.0})
    view = GraphView(x, ctx)
    assert present(view.detail(0).value.summary).mean == 1.0
    ctx.run(routine)
    assert present(view.detail(0).value.summary).mean == 2.0


def test_labels_of_any_kind_are_one_line():
    x = wb.parameter(1.0, "x\n\x1b[2J" + "y" * 10_000)
    (row,) = GraphView(x, wb.Context.interpreter()).rows([0])
    assert row.name.isprintable()
    assert len(row.name) > 10_000

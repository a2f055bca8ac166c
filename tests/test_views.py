import builtins
import sys
from typing import Any, cast

import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.test_why_card import step
from workbench.runtime.graph_view import GraphView
from workbench.runtime.placement_changes import PlacementChanges
from workbench.runtime.placement_table import PlacementTable
from workbench.runtime.show_tree import tree_text
from workbench.runtime.why_card import WhyCard
from workbench.views import open_view


@pytest.fixture
def without(monkeypatch):
    """``without("anywidget")`` makes this process one where that is not installed."""

    def hide(name):
        real = builtins.__import__

        def refusing(module, *arguments, **options):
            if module.split(".")[0] == name:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
            return real(module, *arguments, **options)

        for module in list(sys.modules):
            if module.split(".")[0] in (name, "workbench_widgets"):
                monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(builtins, "__import__", refusing)

    return hide


def test_without_the_notebook_libraries_a_view_is_text(without):
    without("anywidget")
    assert open_view("frame", "shown", otherwise=lambda: "as text") == "as text"


def test_a_view_that_does_not_exist_is_a_mistake_and_not_a_missing_library():
    with pytest.raises(ModuleNotFoundError, match="no_such_view"):
        open_view("no_such_view", otherwise=lambda: "as text")


def test_without_the_notebook_libraries_the_views_of_a_graph_are_text_and_html(without):
    without("anywidget")
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    graph = wb.tree(nodes["loss"], ctx)
    assert isinstance(graph, GraphView)
    assert str(graph) == tree_text(ctx, nodes["loss"])
    card = wb.why(nodes["guess"], ctx)
    assert isinstance(card, WhyCard)
    after = card.apply("materialize").context
    assert after.observability(nodes["guess"]).is_readable
    assert isinstance(wb.placements(ctx), PlacementTable)
    compared = wb.placements(ctx, after)
    assert isinstance(compared, PlacementChanges)
    for shown in (card, wb.placements(ctx), compared):
        assert shown._repr_html_().startswith("<table>")


@pytest.mark.parametrize("view", [wb.tree, wb.why])
def test_what_is_no_node_or_no_context_is_refused_before_anything_opens(view):
    ctx, routine, nodes = step()
    with refused(wb.GraphError, "a `str` is no node", remedy="the loss"):
        view("loss", ctx)
    with refused(wb.ConfigurationError, "a `Routine` is no context", remedy="`compile`"):
        view(nodes["loss"], routine)
    with refused(wb.ConfigurationError, "a `Routine` is no context"):
        wb.placements(ctx, cast("Any", routine))

"""Views of a run: of one moment of it, read again when a person says so, and beside it."""

import gc
import sys

import numpy as np
import pytest

import workbench as wb
from tests.present import present
from tests.refusal import refused
from tests.train.problems import leaves, logits, measure, new_run, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until
from tests.train.test_step_graph import DATA, VAL, steeper, stopped
from tests.widgets.posting import ask
from workbench.runtime.graph_view import GraphView
from workbench.runtime.placement_table import PlacementTable
from workbench.runtime.why_card import WhyCard


@pytest.fixture
def opened():
    """``opened(view)`` gives the view back, and closes it at the end."""
    made = []

    def opening(view):
        made.append(view)
        return view

    yield opening
    for view in made:
        view.close()


@pytest.fixture
def endless():
    """A run that trains in the background until the test is over."""
    run = new_run(LONG)
    run.start([], DATA, VAL, step, measure)
    yield run
    run.stop()
    run.wait(PATIENCE_S)


def trained(batches):
    return stopped(batches)[0]


def place_of(view, name):
    return view._view.place_of(view.subject._live.graph.node(name))


def test_a_tree_of_a_run_shows_a_parameter_as_it_was_when_it_was_read(opened, endless):
    until(lambda: endless.state.global_step > 3)
    view = opened(wb.tree(endless))
    before = endless.state.global_step
    until(lambda: endless.state.global_step > before + 20)
    place = place_of(view, "0.w")
    (first,) = ask(view, "detail", place=place)
    (second,) = ask(view, "detail", place=place)
    assert first["value"]["figures"] == second["value"]["figures"]
    ask(view, "again")
    (third,) = ask(view, "detail", place=place)
    assert third["value"]["figures"] != first["value"]["figures"]


def test_the_caption_tells_the_step_and_after_which_update(opened):
    run = trained(11)
    for view in (wb.tree(run), wb.why("0.w", run), wb.placements(run)):
        assert opened(view).caption == "`step`, version 1, values after update 11"


def test_a_view_of_a_context_has_no_caption_and_reading_it_again_changes_nothing(opened):
    x = wb.parameter(1.0, "x")
    ctx, _ = wb.Context.interpreter().compile([x * 2.0])
    view = opened(wb.why(x, ctx))
    assert view.caption == ""
    ask(view, "again")
    assert view.context is ctx
    assert ask(view, "standing") == []


def test_a_page_is_told_how_far_the_run_has_gone_since(opened):
    run = trained(11)
    view = opened(wb.tree(run))
    (told,) = ask(view, "standing")
    assert (told["step"], told["since"], told["other"]) == (11, 0, False)
    wb.fit(run, [], DATA, None, step)
    (told,) = ask(view, "standing")
    assert (told["step"], told["since"], told["other"]) == (24, 13, False)


def test_a_swapped_step_is_said_and_reading_again_shows_its_graph(opened, endless):
    view, table = opened(wb.tree(endless)), opened(wb.placements(endless))
    places, nodes = len(view._view), len(table._changes.lines)
    endless.step(steeper)
    endless.step_history[-1].wait(PATIENCE_S)
    assert ask(view, "standing")[0]["other"]
    assert len(view._view) == places
    assert ask(view, "again")[-1]["t"] == "again"
    ask(table, "again")
    assert not ask(view, "standing")[0]["other"]
    assert len(present(view.below)) // 4 == len(view._view) > places
    assert len(table._changes.lines) > nodes
    assert "`steeper`, version 2" in view.caption


def test_a_remedy_is_tried_beside_the_run_and_reading_again_drops_it(opened):
    run, plain = trained(11), trained(11)
    before = [array.copy() for array in leaves(run)]
    view = opened(wb.why("x", run))
    assert view.said["beside"]
    *_, card = ask(view, "apply", offer="materialize")
    assert card["readable"]
    assert view.context.observability(view.node).is_readable
    assert [a.tobytes() for a in leaves(run)] == [b.tobytes() for b in before]
    assert not run.step_graph().context.observability(view.node).is_readable
    ask(view, "again")
    assert not view.said["readable"]
    for each in (run, plain):
        wb.fit(each, [], DATA, VAL, step, measure)
    assert same_bits(run, plain)


def test_a_name_that_the_new_step_does_not_have_is_refused_and_the_view_stays(opened):
    def named(params, opt, x, y, lr):
        def loss(params, x, y):
            return wb.cross_entropy(logits(params, x).named("scores"), y)

        return wb.default_step(params, opt, x, y, lr, loss)

    run = new_run(1)
    wb.fit(run, [], DATA, None, named)
    view = opened(wb.why("scores", run))
    caption = view.caption
    run.step(steeper)
    (answer,) = ask(view, "again")
    assert answer["t"] == "refused"
    assert "no node called `scores`" in answer["text"]
    assert view.caption == caption


def test_a_view_holds_no_run_and_says_so_when_it_is_gone(opened):
    run = trained(3)
    view = opened(wb.tree(run))
    del run
    gc.collect()
    for question in ("standing", "again"):
        (answer,) = ask(view, question)
        assert "the run of this view is gone" in answer["text"]
    (detail,) = ask(view, "detail", place=place_of(view, "0.w"))
    assert detail["value"]["figures"]


def test_two_runs_are_compared_as_two_contexts_are(opened):
    table = opened(wb.placements(trained(3), trained(5)))
    assert table.compared
    assert table.caption.endswith("after update 5")


def test_what_a_notebook_keeps_of_a_live_tree_holds_no_value(opened):
    texts = [opened(wb.tree(trained(batches))).text() for batches in (3, 11)]
    assert texts[0] == texts[1]
    assert "0.w non-emb" in texts[0]
    assert "2.48e-1" not in texts[0]


def test_a_run_that_has_compiled_nothing_cannot_be_looked_into_and_says_what_to_do():
    run = new_run()
    for look in (
        lambda: wb.tree(run),
        lambda: wb.why("0.w", run),
        lambda: wb.placements(run),
    ):
        with refused(wb.ConfigurationError, "no step yet", remedy="run.start"):
            look()


def test_a_tensor_without_a_context_is_told_where_to_look():
    with refused(wb.ConfigurationError, "a `Tensor` is no context", remedy="or a run"):
        wb.tree(wb.parameter(1.0, "x"))


def test_without_notebook_libraries_a_run_is_looked_into_as_text(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("workbench_widgets")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    run = trained(11)
    tree, card, table = wb.tree(run), wb.why("x", run), wb.placements(run)
    assert isinstance(tree, GraphView)
    assert isinstance(card, WhyCard)
    assert isinstance(table, PlacementTable)
    assert "0.w non-emb" in str(tree)
    applied = card.apply("materialize")
    assert applied.context.get_values(card.node).shape == (8, 5)
    assert np.array_equal(
        run.params[0]["b"], run.step_graph().context.get_values(run.leaves.tensors[0])
    )

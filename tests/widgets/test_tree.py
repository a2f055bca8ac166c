import json
from typing import cast

import numpy as np
import pytest

import workbench as wb
from tests.present import present
from tests.runtime.test_looking import state_of
from tests.runtime.test_show_tree import compiled, product_and_sum, wide_graph
from tests.runtime.test_why_card import step
from tests.widgets.posting import ask
from workbench.runtime.show_tree import tree_text
from workbench_widgets.tree import FIRST_ROWS, Tree


@pytest.fixture
def opened():
    """``opened(root, ctx, grads)`` is a tree that is closed at the end."""
    made = []

    def opening(*arguments, **options):
        made.append(wb.tree(*arguments, **options))
        return made[-1]

    yield opening
    for view in made:
        view.close()


def names(view):
    """The names in the rows that the page has from the start."""
    return [row[1] for row in cast("list[list[str]]", view.first)]


def test_the_form_and_the_first_rows_are_there_at_once(opened):
    y, grads = product_and_sum()
    view = opened(y, compiled([y, *grads.values()]), grads=grads)
    assert isinstance(view, Tree)
    assert np.frombuffer(present(view.below), np.int32).tolist() == [2, 2, 0, 0, 0]
    assert names(view) == ["#6 +_y", "#4 *", "#0 a", "#2 b", "[#0 a]"]
    assert repr(view) == tree_text(view.context, y, grads=grads)


def test_rows_are_sent_when_they_are_asked_for(opened):
    root = wide_graph(1000)
    view = opened(root, compiled([root]))
    assert len(present(view.first)) == FIRST_ROWS
    (answer,) = ask(view, "rows", places=[900, 3])
    assert (answer["t"], answer["req"]) == ("rows", "r1")
    assert [row[0] for row in answer["rows"]] == [900, 3]


def test_a_search_and_a_typed_beginning_name_places(opened):
    y, grads = product_and_sum()
    view = opened(y, compiled([y, *grads.values()]), grads=grads)
    assert ask(view, "find", text="a")[0]["places"] == view._view.find("a")
    assert ask(view, "find", text="b", starts=True)[0]["places"] == [3]
    assert ask(view, "find", text="6", starts=True)[0]["places"] == [0]


def test_the_details_of_a_node_carry_pictures_as_buffers_and_are_json_else(opened):
    x = wb.parameter(np.array([[1.0, np.nan], [np.inf, -3.0]], np.float32), "x")
    ctx = compiled([x * 1.0])
    (answer,) = ask(opened(x, ctx), "detail", place=0)
    (cells,) = answer.pop("buffers")
    assert np.isnan(np.frombuffer(cells, np.float32)).tolist() == [False, True, True, False]
    text = json.dumps(answer, allow_nan=False)
    assert '["NaN", "1"], ["inf", "1"]' in text
    assert answer["value"]["picture"]["buffer"] == 0


def test_an_offer_taken_shows_the_new_context_and_undo_the_old_one(opened):
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    before = state_of(ctx)
    view = opened(nodes["loss"], ctx)
    place = view._view.place_of(nodes["hidden"])
    told, card = ask(view, "apply", place=place, offer="materialize")
    assert told["t"] == "shown"
    assert (card["t"], card["readable"], card["steps"]) == ("card", True, 1)
    assert [name for name, _ in card["changes"]] == ["hidden", "stored", "scratch", "step"]
    assert view.context.observability(nodes["guess"]).is_readable
    assert view.routine.name == "step"
    (_, card) = ask(view, "undo", place=place)
    assert (card["readable"], card["steps"]) == (False, 0)
    assert view.context is ctx
    assert state_of(ctx) == before


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("rows", {"places": [10**9]}),
        ("rows", {"places": "all"}),
        ("rows", {"places": None}),
        ("rows", {}),
        ("detail", {"place": -1}),
        ("detail", {"place": True}),
        ("detail", {"place": "0"}),
        ("card", {"place": 0.5}),
        ("apply", {"place": 0, "offer": "no such offer"}),
        ("apply", {"place": 0}),
        ("undo", {"place": 0}),
        ("find", {}),
    ],
)
def test_what_a_page_cannot_mean_is_refused_in_words_and_changes_nothing(opened, question, content):
    y, grads = product_and_sum()
    ctx = compiled([y, *grads.values()])
    view = opened(y, ctx)
    before = state_of(ctx)
    (answer,) = ask(view, question, **content)
    assert (answer["t"], answer["ask"]) == ("refused", question)
    assert answer["text"]
    assert view.context is ctx
    assert state_of(ctx) == before


def test_labels_reach_the_page_as_text_and_long_ones_cut(opened):
    evil = wb.parameter(1.0, "<img src=x onerror=alert(1)>")
    long = wb.parameter(1.0, "y" * 10_000)
    root = evil + long
    view = opened(root, compiled([root]))
    assert any("<img" in name for name in names(view))  # the page sets text, not markup
    assert max(map(len, names(view))) <= 300
    assert "<img" not in view.html()
    (answer,) = ask(view, "detail", place=view._view.place_of(long))
    assert "y" * 10_000 in answer["name"]


def test_the_text_of_a_large_tree_is_an_outline_that_reads_nothing(opened):
    root = wide_graph(1000)
    text = opened(root, wb.Context.interpreter()).text()
    assert text.splitlines()[1].startswith("  #")
    assert "unobservable" not in text
    assert text.splitlines()[-1].startswith("... and ")
    assert len(text.splitlines()) == 201

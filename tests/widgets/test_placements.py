import json

import pytest

import workbench as wb
from tests.runtime.test_why_card import step
from tests.widgets.posting import ask
from workbench.runtime.why_card import WhyCard


@pytest.fixture
def opened():
    made = []

    def opening(*contexts):
        made.append(wb.placements(*contexts))
        return made[-1]

    yield opening
    for view in made:
        view.close()


def lines(view):
    return {line[0]: line for line in json.loads(view.lines)}


def test_every_node_has_a_line_with_the_same_on_both_sides(opened):
    ctx, _, _ = step()
    view = opened(ctx)
    found = json.loads(view.lines)
    assert len(found) == len(ctx.placements)
    assert all(before == after and not changed for _, before, after, changed in found)
    assert not view.compared
    assert str(view) == str(ctx.placement_table())


def test_two_contexts_stand_side_by_side(opened):
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    view = opened(ctx, WhyCard(nodes["hidden"], ctx).apply("materialize").context)
    assert view.compared
    _, before, after, changed = lines(view)["relu_hidden"]
    assert (before[0], after[0], changed) == ("local", "on device", True)
    assert "of them changed" in view.text()
    assert "<table>" in view.html()


def test_taking_an_offer_marks_the_lines_that_it_changed(opened):
    ctx, routine, _ = step()
    view = opened(ctx.run(routine))
    number = list(lines(view)).index("relu_hidden")
    card = ask(view, "apply", line=number, offer="materialize")[-1]
    assert card["readable"]
    assert view.compared
    assert lines(view)["relu_hidden"][3]
    assert not lines(view)["x"][3]
    ask(view, "undo", line=number)
    assert not view.compared
    assert not any(line[3] for line in lines(view).values())


@pytest.mark.parametrize("line", [-1, 10**6, "0", None, 1.5])
def test_a_line_that_is_not_there_is_refused(opened, line):
    ctx, _, _ = step()
    (answer,) = ask(opened(ctx), "card", line=line)
    assert answer["t"] == "refused"
    assert "no line" in answer["text"]

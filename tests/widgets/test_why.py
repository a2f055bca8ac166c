import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.test_looking import state_of
from tests.runtime.test_why_card import step
from tests.widgets.posting import ask
from workbench.runtime.why_card import WhyCard


@pytest.fixture
def opened():
    """A card of `guess`, which cannot be read because `hidden` is local, and its context."""
    ctx, routine, nodes = step()
    ctx = ctx.run(routine)
    view = wb.why(nodes["guess"], ctx)
    yield view, ctx, routine, nodes
    view.close()


def test_the_card_says_what_the_text_says(opened):
    view, ctx, routine, nodes = opened
    card = WhyCard(nodes["guess"], ctx, routine)
    assert view.said["sentence"] == card.sentence
    assert view.said["answer"] == card.answer
    names = [offer[0] for offer in view.said["offers"]]
    assert names == ["materialize", "max_visits", "inline"]
    assert repr(view) == str(card)
    assert view.html() == card._repr_html_()


def test_a_button_makes_the_node_readable_and_undo_takes_that_back(opened):
    view, ctx, _, _ = opened
    before = state_of(ctx)
    told = ask(view, "apply", offer="materialize")
    card = told[-1]
    assert (card["t"], card["req"], card["readable"]) == ("card", "r1", True)
    assert view.said["readable"]
    assert "stored" in dict(card["changes"])
    assert ask(view, "value")[0]["value"]["figures"]
    assert not ask(view, "undo")[-1]["readable"]
    assert view.context is ctx
    assert state_of(ctx) == before


def test_a_line_of_code_does_what_the_button_does(opened):
    view, _, _, nodes = opened
    applied = view.apply("materialize")
    assert view.context is applied.context
    assert view.context.get_values(nodes["guess"]).shape == (2, 1)
    with refused(wb.ConfigurationError, "nothing called `footprints`"):
        view.apply("footprints")


def test_without_an_offer_taken_there_is_nothing_to_undo(opened):
    view = opened[0]
    with refused(wb.ConfigurationError, "no offer was taken"):
        view.undo()

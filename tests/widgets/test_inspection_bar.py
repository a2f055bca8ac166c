"""The usual set of a run: its panel, and the bar that opens its graph and its placements."""

import gc
import weakref

import pytest

import workbench as wb
from tests.train.problems import new_run, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until
from tests.train.test_step_graph import DATA, steeper
from tests.widgets.posting import ask, listen
from workbench_widgets.inspection import Inspection
from workbench_widgets.placements import Placements
from workbench_widgets.tree import Tree


@pytest.fixture
def shown():
    """``shown(run)`` is the bar of a run; run and views are ended after the test."""
    made = []

    def showing(run):
        made.append((run, Inspection(run)))
        return made[-1][1]

    yield showing
    for run, bar in made:
        run.stop()
        run.wait(PATIENCE_S)
        for view in (bar, *bar.sections.values()):
            view.close()


def running(**options):
    run = new_run(LONG, **options)
    run.start([], DATA, None, step)
    return run


def test_the_usual_set_is_a_panel_and_a_bar_and_of_a_run_that_is_over_the_record_alone():
    run = new_run(2)
    usual = wb.watch(run)
    assert isinstance(usual.inspection, Inspection)
    assert repr(usual) == repr(usual.panel)
    wb.fit(run, [], DATA, None, step)
    assert wb.watch(run).inspection is None
    assert repr(wb.watch(run)).startswith("Run completed: epoch 2 of 2")


def test_in_a_terminal_the_usual_set_is_the_text_of_the_panel_alone(capsys):
    usual = wb.watch(new_run(2))
    usual._ipython_display_()
    told = capsys.readouterr().out
    assert "Run ready: epoch 0 of 2" in told
    assert "placements" not in told
    usual.panel.close()
    usual.inspection.close()


def test_a_section_is_made_when_a_page_opens_it_and_shared_by_all(shown):
    bar = shown(running())
    assert bar.sections == {}
    (first,) = ask(bar, "open", section="graph")
    (second,) = ask(bar, "open", section="graph")
    view = bar.sections["graph"]
    assert isinstance(view, Tree)
    assert first["view"] == second["view"] == f"anywidget:{view.model_id}"
    ask(bar, "open", section="placements")
    assert isinstance(bar.sections["placements"], Placements)


def test_a_section_that_nobody_looks_at_is_read_anew_when_it_is_opened_again(shown):
    run = running()
    bar = shown(run)
    ask(bar, "open", section="graph")
    first = bar.sections["graph"].caption
    until(lambda: run.state.global_step > 50 and run.step_graph().caption != first)
    ask(bar, "open", section="graph")  # another page, while the first one looks
    assert bar.sections["graph"].caption == first
    for _ in range(3):  # a page that is closed twice counts once too often, not for ever
        ask(bar, "closed", section="graph")
    ask(bar, "open", section="graph")
    assert bar.sections["graph"].caption != first


@pytest.mark.parametrize(
    ("content", "said"),
    [({"section": "nothing"}, "no section"), ({}, "not understood"), ({"section": 3}, "`3`")],
)
def test_what_is_no_section_is_refused_in_words(shown, content, said):
    bar = shown(running())
    (answer,) = ask(bar, "open", **content)
    assert (answer["t"], bar.sections) == ("refused", {})
    assert said in answer["text"]


def test_before_the_first_step_was_compiled_a_section_says_what_to_do():
    run = new_run()
    usual = wb.watch(run)
    (answer,) = ask(usual.inspection, "open", section="graph")
    assert answer["t"] == "refused"
    assert "run.start" in answer["text"]
    usual.panel.close()
    usual.inspection.close()


def test_a_bar_that_nobody_opened_becomes_text_at_the_end_and_holds_no_value(shown):
    run = new_run(3)
    bar = shown(run)
    ask(bar, "here")
    heard = listen(bar)
    run.start([], DATA, None, step)
    run.wait(PATIENCE_S)
    (told,) = [each for each in heard if each["t"] == "sealed"]
    page = told["record"]["text/html"]
    assert page.startswith("<div><details><summary>Graph</summary><pre")
    assert "<summary>Placements</summary><table>" in page
    assert "0.w non-emb" in page
    assert "\n" in page
    assert "\\n" not in page
    again = new_run(3)
    wb.fit(again, [], DATA, None, step)
    assert Inspection(again).record() == told["record"]


def test_a_bar_of_which_a_section_was_opened_stays_at_the_end_and_answers(shown):
    run = running()
    bar = shown(run)
    ask(bar, "open", section="graph")
    run.stop()
    run.wait(PATIENCE_S)
    assert not bar.is_over
    assert bar.comm is not None
    view = bar.sections["graph"]
    ask(view, "again")
    assert view.caption.endswith(f"after update {run.state.global_step}")
    assert "<details>" in bar.record()["text/html"]


def test_while_a_run_goes_on_an_unopened_bar_asks_nothing_of_it(shown, monkeypatch):
    run = running()
    bar = shown(run)
    monkeypatch.setattr(type(run), "step_graph", lambda run: pytest.fail("it was looked into"))
    assert bar.record()["text/plain"] == bar.text()
    assert bar.html() == f"<pre>{bar.text()}</pre>"


def test_labels_are_text_in_the_record():
    def evil(params, opt, x, y, lr):
        result = steeper(params, opt, x, y, lr)
        return wb.StepResult(result.loss.named("<img src=x onerror=harm()>"), *_rest(result))

    def _rest(result):
        return result.params, result.opt

    run = new_run(1)
    wb.fit(run, [], DATA, None, evil)
    page = Inspection(run).record()["text/html"]
    assert "&lt;img" in page
    assert "<img" not in page


def test_a_bar_holds_no_run():
    run = new_run(2)
    bar = Inspection(run)
    ask(bar, "here")
    run.start([], DATA, None, step)
    ask(bar, "open", section="placements")
    run.wait(PATIENCE_S)
    gone = weakref.ref(run)
    del run
    gc.collect()
    assert gone() is None
    (answer,) = ask(bar, "open", section="graph")
    assert "the run of this view is gone" in answer["text"]
    for view in (bar, *bar.sections.values()):
        view.close()


def test_an_open_bar_changes_no_bit_of_the_run(shown):
    plain, opened = new_run(30), new_run(30)
    wb.fit(plain, [], DATA, None, step)
    bar = shown(opened)
    opened.start([], DATA, None, step)
    for name in ("graph", "placements"):
        ask(bar, "open", section=name)
    while opened.is_training:
        ask(bar.sections["graph"], "again")
        ask(bar.sections["graph"], "detail", place=0)
    opened.wait(PATIENCE_S)
    assert same_bits(plain, opened)

"""The views into a graph, driven as a person does: by keys, by clicks, in both themes."""

import os
import time
from pathlib import Path

import pytest

from tests.browser.lab import Notebook, write_notebook

pytestmark = pytest.mark.browser

# Where pictures are kept, for the documentation; none are taken without it.
PICTURES = os.environ.get("PICTURES_FOLDER")

STEP = """
import numpy as np
import workbench as wb

data = wb.data.digits()
x, y = wb.input("x", (wb.batch, 64)), wb.input("y", (wb.batch,), "int32")
w1 = wb.parameter(wb.he_normal(64, 32, seed=1, purpose="w1"), "w1")
b1 = wb.parameter(np.zeros(32, np.float32), "b1")
w2 = wb.parameter(wb.he_normal(32, 10, seed=1, purpose="w2"), "w2")
b2 = wb.parameter(np.zeros(10, np.float32), "b2")
hidden = wb.relu(x @ w1 + b1).named("hidden")
logits = (hidden @ w2 + b2).named("logits")
loss = wb.cross_entropy(logits, y).named("loss")
grads = wb.backward(loss, [w1, b1, w2, b2])
updates = {p: p - 0.1 * grads[p] for p in grads}
ctx, step = wb.Context.cpu(1).compile([loss], updates=updates, name="step")
ctx = ctx.set_values({x: data.x[:64], y: data.y[:64]}).run(step)
"""

HUGE = """
import time
leaves = [wb.parameter(np.full(3, 0.1 * i, np.float32), f"p{i}") for i in range(60)]
level = [leaves[i % 60] * leaves[i // 60] + float(i % 5) for i in range(2900)]
while len(level) > 1:
    pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
    level = [wb.tanh(p[0] - p[1]) if len(p) == 2 else p[0] for p in pairs]
huge = wb.tree(level[0], wb.Context.cpu(1))
huge
"""


def picture(notebook, selector, name):
    if PICTURES:
        notebook.page.locator(selector).first.scroll_into_view_if_needed()
        time.sleep(0.3)  # until the theme's colours have arrived everywhere
        notebook.picture(selector, Path(PICTURES) / f"{name}.png")


@pytest.fixture(scope="module")
def opened(lab, browser):
    """A function that opens a notebook of `STEP` and the cells given, and runs them all."""
    folder, address = lab
    made = []

    def opening(name, *cells):
        write_notebook(folder / f"{name}.ipynb", [STEP, *cells])
        page = browser.new_page(viewport={"width": 1240, "height": 950})
        notebook = Notebook(page, address, f"{name}.ipynb")
        made.append(notebook)
        notebook.run_all()
        return notebook

    yield opening
    for notebook in made:
        notebook.close()


@pytest.fixture(scope="module")
def shown(opened):
    """A notebook with the three views of one context."""
    notebook = opened(
        "views",
        "view = wb.tree(loss, ctx, grads=grads)\nview",
        "card = wb.why(logits, ctx)\ncard",
        "table = wb.placements(ctx)\ntable",
    )
    for name in ("tree", "why", "placements"):
        notebook.page.wait_for_selector(f".wb-{name}")
    yield notebook
    assert notebook.errors == []


def active(page):
    """The name at the row that the tree's keys act on."""
    return page.evaluate(
        """() => {
            const box = document.querySelector(".wb-tree [role=tree]");
            const row = document.getElementById(box.getAttribute("aria-activedescendant"));
            return row.querySelector(".wb-name").textContent;
        }"""
    )


def search(page, text, answer):
    """Search the tree, and wait for what it says of the search."""
    page.locator(".wb-tree input").fill(text)
    page.wait_for_function(
        "answer => document.querySelector('.wb-tree .wb-found').textContent === answer",
        arg=answer,
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_the_tree_is_walked_by_keys_alone_and_the_notebook_keeps_its_cells(shown):
    page = shown.page
    page.locator(".wb-tree input").focus()
    press(page, "ArrowDown")  # from the search into the tree
    press(page, "Home")
    root = active(page)
    press(page, "ArrowLeft")
    assert page.locator(".wb-tree [role=treeitem]").count() == 1
    press(page, "ArrowRight", "ArrowRight")
    assert active(page) != root
    press(page, "ArrowLeft", "ArrowLeft")
    assert active(page) == root
    press(page, "ArrowRight", "*", "End")
    last = active(page)
    assert last != root
    press(page, "ArrowUp", "ArrowDown")
    assert active(page) == last
    press(page, "Home")
    for key in "xdda":  # in a notebook: cut, delete, insert a cell
        press(page, key)
    assert len(shown.cells()) == 4
    press(page, "Enter")
    page.wait_for_function(
        "name => document.querySelector('.wb-tree .wb-pane h3')?.textContent === name", arg=root
    )
    assert "wb-figures" in page.locator(".wb-tree .wb-pane").inner_html()


def test_typing_a_name_goes_to_it_and_a_search_opens_the_way(shown):
    page = shown.page
    search(page, "w1", "1 of 1")
    assert active(page).endswith(" w1")
    search(page, "einsum", "1 of 2")
    press(page, "Enter")
    assert page.locator(".wb-tree .wb-found").inner_text() == "2 of 2"
    search(page, "no such name", "not found")
    search(page, "", "")
    page.get_by_role("button", name="open all").click()
    page.locator(".wb-tree [role=tree]").focus()
    page.keyboard.type("b2", delay=40)
    page.wait_for_function(
        """() => {
            const box = document.querySelector(".wb-tree [role=tree]");
            const row = document.getElementById(box.getAttribute("aria-activedescendant"));
            return row?.querySelector(".wb-name")?.textContent.endsWith(" b2");
        }"""
    )
    press(page, "Enter")
    page.wait_for_function(
        "() => /Gradient/.test(document.querySelector('.wb-tree .wb-pane').textContent)"
    )


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_views_are_accessible_in_both_themes(shown, violations, theme):
    shown.use_theme(theme)
    shown.page.locator(".wb-placements [data-column=bytes] button").click()
    search(shown.page, "einsum", "1 of 2")
    search(shown.page, "w1", "1 of 1")
    shown.page.locator(".wb-tree [role=tree]").focus()
    press(shown.page, "Enter")
    shown.page.wait_for_function(
        "() => document.querySelector('.wb-tree .wb-pane h3')?.textContent.endsWith(' w1')"
    )
    for name in ("tree", "why", "placements"):
        assert violations(shown.page, f".wb-{name}") == []
        picture(shown, f".wb-{name}", f"{name}_{theme.lower()}")
    for _ in range(2):  # the other way round, then as it was
        shown.page.locator(".wb-placements [data-column=bytes] button").click()


def test_a_button_makes_an_unreadable_node_readable_and_undo_takes_it_back(shown):
    page = shown.page
    shown.use_theme("Light")
    assert "False" in shown.execute("print(card.context.observability(logits).is_readable)")
    button = page.locator(".wb-why [data-offer=materialize]")
    button.focus()
    press(page, "Enter")
    page.wait_for_selector(".wb-why .wb-can")
    page.wait_for_selector(".wb-why .wb-figures")
    assert "µs before" in page.locator(".wb-why .wb-costs").inner_text()
    read = "print(card.context.get_values(logits).shape, ctx.observability(logits).is_readable)"
    assert shown.execute(read) == "(64, 10) False"
    picture(shown, ".wb-why", "why_applied")
    page.locator(".wb-why [data-offer=undo]").click()
    page.wait_for_selector(".wb-why .wb-cannot")
    assert shown.execute("print(card.context is ctx)") == "True"


def test_the_table_is_sorted_and_picked_from_and_marks_what_a_decision_changed(shown):
    page = shown.page
    heading = page.locator(".wb-placements [data-column=node]")
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    names = page.locator(".wb-placements .wb-rows .wb-node").all_inner_texts()
    assert names == sorted(names)
    page.locator(".wb-placements select").select_option("local")
    modes = set(page.locator(".wb-placements .wb-rows .wb-mode").all_inner_texts())
    assert modes == {"local"}
    page.locator(".wb-placements input[type=search]").fill("hidden")
    page.locator(".wb-placements [role=grid]").focus()
    press(page, "Home", "Enter")
    page.locator(".wb-placements [data-offer=materialize]").click()
    page.wait_for_selector(".wb-placements.wb-compared .wb-is-changed")
    assert "on device" in page.locator(".wb-placements .wb-is-changed").first.inner_text()
    page.locator(".wb-placements input[type=search]").fill("")
    page.locator(".wb-placements select").select_option("")
    page.locator(".wb-placements input[type=checkbox]").check()
    assert "changed" in page.locator(".wb-placements .wb-bar").inner_text()
    picture(shown, ".wb-placements", "placements_changed")


def test_ten_thousand_nodes_are_there_at_once_and_all_open_without_delay(opened):
    notebook = opened("huge", HUGE)
    page = notebook.page
    page.wait_for_selector(".wb-tree [role=treeitem]")
    assert int(notebook.execute("print(len(huge._view._drawn_at))")) > 8_700
    taken = page.evaluate(
        """async () => {
            const frame = () => new Promise(requestAnimationFrame);
            const box = document.querySelector(".wb-tree [role=tree]");
            const open = document.querySelector(".wb-tree [aria-label='open all']");
            const began = performance.now();
            open.click();
            await frame();
            const opened = performance.now() - began;
            box.scrollTop = box.scrollHeight / 2;
            await frame(); await frame();
            return { opened, rows: box.querySelectorAll("[role=treeitem]").length,
                     height: box.scrollHeight };
        }"""
    )
    assert taken["height"] > 10_000 * 20  # all are open
    assert taken["rows"] < 100  # and only those in sight exist
    assert taken["opened"] < 500
    page.wait_for_function(
        "() => [...document.querySelectorAll('.wb-tree [role=treeitem]')].every("
        "row => row.querySelector('.wb-name'))"
    )
    assert notebook.errors == []


def test_a_label_that_is_markup_stays_text(opened):
    notebook = opened(
        "labels",
        """
evil = wb.parameter(1.0, "<img src=x onerror=document.body.dataset.hurt=1>")
long = wb.parameter(2.0, "y" * 10_000)
root = (evil * long).named("<b>root</b>")
other, _ = wb.Context.cpu(1).compile([root])
wb.tree(root, other)
""",
        "wb.why(evil, other)",
        "wb.placements(other)",
    )
    page = notebook.page
    page.wait_for_selector(".wb-placements .wb-rows [role=row]")
    page.locator(".wb-tree [role=tree]").focus()
    press(page, "End", "Enter")
    page.wait_for_selector(".wb-tree .wb-pane h3")
    assert page.locator(".wb img, .wb b:has-text('root')").count() == 0
    assert page.evaluate("() => document.body.dataset.hurt ?? ''") == ""
    assert page.evaluate(
        "() => document.querySelector('.wb-tree').scrollWidth "
        "<= document.querySelector('.wb-tree').clientWidth + 1"
    )
    assert notebook.errors == []


def test_the_views_are_back_and_answer_after_the_page_was_loaded_anew(shown):
    page = shown.page
    shown.command("docmanager:save")
    page.reload(wait_until="domcontentloaded")
    shown.wait_for_kernel()
    page.wait_for_selector(".wb-tree [role=treeitem] .wb-name")
    search(page, "w2", "1 of 1")
    page.locator(".wb-tree [role=tree]").focus()
    press(page, "Enter")
    page.wait_for_function(
        "() => document.querySelector('.wb-tree .wb-pane h3')?.textContent.endsWith(' w2')"
    )

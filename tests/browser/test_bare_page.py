"""Views where there is no JupyterLab around them, as in the pages of other front ends."""

import base64
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb

pytestmark = pytest.mark.browser

OPENING = (Path(__file__).parent / "bare_page.js").read_text()
PAGE = "<!doctype html><html lang='en'><title>A page</title><body><main></main></body></html>"


class Slow(wb.Callback):
    def on_batch_end(self, event):
        time.sleep(0.005)


def _text(octets):
    return base64.b64encode(bytes(octets)).decode()


@pytest.fixture
def bare(browser):
    """``bare(view)`` shows a view in a page of its own; no page may have an error at the end."""
    opened = []

    def opening(view, *, scheme="light"):
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 900})
        errors, queue = [], []
        page.on("pageerror", lambda fault: errors.append(str(fault)))
        object.__setattr__(
            view,
            "send",
            lambda content, buffers=None: queue.append(
                [content, [_text(b) for b in buffers or []]]
            ),
        )

        def to_kernel(content):
            if content is not None:
                view._receive(view, content, [])
            told = queue[:]
            del queue[: len(told)]
            return told

        page.expose_function("toKernel", to_kernel)
        page.set_content(PAGE)
        page.add_script_tag(content=OPENING)
        state = {
            name: {"base64": _text(value)} if isinstance(value, bytes) else value
            for name, value in view.get_state().items()
            if name != "layout" and not name.startswith("_")
        }
        page.evaluate(
            "([source, style, state]) => window.openView(source, style, state)",
            [view._esm, view._css, state],
        )
        opened.append((page, errors))
        return page

    yield opening
    for page, errors in opened:
        page.close()
        assert errors == []


@pytest.fixture
def graph():
    x = wb.parameter(np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), "weights")
    root = (wb.exp(x) * 2.0).sum()
    ctx, routine = wb.Context.cpu().compile([root])
    yield root, ctx
    del routine  # it was held until here: only a routine that somebody holds is offered


@pytest.fixture
def run():
    params = {"w": np.zeros((1, 1), np.float32)}
    made = wb.Run(params, wb.sgd(params), wb.Config(10_000, 8, 0.05, 1, verbose=False))
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    data = wb.data.Dataset(x, 2 * x)

    def step(params, opt, x, y, lr):
        return wb.default_step(
            params, opt, x, y, lr, lambda params, x, y: wb.mse(x @ params["w"], y)
        )

    made.start([Slow()], data, None, step)
    yield made
    made.stop()
    made.wait()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_panel_shows_and_steers_a_run(bare, run, violations, scheme):
    page = bare(wb.watch(run).panel, scheme=scheme)
    page.wait_for_selector(".wb-panel[data-state=running]")
    page.wait_for_function(
        "() => /last/.test(document.querySelector('canvas')?.getAttribute('aria-label') ?? '')"
    )
    assert violations(page, ".wb-panel") == []
    page.get_by_role("button", name="Pause", exact=True).click()
    page.wait_for_selector(".wb-panel[data-state=paused]")
    assert run.status == "paused"
    page.get_by_role("button", name="Resume", exact=True).click()
    page.wait_for_selector(".wb-panel[data-state=running]")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_selector(".wb-panel[data-state=stopped]")
    assert not run.is_training


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_tree_opens_and_shows_a_value(bare, graph, violations, scheme):
    page = bare(wb.tree(*graph), scheme=scheme)
    page.locator("[role=treeitem] >> text=weights").first.click()
    page.wait_for_selector(".wb-tree >> text=float32")
    assert violations(page, ".wb-tree") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_tree_of_a_run_is_read_again(bare, run, violations, scheme):
    page = bare(wb.tree(run), scheme=scheme)
    page.wait_for_selector(".wb-tree >> text=updates since")
    assert violations(page, ".wb-tree") == []
    caption = page.locator(".wb-caption").inner_text()
    page.get_by_role("button", name="Read again").click()
    page.wait_for_selector(".wb-tree button:enabled >> text=Read again")
    assert page.locator(".wb-when .wb-refused").inner_text() == ""
    assert caption.startswith("`step`, version 1, values after update ")


def test_where_no_view_can_be_inside_another_the_bar_says_what_to_run(bare, run, violations):
    page = bare(wb.watch(run).inspection)
    page.get_by_role("button", name="Graph").click()
    page.wait_for_selector("[role=alert] >> text=Run wb.tree(run) in a cell")
    assert page.get_by_role("button", name="Graph").get_attribute("aria-expanded") == "false"
    assert violations(page, ".wb-inspection") == []


def test_a_card_tells_why_and_takes_its_remedy(bare, graph, violations):
    page = bare(wb.why(*graph))
    page.wait_for_selector(".wb-why >> text=It cannot be read")
    assert violations(page, ".wb-why") == []
    page.get_by_role("button", name="Run `routine` once").click()
    page.wait_for_selector(".wb-why >> text=It can be read")


def test_a_table_of_placements_is_put_in_order(bare, graph, violations):
    page = bare(wb.placements(graph[1]))
    page.wait_for_selector(".wb-placements >> text=weights")
    assert violations(page, ".wb-placements") == []


def test_an_overlay_of_no_runs_says_so(bare, tmp_path):
    page = bare(wb.overlay(tmp_path))
    page.wait_for_selector(".wb-overlay >> text=There is no recorded run")

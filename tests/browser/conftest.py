"""One server and one browser for all tests of a module, and a notebook for each test."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.browser.lab import CHROMIUM_FLAGS, Notebook, lab_server, write_notebook


@pytest.fixture(scope="module")
def browser(chromium):
    # Of the module, not of the session: an event loop runs as long as this does, which tests of
    # `asyncio` that come later could not bear.
    with sync_playwright() as session:
        made = session.chromium.launch(executable_path=chromium, args=[*CHROMIUM_FLAGS])
        yield made
        made.close()


@pytest.fixture(scope="module")
def free_pages(browser):
    """A person's browser, and its pages that show no notebook at the moment."""
    profile = browser.new_context()
    free = []

    def take(size):
        page = free.pop() if free else profile.new_page()
        page.set_viewport_size({"width": size[0], "height": size[1]})
        return page

    yield take, free
    profile.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The folder that JupyterLab serves, and its address."""
    folder = tmp_path_factory.mktemp("lab")
    with lab_server(folder, tmp_path_factory.mktemp("log") / "lab.log") as address:
        yield folder, address


@pytest.fixture
def open_notebook(lab, free_pages):
    """``open_notebook([cell, ...])`` gives a `Notebook`; no page may have an error at the end."""
    folder, address = lab
    take, free = free_pages
    opened = []

    def opening(cells, *, name=None, size=(1200, 900)):
        name = name or f"test{len(list(folder.glob('*.ipynb')))}.ipynb"
        if cells is not None:
            write_notebook(folder / name, cells)
        for other in opened:  # what a test closed itself
            give_back(other)
        notebook = Notebook(take(size), address, name)
        opened.append(notebook)
        return notebook

    def give_back(notebook):
        if notebook.is_closed and notebook.page not in free and not notebook.page.is_closed():
            free.append(notebook.page)

    yield opening
    for notebook in opened:
        notebook.close()
        give_back(notebook)
    assert [fault for notebook in opened for fault in notebook.errors] == []


@pytest.fixture(scope="session")
def violations():
    """``violations(page, selector)`` names what axe-core holds against a part of a page."""
    axe = Axe()

    def judge(page, selector):
        found = axe.run(page, context=selector).response["violations"]
        return [
            f"{each['id']}: {each['help']}: {node['html'][:200]} {node.get('failureSummary')}"
            for each in found
            for node in each["nodes"]
        ]

    return judge

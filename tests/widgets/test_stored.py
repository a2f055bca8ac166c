import re
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WATCHING = ("04_live_training.ipynb", "05_regression.ipynb")
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize("name", WATCHING)
def test_a_stored_notebook_holds_the_record_of_its_run_and_no_widget(name):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = [kind for cell in code for each in cell.outputs for kind in each.get("data", {})]
    assert WIDGET not in kinds
    (run, inside) = [each for cell in code if "wb.watch(" in cell.source for each in cell.outputs]
    assert run.data["text/plain"].startswith("Run ")
    assert "<img alt=" in run.data["text/html"]
    page = inside.data["text/html"]
    assert page.count("<details>") == 2
    assert re.search(r"<pre[^>]*>[^<]*w1 non-emb", page)
    assert "<th scope='col'>who decided</th>" in page


def test_a_stored_tree_of_a_live_run_is_its_drawing_in_lines_and_holds_no_value():
    notebook = nbformat.read(NOTEBOOKS / "04_live_training.ipynb", as_version=4)
    (tree,) = [
        each
        for cell in notebook.cells
        if "wb.tree(run)" in cell.source
        for each in cell.get("outputs", [])
    ]
    assert "w1 non-emb" in tree.data["text/plain"]
    lines = tree.data["text/plain"].count("\n")
    assert tree.data["text/html"].count("\n") == lines > 10
    assert "\\n" not in tree.data["text/html"]
    assert not re.search(r"e-\d", tree.data["text/plain"])


@pytest.mark.parametrize("name", WATCHING)
def test_an_exported_page_shows_the_record_without_a_network(name):
    page, _ = HTMLExporter().from_filename(str(NOTEBOOKS / name))
    assert 'alt="loss of each batch: first ' in page
    assert "data:image/svg+xml;base64," in page
    assert not re.search(r"unpkg|embed-amd|widget-view", page)

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
    cells = [c for c in notebook.cells if c.cell_type == "code" and "wb.watch(" in c.source]
    (output,) = [output for cell in cells for output in cell.outputs]
    assert WIDGET not in output.data
    assert output.data["text/plain"].startswith("Run ")
    assert "<img alt=" in output.data["text/html"]


@pytest.mark.parametrize("name", WATCHING)
def test_an_exported_page_shows_the_record_without_a_network(name):
    page, _ = HTMLExporter().from_filename(str(NOTEBOOKS / name))
    assert 'alt="loss of each batch: first ' in page
    assert "data:image/svg+xml;base64," in page
    assert not re.search(r"unpkg|embed-amd|widget-view", page)

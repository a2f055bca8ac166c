import json
from pathlib import Path

import jupytext
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
SIZE_LIMIT_BYTES = 500_000

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def test_every_notebook_has_its_text_and_every_text_its_notebook():
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


@each_notebook
def test_notebook_and_text_hold_the_same_cells(path):
    notebook = nbformat.read(path, as_version=4)
    text = jupytext.read(path.with_suffix(".py"), fmt="py:percent")
    assert _cells(notebook) == _cells(text), (
        f"{path.name} and its .py differ; after editing one, run `jupytext --sync {path}`"
    )


@each_notebook
def test_the_pairing_is_recorded_in_the_notebook(path):
    metadata = nbformat.read(path, as_version=4).metadata
    assert metadata["jupytext"]["formats"] == "ipynb,py:percent"
    assert metadata["kernelspec"]["name"] == "python3"


@each_notebook
def test_a_stored_notebook_was_run_from_top_to_bottom_without_an_error(path):
    code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)


@each_notebook
def test_a_stored_notebook_is_small_and_holds_no_widget_state(path):
    assert path.stat().st_size < SIZE_LIMIT_BYTES
    assert "widgets" not in json.loads(path.read_text(encoding="utf-8"))["metadata"]


def _cells(notebook):
    return [
        (cell.cell_type, cell.source.strip(), sorted(cell.metadata.get("tags", [])))
        for cell in notebook.cells
    ]

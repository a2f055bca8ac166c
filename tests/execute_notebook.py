"""Run the text half of a notebook and store what it printed in the other half.

``python tests/execute_notebook.py notebooks/04_live_training.py``.  Unlike ``jupytext --execute``
it leaves widgets out: a view that is over has become a record, and of one that is live a reader
without a kernel sees the text and the table that go with it.
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(path):
    """Run ``path`` and write the notebook beside it."""
    notebook = jupytext.read(path, fmt="py:percent")
    NotebookClient(
        notebook,
        timeout=600,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    for output in (each for cell in notebook.cells for each in cell.get("outputs", [])):
        output.get("data", {}).pop(WIDGET, None)
    nbformat.write(notebook, path.with_suffix(".ipynb"))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        execute(Path(argument))

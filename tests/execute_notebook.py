"""Run the text half of a notebook and store what it printed in the other half.

``python tests/execute_notebook.py notebooks/04_live_training.py``.  Unlike ``jupytext --execute``
it leaves the state of widgets out: a view that is over has become a record, and one that is live
has nothing to say to a reader without a kernel.
"""

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient


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
    nbformat.write(notebook, path.with_suffix(".ipynb"))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        execute(Path(argument))

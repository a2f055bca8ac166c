import json
import time

import pytest

from tests.browser.test_panel import AFTER, SEALED, SETUP, START, STEP, wait_until

pytestmark = pytest.mark.browser

WIDGET = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
VIEWS = """
x = wb.parameter(np.ones(4, np.float32), "weights")
root = (wb.exp(x) * 2.0).sum()
ctx, routine = wb.Context.cpu().compile([root])
"""
BROKEN = "text=Error displaying widget"


def _save(notebook):
    notebook.page.evaluate(
        "async () => { await window.jupyterapp.commands.execute('docmanager:save'); }"
    )


def _stored(lab, notebook):
    return json.loads((lab[0] / notebook.name).read_text())


def _wait_for_records(notebook, count):
    """Wait until the page has so many records, and they are saved."""
    notebook.page.wait_for_function(
        "(count) => { const { context } = window.jupyterapp.shell.currentWidget;"
        " return context[Symbol.for('workbench.records')]?.size >= count; }",
        arg=count,
        timeout=10_000,
    )
    _save(notebook)


@pytest.fixture
def running(open_notebook):
    made = open_notebook([SETUP, STEP, START, AFTER], size=(1200, 1400))
    made.run_all()
    wait_until(made, "running")
    return made


def test_a_file_saved_in_the_midst_of_a_run_shows_its_record_without_the_kernel(
    running, open_notebook, lab
):
    _wait_for_records(running, 2)
    stored = _stored(lab, running)
    assert all(WIDGET in each["data"] for each in stored["cells"][2]["outputs"])
    kept = stored["metadata"]["widgets"][STATE]["state"].values()
    assert [each["model_name"] for each in kept] == ["HTMLModel", "HTMLModel"]
    running.close()
    reopened = open_notebook(None, name=running.name)
    page = reopened.page
    page.wait_for_selector(".wb-record img[alt^='loss']", timeout=10_000)
    assert "Run running: epoch" in page.inner_text(".wb-record")
    assert page.locator(BROKEN).count() == 0
    reopened.close()


def test_a_page_loaded_anew_and_a_second_tab_show_the_record_when_the_run_is_over(
    running, open_notebook
):
    _save(running)
    running.page.reload(wait_until="domcontentloaded")
    running.wait_for_kernel()
    wait_until(running, "running")
    other = open_notebook(None, name=running.name)
    wait_until(other, "running")
    running.execute("run.stop(); run.wait()")
    for each in (running, other):
        each.page.wait_for_selector(SEALED, timeout=5000)
        outputs = each.cells()[2]["outputs"]
        assert [set(each["data"]) for each in outputs] == 2 * [{"text/plain", "text/html"}]


def test_a_run_that_ended_while_no_page_was_open_is_a_record_in_the_next_one(
    running, open_notebook
):
    _save(running)
    running.execute("import threading; threading.Timer(1.5, run.stop).start()")
    running.leave()
    time.sleep(2.5)
    again = open_notebook(None, name=running.name)
    again.page.wait_for_selector(SEALED, timeout=10_000)
    assert again.execute("print(run.status, run.is_training)") == "stopped False"
    outputs = again.cells()[2]["outputs"]
    assert [set(each["data"]) for each in outputs] == 2 * [{"text/plain", "text/html"}]


def test_inspections_and_recorded_runs_are_text_in_a_file_without_their_kernel(open_notebook, lab):
    cells = [SETUP, VIEWS, "wb.tree(root, ctx)", "wb.why(root, ctx)", "wb.placements(ctx)"]
    made = open_notebook([*cells, "wb.overlay('none')"])
    made.run_all()
    _wait_for_records(made, 4)
    made.close()
    reopened = open_notebook(None, name=made.name)
    page = reopened.page
    page.wait_for_function("() => document.querySelectorAll('.wb-record').length === 4")
    assert "weights" in page.inner_text(".wb-record >> nth=0")
    assert page.locator(BROKEN).count() == 0
    # What is shown anew takes the place of its record in the file.
    reopened.run_all()
    _wait_for_records(reopened, 4)
    assert len(_stored(lab, made)["metadata"]["widgets"][STATE]["state"]) == 4

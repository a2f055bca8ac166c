import re

import pytest

pytestmark = pytest.mark.browser

SETUP = """
import numpy as np
import time
import workbench as wb

train, test = wb.data.split(wb.data.digits(), 0.8, seed=1)
first = {
    "w1": wb.he_normal(64, 32, seed=1, purpose="w1"), "b1": wb.zeros(32),
    "w2": wb.he_normal(32, 10, seed=1, purpose="w2"), "b2": wb.zeros(10),
}

def model(params, x):
    return wb.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]

def loss(params, x, y):
    return wb.cross_entropy(model(params, x), y)

def metrics(params, x, y):
    return {"loss": loss(params, x, y), "accuracy": wb.accuracy(model(params, x), y)}

class Slow(wb.Callback):
    '''Makes a step last ten milliseconds, so that a test has time to look.'''
    def on_batch_end(self, event):
        time.sleep(0.01)

run = wb.Run(first, wb.adam(first), wb.Config(200, 32, 0.001, 1, verbose=False))
stopping = wb.EarlyStopping("loss", 150, higher_is_better=False, restore_best=True)
saving = wb.Checkpointing("digits.safetensors", every=0)
"""
STEP = """
@run.step
def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)
"""
START = "run.start([stopping, saving, Slow()], train, test, None, metrics)\nwb.watch(run)"
AFTER = "print('later cells run')"


SEALED = ".jp-RenderedHTMLCommon img[alt^='loss']"


# The names of all that can be reached with Tab from the beginning of the panel.
WALK = """() => [...document.querySelectorAll(
    ".wb-panel button, .wb-panel input, .wb-panel canvas, .wb-panel summary")]
    .filter((node) => !node.disabled && node.tabIndex >= 0 && node.checkVisibility())
    .map((node) => node.textContent)"""


@pytest.fixture
def notebook(open_notebook):
    made = open_notebook([SETUP, STEP, START, AFTER], size=(1200, 1400))
    made.run_all()
    wait_until(made, "running")
    return made


def wait_until(notebook, state):
    notebook.page.wait_for_selector(f".wb-panel[data-state={state}]", timeout=30_000)


def _press(notebook, name):
    notebook.page.get_by_role("button", name=name, exact=True).click()


def _ask(notebook, code):
    return notebook.execute(f"print({code})")


def _wait_for(notebook, code):
    """Wait until an expression in the kernel is true."""
    notebook.execute(
        f"limit = time.monotonic() + 10\nwhile not ({code}) and time.monotonic() < limit:\n"
        "    time.sleep(0.01)"
    )
    assert _ask(notebook, code) == "True"


def test_a_run_is_watched_paused_resumed_and_stopped(notebook):
    page = notebook.page
    page.wait_for_function(
        "() => / steps\\/s · .* left/.test("
        "document.querySelector('.wb-panel .wb-bar-text').textContent)",
        timeout=15_000,
    )
    bar = page.locator(".wb-panel [role=progressbar]").first
    assert re.match(r"epoch \d+ of 200 · \d+ % · ", bar.get_attribute("aria-valuetext"))
    assert "later cells run" in page.inner_text(".jp-Notebook")
    _press(notebook, "Pause")
    wait_until(notebook, "paused")
    steps = _ask(notebook, "run.state.global_step")
    assert _ask(notebook, "run.state.global_step") == steps
    _press(notebook, "Resume")
    wait_until(notebook, "running")
    _press(notebook, "Stop")
    page.wait_for_selector(SEALED, timeout=5000)
    assert _ask(notebook, "run.status, run.is_training") == "stopped False"
    codes = _ask(notebook, "[a.code for a in run.history.actions][-3:]")
    assert codes == "['run.pause()', 'run.resume()', 'run.stop()']"
    # What a reader without a kernel sees is the record, in the file as well.
    record, inside = notebook.cells()[2]["outputs"]
    assert set(record["data"]) == set(inside["data"]) == {"text/plain", "text/html"}
    assert "Run stopped" in page.inner_text(".jp-RenderedHTMLCommon")


def test_rate_and_patience_are_changed_while_the_run_goes_on(notebook):
    page = notebook.page
    slider = page.get_by_label("Learning rate", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    _wait_for(notebook, "run.lr > 0.001")
    slower = page.get_by_label("Learning rate as a number")
    slower.fill("0.0005")
    slower.press("Enter")
    _wait_for(notebook, "run.lr == 0.0005 and run.loop.program.rates[-1] == np.float32(0.0005)")
    patience = page.get_by_label("Patience")
    patience.fill("33")
    patience.press("Enter")
    _wait_for(notebook, "stopping.patience == 33")
    page.wait_for_selector("text=Actions: run.patience = 33")
    slower.fill("-1")
    slower.press("Enter")
    page.wait_for_selector(".wb-refusal >> text=of at least 0, got -1.0")
    slower.fill("fast")
    slower.press("Enter")
    page.wait_for_selector(".wb-refusal >> text=is not a number")
    assert _ask(notebook, "run.lr") == "0.0005"
    slower.fill("0.0006")
    slower.press("Enter")
    page.wait_for_function("() => document.querySelector('.wb-refusal').textContent === ''")
    _wait_for(notebook, "run.lr == 0.0006")


def test_a_part_of_a_curve_is_looked_at_and_the_best_parameters_come_back(notebook):
    page = notebook.page
    _wait_for(notebook, "run.state.global_step > 60 and stopping.best.seen")
    canvas = page.locator(".wb-panel canvas").first
    box = canvas.bounding_box()
    y = box["y"] + 80
    page.mouse.move(box["x"] + 0.4 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=4)
    page.mouse.up()
    page.wait_for_selector(".wb-panel >> text=Show all")
    assert re.match(r"batch \d+: training [\d.]+", page.inner_text(".wb-readout >> nth=0"))
    before = page.inner_text(".wb-readout >> nth=0")
    page.wait_for_timeout(600)
    # What is looked at stays, however long the run becomes.
    assert page.inner_text(".wb-readout >> nth=0") == before
    canvas.dblclick()
    page.wait_for_selector(".wb-panel >> text=Show all", state="hidden")
    _press(notebook, "Checkpoint")
    _wait_for(notebook, "[m.kind for m in run.store.marks].count('checkpoint') == 1")
    _press(notebook, "Restore best")
    _wait_for(notebook, "any('the best' in report.text for report in run.reports)")
    codes = _ask(notebook, "[a.code for a in run.history.actions][-2:]")
    assert codes == "['run.checkpoint()', 'run.restore_best()']"


def test_the_step_is_written_anew_while_the_run_goes_on(notebook):
    page = notebook.page
    changed = STEP.replace("loss)", "lambda p, x, y: 2 * loss(p, x, y))")
    assert notebook.execute(changed) == ""
    _wait_for(notebook, "run.step_history[-1].state == 'in force'")
    broken = STEP.replace("x, y, lr, loss", "x, y, lr, lambda p, x, y: x @ p['w2']")
    assert "Error" in notebook.execute(broken)
    page.wait_for_selector(".wb-people summary >> text=✗", timeout=5000)
    assert _ask(notebook, "run.is_training, run.step_history[-1].state") == "True failed"
    page.locator(".wb-people summary").first.click()
    _press(notebook, "Restore version 1")
    _wait_for(notebook, "len(run.step_history) == 4")
    _wait_for(notebook, "run.step_history[-1].state == 'in force'")
    steps = int(_ask(notebook, "run.state.global_step"))
    _wait_for(notebook, f"run.state.global_step > {steps}")


def test_a_panel_is_accessible_in_both_themes_and_by_keyboard_alone(notebook, violations):
    page = notebook.page
    page.wait_for_selector(".wb-panel .wb-chart canvas >> nth=1")
    for theme in ("Light", "Dark"):
        notebook.use_theme(theme)
        page.wait_for_timeout(300)
        assert violations(page, ".wb-panel") == []
    names = page.evaluate(WALK)
    wanted = ["Pause", "Stop", "Stop after epoch", "Checkpoint", "Restore best"]
    assert [name for name in names if name in wanted] == wanted
    page.locator(".wb-panel canvas").first.focus()
    for key in ("End", "ArrowLeft", "+"):
        page.keyboard.press(key)
    assert page.inner_text(".wb-readout >> nth=0").startswith("batch ")
    page.wait_for_selector(".wb-panel >> text=Show all")
    page.keyboard.press("0")
    for key in "xdda":
        page.keyboard.press(key)
    assert len(notebook.cells()) == 4


def test_a_page_that_is_loaded_anew_shows_the_whole_curve_and_a_dead_kernel_is_told(notebook):
    page = notebook.page
    notebook.command("docmanager:save")
    page.wait_for_timeout(500)
    page.reload(wait_until="domcontentloaded")
    notebook.wait_for_kernel()
    wait_until(notebook, "running")
    page.wait_for_function(
        "() => /^loss: .*last/.test("
        "document.querySelector('.wb-panel canvas')?.getAttribute('aria-label') ?? '')"
    )
    known = _ask(notebook, "run.store.done")
    shown = page.get_attribute(".wb-panel [role=progressbar]", "aria-valuenow")
    assert abs(int(known) - int(shown)) < 100
    assert int(shown) > 20
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    page.wait_for_selector(".wb-panel >> text=no word from the kernel", timeout=15_000)
    _press(notebook, "Pause")
    page.wait_for_selector(".wb-refusal >> text=The kernel is gone")


def test_a_panel_that_is_scrolled_away_is_not_drawn_and_catches_up_in_sight(open_notebook):
    long = "print('\\n'.join(str(i) for i in range(300)))"
    notebook = open_notebook([SETUP, STEP, START, long], size=(1200, 900))
    notebook.run_all()
    page = notebook.page
    wait_until(notebook, "running")
    bar = page.locator(".wb-panel [role=progressbar]").first
    scroll = "(top) => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = top; }"
    page.evaluate(scroll, 100_000)
    page.wait_for_timeout(500)
    left = bar.get_attribute("aria-valuenow")
    _wait_for(notebook, f"run.store.done > {left} + 50")
    page.wait_for_timeout(1100)
    assert bar.get_attribute("aria-valuenow") == left
    bar.scroll_into_view_if_needed()
    page.wait_for_function(
        "(left) => document.querySelector('.wb-panel [role=progressbar]').ariaValueNow > left + 50",
        arg=int(left),
        timeout=5000,
    )


def test_two_tabs_show_and_steer_one_run(notebook, open_notebook):
    notebook.command("docmanager:save")
    notebook.page.wait_for_timeout(500)
    other = open_notebook(None, name=notebook.name)
    wait_until(other, "running")
    _press(other, "Pause")
    wait_until(notebook, "paused")
    _press(notebook, "Resume")
    wait_until(other, "running")
    _press(other, "Stop")
    for each in (notebook, other):
        each.page.wait_for_selector(SEALED, timeout=5000)
    assert _ask(notebook, "run.status, run.is_training") == "stopped False"


def test_a_hostile_name_and_numbers_that_are_none_are_shown_as_what_they_are(open_notebook):
    name = "<img src=x onerror=window.harmed=1>"
    cell = f"""
run.stop()
name = {name!r} + "n" * 10_000
run.store.evaluated({{name: float("nan"), "tiny": 1e-30, "huge": 1e30}}, 0.0)
run.store.evaluated({{name: float("inf"), "tiny": 1e30, "huge": 1e-30}}, 0.0)
run.store.mark("note", name)
for message in (None, 3, {{}}, {{"ask": "rate"}}, {{"ask": "rate", "value": "1; import os"}},
                {{"ask": "window", "chart": 1e9, "view": None, "first": [], "last": {{}}}}):
    panel.panel._receive(panel.panel, message, [])
for _ in range(2000):
    panel.panel._receive(panel.panel, {{"ask": "pause"}}, [])
    panel.panel._receive(panel.panel, {{"ask": "resume"}}, [])
panel
"""
    notebook = open_notebook([SETUP, "panel, other = wb.watch(run), wb.watch(run)", cell, "other"])
    notebook.run_all()
    page = notebook.page
    wait_until(notebook, "ready")
    page.wait_for_function("() => document.querySelectorAll('.wb-panel canvas').length >= 4")
    assert page.locator(".wb-panel").count() == 2
    assert page.locator(".wb-panel img").count() == 0
    notebook.execute(STEP)
    notebook.execute("run.start([stopping, Slow()], train, test, None, metrics)")
    page.wait_for_function(
        "() => document.querySelectorAll('.wb-panel[data-state=running]').length == 2"
    )
    notebook.execute("run.stop(); run.wait()")
    page.wait_for_function("() => document.querySelectorAll('.wb-panel').length == 0")
    assert page.locator(SEALED).count() == 2
    assert page.evaluate("() => window.harmed") is None


HAS_COLOUR = """(colour) => {
    const canvas = document.querySelector(".wb-overlay canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) {
        if (colour.every((value, k) => data[i + k] === value)) return true;
    }
    return false;
}"""
RECORDED = """
for rate in (0.001, 0.003, 0.01):
    recorded = wb.Run(first, wb.adam(first), wb.Config(10, 32, rate, 1, verbose=False))
    wb.fit(recorded, [wb.RunRecord("kept", name=f"rate {rate}")], train, test, step, metrics)
"""


def test_recorded_runs_are_laid_over_each_other(open_notebook, violations):
    made = open_notebook([SETUP, STEP, RECORDED, "wb.overlay('kept')"], size=(1200, 1600))
    made.run_all()
    page = made.page
    page.wait_for_function(
        "() => /rate 0.003, last .*rate 0.01, last/.test("
        "document.querySelector('.wb-overlay canvas')?.getAttribute('aria-label') ?? '')"
    )
    page.get_by_label("Metric").select_option("val_accuracy")
    page.get_by_label("Show rate 0.003").uncheck()
    page.wait_for_function(
        "() => /^val_accuracy: rate 0.001, last [^;]*; rate 0.01, last [^;]*$/.test("
        "document.querySelector('.wb-overlay canvas').getAttribute('aria-label'))"
    )
    for theme, blue in (("Dark", [0x56, 0xB4, 0xE9]), ("Light", [0x00, 0x72, 0xB2])):
        made.use_theme(theme)
        page.wait_for_function(HAS_COLOUR, arg=blue, timeout=5000)
        assert violations(page, ".wb-overlay") == []

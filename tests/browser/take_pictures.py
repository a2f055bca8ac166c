"""Takes pictures for the documentation.

``python -m tests.browser.take_pictures docs/images``
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.lab import CHROMIUM_FLAGS, Notebook, lab_server, write_notebook
from tests.browser.test_panel import RECORDED, SETUP, STEP

START = """
run = wb.Run(first, wb.adam(first), wb.Config(60, 32, 0.001, 1, verbose=False))
run.step(step)

class Slow(wb.Callback):
    def on_batch_end(self, event):
        time.sleep(0.004)

callbacks = [
    wb.EarlyStopping("loss", 20, higher_is_better=False),
    wb.Checkpointing("digits.safetensors", every=10),
    Slow(),
]
run.start(callbacks, train, test, None, metrics)
wb.watch(run)
"""
CHANGED = """
@run.step
def step(params, opt, x, y, lr):
    def smoothed(params, x, y):
        scores = model(params, x)
        return 0.9 * wb.cross_entropy(scores, y) - 0.1 * wb.log_softmax(scores).mean()

    return wb.default_step(params, opt, x, y, lr, smoothed)
"""
WAIT = "while run.state.epoch < {}: time.sleep(0.02)"


def take(page, folder, name, selector):
    """Take a picture of what ``selector`` finds, in both themes."""
    for theme in ("Light", "Dark"):
        page.use_theme(theme)
        page.page.wait_for_timeout(1200)
        page.picture(selector, folder / f"{name}_{theme.lower()}.png")


def main(folder):
    """Take all pictures."""
    with (
        tempfile.TemporaryDirectory() as served,
        lab_server(Path(served), Path(served) / ".log") as address,
        sync_playwright() as session,
    ):
        browser = session.chromium.launch(
            executable_path="/usr/bin/chromium", args=[*CHROMIUM_FLAGS]
        )
        page = browser.new_page(viewport={"width": 1320, "height": 1700})
        write_notebook(Path(served) / "panel.ipynb", [SETUP + STEP, START])
        notebook = Notebook(page, address, "panel.ipynb")
        notebook.run_all()
        notebook.execute(WAIT.format(8))
        notebook.execute("run.lr = 0.002")
        notebook.execute(WAIT.format(14))
        notebook.execute(CHANGED)
        notebook.execute(WAIT.format(24))
        notebook.execute("run.pause()")
        take(notebook, folder, "panel", ".wb-panel")
        page.locator("[data-section=graph]").click()
        page.locator(".wb-tree input").fill("w1")
        page.wait_for_selector(".wb-tree .wb-found >> text=1 of 1")
        page.locator(".wb-tree [role=tree]").press("Enter")
        page.wait_for_selector(".wb-tree .wb-figures")
        page.locator(".wb-inspection").scroll_into_view_if_needed()
        take(notebook, folder, "usual", ".jp-Cell:has(.wb-panel) .jp-OutputArea")
        notebook.execute("run.resume(); run.stop(after='epoch'); run.wait()")
        notebook.use_theme("Light")
        page.wait_for_selector(".jp-RenderedHTMLCommon img")
        page.wait_for_timeout(1500)
        notebook.picture(".jp-RenderedHTMLCommon", folder / "record.png")
        notebook.close()
        page = browser.new_page(viewport={"width": 1320, "height": 1700})
        write_notebook(
            Path(served) / "overlay.ipynb", [SETUP + STEP + RECORDED, "wb.overlay('kept')"]
        )
        notebook = Notebook(page, address, "overlay.ipynb")
        notebook.run_all()
        page.wait_for_selector(".wb-overlay canvas")
        take(notebook, folder, "overlay", ".wb-overlay")
        notebook.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

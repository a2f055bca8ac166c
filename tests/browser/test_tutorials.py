import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = "notebooks/01_first_training.ipynb"
TOKEN = "for-this-test-only"
START_LIMIT_S = 60
RUN_LIMIT_S = 180

KERNEL_IS_IDLE = """() => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
    return session?.kernel?.status === "idle" && session.kernel.connectionStatus === "connected";
}"""
RUN_ALL = """() => {
    window.cellsHaveRun = false;
    const ran = window.jupyterapp.commands.execute("notebook:run-all-cells");
    ran.finally(() => { window.cellsHaveRun = true; });
}"""
CODE_CELLS = """() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells
    .filter((cell) => cell.cell_type === "code")"""


@pytest.fixture
def lab(tmp_path):
    """The address of what `make lab` serves, on a copy of the notebooks: JupyterLab saves them."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = (
        f"--no-browser --ip=127.0.0.1 --port={port} --ServerApp.root_dir={tmp_path} "
        f"--IdentityProvider.token={TOKEN} --expose-app-in-browser --LabApp.news_url=None"
    )
    # The environment that runs this test stands for .venv, and counts as installed.
    command = ["make", "lab", f"BIN={Path(sys.executable).parent}", f"LAB_ARGS={arguments}"]
    log = (tmp_path / "lab.log").open("w+")
    server = subprocess.Popen(
        [*command, "--old-file=.venv/.installed-lab"],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "1"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        _wait_until_it_answers(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, log)
        yield f"http://127.0.0.1:{port}/lab/tree/{TUTORIAL}?token={TOKEN}"
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(20)
        log.close()


@pytest.fixture
def page(browser):
    made = browser.new_page(viewport={"width": 1280, "height": 900})
    yield made
    made.close()


def test_make_lab_serves_the_first_tutorial_and_all_its_cells_run(lab, page):
    page.goto(lab, wait_until="domcontentloaded")
    page.wait_for_function(KERNEL_IS_IDLE, timeout=START_LIMIT_S * 1000)
    page.evaluate(RUN_ALL)
    page.wait_for_function("() => window.cellsHaveRun", timeout=RUN_LIMIT_S * 1000)
    cells = page.evaluate(CODE_CELLS)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"] == []
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


def _wait_until_it_answers(url, server, log):
    limit = time.monotonic() + START_LIMIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            log.seek(0)
            assert server.poll() is None, log.read()
            assert time.monotonic() < limit, log.read()
            time.sleep(0.2)
        else:
            return

"""JupyterLab on a free port of this machine, and a notebook in it as a person uses it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 60
CELLS_LIMIT_S = 60
# A container has no sandbox for Chromium and little shared memory; the rest keeps it off a network.
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

KERNEL_IS_IDLE = """() => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
    return session?.kernel?.status === "idle" && session.kernel.connectionStatus === "connected";
}"""
RUN_ALL = """() => {
    window.cellsHaveRun = false;
    const ran = window.jupyterapp.commands.execute("notebook:run-all-cells");
    ran.finally(() => { window.cellsHaveRun = true; });
}"""
EXECUTE = """async (code) => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const said = [];
    const future = kernel.requestExecute({ code, store_history: false });
    future.onIOPub = (message) => {
        if (message.header.msg_type === "stream") said.push(message.content.text);
        if (message.header.msg_type === "error") said.push(message.content.traceback.join("\\n"));
    };
    await future.done;
    return said.join("");
}"""
OPEN = """async (path) => {
    const { commands, shell } = window.jupyterapp;
    const opened = await commands.execute("docmanager:open", { path });
    await opened.context.ready;
    shell.activateById(opened.id);
}"""
CLOSE = """async () => {
    const { currentWidget } = window.jupyterapp.shell;
    await currentWidget.sessionContext.shutdown();
    currentWidget.context.model.dirty = false; // else a person is asked whether to save it
    currentWidget.close();
}"""
CELLS = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"


@contextmanager
def lab_server(folder, log):
    """Serve ``folder``; yields the address.  Settings and memories are in ``folder`` too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    private = folder / ".jupyter"
    settings = private / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    places = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = {
        **os.environ,
        **{f"JUPYTER_{place}": str(private / place.lower()) for place in places},
        "JUPYTERLAB_SETTINGS_DIR": str(private / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        # The kernels import what this test tests, installed or not; and what the caller wants them
        # to, such as another ipykernel.
        "PYTHONPATH": os.pathsep.join(
            [
                *(str(ROOT / each) for each in (".", "kernels", "widgets")),
                *filter(None, [os.environ.get("PYTHONPATH")]),
            ]
        ),
    }
    output = log.open("wb")
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={port}", f"--ServerApp.root_dir={folder}"),
            *("--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"),
            *("--expose-app-in-browser", "--LabApp.news_url=None"),
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_it_answers(f"{address}/api/status", server, log)
        yield address
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(20)
        output.close()


def _wait_until_it_answers(address, server, log):
    limit = time.monotonic() + START_LIMIT_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=1).close()
        except OSError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < limit, log.read_text()
            time.sleep(0.1)
        else:
            return


def write_notebook(path, cells):
    """Write a notebook of code cells."""
    notebook = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
    )
    nbformat.write(notebook, path)


class Notebook:
    """An open notebook.  ``page`` is Playwright's page, ``errors`` what went wrong in it.

    JupyterLab takes seconds to start: in a page where it runs already, a notebook is opened there.
    """

    def __init__(self, page, address, name):
        self.page = page
        self.name = name
        self.errors = []
        self.is_closed = False
        page.on("pageerror", self._note)
        if page.url.startswith(address):
            page.evaluate(OPEN, name)
            self.use_theme("Light")
        else:
            page.goto(f"{address}/lab/tree/{name}?reset", wait_until="domcontentloaded")
        self.wait_for_kernel()

    def _note(self, fault):
        self.errors.append(str(fault))

    def wait_for_kernel(self):
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=START_LIMIT_S * 1000)

    def run_all(self, *, wait=True):
        """Run all cells; cells that block are not waited for with ``wait=False``."""
        self.page.evaluate(RUN_ALL)
        if wait:
            self.page.wait_for_function("() => window.cellsHaveRun", timeout=CELLS_LIMIT_S * 1000)

    def execute(self, code):
        """Run code in the kernel, not in the notebook; returns what it printed or raised."""
        return self.page.evaluate(EXECUTE, code).strip()

    def cells(self):
        """The cells with their outputs, as the notebook file would hold them."""
        return self.page.evaluate(CELLS)

    def command(self, name, arguments=None):
        """Execute a command of JupyterLab, such as ``docmanager:save``."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args)",
            [name, arguments or {}],
        )

    def use_theme(self, name):
        """Switch to ``"Light"`` or ``"Dark"``."""
        self.command("apputils:change-theme", {"theme": f"JupyterLab {name}"})
        light = "true" if name == "Light" else "false"
        self.page.wait_for_function(
            f"() => document.body.dataset.jpThemeLight === '{light}'", timeout=10_000
        )

    def picture(self, selector, path):
        """Take a picture of the first element that ``selector`` finds."""
        self.page.locator(selector).first.screenshot(path=path)

    def leave(self):
        """Close the page; the kernel goes on."""
        self.page.close()
        self.is_closed = True

    def close(self):
        """Shut the kernel down and close the notebook; the page goes on."""
        if not self.is_closed and not self.page.is_closed():
            self.page.evaluate(CLOSE)
            self.page.remove_listener("pageerror", self._note)
        self.is_closed = True

"""What a live panel costs, and how fast it answers, in JupyterLab with a browser looking on.

Run it as ``python tests/benchmarks/panel.py``; it needs Chromium.  Everything shares this machine's
cores: the training, the server, and the browser that draws.

* cost: steps per second of one run with a panel and without, many times in turn, once with a page
  that draws it and once with a client that only receives; and the processor time of the thread that
  sends, as a share of all time;
* click to effect: from a click on the page to the next step that knows of it, steps of 10 ms;
* first paint: from the end of the cell to the first curve on the page;
* memory of kernel and page over a run of ``--long`` steps, and as ten million values go through
  the store.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from jupyter_client.manager import start_new_kernel
from playwright.sync_api import sync_playwright

from tests.browser.lab import CHROMIUM_FLAGS, Notebook, lab_server, write_notebook

SETUP = """
import json, resource, statistics, threading, time
import numpy as np
import workbench as wb

def make(name, epochs, **options):
    if name == "digits":
        data, sizes, batch = wb.data.digits(), (64, 32, 10), 32
    else:
        rows = np.random.default_rng(1)
        x = rows.normal(size=(20_000, 784)).astype(np.float32)
        data = wb.data.Dataset(x, rows.integers(0, 10, 20_000))
        sizes, batch = (784, 128, 10), 128
    a, b, c = sizes
    params = {
        "w1": wb.he_normal(a, b, seed=1, purpose="w1"), "b1": wb.zeros(b),
        "w2": wb.he_normal(b, c, seed=1, purpose="w2"), "b2": wb.zeros(c),
    }
    config = wb.Config(epochs, batch, 0.001, 1, verbose=False, **options)
    return wb.Run(params, wb.adam(params), config), data

def loss(params, x, y):
    hidden = wb.relu(x @ params["w1"] + params["b1"])
    return wb.cross_entropy(hidden @ params["w2"] + params["b2"], y)

def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, loss)

def in_turn(run, data, rounds, seconds, attended=False):
    # Steps per second, and per second of processor time, without and with the panel's messages,
    # many times in turn, in one run.
    from workbench_widgets.pump import _pumps, tell

    usual = _pumps[run]._panels()  # the panel, and the bar that nobody opened
    for each in usual:
        each.attended_until = float("inf" if attended else "-inf")
    run.start([], data, None, step)
    time.sleep(1.0)
    for each in usual:
        _pumps[run].remove(each)
    time.sleep(0.5)
    pairs = []
    for number in range(rounds):
        found = {}
        for shown in (False, True) if number % 2 else (True, False):
            pumps = [tell(run, each) for each in usual] if shown else []
            time.sleep(0.1)
            began, busy, first = time.perf_counter(), time.process_time(), run.state.global_step
            time.sleep(seconds)
            done = run.state.global_step - first
            busy = time.process_time() - busy
            found[shown] = (done / (time.perf_counter() - began), done / busy)
            if pumps:
                for pump, each in zip(pumps, usual):
                    pump.remove(each)
                time.sleep(0.3)
        pairs.append((found[False], found[True]))
    run.stop()
    run.wait()
    return pairs

class Slow(wb.Callback):
    seen = None
    def __init__(self):
        self.rates = []
    def on_batch_end(self, event):
        time.sleep(0.01)
        if not self.rates or self.rates[-1][1] != event.state.lr:
            self.rates.append((time.time(), event.state.lr))
"""

PAINTED = """() => {
    const canvas = document.querySelector(".wb-panel canvas");
    return canvas && /last/.test(canvas.getAttribute("aria-label") ?? "");
}"""
CLICKS = """async (count) => {
    const slider = document.querySelector(".wb-panel .wb-rate");
    const clicks = [];
    for (let i = 0; i < count; i += 1) {
        await new Promise((done) => setTimeout(done, 250 + 37 * (i % 5)));
        slider.value = -3 - 0.02 * (1 + (i % 20));
        clicks.push((performance.timeOrigin + performance.now()) / 1000);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
    return clicks;
}"""
HEAP = "() => performance.memory.usedJSHeapSize"


def _heap(page):
    """Megabytes that the page's scripts hold, after what they let go was collected."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    return page.evaluate(HEAP) / 1e6


def _print(notebook, code):
    return notebook.execute(f"print(json.dumps({code}))")


def _value(notebook, code):
    text = _print(notebook, code)
    try:
        return json.loads(text)
    except json.JSONDecodeError as fault:
        raise RuntimeError(text) from fault


def cost(notebook, name, rounds, seconds, *, attended):
    """Steps per second without and with a panel, in turn; as if somebody moved there or not."""
    options = "steps_per_epoch=1000, " if name == "digits" else ""
    notebook.execute(f"run, data = make('{name}', 10**6, {options})")
    notebook.command("notebook:run-cell")
    notebook.page.wait_for_selector(".wb-panel", timeout=20_000)
    return _value(notebook, f"in_turn(run, data, {rounds}, {seconds}, {attended})")


def cost_of_sending(name, rounds, seconds):
    """Steps per second without and with a panel that nobody draws, in turn."""
    options = "steps_per_epoch=1000, " if name == "digits" else ""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        printed = []

        def hear(message):
            if message["msg_type"] in ("stream", "error"):
                printed.append(str(message["content"].get("text") or message["content"]))

        code = f"run, data = make('{name}', 10**6, {options})\npanel = wb.watch(run)\n"
        code += f"print(json.dumps(in_turn(run, data, {rounds}, {seconds})))"
        client.execute_interactive(SETUP + code, output_hook=hear, timeout=600)
        return json.loads("".join(printed))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def sending(notebook, name, seconds):
    """The processor time of the thread that sends, as a share of all time."""
    options = "steps_per_epoch=1000, " if name == "digits" else ""
    notebook.execute(f"run, data = make('{name}', 10**6, {options})")
    notebook.command("notebook:run-cell")
    notebook.page.wait_for_selector(".wb-panel", timeout=20_000)
    notebook.execute("run.start([], data, None, step); time.sleep(1)")
    notebook.execute(
        "thread = [t for t in threading.enumerate() if t.name == 'wb-panel'][0]\n"
        "clock = time.pthread_getcpuclockid(thread.ident)\n"
        "before, began = time.clock_gettime(clock), time.perf_counter()\n"
        f"time.sleep({seconds})\n"
        "share = (time.clock_gettime(clock) - before) / (time.perf_counter() - began)\n"
        "run.stop(); run.wait()"
    )
    return _value(notebook, "share")


def _lost(pairs):
    """What a panel costs of the steps per second, and per second of the kernel's own work."""
    wall, busy = (
        100 * (1 - statistics.median(shown[kind] / without[kind] for without, shown in pairs))
        for kind in (0, 1)
    )
    return f"{wall:.2f} % of the steps per second, {busy:.2f} % of those per processor second"


def clicks(notebook, count):
    """Milliseconds from clicks to the steps that knew of them."""
    notebook.execute("run, data = make('digits', 10**6)\nslow = Slow()")
    notebook.command("notebook:run-cell")
    notebook.execute("run.start([slow], data, None, step)")
    notebook.page.wait_for_selector(".wb-panel[data-state=running]", timeout=20_000)
    made = notebook.page.evaluate(CLICKS, count)
    notebook.execute("time.sleep(0.5); run.stop(); run.wait()")
    seen = [at for at, _ in _value(notebook, "slow.rates")[1:]]
    return [1000 * (min(at for at in seen if at > click) - click) for click in made]


def first_paint(notebook, rounds):
    """Milliseconds from the end of the cell to the first curve on the page."""
    found = []
    for _ in range(rounds):
        notebook.execute("run, data = make('digits', 10**6)\nslow = Slow()")
        notebook.execute("run.start([slow], data, None, step); time.sleep(0.5)")
        found.append(
            notebook.page.evaluate(
                """async (painted) => {
                    await window.jupyterapp.commands.execute("notebook:run-cell");
                    const began = performance.now();
                    const isPainted = eval(painted);
                    while (!isPainted()) await new Promise(requestAnimationFrame);
                    return performance.now() - began;
                }""",
                PAINTED,
            )
        )
        notebook.execute("run.stop(); run.wait()")
    return found


def memory(notebook, steps):
    """Megabytes of kernel and page as a run goes on, evaluated after each epoch, by steps."""
    notebook.execute(
        "run, data = make('digits', 10**9)\n"
        "train, held_out = wb.data.split(data, 0.8, seed=1)\n"
        "metrics = lambda params, x, y: {'loss': loss(params, x, y)}\n"
        "resident = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6"
    )
    notebook.command("notebook:run-cell")
    notebook.execute("run.start([], train, held_out, step, metrics)")
    rows = []
    wanted = 0
    while wanted < steps:
        wanted += max(1, steps // 10)
        notebook.execute(f"while run.state.global_step < {wanted}: time.sleep(0.05)")
        heap = _heap(notebook.page)
        rows.append(
            (_value(notebook, "run.state.global_step"), _value(notebook, "resident()"), heap)
        )
    notebook.execute("run.stop(); run.wait()")
    return rows


def memory_of_values(notebook, millions):
    """Megabytes of kernel and page as values go through the store, by millions."""
    notebook.execute(
        "run, data = make('digits', 10**9)\n"
        "resident = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6\n"
        "losses = np.random.default_rng(1).random(2000, np.float32)"
    )
    notebook.command("notebook:run-cell")
    notebook.page.wait_for_selector(".wb-panel", timeout=20_000)
    rows = []
    for _ in range(millions):
        notebook.execute("for _ in range(500): run.store.add(losses, {})\ntime.sleep(1.5)")
        heap = _heap(notebook.page)
        rows.append((_value(notebook, "run.store.done"), _value(notebook, "resident()"), heap))
    return rows


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--long", type=int, default=0, help="steps of the run for memory")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server(Path(folder), Path(folder) / ".log") as address,
        sync_playwright() as session,
    ):
        write_notebook(Path(folder) / "panel.ipynb", ["wb.watch(run)"])
        browser = session.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=[*CHROMIUM_FLAGS, "--enable-precise-memory-info"],
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        notebook = Notebook(page, address, "panel.ipynb")
        notebook.execute(SETUP)
        paints = first_paint(notebook, 5)
        print("first paint, ms:", [round(each) for each in paints])
        times = sorted(clicks(notebook, 40))
        print(
            f"click to effect: median {statistics.median(times):.0f} ms, "
            f"95 % within {times[int(0.95 * len(times))]:.0f} ms, of {len(times)}"
        )
        for name in ("digits", "mnist"):
            pairs = cost_of_sending(name, options.rounds, options.seconds)
            print(f"{name}, nobody draws: a panel costs {_lost(pairs)} (medians)")
            share = sending(notebook, name, 5.0)
            print(f"{name}: the thread that sends takes {100 * share:.2f} % of one core")
            pairs = cost(notebook, name, options.rounds, options.seconds, attended=True)
            print(f"{name}, with a page and somebody there: a panel costs {_lost(pairs)}")
            pairs = cost(notebook, name, options.rounds, options.seconds, attended=False)
            print(f"{name}: {statistics.median(a[0] for a, _ in pairs):,.0f} steps/s without")
            print(f"{name}, with a page: a panel costs {_lost(pairs)} (medians)")
        if options.long:
            for step, resident, heap in memory(notebook, options.long):
                print(f"{step:>12,} steps: kernel {resident:.1f} MB, page {heap:.1f} MB")
            for count, resident, heap in memory_of_values(notebook, 10):
                print(f"{count:>12,} values: kernel {resident:.1f} MB, page {heap:.1f} MB")
        browser.close()


if __name__ == "__main__":
    main()

"""Time what a person waits for when looking into a graph.

Run as ``python tests/benchmarks/looking.py [--rounds N] [--browser]``:

* ``printf_tree`` of a tree of 1,000 nodes, all of which must be computed again to be shown, in a
  process that has compiled such kernels before (their machine code is on disk) and has not (it is
  not);
* one question whether a node can be read, asked of each of 1,000 nodes on its own;
* the rows of a tree of 10,000 nodes, and the details of one;
* with ``--browser``: from the start of a cell that shows such a tree until its rows are painted in
  JupyterLab, and from a click on "Open all" until the next frame.

Figures are medians over the rounds: processor time in Python, and what a clock shows in a browser.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.graph.tensor import topological_order
from workbench.runtime.graph_view import GraphView
from workbench.runtime.show_tree import tree_text

ONCE: Final = "--once"
NO_CAPS: Final = {
    "max_visits": 10**6,
    "max_inline_fanin": -1,
    "max_inline_cost": 10**9,
    "max_shared_cost": 10**9,
}
HUGE: Final = """
import numpy as np, time, workbench as wb
from tests.benchmarks.looking import wide_graph
root, ctx = wide_graph(10_000), wb.Context.cpu(1)
wb.tree(wide_graph(10), ctx)
"""
SHOW: Final = """
began = time.perf_counter()
view = wb.tree(root, ctx)
made = time.perf_counter() - began
view
"""


def wide_graph(count: int) -> wb.Tensor:
    """Return a tree of about ``count`` nodes over 60 leaves: products, differences, tanh."""
    leaves = [wb.parameter(np.full(3, 0.1 * i, np.float32), f"p{i}") for i in range(60)]
    level = [leaves[i % 60] * leaves[i // 60 % 60] + float(i % 5) for i in range(count // 4)]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [wb.tanh(p[0] - p[1]) if len(p) == 2 else p[0] for p in pairs]
    return level[0]


def ran(root: wb.Tensor) -> wb.Context:
    """Return a context in which ``root`` was computed, and everything below it is virtual."""
    with wb.settings(**NO_CAPS):  # pyright: ignore[reportArgumentType]
        ctx, routine = wb.Context.cpu(1).compile([root.sum()])
    return ctx.run(routine)


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time that ``action`` takes, whatever else the machine does."""
    began = process_time()
    action()
    return process_time() - began


def first_tree(cache: str) -> float:
    """Return the seconds of the first tree that a new process prints."""
    done = subprocess.run(
        [sys.executable, __file__, ONCE],
        env={**os.environ, "WORKBENCH_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def measure(rounds: int) -> None:
    """Print what needs no browser."""
    root = wide_graph(1000)
    nodes, ctx = topological_order([root]), ran(root)
    verdicts = ctx.observabilities(nodes)
    again = sum(each.reading.value == "recomputable" for each in verdicts)
    print(f"a tree of {len(nodes)} nodes, of which {again} are computed again")
    trees = [seconds(lambda: tree_text(ctx, root)) for _ in range(rounds + 1)]
    print(f"  printed, later in a process   {median(trees[1:]):8.3f} s")
    with tempfile.TemporaryDirectory() as cache:
        print(f"  first in a process, empty cache {first_tree(cache):6.3f} s")
        first = median(first_tree(cache) for _ in range(rounds))
        print(f"  first in a process            {first:8.3f} s")
    each = [seconds(lambda: [ctx.observability(node) for node in nodes]) for _ in range(rounds)]
    print(f"  one question about one node   {median(each) / len(nodes) * 1e6:8.1f} us")
    one = [seconds(lambda: ctx.observability(root)) for _ in range(rounds)]
    print(f"  the same about the root       {median(one) * 1e6:8.1f} us")

    huge, empty = wide_graph(10_000), wb.Context.cpu(1)
    made = [seconds(lambda: GraphView(huge, empty).rows(range(60))) for _ in range(rounds)]
    view = GraphView(huge, empty)
    print(f"a tree of {len(topological_order([huge]))} nodes, {len(view)} places")
    print(f"  its form and its first rows   {median(made):8.3f} s")
    print(f"  60 rows more                  {median(_rows(view, rounds)) * 1e3:8.1f} ms")
    found = [seconds(lambda: view.find("tanh")) for _ in range(rounds)]
    print(f"  a search                      {median(found) * 1e3:8.1f} ms")


def _rows(view: GraphView, rounds: int) -> list[float]:
    return [seconds(lambda: view.rows(range(5000, 5060))) for _ in range(rounds)]


def measure_in_a_browser(rounds: int) -> None:
    """Print how long it takes until a page has painted a tree."""
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import CHROMIUM_FLAGS, Notebook, lab_server, write_notebook

    folder = Path(tempfile.mkdtemp())
    cells = [HUGE, *([SHOW] * rounds)]
    with lab_server(folder, folder / "log") as address, sync_playwright() as session:
        write_notebook(folder / "huge.ipynb", cells)
        browser = session.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        notebook = Notebook(page, address, "huge.ipynb")
        painted: list[float] = []
        made: list[float] = []
        opened: list[float] = []
        page.evaluate(RUN_NEXT)
        page.wait_for_selector(".wb-tree [role=treeitem]")
        for _ in range(rounds):
            painted.append(page.evaluate(UNTIL_PAINTED))
            made.append(float(notebook.execute("print(made)")))
            opened.append(page.evaluate(OPEN_ALL))
        print("in JupyterLab")
        print(f"  the kernel makes the view     {median(made):8.3f} s")
        print(f"  from the cell's start to rows {median(painted) / 1e3:8.3f} s")
        print(f"  all opened                    {median(opened):8.1f} ms")
        notebook.close()


RUN_NEXT: Final = """async () => {
    const { commands, shell } = window.jupyterapp;
    shell.currentWidget.content.activeCellIndex = 0;
    await commands.execute("notebook:run-cell-and-select-next");
}"""
UNTIL_PAINTED: Final = """async () => {
    const { commands } = window.jupyterapp;
    const count = () => [...document.querySelectorAll(".wb-tree")]
        .filter((tree) => tree.querySelector("[role=treeitem] .wb-name")).length;
    const before = count();
    const began = performance.now();
    commands.execute("notebook:run-cell-and-select-next");
    while (count() === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""
OPEN_ALL: Final = """async () => {
    const open = [...document.querySelectorAll(".wb-tree [aria-label='open all']")].at(-1);
    const began = performance.now();
    open.click();
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument(ONCE, action="store_true", help=argparse.SUPPRESS)
    asked: Any = parser.parse_args()
    if asked.once:
        root = wide_graph(1000)
        ctx = ran(root)
        print(seconds(lambda: tree_text(ctx, root)))
        return
    measure(asked.rounds)
    if asked.browser:
        measure_in_a_browser(asked.rounds)


if __name__ == "__main__":
    main()

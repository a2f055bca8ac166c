"""Time how long a changed step takes to take over, and what the training loses meanwhile.

Run as ``python tests/benchmarks/swap.py [--rounds N]``.

Each round is a process of its own that trains the digits perceptron (64-32-10, batches of 32, Adam)
in the background and changes its step as a person would, by running a cell again. It is timed from
the call to the first batch of the new step; the updates made meanwhile are counted and compared
with what the run makes in the same time undisturbed. Cold rounds begin with an empty cache of
compiled kernels, warm ones find it filled by a round before. Figures are medians over the rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb

SIZES: Final = (64, 32, 10)
DEEPER: Final = (64, 32, 16, 10)
LONG: Final = 10_000_000
UNDISTURBED_S: Final = 1.0

Activation = Callable[[wb.Tensor], wb.Tensor]


def _parameters(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    return [
        {"w": wb.he_normal(m, n, seed=1, purpose=f"layer {k}"), "b": wb.zeros(n)}
        for k, (m, n) in enumerate(pairwise(sizes))
    ]


def _step(factor: float, activation: Activation) -> Callable[..., wb.StepResult]:
    def logits(params: Any, x: wb.Tensor) -> wb.Tensor:
        for layer in params[:-1]:
            x = activation(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def loss(params: Any, x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
        return factor * wb.cross_entropy(logits(params, x), y)

    def step(params: Any, opt: Any, x: wb.Tensor, y: wb.Tensor, lr: wb.Tensor) -> wb.StepResult:
        return wb.default_step(params, opt, x, y, lr, loss)

    return step


def _round() -> dict[str, tuple[float, float]]:
    """Return for each change how long it took, and the share of the updates that were kept."""
    rng = np.random.default_rng(0)
    data = wb.data.Dataset(rng.normal(size=(1437, 64)), rng.integers(0, 10, 1437), dtype="float32")
    params = _parameters(SIZES)
    run = wb.Run(params, wb.adam(params), wb.Config(LONG, 32, 1e-3, 1, verbose=False))
    run.start([], data, None, _step(1.0, wb.relu))
    while run.state.global_step < 1000:
        sleep(0.01)
    changes: dict[str, Callable[[], object]] = {
        "same text": lambda: run.step(_step(1.0, wb.relu)),
        "loss scaled": lambda: run.step(_step(0.5, wb.relu)),
        "another activation": lambda: run.step(_step(1.0, wb.gelu)),
        "one layer more": lambda: run.step(_step(1.0, wb.relu), params=_parameters(DEEPER)),
        "back to the first": run.step_history[0].restore,
    }
    found: dict[str, tuple[float, float]] = {}
    for name, change in changes.items():
        before = run.state.global_step
        sleep(UNDISTURBED_S)
        pace = (run.state.global_step - before) / UNDISTURBED_S
        before, began = run.state.global_step, perf_counter()
        change()
        run.step_history[-1].wait()
        took = perf_counter() - began
        found[name] = took, (run.state.global_step - before) / (pace * took)
    run.stop()
    run.wait()
    return found


def _rounds(cache: str, count: int) -> list[dict[str, tuple[float, float]]]:
    made: list[dict[str, tuple[float, float]]] = []
    for number in range(count):
        folder = cache or tempfile.mkdtemp()
        done = subprocess.run(
            [sys.executable, __file__, "--one"],
            env={**os.environ, "XDG_CACHE_HOME": folder},
            capture_output=True,
            text=True,
            check=True,
        )
        if number or not cache:  # the first round with a cache fills it
            made.append(json.loads(done.stdout))
    return made


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        sys.stdout.write(json.dumps(_round()))
        return
    with tempfile.TemporaryDirectory() as cache:
        kinds = {"cold": _rounds("", asked.rounds), "warm": _rounds(cache, asked.rounds + 1)}
    for kind, rounds in kinds.items():
        for change in rounds[0]:
            took = median(each[change][0] for each in rounds)
            kept = median(each[change][1] for each in rounds)
            text = f"{kind} {change:<20} {1e3 * took:7.0f} ms  {kept:5.0%} of the updates made\n"
            sys.stdout.write(text)


if __name__ == "__main__":
    main()

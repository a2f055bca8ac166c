"""Time what the execution ledger adds to a run.

Run as ``python tests/benchmarks/ledger.py [--rounds N]``. A run as it is, and one whose checks and
notes do nothing, are timed in turn; what the ledger adds is the median of their differences:

* a step of the digits MLP with Adam, in one routine;
* the same as two routines, gradients and update, in turn: each finds the other's marks;
* two routines in turn that share the 450 buffers of 150 parameters of one number each;
* gradients of these 150 added up in a micro-step, each of which is counted.

Times are of this thread's processor, which other programs do not lengthen much.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Final
from unittest import mock

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.runtime.ledger import Ledger

RUNS: Final = 200
"""Runs that are timed together."""

Turn = Callable[[], object]


def mlp() -> tuple[wb.Tensor, dict[wb.Tensor, np.ndarray]]:
    """Return the loss of the digits MLP, and a batch of 32 rows."""
    numbers = np.random.default_rng(0)
    x, y = wb.input("x", (wb.batch, 64)), wb.input("y", (wb.batch,), "int64")
    w1, w2 = (
        wb.parameter(numbers.normal(size=s).astype(np.float32) * 0.1, n)
        for s, n in (((64, 32), "w1"), ((32, 10), "w2"))
    )
    b1, b2 = (wb.parameter(np.zeros(n, np.float32), f"b{n}") for n in (32, 10))
    loss = wb.cross_entropy(wb.relu(x @ w1 + b1) @ w2 + b2, y).named("loss")
    return loss, {
        x: numbers.normal(size=(32, 64)).astype(np.float32),
        y: numbers.integers(0, 10, 32),
    }


def many() -> tuple[wb.Tensor, dict[wb.Tensor, np.ndarray]]:
    """Return the sum of the squares of 150 parameters."""
    params = [wb.parameter(np.ones(1, np.float32), f"p{i}") for i in range(150)]
    return wb.sum(wb.concat([p * p for p in params], 0)).named("loss"), {}


def together(loss: wb.Tensor, values: dict[wb.Tensor, np.ndarray]) -> Turn:
    """Return a turn of one routine."""
    step = wb.grad_update(loss) + wb.adam_update(loss, learning_rate=1e-3)
    ctx, routine = wb.Context.cpu(1).compile(step)
    held = [ctx.set_values(values)]

    def turn() -> None:
        held[0] = held[0].run(routine)

    return turn


def apart(loss: wb.Tensor, values: dict[wb.Tensor, np.ndarray]) -> Turn:
    """Return a turn of two routines."""
    ctx, gradients = wb.Context.cpu(1).compile(wb.grad_update(loss))
    ctx, update = ctx.compile(wb.adam_update(loss, learning_rate=1e-3))
    held = [ctx.set_values(values)]

    def turn() -> None:
        held[0] = held[0].run(gradients).run(update)

    return turn


def counted(loss: wb.Tensor, values: dict[wb.Tensor, np.ndarray]) -> Turn:
    """Return a turn of one micro-step."""
    ctx, routine = wb.Context.cpu(1).compile(wb.grad_update(loss, accum_steps=10**9))
    held = [ctx.set_values(values)]

    def turn() -> None:
        held[0] = held[0].run(routine)

    return turn


def nothing(*_: object) -> None:
    """Check nothing and note nothing; a mock would take longer than what it stands for."""


def seconds(turn: Turn) -> float:
    """Return how long a turn takes."""
    began = thread_time()
    for _ in range(RUNS):
        turn()
    return (thread_time() - began) / RUNS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    without = [
        mock.patch("workbench.runtime.running.check_lineage_runnable", nothing),
        mock.patch("workbench.runtime.running.check_reset", nothing),
        mock.patch.object(Ledger, "ran", nothing),
        mock.patch("workbench.runtime.running._count", nothing),
    ]
    works = {
        "digits MLP and Adam in one routine": (together(*mlp()), 1),
        "the same in two": (apart(*mlp()), 2),
        "150 parameters in two routines": (apart(*many()), 2),
        "150 gradients added up": (counted(*many()), 1),
    }
    for name, (turn, runs) in works.items():
        turn()
        whole: list[float] = []
        bare: list[float] = []
        for _ in range(rounds):
            whole.append(seconds(turn))
            for patch in without:
                patch.start()
            bare.append(seconds(turn))
            for patch in without:
                patch.stop()
        added = median(a - b for a, b in zip(whole, bare, strict=True)) / runs
        print(
            f"{name:<36} {median(whole) / runs * 1e6:7.1f} us a run, "
            f"of which the ledger {added * 1e6:5.2f} us"
        )


if __name__ == "__main__":
    main()

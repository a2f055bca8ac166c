"""Time a run that goes on long after its loss is 0, with subnormal numbers as 0 and without.

Run as ``python tests/benchmarks/long.py [--steps N] [--rounds N] [--threads N]``.

The 64-32-10 perceptron learns the digits by heart: Adam, float32, batches of 32, epochs of 10,000
steps. From the first epoch on whose mean loss is shown as 0.0000 it trains ``--steps`` steps more.
Its moments and gradients decay meanwhile below the smallest normal number. The two ways to treat
those take turns. Shown are steps a second: of the second epoch, at first and of each tenth of what
follows, each the median over its epochs and the rounds, and what share it is of the first speed
where they are 0.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.backends.numba_cpu.backend import NumbaCpu, kernel_store
from workbench.train.events import EpochEnd
from workbench_kernels import Runner

EPOCH: Final = 10_000
PARTS: Final = 10
SHOWN_AS_ZERO: Final = 0.00005
WAYS: Final = {"as 0": False, "computed with": True}


def _loss(params: dict[str, wb.Tensor], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
    hidden = wb.relu(x @ params["w1"] + params["b1"])
    return wb.cross_entropy(hidden @ params["w2"] + params["b2"], y)


def step(
    params: dict[str, wb.Tensor], opt: wb.OptState, x: wb.Tensor, y: wb.Tensor, lr: wb.Tensor
) -> wb.StepResult:
    """Learn one batch."""
    return wb.default_step(params, opt, x, y, lr, _loss)


class Clock(wb.Callback):
    """Notes the speed of each epoch, and stops so many epochs after the loss is 0."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.speeds: list[float] = []
        self.zero_at = 0
        self.began = perf_counter()

    def on_epoch_end(self, event: EpochEnd) -> None:
        """Note the epoch, and whether it is the last."""
        now = perf_counter()
        self.speeds.append(EPOCH / (now - self.began))
        self.began = now
        if not self.zero_at and event.state.train_loss < SHOWN_AS_ZERO:
            self.zero_at = len(self.speeds)
        if self.zero_at and len(self.speeds) >= self.zero_at + self.epochs:
            event.state.request_stop("that is long enough")


def timed(threads: int, epochs: int, *, keep_subnormals: bool) -> Clock:
    """Return the clock of a run that went on for ``epochs`` epochs after its loss was 0."""
    params = {
        "w1": wb.he_normal(64, 32, seed=1, purpose="w1"),
        "b1": wb.zeros(32),
        "w2": wb.he_normal(32, 10, seed=1, purpose="w2"),
        "b2": wb.zeros(10),
    }
    backend = NumbaCpu(threads)
    # There is no switch for this: whoever trains has no use for one.
    backend._runner = Runner(threads, store=kernel_store(), keep_subnormals=keep_subnormals)
    config = wb.Config(10**6, 32, 1e-3, 1, verbose=False, steps_per_epoch=EPOCH)
    run = wb.Run(params, wb.adam(params), config, context=wb.Context(backend))
    clock = Clock(epochs)
    wb.fit(run, [clock], wb.data.digits(), None, step)
    return clock


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args(arguments)
    epochs = max(PARTS, asked.steps // EPOCH)
    clocks: dict[str, list[Clock]] = {way: [] for way in WAYS}
    for _ in range(asked.rounds):
        for way, keep in WAYS.items():
            clocks[way].append(timed(asked.threads, epochs, keep_subnormals=keep))
    # The first epoch compiles.
    first = {way: median(clock.speeds[1] for clock in found) for way, found in clocks.items()}
    for way, found in clocks.items():
        print(f"subnormal numbers {way}: at first {first[way]:,.0f} steps a second")
        _show(found, epochs, next(iter(first.values())))


def _show(clocks: list[Clock], epochs: int, first: float) -> None:
    for part in range(PARTS):
        lo, hi = (epochs * number // PARTS for number in (part, part + 1))
        speed = median(
            speed
            for clock in clocks
            for speed in clock.speeds[clock.zero_at + lo : clock.zero_at + hi]
        )
        print(f"  {hi * EPOCH:>9,} steps after 0: {speed:>9,.0f}  {speed / first:6.1%}")
    zeros = ", ".join(f"{clock.zero_at * EPOCH:,}" for clock in clocks)
    print(f"  the loss was 0 after {zeros} steps")


if __name__ == "__main__":
    main()

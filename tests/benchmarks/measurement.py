"""One contender on one workload in a process of its own; prints what it measured as JSON.

Run as ``python -m tests.benchmarks.measurement WORK CONTENDER THREADS [--first-step-only]``.
"""

import argparse
import importlib
import json
import math
import os
import platform
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from tests.benchmarks import contender as contenders
from tests.benchmarks.contender import BLOCK_STEPS, Contender, ContenderMissing, RunSteps

if TYPE_CHECKING:
    from tests.benchmarks.workloads import Workload

# Blocks of about BLOCK_S are timed until TIMED_S have passed, and at least three of them.
BLOCK_S: Final = 0.3
TIMED_S: Final = 2.0
BLOCKS_MIN: Final = 3
BLOCK_STEPS_MIN: Final = 10
CALIBRATION_STEPS: Final = 20


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one process found out.

    Parameters
    ----------
    version
        Of the contender's library.
    import_s
        Import of the library, numpy included.
    first_s
        From numpy arrays to the first step's loss: placing, building, compiling, the step.
    losses
        Of the first steps.
    block_us
        Microseconds a step, for each timed block.
    others
        How many processors other processes kept busy meanwhile; None where that is not known.
    peak_mb
        The most memory ever resident in the process, in 1e6 bytes.
    """

    version: str
    import_s: float
    first_s: float
    losses: list[float]
    block_us: list[float]
    others: float | None
    peak_mb: float


def measure(contender: Contender, work_name: str, threads: int, *, first_step_only: bool) -> object:
    """Return a `Measurement`, or a dict that says why there is none."""
    start = perf_counter()
    try:
        library = importlib.import_module(contender.library)
    except ModuleNotFoundError as error:
        if error.name != contender.library:  # it is there, and broken
            raise
        return {"missing": f"{contender.library} is not installed"}
    import_s = perf_counter() - start

    # Only now: these import numpy, which every library imports too and is to be timed with it.
    workloads = importlib.import_module("tests.benchmarks.workloads")
    reference = importlib.import_module("tests.benchmarks.reference")
    work: Workload = workloads.find(work_name)
    problem = workloads.draw(work)
    module = importlib.import_module(f"tests.benchmarks.contenders.{contender.module}")
    build: Callable[..., RunSteps] = module.build

    start = perf_counter()
    try:
        run_steps = build(problem, threads)
    except ContenderMissing as error:
        return {"missing": str(error)}
    losses = [float(loss) for loss in run_steps(1)]
    first_s = perf_counter() - start

    block_us: list[float] = []
    others: float | None = None
    if not first_step_only:
        losses += [float(loss) for loss in run_steps(reference.CHECKED_STEPS - 1)]
        before = Load.now()
        block_us = timed_blocks(run_steps, whole_blocks=contender.whole_blocks)
        others = Load.now().others_since(before)
    return Measurement(
        version=str(getattr(library, "__version__", "")),
        import_s=import_s,
        first_s=first_s,
        losses=losses,
        block_us=block_us,
        others=others,
        peak_mb=peak_mb(),
    )


def timed_blocks(run_steps: RunSteps, *, whole_blocks: bool) -> list[float]:
    """Return the microseconds a step of several blocks, after an untimed block."""
    steps = BLOCK_STEPS if whole_blocks else block_length(_seconds(run_steps, CALIBRATION_STEPS))
    _seconds(run_steps, steps)
    blocks: list[float] = []
    spent_s = 0.0
    while spent_s < TIMED_S or len(blocks) < BLOCKS_MIN:
        block_s = _seconds(run_steps, steps)
        spent_s += block_s
        blocks.append(block_s / steps * 1e6)
    return blocks


def block_length(calibration_s: float) -> int:
    """Return how many steps make a block, when `CALIBRATION_STEPS` took ``calibration_s``."""
    wanted = round(BLOCK_S / calibration_s * CALIBRATION_STEPS)
    return min(max(wanted, BLOCK_STEPS_MIN), BLOCK_STEPS)


def _seconds(run_steps: RunSteps, steps: int) -> float:
    start = perf_counter()
    losses = run_steps(steps)
    elapsed = perf_counter() - start
    if len(losses) != steps or not math.isfinite(float(losses[-1])):
        raise RuntimeError(f"{len(losses)} losses for {steps} steps, the last is {losses[-1]}")
    return elapsed


def peak_mb() -> float:
    """Return the largest resident size that this process had, in 1e6 bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count what the parent held before this program started
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


@dataclass(frozen=True, slots=True)
class Load:
    """Seconds of processor time used so far, by this process and by the whole machine."""

    wall_s: float
    own_s: float
    machine_s: float | None

    @classmethod
    def now(cls) -> "Load":
        """Read the clocks."""
        machine_s = None
        stat = Path("/proc/stat")
        if stat.exists():
            # user nice system idle iowait irq softirq steal, in ticks
            ticks = [int(number) for number in stat.read_text().split(maxsplit=9)[1:9]]
            machine_s = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(perf_counter(), used.ru_utime + used.ru_stime, machine_s)

    def others_since(self, before: "Load") -> float | None:
        """Return how many processors others kept busy on average between ``before`` and this."""
        if self.machine_s is None or before.machine_s is None:
            return None
        others_s = (self.machine_s - before.machine_s) - (self.own_s - before.own_s)
        return max(0.0, others_s / (self.wall_s - before.wall_s))


def limit_threads(threads: int) -> None:
    """Keep this process on ``threads`` of its processors, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work")
    parser.add_argument("contender", type=contenders.find)
    parser.add_argument("threads", type=int)
    parser.add_argument("--first-step-only", action="store_true")
    asked = parser.parse_args()
    limit_threads(asked.threads)
    found = measure(
        asked.contender, asked.work, asked.threads, first_step_only=asked.first_step_only
    )
    print(json.dumps(asdict(found) if isinstance(found, Measurement) else found))


if __name__ == "__main__":
    main()

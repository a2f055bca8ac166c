"""Time a training step, side by side, against PyTorch and JAX.

Run as ``python tests/benchmarks/compare.py [--json] [--rounds N] [--threads T] [work ...]``. Each
contender runs in a process of its own, and in each round all of them run one after the other, so
that a machine that slows down does so for all. The exit status is 1 if a contender failed or
computed something else than the float64 reference.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

# Run as a script, Python finds only this file's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.contender import CONTENDERS, OURS, Contender
from tests.benchmarks.contender import find as find_contender
from tests.benchmarks.reference import CHECKED_STEPS, disagreement, reference_losses
from tests.benchmarks.workloads import WORKLOADS, Missing, Workload, draw
from tests.benchmarks.workloads import find as find_work

ROOT: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 600
DEFAULT_ROUNDS: Final = 3

# More than a quiet system keeps busy by itself. With one of two processors taken by somebody else,
# a step of tiny_mlp took PyTorch a hundred times as long: its threads wait for each other.
QUIET_PROCESSORS: Final = 0.1

# What one process printed: the fields of a Measurement, or "missing", or "error".
Found: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Order:
    """What one process is to measure.

    Parameters
    ----------
    work, contender, threads
        What, how, and on how many threads.
    cache
        The folder for compiled code.
    first_step_only
        Stop after the first step.
    """

    work: Workload
    contender: Contender
    threads: int
    cache: Path
    first_step_only: bool


Launch: TypeAlias = Callable[[Order], Found]


@dataclass(slots=True)
class Samples:
    """What the processes of one contender found on one workload, over all rounds."""

    full: list[Found] = field(default_factory=list[Found])
    warm: list[Found] = field(default_factory=list[Found])
    missing: str | None = None
    error: str | None = None

    def take(self, found: Found, into: list[Found]) -> None:
        """Keep ``found``, or the reason why there is nothing."""
        self.missing = found.get("missing", self.missing)
        self.error = found.get("error", self.error)
        if "missing" not in found and "error" not in found:
            into.append(found)

    @property
    def go_on(self) -> bool:
        """Whether another process may find more."""
        return self.missing is None and self.error is None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result; a figure that was not measured is None.

    ``others`` is how many processors other programs kept busy meanwhile: near zero on a quiet
    machine, and a warning where it is not.
    """

    work: str
    contender: str
    median_us: float | None = None
    min_us: float | None = None
    first_cold_s: float | None = None
    first_warm_s: float | None = None
    import_s: float | None = None
    peak_mb: float | None = None
    others: float | None = None
    version: str = ""
    missing: str | None = None
    error: str | None = None

    def as_json(self) -> str:
        """Return the row as one line of JSON: the figures, or the reason for having none."""
        fields = asdict(self)
        for name in ("others", "version", "missing", "error"):
            del fields[name]
        if self.missing is not None:
            fields = {"work": self.work, "contender": self.contender, "missing": self.missing}
        if self.error is not None:
            fields["error"] = self.error
        return json.dumps(fields)


def launch(order: Order) -> Found:
    """Measure in a new process; return what it printed last, or what went wrong."""
    command = [sys.executable, "-m", "tests.benchmarks.measurement"]
    command += [order.work.name, order.contender.name, str(order.threads)]
    command += ["--first-step-only"] * order.first_step_only
    try:
        process = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(order.threads, order.cache),
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"was not done after {TIMEOUT_S} s"}
    said = process.stdout.strip().splitlines()
    if process.returncode == 0 and said:
        found: Found = json.loads(said[-1])
        return found
    complaint = process.stderr.strip().splitlines()
    return {"error": f"exit status {process.returncode}: {complaint[-1] if complaint else ''}"}


def environment(threads: int, cache: Path) -> dict[str, str]:
    """Return the environment of a contender: this many threads, compiled code kept in ``cache``."""
    paths = [str(ROOT / "kernels"), str(ROOT / "widgets"), os.environ.get("PYTHONPATH", "")]
    pools = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **{f"{pool}_NUM_THREADS": str(threads) for pool in pools},
        "NPROC": str(threads),  # sizes the pools of XLA on a CPU
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache / "jax"),
        # By default, only what took a second to compile is kept.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "WORKBENCH_CACHE": str(cache / "workbench"),
    }


def compare(
    work: Workload,
    contenders: Sequence[Contender],
    *,
    rounds: int,
    threads: int,
    launch: Launch = launch,
) -> list[Row]:
    """Measure ``contenders`` on ``work`` in turn, ``rounds`` times; return a row for each."""
    samples = {contender: Samples() for contender in contenders}
    for turn in range(rounds):
        for contender, sample in samples.items():
            if sample.go_on:
                _note(f"{work.name}: round {turn + 1} of {rounds}, {contender.name}")
                _one_round(work, contender, threads, sample, launch)
    expected = reference_losses(draw(work, batches=min(work.batches, CHECKED_STEPS)))
    return [row_from(work, contender, sample, expected) for contender, sample in samples.items()]


def _one_round(
    work: Workload, contender: Contender, threads: int, sample: Samples, launch: Launch
) -> None:
    with tempfile.TemporaryDirectory(prefix="workbench-benchmark-") as folder:
        cache = Path(folder)
        found = launch(Order(work, contender, threads, cache, work.first_step_only))
        sample.take(found, sample.full)
        if sample.go_on and contender.keeps_compiled:
            found = launch(Order(work, contender, threads, cache, first_step_only=True))
            sample.take(found, sample.warm)


def row_from(
    work: Workload, contender: Contender, sample: Samples, expected: Sequence[float]
) -> Row:
    """Return the medians over all rounds; no figures where losses leave the ``expected`` ones."""
    if not sample.go_on:
        return Row(work.name, contender.name, missing=sample.missing, error=sample.error)
    wanted = list(expected[:1] if work.first_step_only else expected)
    checks = [disagreement(found["losses"], wanted) for found in sample.full]
    checks += [disagreement(found["losses"], wanted[:1]) for found in sample.warm]
    blocks_us = [block for found in sample.full for block in found["block_us"]]
    return Row(
        work.name,
        contender.name,
        median_us=_rounded(median(blocks_us), 2) if blocks_us else None,
        min_us=_rounded(min(blocks_us), 2) if blocks_us else None,
        first_cold_s=_middle("first_s", sample.full, 4),
        first_warm_s=_middle("first_s", sample.warm, 4),
        import_s=_middle("import_s", sample.full, 4),
        peak_mb=_middle("peak_mb", sample.full, 1),
        others=_middle("others", sample.full, 2),
        version=sample.full[0]["version"],
        error=next(filter(None, checks), None),
    )


def _middle(name: str, found: Sequence[Found], digits: int) -> float | None:
    values = [one[name] for one in found if one[name] is not None]
    return _rounded(median(values), digits) if values else None


def _rounded(value: float, digits: int) -> float:
    return round(float(value), digits)


COLUMNS: Final = (
    ("median us", "median_us", 1),
    ("min us", "min_us", 1),
    ("first s", "first_cold_s", 2),
    ("warm s", "first_warm_s", 2),
    ("import s", "import_s", 2),
    ("peak MB", "peak_mb", 0),
    ("others", "others", 2),
)


def table(rows: Sequence[Row]) -> str:
    """Return the rows of one workload as a text table, with how many times as fast ours is."""
    ours = next((row.median_us for row in rows if row.contender == OURS.name), None)
    lines = [f"{'':10}" + "".join(f"{title:>11}" for title, _, _ in COLUMNS) + f"{'ours is':>11}"]
    for row in rows:
        if row.missing is not None:
            lines.append(f"{row.contender:10}  missing: {row.missing}")
            continue
        if row.first_cold_s is not None:
            cells = [_cell(getattr(row, name), digits) for _, name, digits in COLUMNS]
            faster = row.median_us / ours if row.median_us and ours else None
            cells.append("-" if faster is None else f"{faster:.2f}x")
            lines.append(f"{row.contender:10}" + "".join(f"{cell:>11}" for cell in cells))
        if row.error is not None:
            lines.append(f"{row.contender:10}  WRONG: {row.error}")
    return "\n".join(lines)


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def depth_report(rows: Sequence[Row]) -> str | None:
    """Say how the time to the first step grows from 4 to 48 equal layers, if both were timed."""
    first_s = {row.work: row.first_cold_s for row in rows if row.contender == OURS.name}
    few, many = first_s.get("layers4"), first_s.get("layers48")
    if few is None or many is None:
        return None
    return f"first step of 48 equal layers: {many / few:.2f} times the time of 4"


def noise_report(rows: Sequence[Row]) -> str | None:
    """Say that the machine was not quiet, if so: threads that wait for each other suffer most."""
    most = max((row.others for row in rows if row.others is not None), default=0.0)
    if most <= QUIET_PROCESSORS:
        return None
    return f"NOT QUIET: other programs kept up to {most:.2f} processors busy; do not rely on this"


def machine(threads: int, rows: Sequence[Row]) -> str:
    """Describe the processor and the versions compared, in two lines."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0].split(":", 1)[1].strip() if models else name
    versions = {find_contender(row.contender).library: row.version for row in rows if row.version}
    said = ", ".join(f"{library} {version}" for library, version in versions.items())
    return (
        f"{name}, {processors()} processors, {threads} used; {platform.system()}, "
        f"Python {platform.python_version()}\n{said or 'nobody took part'}"
    )


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    names = [work.name for work in WORKLOADS]
    parser = argparse.ArgumentParser(
        description="Time a training step, side by side, against PyTorch and JAX.",
        epilog=f"Works: {', '.join(names)}.",
    )
    parser.add_argument("works", nargs="*", metavar="work", help="what to train (default: all)")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each result")
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=processors(), help="default: %(default)s")
    parser.add_argument(
        "--contender",
        action="append",
        choices=[contender.name for contender in CONTENDERS],
        help="only this one; may be repeated",
    )
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.works if name not in names]
    if unknown:
        parser.error(f"no work is called {', '.join(unknown)}; there are {', '.join(names)}")
    if asked.rounds < 1:
        parser.error(f"--rounds is {asked.rounds}; at least 1 is needed")
    if not 1 <= asked.threads <= processors():
        parser.error(f"--threads is {asked.threads}; there are {processors()} processors")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as the command line says; return the exit status."""
    asked = parse(arguments)
    works = [find_work(name) for name in dict.fromkeys(asked.works)] or list(WORKLOADS)
    taking_part = [
        contender
        for contender in CONTENDERS
        if asked.contender is None or contender.name in asked.contender
    ]
    everything: list[Row] = []
    for work in works:
        if isinstance(work, Missing):
            rows = [Row(work.name, OURS.name, missing=work.reason)]
        else:
            contenders = [OURS] if work.first_step_only else taking_part
            rows = compare(work, contenders, rounds=asked.rounds, threads=asked.threads)
        everything += rows
        if asked.json:
            print("\n".join(row.as_json() for row in rows), flush=True)
        else:
            title = work.name if isinstance(work, Missing) else work.title
            print(f"{title}\n{table(rows)}\n", flush=True)
    noise = noise_report(everything)
    if noise is not None:
        _note(noise)
    if not asked.json:
        report = [depth_report(everything), machine(asked.threads, everything)]
        print("\n".join(filter(None, report)))
    return 1 if any(row.error is not None for row in everything) else 0


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

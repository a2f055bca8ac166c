"""Time checkpoints and records against what they cannot be quicker than.

Run as ``python tests/benchmarks/checkpoint.py [--megabytes N] [--rounds N] [--folder PATH]``:

* a checkpoint against writing as many bytes with one call and syncing the file, in turn;
* training on the digits with callbacks that write, against training without, in turn;
* going on from a checkpoint in a new process: from its start to its first step.

Each figure is a median over the rounds; everything depends on the disk, whose folder is told.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.checkpointing import Checkpointing
from workbench.train.record import RunRecord

EPOCHS: Final = 200
PATHS: Final = os.pathsep.join(sys.path[-3:])
ON: Final = "--go-on-from"


def in_turn(
    rounds: int,
    tasks: dict[str, Callable[[], object]],
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Return how long each task took in each round, in seconds; preparing it does not count."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            prepare()
            began = perf_counter()
            task()
            taken[name].append(perf_counter() - began)
    return taken


def show(taken: dict[str, list[float]], base: str) -> None:
    """Print medians, and by how much each exceeds the base; rounds are compared one by one."""
    for name, times in taken.items():
        ratio = median(t / b for t, b in zip(times, taken[base], strict=True))
        print(f"  {name:<32} {median(times) * 1e3:9.1f} ms   {ratio:6.3f} of `{base}`")


def plain_write(path: Path, octets: memoryview) -> None:
    """Write bytes and wait for the disk."""
    with path.open("wb", buffering=0) as file:
        rest = octets
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def measure_size(folder: Path, megabytes: int, rounds: int) -> None:
    """Compare a checkpoint with a plain write of as many bytes."""
    # Parameters and two moments: three arrays for each.
    rng = np.random.default_rng(0)
    params = {
        f"w{n}": rng.standard_normal(megabytes * 1_000_000 // 12 // 10, np.float32)
        for n in range(10)
    }
    run = wb.Run(params, wb.adam(params), wb.Config(1, 1, 0.1, 0, verbose=False))
    run.opt = run.opt.__class__(
        kind="adam", m=params, v=params, t=np.int64(1), b1=0.9, b2=0.999, eps=1e-8
    )
    path = folder / "run.safetensors"
    size = save_checkpoint(run, path).stat().st_size
    octets = memoryview(rng.bytes(size))
    print(f"a checkpoint of {size / 1e6:.1f} MB in {folder}")
    show(
        in_turn(
            rounds,
            {
                "plain write": lambda: plain_write(folder / "plain", octets),
                "save_checkpoint": lambda: save_checkpoint(run, path),
                "restore": lambda: restore(run, path),
            },
        ),
        "plain write",
    )


def digits_run(epochs: int) -> tuple[wb.Run, wb.data.Dataset]:
    """Return a run on the digits, 64-32-10."""
    train = wb.data.digits()
    params = [
        {"w": wb.he_normal(m, n, seed=1, purpose=str(n)), "b": wb.zeros(n)}
        for m, n in ((64, 32), (32, 10))
    ]
    config = wb.Config(epochs, 32, 0.001, 7, verbose=False)
    return wb.Run(params, wb.adam(params), config), train


def loss(params: list[dict[str, wb.Tensor]], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
    """Return the loss of a perceptron with one hidden layer."""
    hidden = wb.relu(x @ params[0]["w"] + params[0]["b"])
    return wb.cross_entropy(hidden @ params[1]["w"] + params[1]["b"], y)


def step(
    params: list[dict[str, wb.Tensor]], opt: wb.OptState, x: wb.Tensor, y: wb.Tensor, lr: wb.Tensor
) -> wb.StepResult:
    """Learn one batch."""
    return wb.default_step(params, opt, x, y, lr, loss)


def measure_training(folder: Path, rounds: int) -> None:
    """Compare training with callbacks that write and without."""
    run, train = digits_run(EPOCHS)
    new = save_checkpoint(run, folder / "new.safetensors")

    def trained(*callbacks: object) -> Callable[[], object]:
        return lambda: wb.fit(run, callbacks, train, None, step)

    def recorded() -> None:
        wb.fit(run, [RunRecord(folder / "runs")], train, None, step)

    last = folder / "digits.safetensors"
    waiting = Checkpointing(last, every=10, in_background=False)
    trained()()
    print(f"{EPOCHS} epochs of {train.n} digits, 64-32-10, batch size 32")
    show(
        in_turn(
            rounds,
            {
                "no callbacks": trained(),
                "checkpoint each 10 epochs": trained(Checkpointing(last, every=10)),
                "the same, waiting for the disk": trained(waiting),
                "record": recorded,
            },
            prepare=lambda: restore(run, new),
        ),
        "no callbacks",
    )


def measure_resuming(folder: Path, rounds: int) -> None:
    """Time a new process from its start to its first step after a checkpoint."""
    run, train = digits_run(2)
    wb.fit(run, [], train, None, step)
    path = save_checkpoint(run, folder / "resumed.safetensors")
    taken: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        process = subprocess.Popen(
            [sys.executable, __file__, ON, str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        assert process.stdout is not None
        said = process.stdout.readline()
        taken.append(perf_counter() - began)
        process.communicate()
        if not said:
            sys.exit("the process that goes on failed")
    print("going on in a new process, from its start to its first step")
    print(f"  {median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f})")


def go_on(path: str) -> None:
    """Go on from a checkpoint and say when the first step was made."""
    run, train = digits_run(3)
    restore(run, path)

    class Told(wb.Callback):
        def on_batch_end(self, event: object) -> None:
            print("the first step", flush=True)
            run.stop()

    wb.fit(run, [Told()], train, None, step)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument(ON, default="", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.go_on_from:
        go_on(asked.go_on_from)
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        folder = Path(made)
        measure_size(folder, asked.megabytes, asked.rounds)
        measure_training(folder, asked.rounds)
        measure_resuming(folder, min(5, asked.rounds))


if __name__ == "__main__":
    main()

"""Time the training loop against the native steps that it drives.

Run as ``python tests/benchmarks/loop.py [--rounds N] [--threads N] [--epochs N] [--folder PATH]
[--only WAY ...] [WORK ...]``.

For each work, in turn and in one process:

* bare: the compiled step and the compiled evaluation swept over their rows, epoch after epoch, in
  native calls, and nothing else;
* ``fit`` without callbacks, and with one kind of callback at a time;
* ``fit`` with a schedule, early stopping, a checkpoint each 10 epochs, a log and progress;
* ``fit`` with a batch hook, of which the cost of one step is shown.

All train the same number of epochs from the same parameters and evaluate after each epoch. Rounds
are compared one by one. Shown are the median of an epoch, by how much it exceeds the base in the
median round, and the same of the quickest epochs of all rounds, which is what is left of it where
other programs take their share of the machine. Reports go to a file.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

# Run as a script, Python finds only this file's folder.
sys.path.extend(str(Path(__file__).resolve().parents[2] / f) for f in (".", "kernels", "widgets"))

import workbench as wb
from workbench.train.loop import evaluate_all
from workbench.train.program import compile_metrics, compile_step
from workbench.train.sweep import Sweep
from workbench.train.trace import as_leaves

WORKS: Final = {
    # Widths, batch size, rows to train on and to evaluate on, epochs of one measurement.
    "digits": ((64, 32, 10), 32, 1437, 360, 200),
    "mnist": ((784, 128, 10), 128, 60000, 10000, 10),
}
ALL: Final = "schedule, stopping, checkpoint, log, progress"


def _logits(params: list[dict[str, wb.Tensor]], x: wb.Tensor) -> wb.Tensor:
    for layer in params[:-1]:
        x = wb.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def _loss(params: list[dict[str, wb.Tensor]], x: wb.Tensor, y: wb.Tensor) -> wb.Tensor:
    return wb.cross_entropy(_logits(params, x), y)


def step(
    params: list[dict[str, wb.Tensor]], opt: wb.OptState, x: wb.Tensor, y: wb.Tensor, lr: wb.Tensor
) -> wb.StepResult:
    """Learn one batch."""
    return wb.default_step(params, opt, x, y, lr, _loss)


def measure(
    params: list[dict[str, wb.Tensor]], x: wb.Tensor, y: wb.Tensor
) -> dict[str, wb.Tensor | wb.Statistic]:
    """Evaluate one batch."""
    scores = _logits(params, x)
    return {"loss": wb.cross_entropy(scores, y), "accuracy": wb.accuracy(scores, y)}


class Measured:
    """One work: rows, and the ways to train on them."""

    def __init__(self, name: str, folder: Path, *, threads: int = 2, epochs: int = 0) -> None:
        self.sizes, self.batch, rows, held_out, usual = WORKS[name]
        self.folder, self.threads, self.epochs = folder, threads, epochs or usual
        rng = np.random.default_rng(0)
        x = rng.standard_normal((rows + held_out, self.sizes[0]), np.float32)
        y = rng.integers(0, self.sizes[-1], len(x))
        self.train = wb.data.Dataset(x[:rows], y[:rows])
        self.held_out = wb.data.Dataset(x[rows:], y[rows:])
        self.steps = -(-rows // self.batch) * self.epochs
        # One run: each way of training begins with its parameters, and none compiles again.
        self.run = self.new_run()
        self.start = wb.save_checkpoint(self.run, folder / "start.safetensors")
        self.bare = self.native()

    def params(self) -> list[dict[str, Any]]:
        """Return initial values."""
        pairs = zip(self.sizes[:-1], self.sizes[1:], strict=True)
        return [{"w": wb.he_normal(m, n, seed=1), "b": wb.zeros(n)} for m, n in pairs]

    def new_run(self) -> wb.Run:
        """Return a run that talks, as runs do."""
        params = self.params()
        config = wb.Config(self.epochs, self.batch, 1e-3, 7)
        return wb.Run(params, wb.adam(params), config, context=wb.Context.cpu(self.threads))

    def native(self) -> Callable[[], None]:
        """Return what sweeps over the rows as often as a run does."""
        params = self.params()
        leaves, opt = as_leaves(params), as_leaves(wb.adam(params), "opt.")
        context = wb.Context.cpu(self.threads)
        program = compile_step(context, leaves, opt, step, self.train, self.batch, drop_last=False)
        held_out = compile_metrics(program.context, leaves, measure, self.held_out, self.batch)
        assert isinstance(program.sweep, Sweep)
        steps = program.sweep
        program.order[...] = np.random.default_rng(1).permutation(self.train.n)
        program.rates[...] = 1e-3

        def sweep() -> None:
            for _ in range(self.epochs):
                steps.run_all()
                evaluate_all(held_out)

        return sweep

    def fit(self, *makers: Callable[[], object]) -> Callable[[], None]:
        """Return what trains with callbacks, which are made anew: they remember."""

        def trained() -> None:
            callbacks = [make() for make in makers]
            wb.fit(self.run, callbacks, self.train, self.held_out, step, measure)

        return trained

    def sweep(self) -> None:
        """Train natively, and nothing else."""
        self.bare()

    def prepare(self) -> None:
        """Put the run and the native steps back to their beginning; this is not timed.

        Every round does the same work: steps that went on from round to round would learn the rows
        by heart, and where subnormal numbers do not count as 0 become slow by it.
        """
        wb.restore(self.run, self.start)
        self.bare = self.native()


class Ignored(wb.Callback):
    """A batch hook that does nothing."""

    def on_batch_end(self, event: object) -> None:
        """Do nothing."""


def ways(work: Measured) -> dict[str, Callable[[], None]]:
    """Return the ways to train that are compared; the first one is the base."""
    file = work.folder / "run.safetensors"

    def schedule() -> object:
        return wb.EpochSchedule(wb.CosineRate(1e-3, work.epochs, warmup=3))

    def stopping() -> object:
        return wb.EarlyStopping("accuracy", work.epochs, higher_is_better=True)

    def kept() -> object:
        return wb.Checkpointing(file, every=10)

    return {
        "bare native steps": work.sweep,
        "fit, quiet": _quietly(work, work.fit()),
        "fit": work.fit(),
        "schedule": work.fit(schedule),
        "early stopping": work.fit(stopping),
        "checkpoint each 10 epochs": work.fit(kept),
        "progress": work.fit(wb.Progress),
        ALL: work.fit(schedule, stopping, kept, wb.MetricLog, wb.Progress),
        "batch hook": work.fit(Ignored),
    }


def _quietly(work: Measured, task: Callable[[], None]) -> Callable[[], None]:
    quiet = wb.Config(work.epochs, work.batch, 1e-3, 7, verbose=False)
    loud = work.run.config

    def done() -> None:
        work.run.config = quiet
        task()
        work.run.config = loud

    return done


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--only", nargs="+", default=None)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=asked.folder) as made:
        for name in asked.works:
            work = Measured(name, Path(made), threads=asked.threads, epochs=asked.epochs)
            tasks = ways(work)
            base = next(iter(tasks))
            if asked.only:
                tasks = {task: tasks[task] for task in (base, *asked.only)}
            taken: dict[str, list[float]] = {task: [] for task in tasks}
            for again in range(asked.rounds + 1):
                for task, done in tasks.items():
                    work.prepare()
                    with (Path(made) / "out").open("w") as out, contextlib.redirect_stdout(out):
                        began = perf_counter()
                        done()
                        spent = perf_counter() - began
                    if again:  # the first round compiles and loads
                        taken[task].append(spent)
            _show(name, work, taken)


def _show(name: str, work: Measured, taken: dict[str, list[float]]) -> None:
    base, *_ = taken
    print(f"{name}: {work.epochs} epochs of {work.steps // work.epochs} steps, batch {work.batch}")
    for task, times in taken.items():
        more = median(t / b - 1.0 for t, b in zip(times, taken[base], strict=True))
        least, quickest = min(times), min(taken[base])
        step_us = (least - quickest) / work.steps * 1e6
        print(
            f"  {task:<46} {median(times) / work.epochs * 1e3:9.3f} ms  {more:+7.1%}  quickest"
            f" {least / work.epochs * 1e3:9.3f} ms  {least / quickest - 1.0:+7.1%}"
            f"  {step_us:+6.2f} us a step"
        )


if __name__ == "__main__":
    main()

"""Trainings that are broken off anywhere, and gone on with by new objects from the newest file.

``python interruptions.py FILE HOOK NUMBER`` trains `KILLED` and kills its own process at the so
manieth event of a hook; the number 0 lets it train to the end and prints what it leaves behind.
"""

import json
import os
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import workbench as wb
from tests.train.problems import at, loss, measure, new_run, rows
from tests.train.training_digest import digest
from workbench.train.events import Hook

TRAIN = rows(26)
VAL = rows(9, seed=1)
OPTIMIZERS = {
    "adam": wb.adam,
    "momentum": wb.momentum,
    "f16": lambda params: wb.mixed_f16(wb.adam(params), growth_interval=3),
}


class Wandering(wb.Callback):
    """Somebody's own: a rate that follows random numbers of its own, and now and then a stop."""

    band = 10
    writes = ("lr",)

    def __init__(self, ends=False):
        self.ends = ends
        self.random = random.Random(3)
        self.drawn = []

    def on_epoch_begin(self, event):
        self.drawn.append(self.random.uniform(0.001, 0.1))
        event.state.lr = self.drawn[-1]

    def on_batch_end(self, event):
        if self.random.random() < 0.04 and self.ends:
            event.state.request_stop("wandered off")

    def pack(self):
        version, words, gauss = self.random.getstate()
        return {"version": version, "words": list(words), "gauss": gauss, "drawn": self.drawn}

    def unpack(self, packed):
        self.drawn = list(packed["drawn"])
        self.random.setstate((packed["version"], tuple(packed["words"]), packed["gauss"]))


RATES = {
    "none": lambda: [],
    "one cycle": lambda: [wb.StepSchedule(wb.OneCycleRate(0.0, 20))],
    "cosine": lambda: [wb.EpochSchedule(wb.CosineRate(0.05, 6, warmup=2))],
    "plateau": lambda: [
        wb.PlateauSchedule("accuracy", 0.5, patience=0, higher_is_better=True, min_delta=0.02)
    ],
    "wandering": lambda: [Wandering()],
    "wandering off": lambda: [Wandering(ends=True)],
}


@dataclass(frozen=True)
class Job:
    """What is trained, and with whom."""

    rate: str = "none"
    optimizer: str = "adam"
    patience: int | None = None
    restore_best: bool = False
    best_file: bool = False
    every_steps: int = 1
    config: dict[str, Any] = field(default_factory=dict)

    def callbacks(self, path):
        made = RATES[self.rate]()
        if self.patience is not None:
            made.append(
                wb.EarlyStopping(
                    "loss",
                    self.patience,
                    higher_is_better=False,
                    min_delta=0.03,
                    restore_best=self.restore_best,
                )
            )
        monitor: dict[str, Any] = {}
        if self.best_file:
            restore = self.restore_best and self.patience is None
            monitor = {"monitor": "accuracy", "higher_is_better": True, "restore_best": restore}
        writes = wb.Checkpointing(
            path,
            every_steps=self.every_steps,
            at_end=True,
            in_background=False,
            **monitor,
        )
        return [*made, writes, wb.RateMonitor("step"), wb.GradientNorm()]

    def run(self):
        return new_run(optimizer=OPTIMIZERS[self.optimizer], **({"epochs": 5} | self.config))


def step(params, opt, x, y, lr):
    result = wb.default_step(params, opt, x, y, lr, loss)
    return result.with_metrics(gradient_norm=result.loss * 2.0)


def go_on(job, path, more=()):
    """Make everything again, take up the newest file if there is one, and train; return both."""
    run, callbacks = job.run(), job.callbacks(path)
    if path.exists():
        wb.restore(run, path, callbacks=callbacks, train=TRAIN)
    wb.fit(run, [*callbacks, *more], TRAIN, VAL, step, measure)
    return run, callbacks


def result(run, callbacks, path):
    """Return all that a training leaves behind, in values that can be compared."""
    rates, norms = callbacks[-2:]
    best = path.with_name(f"{path.stem}.best{path.suffix}")
    found = wb.inspect(best) if best.exists() else None
    state = run.state
    return {
        "learned": digest(run),
        "status": run.status,
        "stop": (state.stop, state.stop_reason, state.stopped_by),
        "position": (state.epoch, state.global_step, run.in_epoch, run.batches_done),
        "rates": (rates.steps.tolist(), rates.rates.tolist()),
        "norms": (norms.epochs.tolist(), norms.norms.tolist()),
        "best": found and (found.document["best"], found.epoch, found.global_step, found.metrics),
        "memory": [callback.pack() for callback in callbacks[:-2] if "loss" in str(callback)],
    }


class Broken(Exception):
    """What breaks a training off."""


def breaking(hook: Hook, number: int, way: str, band: int):
    """Return a callback that ends a training at the so manieth event of a hook."""
    seen = []

    def act(event):
        seen.append(event)
        if len(seen) == number:
            if way == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if way == "stop":
                event.run.stop()
            else:
                raise Broken

    callback = at(hook.name, act)
    callback.fatal, callback.band = True, band
    return callback


def broken_off(job, path, breaks):
    """Train with interruptions, and return the run that came to the end."""
    for each in breaks:
        try:
            go_on(job, path, [breaking(*each)])
        except Broken:
            continue
    return go_on(job, path)


KILLED = Job(
    rate="plateau",
    optimizer="f16",
    patience=1,
    restore_best=True,
    best_file=True,
    config={"epochs": 9, "eval_every_steps": 3, "lr": 0.05, "accum_steps": 2},
)


if __name__ == "__main__":
    file, hook, number = Path(sys.argv[1]), Hook[sys.argv[2]], int(sys.argv[3])
    ended = result(*go_on(KILLED, file, [breaking(hook, number, "kill", 50)]), file)
    sys.stdout.write("\n" + json.dumps(ended))

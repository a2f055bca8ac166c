"""A training that is begun, gone on with and killed in processes of its own; run as a script.

``python training_process.py until FILE EPOCHS [KIND [STEP]]`` trains to so many epochs, from the
file if it is there, writes a checkpoint after each epoch into it, and prints the digest of the run.
With a step it is left after that update, and the file is of that moment.

``python training_process.py kills FOLDER COUNT SEED`` kills such trainings at random instants,
looks at every file that is left, goes on, and compares the end with that of an uninterrupted run.
"""

import json
import os
import random
import signal
import sys
import time
from hashlib import sha256
from pathlib import Path

import workbench as wb
from tests.train.problems import at, measure, perceptron, rows, step
from tests.train.training_digest import digest
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.checkpoint import restore
from workbench.train.checkpointing import Checkpointing
from workbench.train.container import open_container

TRAIN = rows(20)
VAL = rows(9, seed=1)
EPOCHS = 12
UNDISTURBED_S = 60.0


KINDS = {
    "adam": wb.adam,
    # The scale doubles every few updates, so that it is never what a new run begins with.
    "f16": lambda params: wb.mixed_f16(wb.adam(params), growth_interval=4),
    "accumulated f16": lambda params: wb.accumulate(
        wb.mixed_f16(wb.adam(params), growth_interval=4), params, 2
    ),
}


def train(path, epochs, context, *, kind="adam", left_after=0, **options):
    """Train from ``path``, if it is there, to the end, and return the run."""
    params = perceptron(5, 6, 3)
    config = wb.Config(epochs, 8, 0.01, 7, verbose=False)
    run = wb.Run(params, KINDS[kind](params), config, context=context)
    options = {"monitor": "loss", "higher_is_better": False} | options
    callbacks = [
        Checkpointing(path, **options),
        # It remembers, and never stops: what is compared is of the last epoch.
        EarlyStopping("accuracy", 10**6, higher_is_better=True),
    ]
    if path.exists():
        restore(run, path, callbacks=callbacks, train=TRAIN)
    if left_after:
        options["at_end"] = True
        callbacks = [
            Checkpointing(path, **options),
            callbacks[1],
            at("BATCH_END", lambda e: run.stop() if e.state.global_step == left_after else None),
        ]
    wb.fit(run, callbacks, TRAIN, VAL, step, measure)
    return run, callbacks


def learned(path, context, **options):
    """Train to the end and return what a run must end with, whatever happened to it."""
    run, callbacks = train(path, EPOCHS, context, **options)
    best = open_container(Path(run.state.best_path))
    values = [array.tobytes() for name, array in best.arrays().items() if name.startswith("params")]
    known = f"{best.path.name} {best.document['best']} {sha256(b''.join(values)).hexdigest()}"
    return f"{digest(run)} {callbacks[1].best} {known}"


# Where a process writes, and how: at each epoch and in the middle of them, one file and many.
WAYS = [
    {"in_background": False},
    {"in_background": True},
    {"in_background": False, "every_steps": 1},
    {"in_background": True, "every_steps": 2, "keep_last": 3, "keep_best": 2},
]


def kill_often(folder, count, seed):
    """Kill ``count`` trainings and return how many were killed, and what was seen wrong."""
    # One thread: children are forked, and a fork has no other threads.
    context = wb.Context.cpu(1)
    choose = random.Random(seed)
    wanted = learned(folder / "whole" / "run", context)
    longest = [whole_duration(folder / f"way {n}", context, way) for n, way in enumerate(WAYS)]
    wrong, killed, finished, looked_at = [], 0, 0, 0
    while killed < count:
        place = folder / f"{killed}-{finished}"
        number = finished % len(WAYS)
        way = WAYS[number]
        done, patience = place / "end", 1.0
        while not done.exists():
            child = os.fork()
            if not child:
                write_end(place, context, way)
            most = choose.uniform(0.0, longest[number]) * patience
            status = killed_after(child, UNDISTURBED_S if killed >= count else most)
            # The machine may have become slower than it was when the duration was taken.
            patience *= 1.05
            if os.WIFSIGNALED(status):
                killed += 1
            elif os.WEXITSTATUS(status):
                return killed, [*wrong, f"a training failed: {(place / 'failed').read_text()}"]
            looked_at += look_at(place, wrong)
        if done.read_text() != wanted:
            wrong.append(f"{way} ended with {done.read_text()}, not {wanted}")
        if list(place.glob(".*.wb-partial")):
            wrong.append(f"{way} left {list(place.glob('.*.wb-partial'))}")
        finished += 1
    if not looked_at:
        wrong.append("there was no file to look at")
    return killed, wrong


def whole_duration(place, context, way):
    """Return how long a training takes that is not killed, in seconds."""
    began = time.perf_counter()
    learned(place / "run", context, **way)
    return min(2.0, time.perf_counter() - began)


def killed_after(child, seconds):
    """Kill a process after so long, unless it ended before, and return how it ended."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def write_end(place, context, way):
    """Train in a child process, which ends here."""
    try:
        text = learned(place / "run", context, **way)
        (place / "new end").write_text(text)
        (place / "new end").replace(place / "end")
    except BaseException as fault:  # noqa: BLE001 - told by the parent, and the child ends here
        (place / "failed").write_text(repr(fault))
        os._exit(1)
    os._exit(0)


def look_at(place, wrong):
    """Read every checkpoint whole and return how many there are."""
    files = [each for each in place.glob("run*") if not each.name.startswith(".")]
    for file in files:
        try:
            open_container(file).arrays()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the file is not whole
            wrong.append(f"{file.name} is not readable: {fault}")
    return len(files)


def main():
    """Do what the command line says."""
    what, place = sys.argv[1], Path(sys.argv[2])
    if what == "kills":
        killed, wrong = kill_often(place, int(sys.argv[3]), int(sys.argv[4]))
        sys.stdout.write(json.dumps({"killed": killed, "wrong": wrong}))
    else:
        kind = sys.argv[4] if len(sys.argv) > 4 else "adam"
        left_after = int(sys.argv[5]) if len(sys.argv) > 5 else 0
        context = wb.Context.cpu(1)
        run, _ = train(place, int(sys.argv[3]), context, kind=kind, left_after=left_after)
        sys.stdout.write(digest(run))


if __name__ == "__main__":
    main()

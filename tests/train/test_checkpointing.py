"""The callback that writes checkpoints: when, which, how many, and what if it cannot."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import workbench as wb
from tests.refusal import refused
from tests.train.problems import Watching, at, measure, new_run, rows, step
from tests.train.training_digest import digest
from workbench.errors import ConfigurationError, DataError
from workbench.train.callback import explain_order, validate
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.checkpoint import restore, save_checkpoint, write_snapshot
from workbench.train.checkpointing import Checkpointing
from workbench.train.config import Config
from workbench.train.events import EpochEnd, EvalEnd, RunBegin, RunEnd
from workbench.train.inspection import inspect
from workbench.train.loop import Outcome
from workbench.train.process import this_process
from workbench.train.run import Run

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))
TRAIN = rows(20)
VAL = rows(9, seed=1)


def trained(run, *callbacks, val=VAL):
    wb.fit(run, list(callbacks), TRAIN, val, step, measure)
    return run


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def told(run):
    return [report.text for report in run.reports]


def paper_run(epochs=20):
    params = {"w": np.zeros(2)}
    config = Config(epochs, 4, 0.1, 7, verbose=False)
    return Run(params, wb.adam(params), config, context=wb.Context.interpreter())


class Story:
    """Plays the events of a run whose evaluations give the values that are told."""

    def __init__(self, callback, *, epochs=20):
        self.callback, self.run = callback, paper_run(epochs)
        self.said = []
        self.run.callbacks = (callback,)

    def begin(self):
        self.callback.on_run_begin(RunBegin(self.run))

    def epoch(self, value=None, name="accuracy"):
        """One epoch; evaluated if a value is given."""
        run, state = self.run, self.run.state
        state.epoch += 1
        state.global_step += 5
        run.params = {"w": np.full(2, float(state.epoch))}
        if value is not None:
            state.val = type(state.val)()
            state.val.update(name, value, 1)
            self.callback.on_eval_end(EvalEnd(run, state.epoch, state.val))
        said = self.callback.on_epoch_end(EpochEnd(run, state.epoch, 0.5, value is not None, 0.1))
        self.said.append(said)

    def end(self, outcome: Outcome = "completed"):
        self.said += [report.text for report in self.callback.on_run_end(RunEnd(self.run, outcome))]


def best_of(path, *, higher=True, **options):
    options = {"every": 0, "in_background": False} | options
    return Checkpointing(path, monitor="accuracy", higher_is_better=higher, **options)


# -- when


@pytest.mark.parametrize("in_background", [False, True])
def test_the_latest_file_is_of_the_last_epoch_that_was_due(tmp_path, in_background):
    path = tmp_path / "run.safetensors"
    callback = Checkpointing(path, every=10, in_background=in_background)
    trained(new_run(25), callback)
    made = inspect(path)
    assert (made.epoch, made.document["note"]) == (20, "periodic")
    assert names(tmp_path) == ["run.safetensors"]


def test_a_file_is_written_after_so_many_steps_in_the_middle_of_an_epoch(tmp_path):
    path = tmp_path / "run"
    trained(new_run(3), Checkpointing(path, every=0, every_steps=4))
    made = inspect(path)
    assert (made.global_step, made.document["position"]["batches_done"]) == (8, 2)


def test_under_accumulation_updates_are_counted_and_not_batches(tmp_path, monkeypatch):
    written = []

    def note(snapshot, path):
        state, position = snapshot.document["state"], snapshot.document["position"]
        written.append((state["global_step"], position["batches_done"]))

    monkeypatch.setattr("workbench.train.checkpointing.write_snapshot", note)
    run = new_run(2, optimizer=lambda params: wb.accumulate(wb.adam(params), params, 2))
    callback = Checkpointing(tmp_path / "run", every=0, every_steps=1, in_background=False)
    trained(run, callback)
    # Three batches make two updates, the second of which is cut short.
    assert written == [(1, 2), (2, 3), (3, 2), (4, 3)]


def test_without_every_and_steps_and_monitor_nothing_is_written(tmp_path):
    trained(new_run(2), Checkpointing(tmp_path / "run", every=0))
    assert names(tmp_path) == []


def test_the_end_is_written_if_asked_to_wherever_it_is(tmp_path):
    path = tmp_path / "run"

    def stop(event):
        if event.state.global_step == 5:
            event.run.stop()

    whole = trained(new_run(4))
    run = trained(new_run(4), Checkpointing(path, every=0, at_end=True), at("BATCH_END", stop))
    assert run.status == "stopped"
    resumed = new_run(4)
    restore(resumed, path)
    assert resumed.state.global_step == 5
    assert digest(trained(resumed)) == digest(whole)


def test_what_is_written_in_the_background_is_what_was_there_at_the_time(tmp_path):
    # The parameters change while the file is being written.
    for every in (1, 2, 3):
        path = tmp_path / f"{every}"
        trained(new_run(6), Checkpointing(path, every=every))
        resumed = new_run(9)
        restore(resumed, path)
        assert digest(trained(resumed)) == digest(trained(new_run(9)))


def test_what_changes_before_it_is_written_is_written_as_it_was(tmp_path, monkeypatch):
    class Growing(wb.Callback):
        """Remembers in a list that it hands out itself."""

        def __init__(self):
            self.epochs = []

        def on_epoch_begin(self, event):
            self.epochs.append(event.epoch)

        def pack(self):
            return {"epochs": self.epochs}

        def unpack(self, packed):
            self.epochs = packed["epochs"]

    hold = threading.Event()

    def late(snapshot, path):
        hold.wait(10.0)
        write_snapshot(snapshot, path)

    def grow(event):
        event.run.extras.setdefault("list", []).append(event.epoch)
        if event.epoch == 5:
            hold.set()

    monkeypatch.setattr("workbench.train.checkpointing.write_snapshot", late)
    path = tmp_path / "run"
    trained(new_run(5), Growing(), Checkpointing(path, every=2), at("EPOCH_END", grow))
    document = inspect(path).document
    assert document["callbacks"][0]["state"] == {"epochs": [0, 1, 2, 3]}
    assert document["extras"]["list"] == [1, 2, 3, 4]


def test_training_does_not_wait_for_the_disk(tmp_path, monkeypatch):
    hold = threading.Event()
    written = []

    def slow(snapshot, path):
        hold.wait(10.0)
        written.append(snapshot.document["state"]["epoch"])

    monkeypatch.setattr("workbench.train.checkpointing.write_snapshot", slow)
    callback = Checkpointing(tmp_path / "run", every=1)
    seen = []

    def watch(event):
        seen.append((event.state.epoch, len(written)))
        if event.state.epoch == 30:
            hold.set()

    trained(new_run(30), callback, at("EPOCH_END", watch))
    assert seen == [(epoch, 0) for epoch in range(1, 31)]
    # The first was begun; all others would have been overwritten at once, but the last.
    assert written[-1] == 30
    assert len(written) <= 2


class Below(Watching):
    """Runs after a checkpoint at the end of an epoch."""

    band = 20


def test_waiting_waits_for_the_file(tmp_path):
    path = tmp_path / "run"
    found = []
    callback = Checkpointing(path, every=1)

    def look(event):
        callback.wait()
        found.append(inspect(path).epoch)

    trained(new_run(3), callback, Below("EPOCH_END", look))
    assert found == [1, 2, 3]


# -- the best


def test_the_best_file_is_of_the_best_evaluation(tmp_path):
    story = Story(best_of(tmp_path / "run.safetensors"))
    story.begin()
    for value in (0.5, 0.8, 0.8, 0.7):
        story.epoch(value)
    best = inspect(tmp_path / "run.best.safetensors")
    assert best.epoch == 2
    assert best.document["best"] == {"monitor": "accuracy", "value": 0.8, "epoch": 2}
    assert best.document["note"] == "best accuracy"
    assert best.document["callbacks"] is None
    assert story.run.state.best_path == str(tmp_path / "run.best.safetensors")
    assert names(tmp_path) == ["run.best.safetensors"]


def test_there_is_no_best_path_before_there_is_a_file(tmp_path):
    story = Story(best_of(tmp_path / "run"))
    story.begin()
    story.epoch()
    assert story.run.state.best_path == ""


def test_an_epoch_that_was_not_evaluated_never_overwrites_the_best_file(tmp_path):
    # With eval_every=2 the file of epoch 4 would hold the parameters of epoch 5.
    story = Story(best_of(tmp_path / "run"))
    story.begin()
    for value in (None, 0.5, None, 0.8, None):
        story.epoch(value)
    assert inspect(tmp_path / "run.best").epoch == 4


def test_the_best_file_is_written_before_the_periodic_one(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        "workbench.train.checkpointing.write_snapshot",
        lambda snapshot, path: written.append(path.name),
    )
    story = Story(best_of(tmp_path / "run", every=1))
    story.begin()
    story.epoch(0.5)
    assert written == ["run.best", "run"]


@pytest.mark.parametrize(
    ("higher", "delta", "values", "epoch"),
    [
        (False, 0.01, (1.0, 0.995, 0.98, 0.975), 3),
        (True, 0.0, (0.80, 0.85, 0.84), 2),
        (True, 0.1, (0.5, 0.6, 0.61), 3),
        (True, 0.0, (0.5, float("inf"), 0.4), 1),
        (False, 0.0, (float("nan"), 0.5, float("nan")), 2),
    ],
)
def test_what_is_better(tmp_path, higher, delta, values, epoch):
    story = Story(best_of(tmp_path / "run", higher=higher, min_delta=delta))
    story.begin()
    for value in values:
        story.epoch(value)
    assert inspect(tmp_path / "run.best").epoch == epoch


def test_a_best_file_is_never_full_of_nan(tmp_path):
    # A first value that is not finite must not stay the best.
    story = Story(best_of(tmp_path / "run", higher=False, keep_best=3))
    story.begin()
    story.epoch(float("nan"))
    assert names(tmp_path) == []


def test_a_metric_that_is_not_there_is_refused_before_the_run(tmp_path):
    callback = Checkpointing(tmp_path / "run", monitor="f1", higher_is_better=True)
    run = new_run(3)
    with refused(ConfigurationError, "watches `f1`", remedy="val_loss, val_accuracy, train_loss"):
        trained(run, callback)
    assert names(tmp_path) == []
    assert run.state.global_step == 0


def test_a_better_model_is_not_overwritten_after_a_restart(tmp_path):
    path = tmp_path / "run"
    story = Story(best_of(path, every=1))
    story.begin()
    story.epoch(0.9)
    story.epoch(0.5)
    restarted = Story(best_of(path, every=1))
    restore(restarted.run, path, callbacks=[restarted.callback])
    restarted.begin()
    assert restarted.run.state.best_path == str(tmp_path / "run.best")
    restarted.epoch(0.7)
    assert inspect(tmp_path / "run.best").epoch == 1
    restarted.epoch(0.95)
    assert inspect(tmp_path / "run.best").epoch == 4


def test_what_is_best_is_known_after_resuming_from_the_best_file_itself(tmp_path):
    path = tmp_path / "run"
    story = Story(best_of(path))
    story.begin()
    story.epoch(0.9)
    restarted = Story(best_of(path))
    restore(restarted.run, tmp_path / "run.best", callbacks=[restarted.callback])
    restarted.begin()
    assert restarted.callback.pack()["best"] == 0.9
    restarted.epoch(0.7)
    assert inspect(tmp_path / "run.best").epoch == 1


def test_a_new_run_takes_nothing_from_the_file_of_another(tmp_path):
    first = Story(best_of(tmp_path / "run"))
    first.begin()
    first.epoch(0.9)
    second = Story(best_of(tmp_path / "run"))
    second.begin()
    second.epoch()
    second.epoch(0.5)
    assert inspect(tmp_path / "run.best").epoch == 2


def test_the_best_parameters_can_end_the_run(tmp_path):
    story = Story(best_of(tmp_path / "run", restore_best=True))
    story.begin()
    for value in (0.5, 0.8, 0.7):
        story.epoch(value)
    story.end()
    assert story.run.params["w"].tolist() == [2.0, 2.0]
    assert story.run.state.epoch == 3
    assert story.said[-1] == "the parameters are those of epoch 2, the best (accuracy 0.8000)"


@pytest.mark.parametrize("outcome", ["interrupted", "failed"])
def test_a_run_that_was_interrupted_keeps_its_last_parameters(tmp_path, outcome):
    story = Story(best_of(tmp_path / "run", restore_best=True))
    story.begin()
    for value in (0.5, 0.8, 0.7):
        story.epoch(value)
    story.end(outcome)
    assert story.run.params["w"].tolist() == [3.0, 3.0]


def test_the_best_of_a_real_run_is_restored(tmp_path):
    callback = Checkpointing(
        tmp_path / "run",
        every=0,
        monitor="loss",
        higher_is_better=False,
        restore_best=True,
        min_delta=1000.0,
    )
    run = trained(new_run(5), callback)
    first = trained(new_run(1))
    assert run.params[0]["w"].tobytes() == first.params[0]["w"].tobytes()
    assert told(run)[-1].startswith("the parameters are those of epoch 1, the best (loss ")


# -- how many


def test_the_last_three_stay(tmp_path):
    path = tmp_path / "run.safetensors"
    trained(new_run(7), Checkpointing(path, keep_last=3))
    assert names(tmp_path) == [
        "run.epoch-0005.step-00000015.safetensors",
        "run.epoch-0006.step-00000018.safetensors",
        "run.epoch-0007.step-00000021.safetensors",
        "run.safetensors",
    ]
    assert inspect(path).epoch == 7
    assert inspect(tmp_path / names(tmp_path)[0]).epoch == 5


def test_other_files_in_the_folder_stay(tmp_path):
    others = [
        "run.epoch-1.txt",
        "run.epoch-0001.step-00000003.safetensors.bak",
        "other.epoch-0001.step-00000003.safetensors",
        ".run.safetensors.tmp",
        "notes.wb-partial",
    ]
    for name in others:
        (tmp_path / name).write_text("mine")
    trained(new_run(4), Checkpointing(tmp_path / "run.safetensors", keep_last=2))
    for name in others:
        assert (tmp_path / name).read_text() == "mine"


def test_the_best_three_stay_and_the_best_has_its_name(tmp_path):
    story = Story(best_of(tmp_path / "run", keep_best=3))
    story.begin()
    for value in (0.5, 0.9, 0.7, 0.6, 0.8, 0.1, None):
        story.epoch(value)
    kept = [
        inspect(tmp_path / name).document["best"]["value"]
        for name in names(tmp_path)
        if "epoch" in name
    ]
    assert sorted(kept) == [0.7, 0.8, 0.9]
    assert inspect(tmp_path / "run.best").document["best"]["value"] == 0.9
    assert len(names(tmp_path)) == 4


def test_the_best_three_survive_a_resumption(tmp_path):
    path = tmp_path / "run"
    story = Story(best_of(path, keep_best=2, every=1))
    story.begin()
    for value in (0.5, 0.9, 0.7):
        story.epoch(value)
    restarted = Story(best_of(path, keep_best=2, every=1))
    restore(restarted.run, path, callbacks=[restarted.callback])
    restarted.begin()
    for value in (0.6, 0.8):
        restarted.epoch(value)
    kept = [inspect(tmp_path / name).epoch for name in names(tmp_path) if "epoch" in name]
    assert kept == [2, 5]


# -- what if not


def failing(monkeypatch, error):
    """Let the disk be full from now on; return what makes it whole again."""
    real = os.fsync

    def full(descriptor):
        raise error

    monkeypatch.setattr("workbench.train.atomic_file.os.fsync", full)
    return lambda: monkeypatch.setattr("workbench.train.atomic_file.os.fsync", real)


@pytest.mark.parametrize("in_background", [False, True])
def test_a_full_disk_keeps_the_file_and_the_run(tmp_path, monkeypatch, in_background):
    path = tmp_path / "run"
    callback = Checkpointing(path, in_background=in_background)
    run = trained(new_run(2), callback)
    before = path.read_bytes()
    failing(monkeypatch, OSError(28, "No space left on device"))
    run.config = Config(5, 8, 0.01, 7, verbose=False)
    trained(run, callback)
    assert run.status == "completed"
    assert run.state.epoch == 5
    assert path.read_bytes() == before
    assert names(tmp_path) == ["run"]
    (text,) = told(run)
    assert f"`{path}` could not be written: No space left on device" in text
    assert "the file that was there is unchanged" in text
    assert "The run goes on; make room" in text


NO_ROOM = """
import resource, signal, sys
import numpy as np
import workbench as wb
from workbench.errors import DataError
from workbench.train.checkpoint import export_parameters

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
export_parameters({"w": np.ones(10)}, sys.argv[1])
try:
    export_parameters({"w": np.zeros(100_000)}, sys.argv[1])
except DataError as fault:
    sys.stdout.write(fault.problem)
"""


@pytest.mark.skipif(os.name != "posix", reason="this system has no limit on the size of files")
def test_a_file_that_could_only_be_written_in_part_is_none(tmp_path):
    path = tmp_path / "model"
    found = subprocess.run(
        [sys.executable, "-c", NO_ROOM, str(path)],
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert f"`{path}` could not be written: File too large" in found.stdout
    assert load_file(path)["w"].tolist() == [1.0] * 10
    assert names(tmp_path) == ["model"]


def test_the_next_checkpoint_is_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "run"
    repair = failing(monkeypatch, OSError(28, "No space left on device"))

    def mend(event):
        if event.epoch == 2:
            repair()

    # A higher band runs before the checkpoint at the end of an epoch.
    trained(new_run(3), Checkpointing(path, in_background=False), at("EPOCH_END", mend))
    assert inspect(path).epoch == 3


def test_a_checkpoint_that_must_not_fail_ends_the_run(tmp_path, monkeypatch):
    callback = Checkpointing(tmp_path / "run", in_background=False)
    callback.fatal = True
    failing(monkeypatch, OSError(28, "No space left on device"))
    run = new_run(3)
    with refused(DataError, "No space left on device", "nothing was made"):
        trained(run, callback)
    assert (run.status, run.state.epoch) == ("failed", 1)


def test_a_folder_that_cannot_be_made_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with refused(DataError, "could not be written", str(tmp_path / "file" / "run")):
        save_checkpoint(paper_run(), tmp_path / "file" / "run")
    (tmp_path / "folder").mkdir()
    with refused(DataError, "could not be written", str(tmp_path / "folder")):
        save_checkpoint(paper_run(), tmp_path / "folder")
    assert names(tmp_path) == ["file", "folder"]


def test_two_that_write_one_file_are_refused(tmp_path):
    with refused(ConfigurationError, "both write", str(tmp_path / "run")):
        validate([Checkpointing(tmp_path / "run"), Checkpointing(tmp_path / "." / "run")])
    with refused(ConfigurationError, "both write", str(tmp_path / "run.best")):
        validate([best_of(tmp_path / "run"), Checkpointing(tmp_path / "run.best")])
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with refused(ConfigurationError, "both write", str(tmp_path / "run")):
        validate([Checkpointing(tmp_path / "run"), Checkpointing(tmp_path / "link")])


def test_two_that_keep_a_best_file_are_refused(tmp_path):
    with refused(ConfigurationError, "both write `best_path`"):
        validate([best_of(tmp_path / "a"), best_of(tmp_path / "b")])
    validate([best_of(tmp_path / "a"), Checkpointing(tmp_path / "b")])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"monitor": "loss"}, ["monitor", "higher_is_better is None"]),
        ({"higher_is_better": True}, ["monitor is None"]),
        ({"restore_best": True}, ["restore_best", "no monitor"]),
        ({"every": -1}, ["every", "-1"]),
        ({"keep_last": 0}, ["keep_last", "0"]),
        ({"keep_best": 0}, ["keep_best", "0"]),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, named):
    with refused(ConfigurationError, *named):
        Checkpointing(tmp_path / "run", **options)


def test_it_runs_after_early_stopping_when_an_evaluation_is_judged(tmp_path):
    callbacks = [best_of(tmp_path / "run"), EarlyStopping("accuracy", 8, higher_is_better=True)]
    lines = explain_order(callbacks).splitlines()
    assert "eval end     EarlyStopping(accuracy) (20), Checkpointing(accuracy) (30)" in lines


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "far" / "run")
    save_checkpoint(paper_run(), tmp_path / "run")
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "far" / "run").is_file()


# -- leftovers


def partial(tmp_path, pid, started, host, age_s=0.0):
    path = tmp_path / f".run.{pid}-{started}-0@{host}.wb-partial"
    path.write_bytes(b"half a checkpoint")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def test_what_killed_writers_left_is_removed_at_the_next_save(tmp_path):
    me = this_process()
    gone = partial(tmp_path, 2**22 + 1, "17", me.host)
    reused = partial(tmp_path, me.pid, "1", me.host)
    old = partial(tmp_path, 5, "1", "elsewhere", age_s=2 * 24 * 3600)
    mine = partial(tmp_path, me.pid, me.started, me.host)
    young = partial(tmp_path, 6, "1", "elsewhere")
    save_checkpoint(paper_run(), tmp_path / "run")
    assert [p.exists() for p in (gone, reused, old)] == [False, False, False]
    assert [p.exists() for p in (mine, young)] == [True, True]


# -- what others did to the files


def test_the_last_stay_by_their_steps_whatever_the_clock_says(tmp_path):
    path = tmp_path / "run.safetensors"
    trained(new_run(3), Checkpointing(path, keep_last=2))
    future = time.time() + 1e6
    for file in tmp_path.iterdir():
        os.utime(file, (future, future))
    run = new_run(5)
    restore(run, path)
    trained(run, Checkpointing(path, keep_last=2))
    assert [name[4:14] for name in names(tmp_path)] == ["epoch-0004", "epoch-0005", "safetensor"]


def test_files_of_later_steps_are_of_another_run_and_stay(tmp_path):
    path = tmp_path / "run.safetensors"
    trained(new_run(5), Checkpointing(path, keep_last=2))
    trained(new_run(3), Checkpointing(path, keep_last=2))
    epochs = [int(name[10:14]) for name in names(tmp_path) if "epoch" in name]
    assert epochs == [2, 3, 4, 5]


@pytest.mark.parametrize("at", ["monitor", "value", "params", "seal"])
def test_one_flipped_bit_in_the_best_file_is_told_once_and_saving_continues(tmp_path, at):
    path, best = tmp_path / "run", tmp_path / "run.best"

    def callback():
        return Checkpointing(path, monitor="loss", higher_is_better=False)

    trained(new_run(2), callback())
    whole = bytearray(best.read_bytes())
    whole[-1 if at == "params" else whole.index(at.encode())] ^= 1
    best.write_bytes(whole)
    run, again = new_run(4), callback()
    restore(run, path, callbacks=None)
    trained(run, again)
    assert len([text for text in told(run) if "damaged" in text]) == 1
    assert inspect(path).epoch == 4
    assert again.best is not None
    assert inspect(best).document["best"]["value"] == again.best.value
    assert 0.0 <= again.best.value < 1e3


def test_the_best_that_could_not_be_written_is_written_when_there_is_room_again(
    tmp_path, monkeypatch
):
    story = Story(best_of(tmp_path / "folder" / "run"))
    story.begin()
    story.epoch(0.5)
    (tmp_path / "folder").rename(tmp_path / "gone")
    (tmp_path / "folder").write_text("in the way")
    story.epoch(0.9)
    assert "could not be written" in story.said[-1][0].text
    (tmp_path / "folder").unlink()
    story.epoch(0.1)
    assert inspect(tmp_path / "folder" / "run.best").document["best"]["value"] == 0.9
    story.run.params = {"w": np.zeros(2)}
    story.callback.give_best(story.run)
    assert story.run.params["w"][0] == 2.0


def test_two_processes_on_one_path_are_told_and_a_killed_one_is_no_obstacle(tmp_path):
    path = tmp_path / "run"
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from workbench.train.ownership import owned\n"
        f"held = owned(Path({str(path)!r}))\n"
        "print('held', flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": PATHS},
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with refused(ConfigurationError, str(path), f"process {other.pid}"):
            trained(new_run(1), Checkpointing(path))
        assert not path.exists()
        other.kill()
        other.wait()
    trained(new_run(1), Checkpointing(path))
    assert inspect(path).epoch == 1


def test_runs_of_one_process_may_share_a_path(tmp_path):
    first, second = (Story(best_of(tmp_path / "run")) for _ in range(2))
    first.begin()
    second.begin()
    second.epoch(0.5)
    assert (tmp_path / "run.best").exists()


def test_a_reader_beside_a_writer_gets_the_old_file_or_the_new_one(tmp_path):
    path, ended = tmp_path / "run", threading.Event()
    run = paper_run()
    save_checkpoint(run, path)

    def write():
        while not ended.is_set():
            run.params = {"w": run.params["w"] + 1.0}
            save_checkpoint(run, path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            reader = paper_run()
            restore(reader, path)
            assert reader.params["w"][0] == reader.params["w"][1]
            assert inspect(path).parameter_count == 2
    finally:
        ended.set()
        writer.join()

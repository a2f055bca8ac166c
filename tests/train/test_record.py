"""Records of runs: what they hold, that killed and resumed runs keep them right, and tables."""

import errno
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import Watching, at, measure, new_run, rows, step
from workbench.errors import BackendUnavailable, ConfigurationError, DataError
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.comparison import compare, runs
from workbench.train.epoch_row import EpochRow
from workbench.train.process import this_process
from workbench.train.record import RunRecord
from workbench.train.record_format import history_line, read_record, step_losses

TRAIN = rows(20)
VAL = rows(9, seed=1)
ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join(str(ROOT / folder) for folder in (".", "kernels", "widgets"))


def trained(run, *callbacks, val=VAL):
    wb.fit(run, list(callbacks), TRAIN, val, step, measure)
    return run


def lines(path):
    text = (path / "history.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def untimed(path):
    return [{name: v for name, v in line.items() if name != "seconds"} for line in lines(path)]


def status_of(path):
    return json.loads((path / "status.json").read_text(encoding="utf-8"))


# -- what it holds


def test_a_record_holds_configuration_environment_history_losses_and_status(tmp_path):
    record = RunRecord(tmp_path, name="first", note="a first try")
    run = trained(new_run(3, eval_every=2), record)
    assert sorted(each.name for each in record.path.iterdir()) == [
        "config.json",
        "environment.json",
        "history.jsonl",
        "status.json",
        "steps.f32",
    ]
    config = json.loads((record.path / "config.json").read_text(encoding="utf-8"))
    assert (config["name"], config["note"], config["seed"]) == ("first", "a first try", 7)
    assert (config["epochs"], config["batch_size"], config["rows"]) == (3, 8, 20)
    assert config["optimizer"] == "adam"
    assert config["parameters"]["0.w"] == ["float32", [5, 6]]
    assert config["callbacks"] == ["RunRecord"]
    environment = json.loads((record.path / "environment.json").read_text(encoding="utf-8"))
    assert environment["numpy"] == np.__version__
    found = lines(record.path)
    assert [line["epoch"] for line in found] == [1, 2, 3]
    assert [line["train_loss"] for line in found] == run.history.column("train_loss").tolist()
    assert ["val_loss" in line for line in found] == [False, True, False]
    status = status_of(record.path)
    assert (status["status"], status["epoch"], status["global_step"]) == ("completed", 3, 9)


def test_the_loss_of_each_update_is_in_a_binary_file(tmp_path):
    losses = []
    record = RunRecord(tmp_path)
    trained(new_run(4), record, at("BATCH_END", lambda event: losses.append(event.loss)))
    np.testing.assert_array_equal(step_losses(record.path), np.array(losses, np.float32))
    assert (record.path / "steps.f32").stat().st_size == 4 * 12


def test_a_number_that_is_not_finite_is_null(tmp_path):
    row = EpochRow(1, math.nan, math.inf, (("f1", -math.inf),), 0.5, (("norm", math.nan),))
    assert history_line(row) == (
        '{"epoch": 1, "train_loss": null, "train_norm": null, "lr": null, "val_f1": null, '
        '"seconds": 0.5}\n'
    )
    record = RunRecord(tmp_path, name="nan")
    data = wb.data.Dataset(np.full((20, 5), np.nan), np.zeros(20, np.int64), dtype=np.float32)
    wb.fit(new_run(2), [record], data, None, step)
    assert "NaN" not in (record.path / "history.jsonl").read_text(encoding="utf-8")
    assert [line["train_loss"] for line in lines(record.path)] == [None, None]
    assert runs(tmp_path)["train_loss"].isna().tolist() == [True]


def test_a_run_has_a_name_of_its_own_unless_it_is_given_one(tmp_path):
    names = {RunRecord(tmp_path).path.name for _ in range(20)}
    assert len(names) == 20
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", ".hidden"])
def test_a_name_that_is_no_folders_is_refused(tmp_path, name):
    with refused(ConfigurationError, repr(name)):
        RunRecord(tmp_path, name=name)


def test_how_a_run_ended_is_told(tmp_path):
    record = RunRecord(tmp_path, name="stopped")
    trained(new_run(5), record, at("EPOCH_END", lambda e: e.state.request_stop("enough")))
    assert status_of(record.path)["reason"] == "enough"

    def fail(event):
        raise RuntimeError

    class Fatal(Watching):
        fatal = True

    broken = Fatal("EPOCH_END", fail)
    record = RunRecord(tmp_path, name="failed")
    with pytest.raises(RuntimeError):
        trained(new_run(5), record, broken)
    assert runs(tmp_path).set_index("name")["status"].to_dict() == {
        "stopped": "stopped",
        "failed": "failed",
    }


# -- going on


def test_a_resumed_run_leaves_the_record_of_an_uninterrupted_one(tmp_path):
    whole = RunRecord(tmp_path, name="whole")
    trained(new_run(6), whole)
    record = RunRecord(tmp_path, name="resumed")
    path = tmp_path / "x"

    def save(event):
        if event.state.epoch == 2:
            save_checkpoint(event.run, path)

    # It trains on after its checkpoint; what it recorded then is done again.
    trained(new_run(4), record, at("EPOCH_END", save))
    run = new_run(6)
    restore(run, path)
    trained(run, RunRecord(tmp_path, name="resumed"))
    assert untimed(record.path) == untimed(whole.path)
    assert step_losses(record.path).tobytes() == step_losses(whole.path).tobytes()
    assert status_of(record.path)["started"] <= status_of(record.path)["written"]


@pytest.mark.parametrize("updates", [1, 4, 5, 6, 7])
def test_a_run_resumed_in_the_middle_of_an_epoch_leaves_it_too(tmp_path, updates):
    whole = RunRecord(tmp_path, name="whole")
    trained(new_run(4), whole)
    path = tmp_path / "x"

    def save(event):
        if event.state.global_step == updates:
            save_checkpoint(event.run, path)
            event.run.stop()

    trained(new_run(4), RunRecord(tmp_path, name="resumed"), at("BATCH_END", save))
    resumed = tmp_path / "resumed"
    assert len(step_losses(resumed)) == updates
    # What a killed process had not written down, the checkpoint knows.
    (resumed / "steps.f32").write_bytes(b"\x00")
    run = new_run(4)
    restore(run, path)
    trained(run, RunRecord(tmp_path, name="resumed"))
    found, wanted = step_losses(resumed), step_losses(whole.path)
    known = updates - 1 - (updates - 1) % 3
    assert np.isnan(found[:known]).all()
    assert found[known:].tobytes() == wanted[known:].tobytes()
    assert untimed(resumed) == untimed(whole.path)


def test_under_accumulation_there_is_still_a_loss_for_each_batch(tmp_path):
    def optimizer(params):
        return wb.accumulate(wb.adam(params), params, 2)

    losses = []
    whole = RunRecord(tmp_path, name="whole")
    remember = at("BATCH_END", lambda event: losses.append(event.loss))
    trained(new_run(4, optimizer=optimizer), whole, remember)
    path = tmp_path / "x"

    def save(event):
        if len(losses) == 12 + 7:
            save_checkpoint(event.run, path)
            event.run.stop()

    record = RunRecord(tmp_path, name="resumed")
    trained(new_run(4, optimizer=optimizer), record, remember, at("BATCH_END", save))
    run = new_run(4, optimizer=optimizer)
    restore(run, path)
    trained(run, RunRecord(tmp_path, name="resumed"))
    np.testing.assert_array_equal(step_losses(whole.path), np.array(losses[:12], np.float32))
    assert step_losses(record.path).tobytes() == step_losses(whole.path).tobytes()


def test_a_record_of_a_run_that_was_trained_before_says_what_it_does_not_know(tmp_path):
    run = trained(new_run(2))
    run.config = wb.Config(3, 8, 0.01, 7, verbose=False)
    record = RunRecord(tmp_path)
    trained(run, record)
    assert [line["epoch"] for line in lines(record.path)] == [1, 2, 3]
    found = step_losses(record.path)
    assert np.isnan(found[:6]).all()
    assert found[6:].tobytes() == run.losses.astype(np.float32).tobytes()


def test_fit_twice_is_one_record(tmp_path):
    record = RunRecord(tmp_path, name="twice")
    run = trained(new_run(2), record)
    run.config = wb.Config(4, 8, 0.01, 7, verbose=False)
    trained(run, record)
    assert [line["epoch"] for line in lines(record.path)] == [1, 2, 3, 4]
    assert len(step_losses(record.path)) == 12


def test_a_new_run_does_not_take_the_name_of_another(tmp_path):
    record = RunRecord(tmp_path, name="mine")
    trained(new_run(2), record)
    before = {each: each.read_bytes() for each in record.path.iterdir()}
    run = new_run(2)
    with refused(ConfigurationError, str(record.path), "another run, of 2 epochs"):
        trained(run, RunRecord(tmp_path, name="mine"))
    assert run.state.global_step == 0
    other = trained(new_run(3, seed=8))
    other.config = wb.Config(4, 8, 0.01, 8, verbose=False)
    with refused(ConfigurationError, "another run"):
        trained(other, RunRecord(tmp_path, name="mine"))
    assert {each: each.read_bytes() for each in record.path.iterdir()} == before


def forged_status(path, **process):
    status = status_of(path) | {"status": "running"}
    status["process"] |= process
    (path / "status.json").write_text(json.dumps(status), encoding="utf-8")


def test_a_record_that_another_process_is_writing_is_left_alone(tmp_path):
    record = RunRecord(tmp_path, name="busy")
    run = trained(new_run(1), record)
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    try:
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        stat = Path(f"/proc/{sleeper.pid}/stat")
        started = stat.read_text().rpartition(")")[2].split()[19] if stat.exists() else ""
        forged_status(record.path, pid=sleeper.pid, started=started)
        assert runs(tmp_path)["status"].tolist() == ["running"]
        run.config = wb.Config(2, 8, 0.01, 7, verbose=False)
        with refused(ConfigurationError, f"process {sleeper.pid}"):
            trained(run, RunRecord(tmp_path, name="busy"))
    finally:
        sleeper.kill()
        sleeper.communicate()
    assert runs(tmp_path)["status"].tolist() == ["killed"]


# -- killed runs

KILLED = """
import os, signal, sys
import workbench as wb
from tests.train.problems import at, measure, new_run, rows, step
from workbench.train.record import RunRecord

def die(event):
    if event.state.epoch == 40:
        os.kill(os.getpid(), signal.SIGKILL)

record = RunRecord(sys.argv[1], name="killed")
wb.fit(new_run(50), [record, at("EPOCH_BEGIN", die)], rows(20), rows(9, seed=1), step, measure)
"""


def test_a_killed_run_is_listed_as_killed(tmp_path):
    found = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        check=False,
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        timeout=120,
    )
    assert found.returncode == -9, found.stderr.decode()
    assert status_of(tmp_path / "killed")["status"] == "running"
    (row,) = runs(tmp_path).to_dict("records")
    assert (row["name"], row["status"], row["epochs"]) == ("killed", "killed", 50)


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        ({}, "running"),
        ({"started": "1"}, "killed"),
        ({"boot": "another"}, "killed"),
        ({"pid": 2**22 + 1}, "killed"),
        ({"host": "elsewhere"}, "unknown"),
    ],
)
def test_whether_a_run_goes_on_is_asked_of_the_system(tmp_path, process, expected):
    record = RunRecord(tmp_path, name="x")
    trained(new_run(1), record)
    forged_status(record.path, **process)
    assert runs(tmp_path)["status"].tolist() == [expected]


def test_a_line_that_was_being_written_does_not_count(tmp_path):
    record = RunRecord(tmp_path, name="x")
    trained(new_run(3), record)
    with (record.path / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"epoch": 4, "train_l')
    with (record.path / "steps.f32").open("ab") as file:
        file.write(b"\x00\x01")
    assert [int(row["epoch"]) for row in read_record(record.path).epochs] == [1, 2, 3]
    assert len(step_losses(record.path)) == 9
    run = new_run(3)
    trained(run)
    run.config = wb.Config(4, 8, 0.01, 7, verbose=False)
    trained(run, RunRecord(tmp_path, name="x"))
    assert [line["epoch"] for line in lines(record.path)] == [1, 2, 3, 4]
    assert np.isfinite(step_losses(record.path)).all()


def test_a_record_that_cannot_be_written_does_not_end_the_run(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    run = trained(new_run(2), RunRecord(tmp_path / "file", name="x"))
    assert run.status == "completed"
    (report,) = run.reports
    assert "RunRecord" in report.text
    assert "could not be written" in report.text


# -- a disk that is full for a while, a folder that is gone


def gone(folder):
    shutil.rmtree(folder)


def in_the_way(folder):
    shutil.rmtree(folder)
    folder.write_text("in the way")


def free(folder):
    if folder.is_file():
        folder.unlink()


@pytest.mark.parametrize("lose", [gone, in_the_way])
@pytest.mark.parametrize("epoch", [1, 3, 4])
def test_a_record_that_was_lost_is_complete_at_the_end(tmp_path, monkeypatch, lose, epoch):
    monkeypatch.setattr("workbench.train.record._FLUSH_S", 0.0)
    whole, record = RunRecord(tmp_path, name="whole"), RunRecord(tmp_path, name="lost")
    trained(new_run(4), whole)

    def happen(event):
        free(record.path)
        if event.epoch == epoch:
            lose(record.path)

    last = at("RUN_END", lambda _: free(record.path))
    run = trained(new_run(4), record, at("EPOCH_END", happen), last)
    assert status_of(record.path)["status"] == "completed"
    assert untimed(record.path) == untimed(whole.path)
    assert step_losses(record.path).tobytes() == step_losses(whole.path).tobytes()
    assert (record.path / "config.json").is_file()
    assert len([r for r in run.reports if r.severity == "error"]) <= 1


def test_a_disk_without_room_is_told_once_and_what_waited_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.train.record._FLUSH_S", 0.0)
    whole, record = RunRecord(tmp_path, name="whole"), RunRecord(tmp_path, name="full")
    trained(new_run(5), whole)
    written, room = os.write, [10**9]

    def write(descriptor, octets):
        """Write as a disk does on which little room is left."""
        if not room[0] and octets:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = written(descriptor, octets[: room[0]])
        room[0] -= done
        return done

    def happen(event):
        room[0] = {1: 7, 4: 10**9}.get(event.epoch, room[0])

    monkeypatch.setattr(os, "write", write)
    run = trained(new_run(5), record, at("EPOCH_END", happen))
    monkeypatch.undo()
    assert untimed(record.path) == untimed(whole.path)
    assert step_losses(record.path).tobytes() == step_losses(whole.path).tobytes()
    assert [r.severity for r in run.reports if "record" in r.text.lower()] == ["error", "info"]


def test_a_killed_run_that_is_resumed_has_no_gap_in_its_losses(tmp_path, monkeypatch):
    monkeypatch.setattr("workbench.train.record._FLUSH_S", 1e9)
    whole, record = RunRecord(tmp_path, name="whole"), RunRecord(tmp_path, name="killed")
    trained(new_run(6), whole)
    path, copy = tmp_path / "x", tmp_path / "copy"

    def kill(event):
        """Keep what is on the disk once the checkpoint of epoch 4 is there."""
        if event.epoch == 4:
            save_checkpoint(event.run, path)
            shutil.copytree(record.path, copy)

    trained(new_run(6), at("EPOCH_END", kill), record)
    shutil.rmtree(record.path)
    copy.rename(record.path)
    forged_status(record.path, started="1")
    run = new_run(6)
    restore(run, path)
    trained(run, RunRecord(tmp_path, name="killed"))
    assert untimed(record.path) == untimed(whole.path)
    assert step_losses(record.path).tobytes() == step_losses(whole.path).tobytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
@pytest.mark.parametrize("name", ["config.json", "history.jsonl", "status.json", "steps.f32"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "deep", "text", "octets", "nothing"])
def test_one_file_of_another_kind_is_a_damaged_row_and_neither_hangs_nor_leaves_the_folder(
    three, name, kind
):
    file = three / "b" / name
    file.unlink()
    (three / "secret").write_text('{"status": "completed", "started": "now"}')
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "link":
        file.symlink_to(three / "secret")
    elif kind != "nothing":
        content = {"deep": b"[" * 100_000 + b"\n", "text": b"[1, 2]\n", "octets": b"\xff\xfe\n"}
        file.write_bytes(content[kind])
    if name == "steps.f32":
        made = compare(three, "step_loss")
        status = made.table.set_index("name")["status"]["b"]
        assert (status == "damaged") == (kind in ("pipe", "folder", "link", "nothing"))
        return
    rows = runs(three).set_index("name")
    if kind == "nothing" and name == "status.json":
        assert list(rows.index) == ["a", "c"]  # without it there is no record
        return
    assert rows["status"].to_dict() == {"a": "completed", "b": "damaged", "c": "completed"}
    assert name in rows["fault"]["b"]
    table = compare(three, "val_loss").table.set_index("name")
    assert name in table["fault"]["b"]
    assert table["fault"]["a"] == ""


def test_a_link_in_the_folder_of_a_record_is_not_written_through(tmp_path):
    (tmp_path / "runs" / "x").mkdir(parents=True)
    other = tmp_path / "other"
    other.write_text("mine")
    for name in ("history.jsonl", "steps.f32", "reports.jsonl", "actions.jsonl", "config.json"):
        (tmp_path / "runs" / "x" / name).symlink_to(other)
    run = trained(new_run(1), RunRecord(tmp_path / "runs", name="x"))
    assert run.status == "completed"
    assert other.read_text() == "mine"


# -- tables


@pytest.fixture
def three(tmp_path):
    for name, seed in (("a", 7), ("b", 8), ("c", 9)):
        epochs = 3 if name != "c" else 5
        trained(new_run(epochs, seed=seed), RunRecord(tmp_path, name=name))
    return tmp_path


def test_runs_are_a_table_with_a_row_for_each(three):
    (three / "no run").mkdir()
    (three / "file").write_text("x")
    table = runs(three)
    assert table["name"].tolist() == ["a", "b", "c"]
    assert table["status"].tolist() == ["completed"] * 3
    assert table["epoch"].tolist() == [3, 3, 5]
    assert table["seed"].tolist() == [7, 8, 9]
    assert table["parameters"].tolist() == [57] * 3
    assert list(table.columns[:7]) == [
        "name",
        "status",
        "epoch",
        "epochs",
        "train_loss",
        "val_loss",
        "val_accuracy",
    ]
    assert table["val_loss"].notna().all()


def test_a_folder_without_runs_is_an_empty_table(tmp_path):
    assert len(runs(tmp_path / "nowhere")) == 0
    assert list(runs(tmp_path).columns)[:2] == ["name", "status"]


def test_one_damaged_record_does_not_hide_the_others(three):
    (three / "b" / "config.json").write_text("{")
    assert runs(three).set_index("name")["status"].to_dict() == {
        "a": "completed",
        "b": "damaged",
        "c": "completed",
    }
    with refused(DataError, "config.json"):
        read_record(three / "b")


def test_runs_are_compared_epoch_by_epoch(three):
    made = compare(three, "val_loss")
    assert list(made.curves.columns) == ["a", "b", "c"]
    assert made.curves.index.tolist() == [1, 2, 3, 4, 5]
    assert made.curves["a"].isna().tolist() == [False] * 3 + [True] * 2
    assert "seed" in made.table.columns
    assert "batch_size" not in made.table.columns
    row = made.table.to_dict("records")[2]
    values = made.curves["c"].tolist()
    assert (row["name"], row["last"], row["least"]) == ("c", values[-1], min(values))
    assert row["at_least"] == values.index(min(values)) + 1
    assert row["greatest"] == max(values)
    assert repr(made).splitlines()[0] == "val_loss"


def test_the_losses_of_updates_are_compared_too(three):
    made = compare(three, "step_loss", names=["c", "a"])
    assert list(made.curves.columns) == ["c", "a"]
    assert made.curves.index.name == "batch"
    assert len(made.curves) == 15


def test_what_does_not_exist_is_refused_with_what_does(three):
    with refused(DataError, "no run `z`") as _:
        compare(three, names=["a", "z"])
    with pytest.raises(DataError, match="`val_f1`") as caught:
        compare(three, "val_f1")
    assert "val_accuracy" in caught.value.remedy
    assert "step_loss" in caught.value.remedy
    with refused(DataError, "has no runs"):
        compare(three / "nowhere")


def test_curves_are_a_figure_made_without_the_state_machine(three):
    code = (
        "import sys; from workbench.train.comparison import compare\n"
        f"figure = compare({str(three)!r}, 'train_loss').figure()\n"
        "assert [len(line.get_xdata()) for line in figure.axes[0].get_lines()] == [3, 3, 5]\n"
        "assert figure.axes[0].get_ylabel() == 'train_loss'\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": PATHS},
        check=True,
        timeout=60,
    )


def test_names_are_text_wherever_they_are_shown(tmp_path):
    names = ["<b>bold</b>", "$x^2$", "_hidden", 'quote"']
    for name in names:
        # A note differs, so that it is in the table too.
        trained(new_run(1), RunRecord(tmp_path, name=name.replace("/", "|"), note=name))
    made = compare(tmp_path)
    html = made._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert html.count('alt="') == 1
    assert 'src="data:image/png;base64,' in html
    legend = made.figure().axes[0].get_legend()
    assert legend is not None
    assert sorted(text.get_text().strip() for text in legend.get_texts()) == sorted(
        name.replace("/", "|") for name in names
    )
    assert "<b>" not in runs(tmp_path).to_html()


def test_without_matplotlib_there_are_still_tables(three, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    made = compare(three)
    with refused(BackendUnavailable, "matplotlib"):
        made.figure()
    assert "<table" in made._repr_html_()
    assert "<img" not in made._repr_html_()
    assert isinstance(made.table, pd.DataFrame)


def test_a_process_knows_itself():
    assert this_process().presence() == "alive"

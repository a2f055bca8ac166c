import io
import json
import math
import os
import shutil

import pytest

import workbench as wb
from tests.train.callbacks.paper import Paper
from tests.train.problems import at, new_run, rows, step
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.config import Config


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def logged(log, *, end=True):
    """Run an epoch with an evaluation and one without, and stop."""
    paper = Paper([log], Config(60, 16, 0.0025, 0, eval_every=2), batches=18).begin()
    paper.epoch(1.0443699495, val={"loss": 0.9345749078, "accuracy": 43 / 72})
    paper.epoch(0.5)
    paper.state.request_stop("enough")
    return paper.end("stopped") if end else paper


LINES = [
    "epoch  1/60  loss 1.0444  lr 0.002500  val_loss 0.9346  val_accuracy 0.5972",
    "epoch  2/60  loss 0.5000  lr 0.002500  val_loss 0.9346  val_accuracy 0.5972",
    "stopped: enough",
]
RECORDS = [
    {
        "epoch": 1,
        "epochs": 60,
        "global_step": 18,
        "lr": 0.0025,
        "train_loss": 1.0443699495,
        "val_loss": 0.9345749078,
        "val_accuracy": 43 / 72,
    },
    {
        "epoch": 2,
        "epochs": 60,
        "global_step": 36,
        "lr": 0.0025,
        "train_loss": 0.5,
        "val_loss": None,
        "val_accuracy": None,
    },
    {"stopped": "enough"},
]


def test_the_lines_are_reports_of_the_run_unless_they_go_elsewhere():
    assert logged(MetricLog()).texts == LINES


def test_lines_go_to_a_stream_and_are_no_reports_then():
    stream = io.StringIO()
    assert logged(MetricLog(stream)).texts == []
    assert stream.getvalue().splitlines() == LINES


def test_json_keeps_its_order_and_says_null_for_what_was_not_evaluated():
    texts = logged(MetricLog(as_json=True)).texts
    assert [json.loads(text) for text in texts] == RECORDS
    assert list(json.loads(texts[0])) == list(RECORDS[0])


def test_json_says_null_for_nan():
    paper = Paper([MetricLog(as_json=True)]).begin().epoch(math.nan, val={"loss": math.inf})
    record = json.loads(paper.texts[0])
    assert (record["train_loss"], record["val_loss"]) == (None, None)


def test_a_run_that_was_not_stopped_has_no_last_word():
    assert Paper([MetricLog()]).begin().epoch().end().texts == [
        "epoch  1/20  loss 1.0000  lr 0.100000"
    ]


def test_lines_go_to_a_file_whose_folder_is_made(tmp_path):
    path = tmp_path / "runs" / "one" / "log.jsonl"
    logged(MetricLog(path, as_json=True))
    assert [json.loads(line) for line in path.read_text().splitlines()] == RECORDS


def test_lines_are_in_the_file_before_the_run_ends(tmp_path):
    path = tmp_path / "log.txt"
    paper = logged(MetricLog(str(path)), end=False)
    assert path.read_text().splitlines() == LINES[:2]
    paper.end("failed")


@pytest.mark.parametrize(("left", "kept"), [("", ""), ("whole\n", "whole\n"), ("to", "to\n")])
def test_a_resumed_run_adds_to_what_a_killed_one_left(tmp_path, left, kept):
    path = tmp_path / "log.txt"
    path.write_text(left)
    logged(MetricLog(path))
    assert path.read_text() == kept + "\n".join(LINES) + "\n"


def test_colours_appear_on_a_terminal_and_nowhere_else(monkeypatch, tmp_path):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    logged(MetricLog(screen))
    assert "\x1b[36m1.0444" in screen.getvalue()
    monkeypatch.setattr("sys.stdout", screen)
    assert "\x1b" in logged(MetricLog()).texts[0]
    path = tmp_path / "log.txt"
    logged(MetricLog(path))
    assert "\x1b" not in path.read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in logged(MetricLog()).texts[0]


def test_a_file_that_cannot_be_written_costs_the_log_and_not_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    paper = logged(MetricLog(tmp_path / "file" / "log.txt"))
    (report,) = paper.said
    assert report.severity == "error"
    assert paper.state.epoch == 2


def test_a_log_whose_folder_is_gone_for_a_while_is_told_once_and_catches_up(tmp_path):
    folder = tmp_path / "logs"
    log = MetricLog(folder / "log.txt")

    def happen(event):
        if event.epoch == 2:
            shutil.rmtree(folder)
            folder.write_text("in the way")
        if event.epoch == 4:
            folder.unlink()

    run = new_run(5)
    wb.fit(run, [log, at("EPOCH_END", happen)], rows(20), None, step)
    shown = (folder / "log.txt").read_text().splitlines()
    assert [line.split()[1].partition("/")[0] for line in shown] == ["2", "3", "4", "5"]
    assert [r.severity for r in run.reports] == ["error"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_a_log_to_a_pipe_is_told_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    run = new_run(2)
    wb.fit(run, [MetricLog(tmp_path / "pipe")], rows(20), None, step)
    assert run.status == "completed"
    assert "a named pipe" in run.reports[0].text

"""What goes wrong in a run, in a background run too, reaches those who look at it."""

import json

import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, measure, new_run, rows, step
from workbench.train.reports import Severity, troubles

DATA, VAL = rows(40), rows(9, seed=1)
PATIENCE_S = 60.0


def in_background(run, *callbacks, val=None, eval_batch=None):
    run.start(list(callbacks), DATA, val, step, eval_batch)
    run.wait(PATIENCE_S)
    return run


def grave(run):
    return [report for report in run.reports if report.severity != "info"]


def banded(hook, band, action):
    watching = at(hook, action)
    watching.band = band
    return watching


def raising(method):
    def hook(self, event):
        raise ValueError("no more paper")

    return type("Broken", (wb.Callback,), {method: hook})()


def unwritable(tmp_path):
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "last.safetensors"


HOOKS = [
    "on_run_begin",
    "on_epoch_begin",
    "on_batch_begin",
    "on_batch_end",
    "on_eval_end",
    "on_epoch_end",
    "on_run_end",
]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_callback_that_raises_in_the_background_is_told_of_everywhere(hook, tmp_path):
    run, record = new_run(2), wb.RunRecord(tmp_path, name="a")
    in_background(run, record, raising(hook), val=VAL, eval_batch=measure)
    (report,) = grave(run)
    assert run.status == "completed"
    assert report.severity == "error"
    assert [said.report for said in run.store.reports if said.report.severity == "error"] == [
        report
    ]
    lines = [json.loads(line) for line in (record.path / "reports.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines if line["severity"] == "error"] == [report.text]
    shown = repr(wb.watch(run))
    assert f"error: the callback `Broken` raised in `{hook}`" in shown
    assert "1 error among its reports" in shown
    assert "1 error among its reports" in repr(run)


@pytest.mark.parametrize("in_thread", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {"every": 1},
        {"every": 0, "every_steps": 2},
        {"every": 0, "at_end": True},
        {"every": 1, "keep_last": 2},
        {"every": 0, "monitor": "loss", "higher_is_better": False},
    ],
    ids=str,
)
def test_a_file_that_was_not_written_has_no_mark_and_is_told_once(tmp_path, settings, in_thread):
    run = new_run(4)
    saving = wb.Checkpointing(unwritable(tmp_path), in_background=in_thread, **settings)
    in_background(run, saving, val=VAL, eval_batch=measure)
    assert run.status == "completed"
    assert not run.store.marks
    (report,) = grave(run)
    assert report.severity == "error"
    assert "last" in report.text
    assert "error: " in repr(wb.watch(run))


def test_a_mark_comes_after_its_file(tmp_path, monkeypatch):
    seen = []
    mark = wb.Run.__init__.__globals__["RunStore"].mark

    def looking(store, kind, text, *, at=None):
        seen.append((path.is_file(), at))
        mark(store, kind, text, at=at)

    monkeypatch.setattr(wb.Run.__init__.__globals__["RunStore"], "mark", looking)
    path = tmp_path / "last.safetensors"
    run = in_background(new_run(3), wb.Checkpointing(path, in_background=False))
    assert seen == [(True, 5), (True, 10), (True, 15)]
    assert [found.at for found in run.store.marks] == [5, 10, 15]


def test_a_file_that_can_be_written_again_is_told_of_when_it_fails_again(tmp_path):
    path = tmp_path / "folder" / "last.safetensors"
    path.parent.mkdir()

    def toggle(event):
        if event.epoch in (2, 4):  # as if a disk was full: a file is where the folder was
            path.unlink(missing_ok=True)
            path.parent.rmdir()
            path.parent.write_text("")
        elif event.epoch == 3:
            path.parent.unlink()
            path.parent.mkdir()

    run = new_run(6)
    in_background(run, wb.Checkpointing(path, in_background=False), banded("EPOCH_END", 40, toggle))
    assert [report.severity for report in grave(run)] == ["error", "error"]
    assert [mark.at for mark in run.store.marks] == [5, 15]


def test_two_files_that_fail_are_both_told(tmp_path):
    run = new_run(2)
    bad = unwritable(tmp_path)
    two = wb.Checkpointing(bad, monitor="loss", higher_is_better=False)
    in_background(run, two, val=VAL, eval_batch=measure)
    assert len(grave(run)) == 2
    assert "last.best" in " ".join(report.text for report in grave(run))


def test_a_checkpoint_asked_for_by_hand_that_fails_is_an_error(tmp_path):
    run = new_run(2)
    saving = wb.Checkpointing(unwritable(tmp_path), every=0)
    in_background(run, saving)
    with pytest.raises(wb.DataError):
        run.checkpoint().wait()
    assert [report.severity for report in grave(run)] == ["error"]


def test_what_a_hook_returns_that_is_no_report_is_told_once():
    run = new_run(3)
    in_background(run, at("EPOCH_END", lambda event: True))
    (report,) = grave(run)
    assert report.severity == "warning"
    assert "returned a `bool`, which is ignored" in report.text


def test_a_hook_may_return_several_reports():
    run = new_run(1)
    in_background(run, at("EPOCH_END", lambda event: ["one", wb.Report("two", severity="warning")]))
    assert [(r.text, r.severity) for r in run.reports] == [("one", "info"), ("two", "warning")]


def test_a_hook_whose_body_a_call_does_not_run_is_refused():
    class Later(wb.Callback):
        async def on_epoch_end(self, event):
            """Nothing."""

    class Yielding(wb.Callback):
        def on_epoch_end(self, event):
            yield "text"

    for callback in (Later(), Yielding()):
        with refused(wb.ConfigurationError, "a call does not run", remedy="plain function"):
            wb.fit(new_run(1), [callback], DATA, None, step)


def test_a_store_keeps_the_gravest_reports_of_a_long_run():
    run = new_run(1)
    run.say(wb.Report("the first", severity="error"))
    for number in range(2000):
        run.say(wb.Report(f"line {number}"))
    assert run.store.reports[0].report.text == "the first"
    assert len(run.store.reports) == 257


def test_a_record_that_is_gone_on_with_keeps_the_reports_up_to_there(tmp_path):
    path = tmp_path / "last.safetensors"

    def trained(run, *callbacks):
        record = wb.RunRecord(tmp_path, name="a")
        tell = at("EPOCH_END", lambda event: f"epoch {event.epoch}")
        in_background(run, record, wb.Checkpointing(path, every=2), tell, *callbacks)
        lines = (record.path / "reports.jsonl").read_text().splitlines()
        return [json.loads(line)["text"] for line in lines]

    def stop(event):
        if event.epoch == 3:
            raise SystemExit

    run = new_run(4)
    with pytest.raises(SystemExit):
        trained(run, banded("EPOCH_END", 10, stop))
    again = new_run(4)
    wb.restore(again, path)
    assert trained(again) == [f"epoch {number}" for number in (1, 2, 3, 4)]


def test_troubles_count_what_is_grave():
    kinds: list[Severity] = ["warning", "error", "info", "warning"]
    reports = [wb.Report("text", severity=kind) for kind in kinds]
    assert troubles(reports) == "1 error and 2 warnings among its reports"
    assert troubles(reports[2:3]) == ""

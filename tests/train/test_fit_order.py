"""What a run tells its callbacks, in which order, and what they find then."""

import dataclasses

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import Watch, at, measure, new_run, rows, step
from workbench.train.events import Hook

BEGIN = "RUN_BEGIN"
EPOCH = [
    "EPOCH_BEGIN",
    *["BATCH_BEGIN", "BATCH_END"] * 3,
    "EVAL_END",
    "EPOCH_END",
]


def test_the_hooks_of_two_epochs_come_in_the_promised_order():
    watch = Watch()
    wb.fit(new_run(2), [watch], rows(20), rows(9, seed=1), step, measure)
    assert watch.names == [BEGIN, *EPOCH, *EPOCH, "RUN_END"]


def test_without_batch_hooks_the_others_come_in_the_same_order():
    watch = Watch([hook for hook in Hook if "BATCH" not in hook.name])
    wb.fit(new_run(2), [watch], rows(20), rows(9, seed=1), step, measure)
    without = [name for name in EPOCH if "BATCH" not in name]
    assert watch.names == [BEGIN, *without, *without, "RUN_END"]


def test_an_epoch_that_is_not_evaluated_tells_nothing_of_it():
    watch = Watch()
    wb.fit(new_run(4, eval_every=2), [watch], rows(20), rows(9), step, measure)
    evaluated = [e.epoch for e in watch.seen if e.hook is Hook.EVAL_END]
    told = [(e.epoch, e.evaluated) for e in watch.seen if e.hook is Hook.EPOCH_END]
    assert evaluated == [2, 4]
    assert told == [(1, False), (2, True), (3, False), (4, True)]


@pytest.mark.parametrize("without", ["no data", "no rows", "no function", "never"])
def test_there_are_four_ways_not_to_evaluate(without):
    watch = Watch()
    val = None if without == "no data" else rows(9)
    val = wb.data.empty() if without == "no rows" else val
    function = None if without == "no function" else measure
    run = new_run(1, eval_every=0 if without == "never" else 1)
    history = wb.fit(run, [watch], rows(20), val, step, function)
    assert "EVAL_END" not in watch.names
    assert history.metric_names == ()


def test_events_carry_the_batch_its_rows_and_the_loss_up_to_it():
    watch = Watch()
    wb.fit(new_run(1), [watch], rows(20), None, step)
    begun = [(e.batch, e.rows) for e in watch.seen if e.hook is Hook.BATCH_BEGIN]
    ended = [(e.batch, e.rows) for e in watch.seen if e.hook is Hook.BATCH_END]
    assert begun == ended == [(0, 8), (1, 8), (2, 4)]
    losses = [e.loss for e in watch.seen if e.hook is Hook.BATCH_END]
    (end,) = (e for e in watch.seen if e.hook is Hook.EPOCH_END)
    assert end.loss == pytest.approx(np.average(losses, weights=[8, 8, 4]), rel=1e-12)


def state_at(hook):
    found = []

    def remember(event):
        state = event.state
        found.append((state.epoch, state.batch, state.global_step))

    run = new_run(2)
    wb.fit(run, [at(hook, remember)], rows(20), rows(9), step, measure)
    return found


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("RUN_BEGIN", [(0, 0, 0)]),
        ("EPOCH_BEGIN", [(0, 0, 0), (1, 0, 3)]),
        ("BATCH_BEGIN", [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 3), (1, 1, 4), (1, 2, 5)]),
        ("BATCH_END", [(0, 0, 1), (0, 1, 2), (0, 2, 3), (1, 0, 4), (1, 1, 5), (1, 2, 6)]),
        ("EVAL_END", [(1, 2, 3), (2, 2, 6)]),
        ("EPOCH_END", [(1, 2, 3), (2, 2, 6)]),
        ("RUN_END", [(2, 2, 6)]),
    ],
)
def test_a_hook_finds_epoch_batch_and_step_where_they_should_be(hook, expected):
    assert state_at(hook) == expected


def test_the_run_knows_its_epochs_batches_and_rows_from_the_beginning():
    seen = []
    watch = at("RUN_BEGIN", lambda e: seen.append((e.state.epochs, e.state.batches, e.state.rows)))
    wb.fit(new_run(2), [watch], rows(20), None, step)
    assert seen == [(2, 3, 20)]


def test_the_rate_that_a_batch_uses_is_the_one_its_begin_hook_left():
    def halve(event):
        event.state.lr = 0.1 if event.batch == 1 else 0.0

    run = new_run(1, optimizer=wb.sgd)
    watched = [run.params]
    watch = at("BATCH_END", lambda e: watched.append(e.run.params))
    wb.fit(run, [at("BATCH_BEGIN", halve), watch], rows(20), None, step)
    before, first, second, third = (w[0]["w"] for w in watched)
    assert np.array_equal(before, first)
    assert not np.array_equal(first, second)
    assert np.array_equal(second, third)


def test_a_rate_set_at_the_beginning_of_an_epoch_holds_for_all_its_batches():
    def freeze(event):
        event.state.lr = 0.0

    run = new_run(2, optimizer=wb.sgd)
    before = run.params[0]["w"]
    wb.fit(run, [at("EPOCH_BEGIN", freeze)], rows(20), None, step)
    assert np.array_equal(run.params[0]["w"], before)
    assert run.history.column("lr").tolist() == [0.0, 0.0]


def test_a_callback_that_stops_the_run_lets_the_epoch_finish():
    def stop(event):
        event.state.request_stop("seen enough")

    watch = Watch()
    run = new_run(9)
    wb.fit(run, [at("BATCH_END", stop), watch], rows(20), rows(9), step, measure)
    assert watch.names == [BEGIN, *EPOCH, "RUN_END"]
    assert (run.status, run.state.epoch, run.state.stop_reason) == ("stopped", 1, "seen enough")
    assert watch.seen[-1].outcome == "stopped"


def test_refused_callbacks_run_nothing():
    watch = Watch()
    run = new_run()
    twice = [watch, watch]
    with pytest.raises(wb.ConfigurationError, match="registered twice"):
        wb.fit(run, twice, rows(20), None, step)
    assert watch.seen == []
    assert (run.state.epoch, run.status) == (0, "ready")


def test_a_callback_that_raises_is_reported_and_the_run_goes_on():
    def fail(event):
        raise ZeroDivisionError("my own mistake")

    run = new_run(3)
    wb.fit(run, [at("EPOCH_END", fail)], rows(20), None, step)
    failures = [report for report in run.reports if report.severity == "error"]
    assert run.status == "completed"
    assert run.state.epoch == 3
    assert len(failures) == 1
    assert "my own mistake" in failures[0].text


def test_a_fatal_callback_ends_the_run_which_still_says_so_and_can_go_on():
    class Guard(wb.Callback):
        fatal = True
        armed = True

        def on_batch_end(self, event):
            if self.armed and event.batch == 1:
                raise ArithmeticError("not finite")

    guard, watch = Guard(), Watch([Hook.RUN_END])
    run, other = new_run(2), new_run(2)
    with pytest.raises(ArithmeticError, match="not finite"):
        wb.fit(run, [guard, watch], rows(20), None, step)
    assert run.status == "failed"
    assert [event.outcome for event in watch.seen] == ["failed"]
    guard.armed = False
    wb.fit(run, [guard], rows(20), None, step)
    wb.fit(other, [], rows(20), None, step)
    assert run.status == "completed"
    assert all(
        np.array_equal(a["w"], b["w"]) for a, b in zip(run.params, other.params, strict=True)
    )


def test_fitting_again_goes_on_after_the_epochs_that_were_done():
    watch = Watch([Hook.EPOCH_BEGIN])
    run = new_run(2)
    wb.fit(run, [watch], rows(20), None, step)
    wb.fit(run, [watch], rows(20), None, step)
    assert [event.epoch for event in watch.seen] == [0, 1]
    run.config = dataclasses.replace(run.config, epochs=4)
    history = wb.fit(run, [watch], rows(20), None, step)
    assert [event.epoch for event in watch.seen] == [0, 1, 2, 3]
    assert history.column("epoch").tolist() == [1, 2, 3, 4]


def test_no_epochs_leave_everything_as_it_was():
    watch = Watch()
    run = new_run(0)
    before = run.params
    history = wb.fit(run, [watch], rows(20), None, step)
    assert watch.names == ["RUN_BEGIN", "RUN_END"]
    assert len(history) == 0
    assert run.status == "completed"
    assert np.array_equal(before[0]["w"], run.params[0]["w"])


def test_epochs_are_reported_after_what_callbacks_say_of_them(capsys):
    class Say(wb.Callback):
        def on_epoch_end(self, event):
            return f"heard of {event.epoch}"

    run = new_run(2, verbose=True)
    wb.fit(run, [Say()], rows(20), rows(9), step, measure)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:11] for line in lines] == [
        "heard of 1",
        "epoch 1/2  ",
        "heard of 2",
        "epoch 2/2  ",
    ]
    assert [report.text for report in run.reports] == lines
    assert "val_accuracy" in lines[1]


def test_a_quiet_run_prints_nothing(capsys):
    wb.fit(new_run(2), [], rows(20), rows(9), step, measure)
    assert capsys.readouterr() == ("", "")

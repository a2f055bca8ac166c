"""What a person does to a run while it goes on: rate, patience, epochs, checkpoints, record."""

import json
import threading
import time

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, measure, new_run, rows, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until
from tests.train.test_step_swap import after, steeper

DATA, VAL = rows(60), rows(9, seed=1)  # 8 batches an epoch


@pytest.fixture
def endless():
    """A run that trains in the background until the test is over."""
    run = new_run(LONG)
    run.start([], DATA, VAL, step, measure)
    yield run
    run.stop()
    run.wait(PATIENCE_S)


def codes(run):
    return [action.code for action in run.history.actions]


def rates_of(run, *callbacks):
    """Train, and return the rate that each batch was learned with, read from the updates."""

    def plain(params, opt, x, y, lr):
        return wb.StepResult((x * 0.0).sum(), {"rate": 0.0 * params["rate"] + lr}, opt)

    seen = []
    watch = at("BATCH_END", lambda event: seen.append(float(event.run.params["rate"])))
    wb.fit(run, [*callbacks, watch], DATA, VAL, plain)
    return seen


def new_rate_run(epochs=2):
    params = {"rate": np.zeros((), np.float64)}
    config = wb.Config(epochs, 8, 0.01, 7, verbose=False)
    return wb.Run(params, wb.sgd(params), config, context=wb.Context.cpu(1))


def set_rate(rate):
    def act(run):
        run.lr = rate

    return act


# -- the rate


def test_a_rate_is_used_from_the_next_step_on():
    assert rates_of(new_rate_run(1), after(3, set_rate(0.5))) == [0.01] * 3 + [0.5] * 5


def test_a_rate_set_from_another_thread_is_used_within_a_step_or_two():
    run = new_rate_run(LONG)

    def slow(event):
        time.sleep(0.002)

    seen = []
    watch = at("BATCH_END", lambda event: seen.append((event.state.global_step, event.state.lr)))

    def plain(params, opt, x, y, lr):
        return wb.StepResult((x * 0.0).sum(), {"rate": 0.0 * params["rate"] + lr}, opt)

    run.start([watch, at("BATCH_BEGIN", slow)], DATA, None, plain)
    until(lambda: run.state.global_step > 10)
    asked = run.state.global_step
    run.lr = 0.25
    until(lambda: run.state.global_step > asked + 3)
    run.stop()
    run.wait(PATIENCE_S)
    first = next(number for number, rate in seen if rate == 0.25)
    assert first <= asked + 2
    assert run.params["rate"] == 0.25


def test_a_rate_by_hand_is_held_against_a_schedule_until_it_is_given_back():
    schedule = wb.StepSchedule(lambda step: 0.001 * (1 + step))
    run = new_rate_run(2)
    edits = [after(3, hold_by_hand), after(11, lambda run: run.follow_schedule())]
    expected = [0.001, 0.002, 0.003] + [0.5] * 8 + [0.001 * n for n in range(12, 17)]
    assert rates_of(run, schedule, *edits) == pytest.approx(expected)


def hold_by_hand(run):
    """Set a rate as another thread would: what callbacks assign is not held."""
    thread = threading.Thread(target=set_rate(0.5), args=(run,))
    thread.start()
    thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    "schedule",
    [
        wb.EpochSchedule(lambda epoch: 0.1),
        wb.PlateauSchedule("loss", higher_is_better=False, patience=0),
    ],
)
def test_a_rate_by_hand_is_held_against_schedules_by_the_epoch(schedule):
    run = new_run(4)
    seen = []
    watch = at("BATCH_END", lambda event: seen.append(event.state.lr))
    wb.fit(run, [schedule, watch, after(11, hold_by_hand)], DATA, VAL, step, measure)
    assert set(seen[11:]) == {0.5}
    assert 0.5 not in seen[:10]


def test_a_rate_by_hand_is_held_against_the_runs_own_schedule_until_there_is_a_new_one():
    run = new_rate_run(2)
    run.schedule(lambda step: 0.001)
    edits = [after(3, hold_by_hand), after(11, lambda run: run.schedule(lambda step: 0.002))]
    assert rates_of(run, *edits) == pytest.approx([0.001] * 3 + [0.5] * 8 + [0.002] * 5)
    assert run.rate_held is None


def test_a_rate_that_is_still_held_is_told_when_the_training_goes_on():
    run = new_rate_run(2)
    schedule = wb.StepSchedule(lambda step: 0.1)
    seen = rates_of(run, schedule, after(3, hold_by_hand), after(6, lambda run: run.stop()))
    run.reports.clear()
    seen += rates_of(run, schedule)
    assert seen == pytest.approx([0.1] * 3 + [0.5] * 13)
    assert [r.text for r in run.reports if "is held at 0.5, against `StepSchedule" in r.text]


def test_a_rate_is_held_no_more_when_the_training_goes_on_without_a_schedule():
    run = new_rate_run(2)
    schedule = wb.StepSchedule(lambda step: 0.1)
    rates_of(run, schedule, after(3, hold_by_hand), after(6, lambda run: run.stop()))
    assert rates_of(run, after(2, set_rate(0.25))) == [0.5] * 2 + [0.25] * 8
    assert run.rate_held is None


def test_holding_a_rate_is_said_with_the_way_back():
    run = new_rate_run(1)
    rates_of(run, wb.StepSchedule(lambda step: 0.1), after(3, hold_by_hand))
    (said,) = [r.text for r in run.reports if "held" in r.text]
    assert said.startswith("the rate is held at 0.5, against `StepSchedule(<lambda>)`")
    assert "run.follow_schedule()" in said


def test_without_a_schedule_nothing_is_held_and_callbacks_go_on_from_the_new_rate():
    def halve(event):
        event.state.lr /= 2

    run = new_rate_run(2)
    seen = rates_of(run, at("EPOCH_BEGIN", halve), after(3, hold_by_hand))
    assert seen == [0.005] * 3 + [0.5] * 5 + [0.25] * 8
    assert run.rate_held is None


# -- how long


def test_the_number_of_epochs_is_changed_on_the_way():
    def lengthen(run):
        run.epochs = 5

    run, plain = new_run(2), new_run(5)
    wb.fit(run, [after(3, lengthen)], DATA, VAL, step, measure)
    wb.fit(plain, [], DATA, VAL, step, measure)
    assert same_bits(run, plain)


def test_fewer_epochs_than_were_run_end_the_run_after_the_one_at_hand():
    def shorten(run):
        run.epochs = 1

    run = new_run(9)
    wb.fit(run, [after(19, shorten)], DATA, VAL, step, measure)
    assert (run.state.epoch, run.status) == (3, "completed")


@pytest.mark.parametrize("epochs", [-1, 2.5, True])
def test_a_number_of_epochs_that_is_none_is_refused(epochs):
    run = new_run(3)
    with refused(wb.ConfigurationError, "`epochs` must be an integer of at least 0, got"):
        run.epochs = epochs
    assert run.epochs == 3


def test_patience_is_changed_on_the_way():
    def be_impatient(run):
        run.patience = 1

    stopping = wb.EarlyStopping("loss", 1000, higher_is_better=False, min_delta=1e9)
    run = new_run(100)
    wb.fit(run, [stopping, after(8 * 4, be_impatient)], DATA, VAL, step, measure)
    assert run.state.stop_reason.startswith("loss has not improved for 3 evaluations (patience 1)")
    assert run.patience == 1


def test_patience_needs_one_early_stopping():
    run = new_run(1)
    with refused(wb.ConfigurationError, "no early stopping"):
        run.patience = 3
    both = [
        wb.EarlyStopping("loss", higher_is_better=False),
        wb.EarlyStopping("accuracy", higher_is_better=True),
    ]
    for each in both:
        each.writes = ()
    wb.fit(run, both, DATA, VAL, step, measure)
    with refused(wb.ConfigurationError, "the run has 2"):
        run.patience = 3


# -- checkpoints


def test_a_checkpoint_is_written_when_it_is_asked_for(tmp_path):
    run = new_run(LONG)
    callback = wb.Checkpointing(tmp_path / "run.safetensors", every=0)
    run.start([callback], DATA, None, step)
    until(lambda: run.state.global_step > 20)
    run.checkpoint().wait(PATIENCE_S)
    saved = wb.inspect(tmp_path / "run.safetensors")
    assert 20 < saved.global_step <= run.state.global_step
    run.stop()
    run.wait(PATIENCE_S)
    again = new_run(LONG)
    wb.restore(again, tmp_path / "run.safetensors")
    assert again.state.global_step == saved.global_step


def test_a_checkpoint_that_cannot_be_written_is_reported_and_the_run_goes_on(tmp_path):
    (tmp_path / "file").touch()
    run = new_run(LONG)
    callback = wb.Checkpointing(tmp_path / "file" / "run.safetensors", every=0)
    run.start([callback], DATA, None, step)
    request = run.checkpoint()
    with pytest.raises(wb.DataError):
        request.wait(PATIENCE_S)
    assert run.reports[-1].text.startswith("`checkpoint` was asked for and failed")
    before = run.state.global_step
    until(lambda: run.state.global_step > before)
    run.stop()
    run.wait(PATIENCE_S)


def test_the_best_parameters_are_restored_when_they_are_asked_for():
    stopping = wb.EarlyStopping("loss", 1000, higher_is_better=False, restore_best=True)
    best = []

    def keep(event):
        if not restored and event.run.state.val_loss == stopping.best.value:
            best[:] = [event.run.params[0]["w"]]

    restored = []

    def look(run):
        restored.append(run.params[0]["w"])

    edits = [
        after(50, lambda run: run.restore_best()),
        after(51, look, hook="BATCH_BEGIN"),
        at("EPOCH_END", keep),
    ]
    wb.fit(new_run(7, lr=0.3), [stopping, *edits], DATA, VAL, step, measure)
    assert np.array_equal(restored[0], best[0])


def test_what_no_callback_can_do_is_refused_with_what_to_pass(endless):
    with refused(wb.ConfigurationError, "writes checkpoints", remedy="wb.Checkpointing"):
        endless.checkpoint()
    with refused(wb.ConfigurationError, "keeps the best", remedy="restore_best=True"):
        endless.restore_best()


def test_of_many_checkpoints_asked_for_at_once_few_are_written(tmp_path, monkeypatch):
    run = new_run(LONG)
    callback = wb.Checkpointing(tmp_path / "run.safetensors", every=0)
    taken = []
    monkeypatch.setattr(callback, "save_now", lambda run: taken.append(1) or time.sleep(0.05))
    run.start([callback], DATA, None, step)
    requests = [run.checkpoint() for _ in range(500)]
    requests[-1].wait(PATIENCE_S)
    run.stop()
    run.wait(PATIENCE_S)
    assert 1 <= len(taken) < 100


# -- the record


def test_every_action_is_recorded_as_the_code_that_does_it(endless):
    stopping = wb.EarlyStopping("loss", 10**9, higher_is_better=False)
    endless.callbacks = (stopping,)
    endless.pause()
    endless.resume()
    endless.lr = 0.003
    endless.patience = 7
    endless.epochs = LONG + 1
    endless.step(steeper)
    endless.step_history[0].restore()
    endless.schedule(steady)
    endless.schedule.clear()
    endless.follow_schedule()
    endless.stop(after="epoch")
    endless.stop(reason="enough")
    expected = [
        "run.pause()",
        "run.resume()",
        "run.lr = 0.003",
        "run.patience = 7",
        "run.epochs = 1000001",
        "run.step(steeper)",
        "run.step_history[0].restore()",
        "run.schedule(steady)",
        "run.schedule.clear()",
        "run.follow_schedule()",
        'run.stop(after="epoch")',
        "run.stop(reason='enough')",
    ]
    assert codes(endless) == expected
    assert "+def steeper" in endless.history.actions[5].detail
    steps = [action.step for action in endless.history.actions]
    assert steps == sorted(steps)


def steady(step):
    return 0.01


def test_the_code_of_an_action_does_it_again(endless):
    endless.callbacks = (wb.EarlyStopping("loss", 10**9, higher_is_better=False),)
    for code in ["run.pause()", "run.resume()", "run.lr = 0.003", "run.patience = 7"]:
        exec(code, {"run": endless})
    assert codes(endless) == ["run.pause()", "run.resume()", "run.lr = 0.003", "run.patience = 7"]
    assert (endless.lr, endless.patience) == (0.003, 7)


def test_what_the_loop_and_its_callbacks_do_is_no_action(tmp_path):
    run = new_run(3)
    edits = [
        after(9, lambda run: run.stop()),
        after(3, set_rate(0.5)),
        wb.Checkpointing(tmp_path / "run"),
    ]
    wb.fit(run, edits, DATA, VAL, step, measure)
    wb.save_checkpoint(run, tmp_path / "other")
    assert codes(run) == []


def test_holding_a_run_for_a_checkpoint_is_no_action(endless, tmp_path):
    wb.save_checkpoint(endless, tmp_path / "run")
    assert codes(endless) == []


def test_a_record_holds_what_was_done(tmp_path):
    record = wb.RunRecord(tmp_path, name="acted")
    run = new_run(3)
    run.lr = 0.5

    def from_outside(run):
        thread = threading.Thread(target=run.step, args=(steeper,))
        thread.start()
        thread.join(PATIENCE_S)

    edit = after(5, from_outside)
    wb.fit(run, [record, edit], DATA, VAL, step, measure)
    lines = (record.path / "actions.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["code"] for each in found] == ["run.lr = 0.5", "run.step(steeper)"]
    assert found[1]["step"] == 5
    assert "+def steeper" in found[1]["detail"]


def test_a_record_that_is_gone_on_with_repeats_no_action(tmp_path):
    record = wb.RunRecord(tmp_path, name="acted")
    run = new_run(2)
    run.lr = 0.5
    wb.fit(run, [record, after(8, lambda run: run.stop())], DATA, VAL, step, measure)
    run.lr = 0.25
    wb.fit(run, [record], DATA, VAL, step, measure)
    lines = (record.path / "actions.jsonl").read_text().splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["run.lr = 0.5", "run.lr = 0.25"]


# -- many of them


def test_thousands_of_actions_from_several_threads_leave_a_run_at_work():
    run = new_run(LONG)
    run.start([], DATA, None, step)

    def hammer(seed):
        rng = np.random.default_rng(seed)
        for _ in range(1000):
            choice = rng.integers(4)
            if choice == 0:
                run.lr = float(rng.uniform(0.0, 0.01))
            elif choice == 1:
                run.pause()
            elif choice == 2:
                run.resume()
            else:
                run.epochs = LONG + int(rng.integers(9))

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    run.resume()
    run.lr = 0.0125
    before = run.state.global_step
    until(lambda: run.state.global_step > before + 100)
    assert run.lr == 0.0125
    assert run.history.action_count == 3002
    run.stop()
    run.wait(PATIENCE_S)
    assert run.status == "stopped"


def test_actions_that_change_nothing_change_no_bit():
    run, plain = new_run(200), new_run(200)
    wb.fit(plain, [], DATA, VAL, step, measure)
    run.start([], DATA, VAL, step, measure)
    while run.is_training:
        run.pause()
        run.lr = run.config.lr
        run.epochs = 200
        run.resume()
        time.sleep(0.001)
    run.wait(PATIENCE_S)
    assert same_bits(run, plain)


def test_what_is_asked_of_a_run_that_has_ended_is_done_at_once(tmp_path):
    run = new_run(2)
    callback = wb.Checkpointing(tmp_path / "run.safetensors", every=0)
    wb.fit(run, [callback], DATA, VAL, step, measure)
    run.checkpoint().wait(0.0)
    assert wb.inspect(tmp_path / "run.safetensors").epoch == 2

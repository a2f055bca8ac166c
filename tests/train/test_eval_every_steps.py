"""Evaluation within epochs."""

import pytest

import workbench as wb
from tests.train.problems import Watch, at, measure, new_run, rows, same_bits, step
from workbench.train.checkpoint import restore, save_checkpoint
from workbench.train.checkpointing import Checkpointing
from workbench.train.events import Hook

DATA, VAL = rows(60), rows(9, seed=1)  # eight batches of eight rows


def evaluated(callbacks=(), *, epochs=3, **config):
    watch = Watch([Hook.EVAL_END])
    run = new_run(epochs, **config)
    steps = []
    note = at("EVAL_END", lambda event: steps.append((event.state.global_step, event.epoch)))
    wb.fit(run, [watch, note, *callbacks], DATA, VAL, step, measure)
    return run, steps


def test_it_comes_after_each_so_many_updates_and_once_at_an_epochs_end():
    _, steps = evaluated(epochs=2, eval_every_steps=4)
    assert steps == [(4, 0), (8, 1), (12, 1), (16, 2)]
    _, steps = evaluated(epochs=2, eval_every_steps=3)
    assert steps == [(3, 0), (6, 0), (8, 1), (9, 1), (12, 1), (15, 1), (16, 2)]


def test_where_epochs_are_not_evaluated_the_last_batch_may_be():
    run, steps = evaluated(epochs=2, eval_every=0, eval_every_steps=4)
    assert steps == [(4, 0), (8, 0), (12, 1), (16, 1)]
    assert run.history.metric_names == ()
    _, steps = evaluated(epochs=2, eval_every=2, eval_every_steps=8)
    assert steps == [(8, 0), (16, 2)]


@pytest.mark.parametrize("every", [1, 3, 4, 100])
def test_what_is_learned_and_what_is_said_of_epochs_is_the_same_with_and_without(every):
    plain, _ = evaluated()
    run, _ = evaluated(eval_every_steps=every)
    assert same_bits(plain, run)
    for name in ("val_loss", "val_accuracy", "lr"):
        assert run.history.column(name).tolist() == plain.history.column(name).tolist()


def test_the_mean_loss_goes_on_after_an_evaluation_within_the_epoch():
    seen = []
    note = at("EVAL_END", lambda event: seen.append(event.state.train_loss))
    run, _ = evaluated([note], epochs=1, eval_every_steps=4)
    assert seen[0] == pytest.approx(float(run.losses[:4].mean()), rel=1e-6)
    assert seen[1] == run.state.train_loss


def test_batch_hooks_see_the_same_evaluations():
    watch = at("BATCH_END", lambda event: None)
    _, with_hooks = evaluated([watch], eval_every_steps=3)
    _, without = evaluated(eval_every_steps=3)
    assert with_hooks == without


def test_under_accumulation_updates_are_counted():
    _, steps = evaluated(epochs=1, eval_every_steps=2, accum_steps=3)
    assert steps == [(2, 0), (3, 1)]


def test_a_run_that_is_stopped_after_every_batch_evaluates_where_the_other_does():
    run, steps = new_run(eval_every_steps=4), []
    note = at("EVAL_END", lambda event: steps.append((event.state.global_step, event.epoch)))
    stop = at("BATCH_END", lambda event: run.stop())
    while run.status != "completed":
        wb.fit(run, [note, stop], DATA, VAL, step, measure)
    whole, expected = evaluated(eval_every_steps=4)
    assert steps == expected
    assert same_bits(run, whole)


@pytest.mark.parametrize("hook", ["BATCH_END", "EVAL_END"])
def test_a_checkpoint_knows_whether_the_evaluation_at_its_step_was_made(tmp_path, hook):
    run, steps = new_run(eval_every_steps=4), []

    def save(event):
        if event.state.global_step == 4:
            save_checkpoint(run, tmp_path / "run.safetensors", callbacks=[])
            run.stop()

    wb.fit(run, [at(hook, save)], DATA, VAL, step, measure)
    other = new_run(eval_every_steps=4)
    restore(other, tmp_path / "run.safetensors")
    note = at("EVAL_END", lambda event: steps.append(event.state.global_step))
    wb.fit(other, [note], DATA, VAL, step, measure)
    assert steps == ([4] if hook == "BATCH_END" else []) + [8, 12, 16, 20, 24]


def test_early_stopping_judges_it_and_the_epoch_is_finished():
    # A loss has to get better by more than it can: every evaluation but the first is a bad one.
    stop = wb.EarlyStopping("loss", 2, higher_is_better=False, min_delta=100.0)
    run, steps = evaluated([stop], epochs=9, eval_every_steps=2)
    assert "for 3 evaluations" in run.state.stop_reason
    assert run.state.global_step == 8
    assert steps[-1] == (8, 1)


def test_a_best_checkpoint_may_come_from_within_an_epoch(tmp_path):
    best = Checkpointing(
        tmp_path / "run.safetensors", every=0, monitor="loss", higher_is_better=False
    )
    seen = []
    note = at(
        "EVAL_END", lambda event: seen.append((event.state.val_loss, event.state.global_step))
    )
    evaluated([best, note], eval_every_steps=3, lr=0.3)
    _, where = min(seen)
    other = new_run(eval_every_steps=3, lr=0.3)
    restore(other, tmp_path / "run.best.safetensors", callbacks=None)
    assert other.state.global_step == where


def test_early_stopping_does_not_ask_for_epochs_to_be_evaluated():
    stop = wb.EarlyStopping("loss", 50, higher_is_better=False)
    run, _ = evaluated([stop], eval_every=0, eval_every_steps=3)
    assert not run.reports

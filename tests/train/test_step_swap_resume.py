"""Checkpoints of runs whose step was changed on the way."""

import subprocess
import sys

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import (
    leaves,
    logits,
    measure,
    new_run,
    perceptron,
    rows,
    same_bits,
    step,
)
from tests.train.test_step_swap import after, steeper

DATA, VAL = rows(60), rows(9, seed=1)  # 8 batches an epoch


def saved_at(batches, path, *edits):
    """Train whole, with a checkpoint after some batches; return the run."""
    run = new_run()
    save = after(batches, lambda run: wb.save_checkpoint(run, path))
    wb.fit(run, [*edits, save], DATA, VAL, step, measure)
    return run


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.safetensors"


@pytest.mark.parametrize("batches", [6, 8, 16])
def test_a_run_resumed_after_a_swap_computes_the_bits_of_the_one_that_went_on(file, batches):
    whole = saved_at(batches, file, after(5, lambda run: run.step(steeper)))
    run = new_run()
    wb.restore(run, file)
    wb.fit(run, [], DATA, VAL, steeper, measure)
    assert same_bits(whole, run)


def test_another_step_than_the_saved_one_is_refused_with_both_fingerprints(file):
    whole = saved_at(6, file, after(5, lambda run: run.step(steeper)))
    run = new_run()
    wb.restore(run, file)
    saved = whole.step_history[1].fingerprint
    with pytest.raises(wb.DataError) as caught:
        wb.fit(run, [], DATA, VAL, step, measure)
    given = whole.step_history[0].fingerprint
    text = caught.value.problem
    # The older version took over the newer one's fingerprint at no time.
    assert saved[:16] in text
    assert given[:16] in text
    assert saved != given
    wb.fit(run, [], DATA, VAL, steeper, measure)
    assert same_bits(whole, run)


def test_a_change_that_is_declared_after_a_resume_is_taken_and_recorded(file):
    saved_at(8, file)
    run, whole = new_run(), new_run()
    wb.restore(run, file)
    run.step(steeper)
    wb.fit(run, [], DATA, VAL, eval_batch=measure)
    wb.fit(whole, [after(8, lambda run: run.step(steeper))], DATA, VAL, step, measure)
    assert same_bits(whole, run)
    assert run.history.actions[-1].code == "run.step(steeper)"
    assert run.history.actions[-1].step == 8


def test_a_step_that_was_declared_before_a_resume_is_no_declared_change(file):
    saved_at(8, file)
    run = new_run()
    run.step(steeper)
    wb.restore(run, file)
    with refused(wb.DataError, "written under a step with the fingerprint"):
        wb.fit(run, [], DATA, VAL, eval_batch=measure)


def test_a_resume_with_another_text_of_the_same_step_is_taken(file):
    whole = saved_at(6, file)

    def other_text(params, opt, x, y, lr):
        return wb.default_step(
            params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x), y)
        )

    run = new_run()
    wb.restore(run, file)
    wb.fit(run, [], DATA, VAL, other_text, measure)
    assert same_bits(whole, run)


def test_a_fingerprint_is_the_same_in_another_process():
    code = """
        from tests.train.problems import measure, new_run, rows, step
        import workbench as wb
        run = new_run(1)
        wb.fit(run, [], rows(12), None, step)
        print(run.step_history[0].fingerprint)
    """
    run = new_run(1)
    wb.fit(run, [], DATA, None, step)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    # Of other rows, too: their number is no part of what is computed.
    assert done.stdout.strip() == run.step_history[0].fingerprint


def test_fingerprints_tell_constants_and_closed_over_arrays_apart():
    def fingerprint(made):
        run = new_run(1)
        wb.fit(run, [], DATA, None, made)
        return run.step_history[0].fingerprint

    def weighted(weights):
        def made(params, opt, x, y, lr):
            return wb.default_step(
                params,
                opt,
                x,
                y,
                lr,
                lambda p, x, y: (wb.cross_entropy_rows(logits(p, x * weights), y)).mean(),
            )

        return made

    ones, twos = np.ones(5, np.float32), np.full(5, 2.0, np.float32)
    found = [fingerprint(weighted(array)) for array in (ones, twos, ones.copy())]
    assert found[0] == found[2]
    assert found[0] != found[1]


def test_a_run_with_another_model_goes_on_from_its_checkpoint(file):
    deep = perceptron(5, 6, 4, 3, seed=3)
    whole = saved_at(6, file, after(5, lambda run: run.step(step, params=deep)))
    run = wb.Run(deep, wb.adam(deep), whole.config, context=wb.Context.cpu(2))
    wb.restore(run, file)
    wb.fit(run, [], DATA, VAL, step, measure)
    pairs = zip(leaves(whole), leaves(run), strict=True)
    assert all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_a_checkpoint_of_another_model_than_the_runs_is_refused(file):
    deep = perceptron(5, 6, 4, 3, seed=3)
    saved_at(6, file, after(5, lambda run: run.step(step, params=deep)))
    with refused(wb.DataError, "`1.b` is float32 (4,) in the checkpoint and float32 (3,)"):
        wb.restore(new_run(), file)


def test_what_was_done_and_the_rate_that_was_held_come_back_with_a_checkpoint(file):
    schedule = wb.StepSchedule(lambda step: 0.05 / (1 + step))

    def hold(run):
        run.rate_held = 0.002

    run = new_run()
    edits = [schedule, after(3, hold), after(6, lambda run: wb.save_checkpoint(run, file))]
    run.pause()
    run.resume()
    wb.fit(run, edits, DATA, VAL, step, measure)
    again = new_run()
    wb.restore(again, file)
    assert [action.code for action in again.history.actions] == ["run.pause()", "run.resume()"]
    assert again.rate_held == 0.002
    wb.fit(again, [wb.StepSchedule(schedule.rate)], DATA, VAL, step, measure)
    assert same_bits(run, again)

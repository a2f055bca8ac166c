"""Epochs of a given number of batches."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, new_run, rows, same_bits, step
from workbench.train.checkpoint import restore, save_checkpoint

N = 20


def visited(epochs, steps, batch_size=8, **config):
    """Return the rows that each epoch visits, in order."""
    seen = []

    def note(params, opt, x, y, lr):
        counts = params["counts"]
        size = wb.constant(float(batch_size))
        return wb.StepResult((x * 0.0).mean() + size * 0.0, {"counts": counts}, opt)

    data = wb.data.Dataset(np.arange(N, dtype=np.float32).reshape(N, 1), np.zeros(N, np.int64))
    params = {"counts": np.zeros(1, np.float32)}
    settings = wb.Config(epochs, batch_size, 0.1, 7, verbose=False, steps_per_epoch=steps, **config)
    run = wb.Run(params, wb.sgd(params), settings)
    watch = at("EPOCH_BEGIN", lambda event: seen.append(program_of(run).order.tolist()))
    wb.fit(run, [watch], data, None, note)
    return seen


def program_of(run):
    (program,) = run.edits.programs.steps.values()
    return program


def test_epochs_are_cut_from_shuffled_passes_that_follow_each_other():
    epochs = visited(5, 3)
    assert [len(rows_) for rows_ in epochs] == [24] * 5
    sequence = np.concatenate(epochs)
    passes = np.concatenate([wb.data.row_order(N, seed=7, epoch=k) for k in range(6)])
    assert sequence.tolist() == passes[:120].tolist()


def test_without_shuffling_the_rows_come_round():
    (first, second) = visited(2, 2, shuffle=False)
    assert first == list(range(16))
    assert second == [16, 17, 18, 19, *range(12)]


def test_an_epoch_may_hold_several_passes():
    (epoch,) = visited(1, 7)
    assert sorted(epoch[:20]) == sorted(epoch[20:40]) == list(range(N))


def test_every_batch_is_whole_and_the_step_counts_them():
    run = new_run(3, steps_per_epoch=5)
    sizes = []
    wb.fit(run, [at("BATCH_END", lambda event: sizes.append(event.rows))], rows(N), None, step)
    assert sizes == [8] * 15
    assert (run.state.batches, run.state.rows, run.state.global_step) == (5, N, 15)


def test_as_many_steps_as_a_pass_has_is_a_pass():
    plain, run = new_run(3), new_run(3, steps_per_epoch=3)
    wb.fit(plain, [], rows(24), None, step)
    wb.fit(run, [], rows(24), None, step)
    assert same_bits(plain, run)


def test_a_batch_larger_than_the_data_is_a_pass():
    (first, second) = visited(2, 1, batch_size=50)
    assert sorted(first) == sorted(second) == list(range(N))
    assert first != second


@pytest.mark.parametrize("batches", [2, 5, 9])
def test_a_run_resumed_within_an_epoch_goes_on_to_the_same_bits(tmp_path, batches):
    whole, first, second = (new_run(3, steps_per_epoch=5) for _ in range(3))
    wb.fit(whole, [], rows(N), None, step)
    stop = at("BATCH_END", lambda e: first.stop() if e.state.global_step == batches else None)
    wb.fit(first, [stop], rows(N), None, step)
    file = save_checkpoint(first, tmp_path / "run.safetensors")
    restore(second, file)
    wb.fit(second, [], rows(N), None, step)
    wb.fit(first, [], rows(N), None, step)
    assert same_bits(whole, second)
    assert same_bits(whole, first)
    with refused(wb.DataError, "steps_per_epoch=5", "steps_per_epoch=0"):
        restore(new_run(3), file)


def test_an_order_that_is_given_is_that_of_a_pass():
    asked = []

    def order(number):
        asked.append(number)
        return np.roll(np.arange(N), number)

    run = new_run(2, steps_per_epoch=3)
    wb.fit(run, [], rows(N), None, step, row_order=order)
    assert set(asked) == {0, 1, 2}
    with pytest.raises(wb.ConfigurationError, match=r"`steps_per_epoch` must be .*, got -1"):
        new_run(1, steps_per_epoch=-1)

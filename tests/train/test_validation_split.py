"""Rows that are held out of the training set for evaluation."""

import numpy as np

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, measure, new_run, rows, same_bits, step


def test_without_a_validation_set_a_share_of_the_rows_is_held_out_under_the_runs_seed():
    data = rows(60)
    train, val = wb.data.split(data, 0.8, seed=7)
    run, other = new_run(validation_split=0.2), new_run()
    wb.fit(run, [], data, None, step, measure)
    wb.fit(other, [], train, val, step, measure)
    assert run.state.rows == 48
    assert same_bits(run, other)
    assert run.history.column("val_loss").tolist() == other.history.column("val_loss").tolist()


def test_a_validation_set_that_is_given_leaves_the_rows_whole():
    run = new_run(1, validation_split=0.2)
    wb.fit(run, [], rows(60), rows(9, seed=1), step, measure)
    assert run.state.rows == 60


def test_a_run_that_goes_on_trains_on_the_same_part_and_compiles_nothing_anew():
    data = rows(60)
    run, whole = new_run(validation_split=0.25), new_run(validation_split=0.25)
    watch = at("BATCH_END", lambda event: run.stop())
    while run.status != "completed":
        wb.fit(run, [watch], data, None, step, measure)
    wb.fit(whole, [], data, None, step, measure)
    assert same_bits(run, whole)
    programs = run.edits.programs
    assert (len(programs.steps), len(programs.evaluations)) == (1, 1)


def test_a_checkpoint_is_resumed_with_the_same_part(tmp_path):
    from workbench.train.checkpoint import restore, save_checkpoint

    data = rows(60)
    whole, first, second = (new_run(4, validation_split=0.25) for _ in range(3))
    wb.fit(whole, [], data, None, step, measure)
    stop = at("BATCH_END", lambda event: first.stop() if event.state.global_step == 8 else None)
    wb.fit(first, [stop], data, None, step, measure)
    file = save_checkpoint(first, tmp_path / "run.safetensors")
    restore(second, file, train=data)
    wb.fit(second, [], data, None, step, measure)
    assert same_bits(whole, second)
    assert second.history.column("val_loss").tolist() == whole.history.column("val_loss").tolist()
    third = new_run(4, validation_split=0.5)
    with refused(wb.DataError, "validation_split=0.25", "validation_split=0.5"):
        restore(third, file)


def test_a_share_that_is_none_is_refused():
    for share in (1.0, -0.1, np.nan):
        with refused(wb.ConfigurationError, "`validation_split` must be", f"got {share}"):
            wb.Config(1, 1, 0.1, 0, validation_split=share)
    with refused(wb.ConfigurationError, "must be a number"):
        wb.Config(1, 1, 0.1, 0, validation_split="some")  # pyright: ignore[reportArgumentType]


def test_one_row_cannot_be_split():
    with refused(wb.DataError, "cannot be split"):
        wb.fit(new_run(validation_split=0.5), [], rows(1), None, step, measure)

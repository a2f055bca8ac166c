"""What a run computes: which rows it learns from, how they weigh, and what it leaves behind."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.train.problems import (
    TENTH,
    Watch,
    at,
    leaves,
    measure,
    new_run,
    perceptron,
    rows,
    same_bits,
    step,
)
from workbench.train.events import Hook


def constant_rate(params, opt, x, y, lr):
    """A step whose loss is the mean of ``x`` and which counts rows into its parameter."""
    counted = params["seen"] + (x * 0.0 + 1.0).sum()
    return wb.StepResult(x.mean(), {"seen": counted}, opt)


def counting_run(data, **config):
    settings = {"epochs": 1, "batch_size": 2, "verbose": False, "shuffle": False} | config
    config = wb.Config(settings.pop("epochs"), settings.pop("batch_size"), 0.1, 1, **settings)
    run = wb.Run({"seen": np.zeros(())}, wb.sgd({}), config, context=wb.Context.cpu(1))
    wb.fit(run, [], data, None, constant_rate)
    return run


THREE = wb.data.Dataset([10.0, 10.0, 9.0], [0, 0, 0], dtype=np.float64)


def test_the_loss_of_an_epoch_weighs_each_batch_by_its_rows():
    # Batches of two and one: the mean of their means would be 9.5.
    run = counting_run(THREE)
    assert run.history.column("train_loss")[0] == pytest.approx(29 / 3, rel=1e-15)
    assert run.state.train_loss == run.history.column("train_loss")[0]


def test_the_short_last_batch_is_learned():
    assert counting_run(THREE).params["seen"] == 3


def test_a_short_last_batch_may_be_dropped():
    run = counting_run(THREE, drop_last=True)
    assert run.params["seen"] == 2
    assert run.history.column("train_loss")[0] == 10
    assert run.state.batches == 1


def test_a_batch_larger_than_the_data_is_all_of_them():
    run = counting_run(THREE, batch_size=100)
    assert run.params["seen"] == 3
    assert (run.state.batches, run.state.global_step) == (1, 1)


def rows_seen(**config):
    """Return the rows of each batch, in the order in which two epochs used them."""
    data = wb.data.Dataset(np.arange(7.0), np.zeros(7, np.int32), dtype=np.float64)
    seen = []
    run = wb.Run(
        {"last": np.zeros(())},
        wb.sgd({}),
        wb.Config(2, 1, 0.1, 3, verbose=False, **config),
        context=wb.Context.cpu(1),
    )

    def remember(params, opt, x, y, lr):
        return wb.StepResult(x.mean(), {"last": x.sum()}, opt)

    watch = at("BATCH_END", lambda event: seen.append(int(event.run.params["last"])))
    wb.fit(run, [watch], data, None, remember)
    return seen[:7], seen[7:]


def test_without_shuffling_every_epoch_takes_the_rows_as_they_lie():
    first, second = rows_seen(shuffle=False)
    assert first == second == list(range(7))


def test_shuffling_takes_every_row_once_and_anew_in_each_epoch():
    first, second = rows_seen()
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    assert first == wb.data.row_order(7, seed=3, epoch=0).tolist()
    assert second == wb.data.row_order(7, seed=3, epoch=1).tolist()


def test_a_given_order_replaces_shuffling():
    data = wb.data.Dataset(np.arange(4.0), np.zeros(4, np.int32))
    run = new_run(1, 1, sizes=(1, 1))
    losses = []

    def first(params, opt, x, y, lr):
        return wb.StepResult(x.mean(), params, opt)

    watch = at("BATCH_END", lambda event: losses.append(event.loss))
    wb.fit(run, [watch], data, None, first, row_order=lambda epoch: [2, 0, 3, 1])
    assert losses == [2.0, 0.0, 3.0, 1.0]


def test_plain_descent_is_the_formula():
    data = rows(6, dtype=np.float64)
    start = perceptron(5, 3, dtype=np.float64)
    run = wb.Run(start, wb.sgd(start), wb.Config(1, 6, 0.5, 1, verbose=False, shuffle=False))
    wb.fit(run, [], data, None, step)
    z = data.x @ start[0]["w"] + start[0]["b"]
    chance = np.exp(z - z.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    chance[np.arange(6), data.y] -= 1.0
    expected = start[0]["w"] - 0.5 * (data.x.T @ chance) / 6
    np.testing.assert_allclose(run.params[0]["w"], expected, rtol=0, atol=1e-14)


def test_a_step_may_be_written_by_hand_with_the_rate_beside_any_parameter():
    def by_hand(params, opt, x, y, lr):
        value, grads = wb.loss_and_gradients(lambda p, x, y: wb.mse(x @ p, y), params, x, y)
        return wb.StepResult(value, params - lr * grads, opt)

    for dtype in (np.float32, np.float64):
        data = wb.data.Dataset(np.eye(3), np.ones(3), dtype=dtype)
        start = np.zeros(3, dtype)
        run = wb.Run(start, wb.sgd(start), wb.Config(1, 3, 0.75, 1, verbose=False))
        wb.fit(run, [], data, None, by_hand)
        assert run.params.dtype == dtype
        np.testing.assert_allclose(run.params, 0.5, rtol=1e-6)


@pytest.mark.parametrize("optimizer", [wb.sgd, wb.momentum, wb.adam])
def test_learning_lowers_the_loss(optimizer):
    run = new_run(20, optimizer=optimizer, lr=0.05)
    losses = wb.fit(run, [], rows(60), None, step).column("train_loss")
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("optimizer", [wb.sgd, wb.momentum, wb.adam])
def test_a_validation_set_does_not_change_what_is_learned(optimizer):
    with_one, without = new_run(optimizer=optimizer), new_run(optimizer=optimizer)
    wb.fit(with_one, [], rows(30), rows(9, seed=1), step, measure)
    wb.fit(without, [], rows(30), None, step)
    assert same_bits(with_one, without)
    assert with_one.state.val_loss != 0.0


def test_what_was_validated_last_stays_readable():
    run = new_run(3, eval_every=2)
    wb.fit(run, [], rows(30), rows(9, seed=1), step, measure)
    frame = run.history.frame()
    assert np.isnan(frame["val_loss"]).tolist() == [True, False, True]
    assert run.state.val.value("loss") == run.state.val_loss == frame["val_loss"][1]


def test_an_evaluation_without_a_loss_has_none():
    run = new_run(1)
    wb.fit(run, [], rows(30), rows(9), step, lambda p, x, y: {"first": x.mean()})
    assert np.isnan(run.state.val_loss)
    assert "first" in run.state.val


def test_parameters_and_state_may_be_read_and_assigned_between_fits():
    run, other = new_run(1), new_run(2)
    data = rows(30)
    wb.fit(run, [], data, None, step)
    params, opt = run.params, run.opt
    with pytest.raises(ValueError, match="read-only"):
        params[0]["w"][...] = 0.0  # a copy: the run would not see it
    assert run.params[0]["w"].any()
    fresh = new_run(1)
    fresh.params, fresh.opt = run.params, opt
    fresh.state.epoch, fresh.config = 1, other.config
    wb.fit(fresh, [], data, None, step)
    wb.fit(other, [], data, None, step)
    for a, b in zip(leaves(fresh), leaves(other), strict=True):
        assert a.tobytes() == b.tobytes()


def test_assigned_parameters_must_be_of_the_same_tree_and_shapes():
    run = new_run()
    with pytest.raises(wb.TracingError, match="the parameters assigned"):
        run.params = {"w": np.zeros(3)}
    wrong: Any = run.params
    wrong[0]["w"] = np.zeros((6, 5), np.float32)
    with pytest.raises(wb.ShapeError, match=r"\(6, 5\)"):
        run.params = wrong


def test_the_data_are_not_changed_by_learning():
    data, val = rows(30), rows(9, seed=1)
    before = [a.copy() for a in (data.x, data.y, val.x, val.y)]
    wb.fit(new_run(), [], data, val, step, measure)
    after = (data.x, data.y, val.x, val.y)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_arrays_a_run_was_made_from_are_not_changed_by_learning():
    start = perceptron(5, 3)
    run = wb.Run(start, wb.adam(start), wb.Config(2, 8, 0.1, 1, verbose=False))
    wb.fit(run, [], rows(30), None, step)
    again = perceptron(5, 3)
    assert np.array_equal(start[0]["w"], again[0]["w"])
    assert (start[0]["b"] == np.float32(TENTH)).all()
    assert not np.array_equal(run.params[0]["w"], start[0]["w"])


def test_numbers_of_the_last_epoch_are_in_the_state_and_in_the_text():
    run = new_run(2)
    watch = Watch([Hook.EPOCH_END])
    wb.fit(run, [watch], rows(30), None, step)
    assert run.state.train_loss == watch.seen[-1].loss == run.history.column("train_loss")[-1]
    assert f"epoch 2/2, step 8, loss {run.state.train_loss:.4f}" in repr(run)
    assert "<table>" in run._repr_html_()


def test_a_run_shows_no_loss_before_there_is_one_and_the_last_one_where_an_epoch_begins():
    run = new_run(2)
    assert repr(run) == "<Run ready: epoch 0/2, step 0, lr 0.010000>"
    stop = at("EPOCH_BEGIN", lambda event: run.stop())
    wb.fit(run, [stop], rows(20), None, step)
    assert repr(run) == "<Run stopped: epoch 0/2, step 0, lr 0.010000>"
    wb.fit(run, [stop], rows(20), None, step)
    loss = run.history.rows[-1].train_loss
    assert repr(run) == f"<Run stopped: epoch 1/2, step 3, loss {loss:.4f}, lr 0.010000>"


def test_a_float32_run_follows_the_float64_one():
    runs = {}
    for dtype in (np.float32, np.float64):
        start = perceptron(5, 6, 3, dtype=dtype)
        runs[dtype] = wb.Run(start, wb.adam(start), wb.Config(3, 8, 0.01, 7, verbose=False))
        wb.fit(runs[dtype], [], rows(30, dtype=dtype), None, step)
    narrow, wide = runs[np.float32].params, runs[np.float64].params
    # Twelve updates of size lr, each with a few roundings of 6e-8.
    np.testing.assert_allclose(narrow[0]["w"], wide[0]["w"], rtol=0, atol=1e-5)

"""Losses and metrics of rows that weigh more or less, and batches that weigh nothing."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, logits, new_run, perceptron, rows
from workbench.loops.settings import current_settings
from workbench.train.metric import Meter


def weighted_loss(params, x, y, weights):
    return (wb.cross_entropy_rows(logits(params, x), y) * weights).sum() / weights.sum()


def step(params, opt, x, y, lr, weights):
    return wb.default_step(params, opt, x, y, lr, weighted_loss, weights=weights)


def measure(params, x, y, weights):
    rows = wb.cross_entropy_rows(logits(params, x), y)
    hit = wb.argmax(logits(params, x), -1) == y
    return {
        "loss": wb.weighted_mean(rows, weights),
        "accuracy": wb.weighted_mean(hit, weights),
        "plain": rows.mean(),
    }


def data(n=23, *, weights=None, seed=0):
    plain = rows(n, dtype=np.float64, seed=seed)
    if weights is None:
        weights = np.random.default_rng(seed).uniform(0.0, 3.0, n)
    return wb.data.Dataset(plain.x, plain.y, weights=weights, dtype=np.float64)


def run_of(batch_size, epochs=1, *, lr=0.0, optimizer=wb.adam, **options):
    params = perceptron(5, 6, 3, dtype=np.float64)
    config = wb.Config(epochs, batch_size, lr, 7, verbose=False, **options)
    return wb.Run(params, optimizer(params), config, context=wb.Context.cpu(1))


def losses_of(run, given):
    """Return the loss of each row, computed by hand."""
    first, second = run.params
    hidden = np.maximum(given.x @ first["w"] + first["b"], 0.0)
    scores = hidden @ second["w"] + second["b"]
    greatest = scores.max(1)
    total = np.log(np.exp(scores - greatest[:, None]).sum(1)) + greatest
    return total - scores[np.arange(len(scores)), given.y]


@pytest.mark.parametrize("batch_size", [1, 4, 7, 23])
def test_the_loss_of_an_epoch_is_the_weighted_mean_of_all_rows_whatever_the_batch(batch_size):
    given = data()
    run = run_of(batch_size)
    wb.fit(run, [], given, None, step)
    expected = np.average(losses_of(run, given), weights=given.weights)
    assert run.state.train_loss == pytest.approx(expected, abs=1e-12)


def test_the_loss_of_a_stream_with_weights_is_the_weighted_mean_too():
    given = data(24)
    assert given.weights is not None

    def batches(epoch, start):
        for number in range(start, 6):
            part = given.take(np.arange(4 * number, 4 * number + 4))
            assert part.weights is not None
            yield part.x, part.y, part.weights

    run = run_of(4)
    stream = wb.data.Stream(batches, batch_size=4, steps_per_epoch=6, dtype=np.float64)
    wb.fit(run, [], stream, None, step)
    expected = np.average(losses_of(run, given), weights=given.weights)
    assert run.state.train_loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("batch_size", [1, 5, 23])
def test_weighted_metrics_are_those_of_all_rows_whatever_the_batch(batch_size):
    given = data()
    run = run_of(4)
    by_row = losses_of(run, given)
    found = wb.evaluate(run, given, measure, batch_size=batch_size)
    assert found["loss"] == pytest.approx(np.average(by_row, weights=given.weights), abs=1e-12)
    assert found["plain"] == pytest.approx(by_row.mean(), abs=1e-12)
    hit = wb.predict(run, given.x, 23, logits).argmax(1) == given.y
    assert found["accuracy"] == pytest.approx(np.average(hit, weights=given.weights), abs=1e-12)


def test_rows_that_weigh_nothing_may_hold_nan_and_all_of_them_give_zero():
    given = data(6, weights=[1, 0, 2, 1, 0, 1])
    given.x[1] = np.nan
    loss = wb.evaluate(run_of(2), given, measure)["loss"]
    kept = given.take([0, 2, 3, 5])
    assert loss == pytest.approx(wb.evaluate(run_of(2), kept, measure)["loss"], abs=1e-12)
    assert wb.evaluate(run_of(2), data(6, weights=np.zeros(6)), measure)["loss"] == 0.0


def test_an_evaluation_without_such_a_parameter_measures_all_rows_alike():
    def plain(params, x, y):
        return {"loss": wb.cross_entropy(logits(params, x), y)}

    run, given = run_of(4), data()
    assert wb.evaluate(run, given, plain)["loss"] == pytest.approx(losses_of(run, given).mean())


def test_weights_are_evaluated_during_training_and_carried_by_a_validation_split():
    run = run_of(4, 2, lr=0.01, validation_split=0.3)
    wb.fit(run, [], data(30), None, step, measure)
    held_out = wb.data.split(data(30), 0.7, seed=7)[1]
    assert dict(run.state.val.items()) == pytest.approx(wb.evaluate(run, held_out, measure))


def test_an_evaluation_that_needs_weights_is_refused_rows_without_them():
    with refused(wb.DataError, "`measure` takes `weights`", remedy="weights=..."):
        wb.evaluate(run_of(4), rows(9, dtype=np.float64), measure)


def test_values_that_are_not_one_for_each_row_are_refused():
    x, w = wb.input("x", (wb.batch, 3)), wb.input("w", (wb.batch,))
    with refused(wb.ShapeError, "the values are", "x", "3", remedy=".mean(1)"):
        wb.weighted_mean(x, w)
    with refused(wb.ShapeError, "not one number for each row"):
        wb.weighted_mean(w, x)


OPTIMIZERS = {
    "plain": wb.adam,
    "mixed": lambda params: wb.mixed_f16(wb.adam(params)),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_batch_that_weighs_nothing_changes_nothing_and_has_no_loss(optimizer):
    weights = np.where(np.arange(12) // 4 == 1, 0.0, 1.0)
    given = rows(12)
    given = wb.data.Dataset(given.x, given.y, weights=weights)
    run = new_run(1, 4, optimizer=OPTIMIZERS[optimizer], shuffle=False)
    seen = [np.concatenate([a.ravel() for layer in run.params for a in layer.values()])]

    def remember(event):
        seen.append(
            np.concatenate([a.ravel() for layer in event.run.params for a in layer.values()])
        )

    wb.fit(run, [at("BATCH_END", remember)], given, None, step)
    assert np.array_equal(seen[1], seen[2])
    assert not np.array_equal(seen[2], seen[3])
    assert np.isfinite(seen[3]).all()
    inner = run.opt if optimizer == "plain" else run.opt.inner
    assert (int(inner.t), float(run.losses[1])) == (2, 0.0)
    assert run.state.train_loss == pytest.approx((run.losses[0] + run.losses[2]) / 2, rel=1e-6)


@pytest.mark.parametrize("empty", [[1], [0, 1], [0, 1, 2], [3], [3, 4], [0, 1, 2, 3, 4]])
def test_batches_that_weigh_nothing_do_not_spoil_their_window(empty):
    # Windows of three batches; the epoch ends with one of two.
    weights = np.where(np.isin(np.arange(20) // 4, empty), 0.0, 1.0)
    given = data(20, weights=weights)
    small = run_of(4, 2, lr=0.01, accum_steps=3, shuffle=False)
    wb.fit(small, [], given, None, step)
    big = run_of(12, 2, lr=0.01, shuffle=False)
    wb.fit(big, [], given, None, step)
    inner = small.opt.inner
    for one, other in zip(leaves_of(small.params), leaves_of(big.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
        assert np.isfinite(one).all()
    assert int(inner.t) == int(big.opt.t)
    assert float(small.opt.rows) == 0.0
    # An epoch whose rows all weigh nothing has no mean loss.
    assert np.isfinite(small.state.train_loss) == (len(empty) < 5)


def leaves_of(params):
    return [layer[name] for layer in params for name in ("w", "b")]


def test_a_mean_over_nothing_adds_nothing_to_a_meter():
    meter = Meter()
    meter.update_all(np.array([2.0, np.nan, 4.0]), np.array([0.5, 0.0, 1.5]))
    assert (meter.value, meter.count) == (3.5, 2.0)


def test_a_run_in_the_background_has_the_settings_in_force_where_it_was_started():
    seen = []
    watch = at("EPOCH_END", lambda event: seen.append(current_settings().max_inline_reduction))
    run = new_run(1)
    with wb.settings(max_inline_reduction=77):
        run.start([watch], rows(16), None, plain_step)
    run.wait()
    assert seen == [77]


def plain_step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x), y))

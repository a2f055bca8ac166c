"""Several small batches that make one update, as one big batch would."""

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import at, logits, perceptron, rows, step

SIZES = (5, 6, 3)


def trained(
    batch_size,
    accum_steps,
    *,
    n=44,
    dtype: npt.DTypeLike = np.float64,
    epochs=3,
    around=None,
    **options,
):
    """Return a run of 44 rows: batches of 4 make windows of 3 and, at the end, one of 2."""
    params = perceptron(*SIZES, dtype=dtype)
    optimizer, callbacks = options.pop("optimizer", wb.adam), options.pop("callbacks", [])
    taken = options.pop("step", step)
    config = wb.Config(
        epochs, batch_size, 0.01, 7, verbose=False, accum_steps=accum_steps, **options
    )
    opt = optimizer(params)
    run = wb.Run(params, around(opt) if around else opt, config, context=wb.Context.cpu(2))
    wb.fit(run, callbacks, rows(n, dtype=dtype), None, taken)
    return run


def distance(left, right):
    """Return how far the parameters of two runs are apart at most."""
    pairs = zip(left.params, right.params, strict=True)
    return max(float(np.abs(a[name] - b[name]).max()) for a, b in pairs for name in ("w", "b"))


@pytest.mark.parametrize("optimizer", [wb.sgd, wb.momentum, wb.adam])
@pytest.mark.parametrize("n", [48, 44, 42, 37])
def test_accumulated_batches_learn_what_the_big_batch_learns(optimizer, n):
    big = trained(12, 1, n=n, optimizer=optimizer)
    small = trained(4, 3, n=n, optimizer=optimizer)
    assert distance(big, small) < 1e-12
    assert small.state.global_step == big.state.global_step == 3 * -(-n // 12)
    losses = [run.history.column("train_loss") for run in (big, small)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-12)


def test_a_window_that_divided_by_whole_windows_would_be_noticed():
    # The last window of 44 rows has 8 of them: weighed as 12, the update would be another.
    assert distance(trained(12, 1, n=44), trained(12, 1, n=36)) > 1e-4


def test_dropping_the_short_batch_ends_the_last_window_one_batch_earlier():
    big = trained(12, 1, n=40, optimizer=wb.sgd, epochs=1)
    small = trained(4, 3, n=43, drop_last=True, optimizer=wb.sgd, epochs=1)
    assert small.state.batches == 10
    assert small.state.global_step == big.state.global_step == 4


def test_a_schedule_by_the_step_counts_updates():
    def rates(batch_size, accum_steps):
        rate = wb.StepSchedule(lambda step: 0.01 / (1 + step))
        return trained(batch_size, accum_steps, callbacks=[rate])

    big, small = rates(12, 1), rates(4, 3)
    assert distance(big, small) < 1e-12
    assert small.history.column("lr").tolist() == big.history.column("lr").tolist()
    assert small.state.lr == 0.01 / 12


def test_batch_hooks_change_nothing_and_see_updates():
    steps = []
    seen = at("BATCH_END", lambda event: steps.append(event.state.global_step))
    watched = trained(4, 3, callbacks=[seen], epochs=1)
    assert distance(watched, trained(4, 3, epochs=1)) == 0.0
    assert steps == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4]


def test_a_run_that_is_stopped_within_a_window_goes_on_to_the_same_bits():
    run = trained(4, 3, epochs=2)
    params = perceptron(*SIZES, dtype=np.float64)
    config = wb.Config(2, 4, 0.01, 7, verbose=False, accum_steps=3)
    other = wb.Run(params, wb.adam(params), config, context=wb.Context.cpu(2))
    data = rows(44, dtype=np.float64)
    watch = at("BATCH_END", lambda event: other.stop())
    while other.status != "completed":
        wb.fit(other, [watch], data, None, step)
    assert distance(run, other) == 0.0


@pytest.mark.parametrize("around", [wb.mixed_bf16, wb.mixed_f16])
def test_mixed_precision_accumulates_up_to_its_own_rounding(around):
    big = trained(12, 1, dtype=np.float32, around=around, optimizer=wb.sgd)
    small = trained(4, 3, dtype=np.float32, around=around, optimizer=wb.sgd)
    moved = distance(big, trained(12, 1, dtype=np.float32, around=around, epochs=0))
    assert moved > 0.01
    assert distance(big, small) < 0.02 * moved
    assert small.state.global_step == big.state.global_step


@pytest.mark.parametrize("row", [0, 13, 43])
def test_a_window_with_one_batch_that_overflows_is_skipped_whole(row):
    data = rows(44)
    data.x[row] = 65000.0  # what a float16 can hold, and its products cannot
    params = perceptron(*SIZES)
    config = wb.Config(1, 4, 0.01, 7, verbose=False, accum_steps=3, shuffle=False)
    run = wb.Run(params, wb.mixed_f16(wb.adam(params)), config)
    seen = [run.params]
    watch = at("BATCH_END", lambda event: seen.append(event.run.params))
    wb.fit(run, [watch], data, None, step)
    window = row // 12
    before, after = seen[window * 3], seen[min(window * 3 + 3, 11)]
    assert np.array_equal(before[0]["w"], after[0]["w"])
    inner = run.opt.inner
    assert (int(inner.skipped), int(inner.inner.t)) == (1, 3)
    assert float(inner.scale) == 65536.0 / 2
    assert all(np.isfinite(layer["w"]).all() for layer in run.params)


def test_accumulating_around_a_state_by_hand_is_the_same():
    def around(opt):
        return wb.accumulate(opt, perceptron(*SIZES, dtype=np.float64), 3)

    by_hand = trained(4, 1, around=around)
    assert by_hand.accum_steps == 3
    assert distance(by_hand, trained(4, 3)) == 0.0


def test_a_run_does_not_change_how_much_it_accumulates():
    run = trained(4, 3, epochs=1)
    run.config = dataclasses.replace(run.config, epochs=2, accum_steps=2)
    with refused(wb.ConfigurationError, "accum_steps is 2", "accumulate 3"):
        wb.fit(run, [], rows(44, dtype=np.float64), None, step)


def test_weighted_rows_accumulate_by_their_weights():
    def weighted_loss(params, x, y, weights):
        return (wb.cross_entropy_rows(logits(params, x), y) * weights).sum() / weights.sum()

    def weighted(params, opt, x, y, lr, weights):
        return wb.default_step(params, opt, x, y, lr, weighted_loss, weights=weights)

    weights = np.random.default_rng(3).uniform(0.1, 5.0, 44)
    plain = rows(44, dtype=np.float64)
    data = wb.data.Dataset(plain.x, plain.y, weights=weights, dtype=np.float64)
    runs = []
    for batch_size, accum_steps in ((12, 1), (4, 3)):
        params = perceptron(*SIZES, dtype=np.float64)
        config = wb.Config(3, batch_size, 0.01, 7, verbose=False, accum_steps=accum_steps)
        run = wb.Run(params, wb.adam(params), config)
        wb.fit(run, [], data, None, weighted)
        runs.append(run)
    assert distance(*runs) < 1e-12
    assert distance(runs[0], trained(12, 1)) > 1e-4


def test_the_loss_of_an_accumulating_run_is_the_mean_over_its_rows():
    run = trained(4, 3, epochs=1, optimizer=wb.sgd)
    assert run.losses.shape == (11,)
    assert run.state.train_loss == pytest.approx(float(np.average(run.losses)), abs=1e-12)

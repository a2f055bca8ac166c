"""Finding a learning rate to begin with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.train.problems import leaves, measure, new_run, perceptron, rows, same_bits, step
from workbench.data.stream import Stream
from workbench.train.learning_rate import (
    RateSweep,
    exploded,
    find_learning_rate,
    suggested,
)


@pytest.fixture(scope="module")
def found():
    run = new_run(optimizer=wb.sgd)
    return find_learning_rate(run, rows(60), step, least=1e-4, greatest=1e3, steps=80)


def test_the_loss_falls_and_then_explodes_and_the_suggestion_lies_where_it_falls(found):
    rates, smoothed = found.rates, found.smoothed
    assert rates[0] == pytest.approx(1e-4)
    np.testing.assert_allclose(rates[1:] / rates[:-1], (1e3 / 1e-4) ** (1 / 79), rtol=1e-9)
    lowest = int(smoothed.argmin())
    assert 0 < lowest < len(rates) - 1
    assert smoothed[-1] > smoothed[lowest]
    assert 1e-3 < found.suggestion < rates[lowest]
    assert len(rates) == len(found.losses) == len(smoothed) <= 80


def test_a_sweep_ends_when_the_loss_explodes(found):
    assert len(found.rates) < 80
    least = int(found.smoothed.argmin())
    fallen = found.smoothed[: least + 1].max() - found.smoothed[least]
    assert found.smoothed[-1] - found.smoothed[least] > 4.0 * fallen
    assert np.isfinite(found.losses).all()


def test_the_run_is_left_as_it_was_and_trains_as_if_there_had_been_no_sweep():
    data = rows(60)
    run, plain = new_run(), new_run()
    for each in (run, plain):
        each.config = each.config.__class__(1, 8, 0.01, 7, verbose=False)
        wb.fit(each, [], data, rows(9), step, measure)
    before, context = [part.copy() for part in leaves(run)], run.context
    find_learning_rate(run, data, step, steps=20)
    assert all(np.array_equal(a, b) for a, b in zip(before, leaves(run), strict=True))
    assert (run.context, run.status, run.state.global_step) == (context, "completed", 8)
    assert len(run.history) == 1
    for each in (run, plain):
        each.config = each.config.__class__(2, 8, 0.01, 7, verbose=False)
        wb.fit(each, [], data, rows(9), step, measure)
    assert same_bits(run, plain)


def test_the_first_losses_are_those_of_the_runs_own_parameters():
    run = new_run(optimizer=wb.sgd)
    data = rows(60)
    sweep = find_learning_rate(run, data, step, least=1e-9, greatest=1e-8, steps=8)
    frozen = new_run(1, optimizer=wb.sgd, lr=0.0)
    wb.fit(frozen, [], data.take(wb.data.row_order(60, seed=7, epoch=0)[:56]), None, step)
    assert sweep.losses.mean() == pytest.approx(float(np.mean(frozen.losses)), abs=0.2)
    assert len(sweep.losses) == 8


def test_updates_are_counted_where_batches_accumulate():
    params = perceptron(5, 6, 3)
    config = wb.Config(1, 8, 0.01, 7, verbose=False, accum_steps=3)
    run = wb.Run(params, wb.sgd(params), config)
    sweep = find_learning_rate(run, rows(60), step, greatest=1e-3, steps=10)
    assert len(sweep.rates) == 10
    assert sweep.rates[-1] == pytest.approx(1e-3)


def test_a_stream_gives_as_many_updates_as_it_has():
    data = rows(60)

    def batches(epoch, start):
        for k in range(start, 7):
            yield data.x[k * 8 : k * 8 + 8], data.y[k * 8 : k * 8 + 8]

    stream = Stream(batches, batch_size=8, steps_per_epoch=7)
    assert len(find_learning_rate(new_run(), stream, step, greatest=1e-3).rates) == 7


def test_a_loss_that_never_falls_suggests_nothing():
    def climbing(params, opt, x, y, lr):
        result = step(params, opt, x, y, lr)
        return wb.StepResult(lr + 1.0, result.params, result.opt)

    sweep = find_learning_rate(new_run(), rows(60), climbing, greatest=1.0, steps=20)
    assert np.isnan(sweep.suggestion)
    assert sweep.figure().axes


def test_a_loss_that_is_never_finite_gives_an_empty_sweep():
    def broken(params, opt, x, y, lr):
        result = step(params, opt, x, y, lr)
        return wb.StepResult(result.loss * float("nan"), result.params, result.opt)

    sweep = find_learning_rate(new_run(), rows(60), broken, steps=5)
    assert len(sweep.rates) == 0
    assert "0 rates, none; suggestion nan" in repr(sweep)


def test_it_is_drawn_over_the_logarithm_of_the_rate(found):
    figure = found.figure()
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert axes.lines[0].get_xdata().tolist() == found.rates.tolist()
    assert len(axes.lines) == 3
    assert isinstance(found, RateSweep)
    assert "&lt;RateSweep" in found._repr_html_()


def curve(seed, noise=0.02):
    """A loss that falls around a rate of 1e-2 and explodes beyond 1, with noise."""
    random, rates = np.random.default_rng(seed), np.geomspace(1e-5, 10.0, 120)
    fall = 1.5 / (1.0 + (1e-2 / rates) ** 1.5)
    return rates, 2.5 - fall + 0.3 * rates**2 + random.normal(size=120) * noise


@given(
    st.integers(0, 500),
    st.floats(-1e4, 1e4),
    st.floats(1e-3, 1e3),
    st.sampled_from([None, 80, 110]),
    st.sampled_from([np.nan, np.inf, -np.inf]),
)
def test_a_loss_plus_a_constant_and_times_a_positive_one_suggests_the_same(
    seed, constant, factor, end, odd
):
    rates, losses = curve(seed)
    if end is not None:
        losses[end:] = odd
    usual = suggested(rates, losses)
    assert usual in rates
    assert 1e-3 < usual < 1e-1
    assert suggested(rates, losses * factor + constant) == usual


@given(st.integers(0, 500), st.floats(-1e4, 1e4), st.floats(1e-3, 1e3))
def test_an_explosion_is_seen_at_the_same_update_whatever_is_added(seed, constant, factor):
    _, losses = curve(seed)

    def end(values):
        smoothed = [suggested_average(values[: at + 1]) for at in range(len(values))]
        ends = [exploded(list(values[:at]), smoothed[:at], 4.0) for at in range(1, len(values) + 1)]
        return ends.index(True) if True in ends else None

    assert end(losses * factor + constant) == end(losses) is not None


def suggested_average(values):
    """Return the average of losses, later ones weighing more, as a sweep smooths them."""
    weights = 0.9 ** np.arange(len(values))[::-1]
    return float(np.average(values, weights=weights))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_flat_loss_suggests_nothing_however_it_shakes(noise):
    rates = np.geomspace(1e-6, 1.0, 100)
    flat = 1.0 + noise * (-1.0) ** np.arange(100)
    assert np.isnan(suggested(rates, flat))


@pytest.mark.parametrize("constant", [-1.0, 1000.0])
def test_a_sweep_of_a_loss_with_a_constant_suggests_about_the_same(found, constant):
    def moved(params, opt, x, y, lr):
        made = step(params, opt, x, y, lr)
        return wb.StepResult(made.loss + constant, made.params, made.opt)

    sweep = find_learning_rate(
        new_run(optimizer=wb.sgd), rows(60), moved, least=1e-4, greatest=1e3, steps=80
    )
    assert len(sweep.rates) == len(found.rates)
    assert sweep.suggestion == pytest.approx(found.suggestion, rel=1e-9)


def test_numbers_out_of_range_are_refused():
    run, data = new_run(), rows(9)
    with refused(wb.ConfigurationError, "from 1.0 to 0.5"):
        find_learning_rate(run, data, step, least=1.0, greatest=0.5)
    with refused(wb.ConfigurationError, "least"):
        find_learning_rate(run, data, step, least=0.0)
    with refused(wb.ConfigurationError, "steps"):
        find_learning_rate(run, data, step, steps=1)
    with refused(wb.ConfigurationError, "rise"):
        find_learning_rate(run, data, step, rise=1.0)

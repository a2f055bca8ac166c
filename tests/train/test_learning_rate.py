"""Finding a learning rate to begin with."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import leaves, measure, new_run, perceptron, rows, same_bits, step
from workbench.data.stream import Stream
from workbench.train.learning_rate import RateSweep, find_learning_rate


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
    assert found.smoothed[-1] > 4.0 * found.smoothed.min()
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

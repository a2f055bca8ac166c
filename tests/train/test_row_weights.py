"""Rows that count more or less than others."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import logits, new_run, perceptron, rows, same_bits, step


def weighted_loss(params, x, y, weights):
    return (wb.cross_entropy_rows(logits(params, x), y) * weights).sum() / weights.sum()


def weighted(params, opt, x, y, lr, weights):
    return wb.default_step(params, opt, x, y, lr, weighted_loss, weights=weights)


def with_weights(data, weights, **options):
    return wb.data.Dataset(data.x, data.y, weights=weights, dtype=None, **options)


def weights_of(data):
    assert data.weights is not None
    return data.weights


def distance(left, right):
    pairs = zip(left.params, right.params, strict=True)
    return max(float(np.abs(a[name] - b[name]).max()) for a, b in pairs for name in ("w", "b"))


def test_a_row_of_weight_two_counts_as_two_rows():
    data = rows(24, dtype=np.float64)
    twice = np.r_[np.arange(24), np.arange(8)]
    weights = np.where(np.arange(24) < 8, 2.0, 1.0)
    runs = []
    for chosen, taken in ((data.take(twice), step), (with_weights(data, weights), weighted)):
        params = perceptron(5, 6, 3, dtype=np.float64)
        run = wb.Run(params, wb.adam(params), wb.Config(4, 32, 0.01, 7, verbose=False))
        wb.fit(run, [], chosen, None, taken)
        runs.append(run)
    assert distance(*runs) < 1e-12


def test_a_row_of_no_weight_does_not_count():
    data = rows(24, dtype=np.float64)
    spoilt = data.take(np.arange(24))
    spoilt.x[5] = 1e3
    weights = np.where(np.arange(24) == 5, 0.0, 1.0)
    runs = []
    for chosen in (data, spoilt):
        params = perceptron(5, 6, 3, dtype=np.float64)
        run = wb.Run(params, wb.adam(params), wb.Config(4, 32, 0.01, 7, verbose=False))
        wb.fit(run, [], with_weights(chosen, weights), None, weighted)
        runs.append(run)
    assert distance(*runs) < 1e-12


def test_weights_go_with_their_rows_through_every_shuffle_and_batch():
    n = 20
    weights = np.arange(1, n + 1) / n
    x = weights[:, None].astype(np.float32)
    data = wb.data.Dataset(x, np.zeros(n, np.int64), weights=weights)

    def compare(params, opt, x, y, lr, weights):
        return wb.StepResult(wb.abs(x[:, 0] - weights).sum(), params, opt)

    run = new_run(3)
    wb.fit(run, [], data, None, compare)
    assert run.history.column("train_loss").tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("around", [wb.mixed_bf16, wb.mixed_f16])
def test_mixed_precision_takes_weights(around):
    data = rows(24)
    runs = []
    for wrap in (around, lambda opt: opt):
        params = perceptron(5, 6, 3)
        run = wb.Run(params, wrap(wb.sgd(params)), wb.Config(4, 8, 0.05, 7, verbose=False))
        wb.fit(run, [], with_weights(data, np.linspace(0, 2, 24)), None, weighted)
        runs.append(run)
    assert 0.0 < distance(*runs) < 0.01


def test_splitting_and_taking_carry_the_weights():
    data = with_weights(rows(10), np.arange(10.0))
    assert weights_of(data.take([3, 1])).tolist() == [3.0, 1.0]
    train, held_out = wb.data.split(data, 0.7, seed=3)
    together = np.concatenate([weights_of(train), weights_of(held_out)])
    assert sorted(together) == list(range(10))
    assert weights_of(data).dtype == np.float32
    assert rows(4).weights is None
    assert rows(4).take([1]).weights is None


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1.0, -0.5, 1.0], "weights[1] is -0.5"),
        ([1.0, 1.0, np.nan], "weights[2] is nan"),
        ([np.inf, 1.0, 1.0], "weights[0] is inf"),
        ([1.0, 1.0], "shape (2,), and there are 3 rows"),
        ([[1.0], [1.0], [1.0]], "shape (3, 1), and there are 3 rows"),
    ],
)
def test_weights_that_are_none_are_refused(weights, text):
    with refused(wb.DataError, text):
        with_weights(rows(3), weights)


def test_a_step_that_does_not_take_the_weights_of_its_rows_is_refused():
    data = with_weights(rows(9), np.ones(9))
    with refused(wb.DataError, "`step` has no parameter `weights`", remedy="lr, weights)`"):
        wb.fit(new_run(), [], data, None, step)


def test_a_step_that_needs_weights_is_refused_rows_without_them():
    with refused(wb.DataError, "`weighted` takes `weights`", remedy="weights=..."):
        wb.fit(new_run(), [], rows(9), None, weighted)


def test_a_step_may_take_rows_with_weights_and_without():
    def either(params, opt, x, y, lr, weights=None):
        if weights is None:
            return step(params, opt, x, y, lr)
        return weighted(params, opt, x, y, lr, weights)

    plain, other = new_run(), new_run()
    wb.fit(plain, [], rows(20), None, step)
    wb.fit(other, [], rows(20), None, either)
    assert same_bits(plain, other)
    wb.fit(new_run(), [], with_weights(rows(20), np.ones(20)), None, either)


def test_balanced_classes_count_alike():
    y = np.array([0] * 6 + [2] * 3 + [5])
    weights = wb.data.class_weights(y)
    assert [weights[y == label].sum() for label in (0, 2, 5)] == pytest.approx([10 / 3] * 3)
    assert weights.mean() == pytest.approx(1.0)
    assert wb.data.class_weights(y, {0: 1.0, 2: 2.0, 5: 4.0}).tolist() == [1] * 6 + [2] * 3 + [4]
    assert wb.data.class_weights(np.zeros(0, int)).shape == (0,)


def test_class_weights_that_do_not_fit_are_refused():
    with refused(wb.DataError, "class 2 occurs in 1 rows and has no weight"):
        wb.data.class_weights([0, 0, 2], {0: 1.0})
    with refused(wb.DataError, "not labels"):
        wb.data.class_weights([0.5, 1.0])
    with refused(wb.DataError, "'equal'"):
        wb.data.class_weights([0, 1], "equal")  # pyright: ignore[reportArgumentType]

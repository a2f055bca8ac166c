"""Each metric is its value over the whole set, however the rows are cut into batches."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refusal import refused
from tests.train.whole_set import by_batches
from workbench.errors import ConfigurationError, DTypeError, ShapeError, TracingError
from workbench.graph.composite import mse
from workbench.graph.extent import batch
from workbench.graph.leaf import input as input_leaf
from workbench.train.accuracy import accuracy
from workbench.train.class_counts import confusion_matrix, f1, precision, recall, top_k
from workbench.train.perplexity import perplexity
from workbench.train.ranking import area_under_curve, auc
from workbench.train.regression import mae, r2
from workbench.train.statistic import Statistic

# float32 scores and losses, summed over a few dozen rows.
SINGLE = 1e-5
# float64 sums of float32 data.
DOUBLE = 1e-12

# A data set of up to 40 rows has seen its edge cases by then.
FEW = settings(max_examples=40)

CLASSES = 4
TOP = {k: partial(top_k, k=k) for k in (1, 2, 3, 9)}


@st.composite
def cut(draw, *, least=1):
    """A number of rows, and how many make a batch."""
    return draw(st.integers(least, 40)), draw(st.integers(1, 45))


def numbers(rows, *shape):
    """Quarters from -2 to 2, so that ties are common."""
    return st.lists(
        st.integers(-8, 8), min_size=rows * math.prod(shape), max_size=rows * math.prod(shape)
    ).map(lambda drawn: np.array(drawn, np.float32).reshape(rows, *shape) / 4)


def labels(rows, classes):
    drawn = st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows)
    return drawn.map(lambda values: np.array(values, np.int32))


@st.composite
def classified(draw):
    rows, size = draw(cut())
    return draw(numbers(rows, CLASSES)), draw(labels(rows, CLASSES)), size


@st.composite
def told_apart(draw):
    rows, size = draw(cut())
    return draw(numbers(rows)), draw(labels(rows, 2)), size


@st.composite
def measured(draw):
    rows, size = draw(cut(least=2))
    outputs = draw(st.sampled_from([(), (3,)]))
    return draw(numbers(rows, *outputs)), draw(numbers(rows, *outputs)), size


# -- by plain numpy, all rows at once


def table(predicted, actual, classes=CLASSES):
    counts = np.zeros((classes, classes), np.int64)
    for row, column in zip(actual, predicted, strict=True):
        counts[row, column] += 1
    return counts


def mean_ratio(counts, ratio):
    """The mean of a ratio over the classes that occur or are predicted."""
    values = [
        ratio(counts[c, c], counts[:, c].sum(), counts[c].sum())
        for c in range(len(counts))
        if counts[:, c].sum() or counts[c].sum()
    ]
    return sum(values) / len(values)


RATIOS = {
    precision: lambda hit, said, real: hit / said if said else 0.0,
    recall: lambda hit, said, real: hit / real if real else 0.0,
    f1: lambda hit, said, real: 2 * hit / (said + real),
}


@FEW
@given(classified())
@pytest.mark.parametrize("metric", RATIOS)
def test_a_mean_over_classes_is_that_of_all_rows(metric, drawn):
    scores, truth, size = drawn
    counts = table(scores.argmax(1), truth)
    expected = mean_ratio(counts, RATIOS[metric])
    assert by_batches(metric, scores, truth, size) == pytest.approx(expected, rel=DOUBLE)


SECOND = {metric: partial(metric, positive=2) for metric in RATIOS}


@FEW
@given(classified())
@pytest.mark.parametrize("metric", RATIOS)
def test_the_ratio_of_one_class_is_that_of_all_rows(metric, drawn):
    scores, truth, size = drawn
    counts = table(scores.argmax(1), truth)
    hit, said, real = counts[2, 2], counts[:, 2].sum(), counts[2].sum()
    expected = RATIOS[metric](hit, said, real) if said or real else 0.0
    assert by_batches(SECOND[metric], scores, truth, size) == pytest.approx(expected, rel=DOUBLE)


@FEW
@given(told_apart())
@pytest.mark.parametrize("metric", RATIOS)
def test_two_classes_told_by_a_threshold_are_those_of_all_rows(metric, drawn):
    scores, truth, size = drawn
    counts = table((scores > 0).astype(int), truth, 2)
    hit, said, real = counts[1, 1], counts[:, 1].sum(), counts[1].sum()
    expected = RATIOS[metric](hit, said, real) if said or real else 0.0
    assert by_batches(metric, scores, truth, size) == pytest.approx(expected, rel=DOUBLE)


@FEW
@given(classified())
def test_a_confusion_matrix_counts_all_rows(drawn):
    scores, truth, size = drawn
    found = by_batches(confusion_matrix, scores, truth, size)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, table(scores.argmax(1), truth))


@FEW
@given(told_apart())
def test_a_confusion_matrix_of_two_classes_counts_all_rows(drawn):
    scores, truth, size = drawn
    found = by_batches(confusion_matrix, scores, truth, size)
    np.testing.assert_array_equal(found, table((scores > 0).astype(int), truth, 2))


@FEW
@given(classified())
def test_accuracy_is_that_of_all_rows(drawn):
    scores, truth, size = drawn
    expected = np.mean(scores.argmax(1) == truth)
    assert by_batches(accuracy, scores, truth, size) == pytest.approx(expected, rel=SINGLE)


@FEW
@given(classified(), st.sampled_from(sorted(TOP)))
def test_the_best_few_are_those_of_all_rows(drawn, k):
    scores, truth, size = drawn
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    expected = np.mean((order == truth[:, np.newaxis]).any(1))
    assert by_batches(TOP[k], scores, truth, size) == pytest.approx(expected, rel=SINGLE)


@FEW
@given(told_apart())
def test_the_area_under_the_curve_is_the_share_of_pairs_in_order_with_ties_as_half(drawn):
    scores, truth, size = drawn
    higher, lower = scores[truth == 1], scores[truth == 0]
    won = [(h > b) + 0.5 * (h == b) for h in higher for b in lower]
    found = by_batches(auc, scores, truth, size)
    if won:
        assert found == pytest.approx(np.mean(won), rel=DOUBLE)
    else:
        assert math.isnan(found)


@FEW
@given(measured())
def test_absolute_and_squared_errors_are_those_of_all_rows(drawn):
    said, real, size = drawn
    absolute, squared = np.abs(said - real).mean(), np.square(said - real).mean()
    assert by_batches(mae, said, real, size) == pytest.approx(absolute, rel=SINGLE)
    assert by_batches(mse, said, real, size) == pytest.approx(squared, rel=SINGLE)


@FEW
@given(measured(), st.sampled_from([0.0, 1e6]))
def test_the_explained_variance_is_that_of_all_rows_however_far_from_zero(drawn, shift):
    said, real, size = drawn
    # Shifted in float64, in which these quarters stay exact.
    said, real = said.astype(np.float64) + shift, real.astype(np.float64) + shift
    residual = np.square(real - said).sum(0)
    spread = np.square(real - real.mean(0)).sum(0)
    constant = np.all(real == real[0], axis=0)
    share = np.where(constant, residual != 0, residual / np.where(constant, 1.0, spread))
    expected = np.mean(1.0 - share)
    assert by_batches(r2, said, real, size) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@FEW
@given(classified())
def test_perplexity_is_that_of_all_rows(drawn):
    scores, truth, size = drawn
    wide = scores.astype(np.float64)
    nats = np.log(np.exp(wide).sum(1)) - wide[np.arange(len(truth)), truth]
    expected = math.exp(nats.mean())
    assert by_batches(perplexity, scores, truth, size) == pytest.approx(expected, rel=SINGLE)


# -- compiled, as they will run

ROWS = 53
RANDOM = np.random.default_rng(5)
SCORES = RANDOM.normal(size=(ROWS, CLASSES)).astype(np.float32)
TRUTH = RANDOM.integers(0, CLASSES, ROWS).astype(np.int32)
LINE = RANDOM.normal(size=ROWS).astype(np.float32)
CASES = {
    "precision": (precision, SCORES, TRUTH),
    "recall": (recall, SCORES, TRUTH),
    "f1": (f1, SCORES, TRUTH),
    "f1 by threshold": (f1, LINE, TRUTH),
    "confusion matrix": (confusion_matrix, SCORES, TRUTH),
    "top 2": (TOP[2], SCORES, TRUTH),
    "auc": (auc, LINE, TRUTH),
    "auc of two logits": (auc, SCORES[:, :2].copy(), TRUTH),
    "mae": (mae, LINE, SCORES[:, 0].copy()),
    "r2": (r2, LINE, SCORES[:, 0].copy()),
    "r2 of several": (r2, SCORES, SCORES + 0.1 * RANDOM.normal(size=SCORES.shape).astype("f4")),
    "perplexity": (perplexity, SCORES, TRUTH),
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_metrics_are_those_of_the_reference_whatever_the_batch(name):
    metric, x, y = CASES[name]
    whole = by_batches(metric, x, y, ROWS)
    for size in (1, 8, 53):
        found = by_batches(metric, x, y, size, "cpu")
        np.testing.assert_allclose(found, whole, rtol=SINGLE)


def test_the_mean_of_the_batches_own_values_would_be_another_number():
    # What a weighted mean of precision, AUC and the like over batches gives.
    for name in ("precision", "f1", "auc", "r2", "perplexity"):
        metric, x, y = CASES[name]
        parts = [by_batches(metric, x[at : at + 8], y[at : at + 8], 8) for at in range(0, ROWS, 8)]
        sizes = [min(8, ROWS - at) for at in range(0, ROWS, 8)]
        assert np.average(parts, weights=sizes) != pytest.approx(by_batches(metric, x, y, 8))


# -- values that people look up


def test_precision_recall_and_f1_of_a_table_by_hand():
    # Predicted 1, 1, 0, 1; real 1, 0, 1, 1.
    scores = np.array([2.0, 1.0, -1.0, 3.0], np.float32)
    truth = np.array([1, 0, 1, 1], np.int32)
    values = [by_batches(metric, scores, truth, 3) for metric in (precision, recall, f1)]
    assert values == pytest.approx([2 / 3, 2 / 3, 2 / 3])


def test_a_class_that_is_never_predicted_has_the_precision_zero_and_counts():
    scores = np.array([[9, 0, 0, 0], [9, 0, 0, 0]], np.float32)
    truth = np.array([0, 1], np.int32)
    assert by_batches(precision, scores, truth, 1) == 0.25
    assert by_batches(recall, scores, truth, 1) == 0.5


def test_sequences_are_counted_label_by_label():
    scores = np.tile(SCORES[:12].reshape(4, 3, CLASSES), 1)
    truth = TRUTH[:12].reshape(4, 3)
    for metric in (f1, confusion_matrix, perplexity, TOP[2]):
        flat = by_batches(metric, SCORES[:12], TRUTH[:12], 5)
        np.testing.assert_allclose(by_batches(metric, scores, truth, 3), flat, rtol=SINGLE)


@pytest.mark.parametrize(
    ("scores", "positive", "area"),
    [
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
        ([1.0, 2.0, 3.0], [0, 0, 1], 1.0),
        ([3.0, 2.0, 1.0], [0, 0, 1], 0.0),
        ([5.0, 5.0, 5.0, 5.0], [0, 1, 0, 1], 0.5),
        ([-math.inf, math.inf], [0, 1], 1.0),
    ],
)
def test_areas_by_hand(scores, positive, area):
    assert area_under_curve(np.array(scores), np.array(positive) == 1) == area


def test_an_area_with_nan_among_the_scores_is_nan():
    assert math.isnan(area_under_curve(np.array([0.0, math.nan]), np.array([True, False])))


def test_a_million_rows_are_ranked_at_once():
    scores = np.repeat(np.arange(1000.0), 1000)
    positive = np.tile(np.arange(1000) % 2 == 1, 1000)
    assert area_under_curve(scores, positive) == pytest.approx(0.5)


def test_nan_is_never_among_the_best_and_hides_what_is_below_it():
    scores = np.array([[math.nan, 1.0], [math.nan, 1.0], [math.inf, -math.inf]], np.float32)
    truth = np.array([0, 1, 0], np.int32)
    assert by_batches(TOP[1], scores, truth, 2) == pytest.approx(1 / 3)


def test_a_perfect_prediction_explains_all_even_of_a_constant():
    constant = np.full(5, 3.0, np.float32)
    assert by_batches(r2, constant, constant, 2) == 1.0
    assert by_batches(r2, constant + 1, constant, 2) == 0.0
    assert math.isnan(by_batches(r2, constant[:1], constant[:1], 1))


@pytest.mark.parametrize("value", [0.1, -1e9 - 0.1, 1e12 + 0.3])
@pytest.mark.parametrize(("rows", "size"), [(7, 7), (23, 6), (100, 32)])
def test_a_target_that_never_varies_has_no_variance_however_far_from_0_it_is(value, rows, size):
    constant = np.full(rows, value)
    assert by_batches(r2, constant, constant, size) == 1.0
    assert by_batches(r2, constant * 1.5, constant, size) == 0.0


def test_a_perplexity_beyond_all_numbers_is_infinite():
    scores = np.array([[0.0, 3000.0, 0.0, 0.0]], np.float32)
    assert by_batches(perplexity, scores, np.array([0], np.int32), 1) == math.inf


# -- refusals

X = input_leaf("x", (batch, 3))
LINE_X = input_leaf("line", (batch,))
Y = input_leaf("y", (batch,), "int32")
REFUSALS = [
    (lambda: f1(Y, Y), DTypeError, "not floating"),
    (lambda: f1(X, LINE_X), DTypeError, "not whole numbers"),
    (lambda: f1(X[:, :2], X), ShapeError, "the scores are"),
    (lambda: precision(X, Y, positive=3), ConfigurationError, "positive is 3"),
    (lambda: top_k(X, Y, 0), ConfigurationError, "`k` must be an integer of at least 1, got 0"),
    (lambda: auc(X, Y), ShapeError, "the scores are"),
    (lambda: auc(Y, Y), DTypeError, "not floating"),
    (lambda: mae(X, LINE_X), ShapeError, "mae: the prediction is"),
    (lambda: r2(LINE_X, X), ShapeError, "r2: the prediction is"),
    (lambda: Statistic(lambda _: 0.0), TracingError, "has no tensor"),
    (lambda: Statistic(lambda _: 0.0, {"a": X}), TracingError, "`a`", "grows with the batch"),
    (lambda: Statistic(lambda _: 0.0, per_row={"a": X.sum()}), TracingError, "`a`", "each row"),
]


@pytest.mark.parametrize(("make", "kind", "named"), [(m, k, n) for m, k, *n in REFUSALS])
def test_what_makes_no_metric_is_refused(make, kind, named):
    with refused(kind, *named):
        make()


@FEW
@given(told_apart())
def test_a_statistic_of_ones_own_is_put_together_from_its_parts(drawn):
    scores, truth, size = drawn

    def furthest(gathered):
        return float(gathered.per_batch["top"].max() - gathered.per_row["score"].min())

    found = by_batches(own(furthest), scores, truth, size)
    assert found == scores.max() - scores.min()


def own(finish):
    def metric(x, y):
        return Statistic(finish, {"top": x.max()}, per_row={"score": x})

    return metric

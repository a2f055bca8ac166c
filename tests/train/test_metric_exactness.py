"""A count is a whole number and is divided once; what is not a number is no hit and no best."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.train.whole_set import by_batches
from workbench.graph.dtype import as_dtype

# Each example evaluates a handful of rows in the interpreter.
FEW = settings(max_examples=25)
HALVES = ("bfloat16", "float16")
CLASSES = 3


def own_mean(dtype):
    """A person's own share of hits, with the truth values in a type of theirs."""
    return lambda x, y: wb.mean((wb.argmax(x, -1) == y.astype("int64")).astype(dtype))


SHARES = {
    "accuracy": wb.accuracy,
    "the best one": partial(wb.top_k, k=1),
    **{f"a mean in {dtype}": own_mean(dtype) for dtype in ("float32", *HALVES)},
}
OF_SCORES = {
    "accuracy": wb.accuracy,
    "top_k": partial(wb.top_k, k=2),
    "precision": wb.precision,
    "recall": wb.recall,
    "f1": wb.f1,
    "confusion_matrix": wb.confusion_matrix,
    "perplexity": wb.perplexity,
    "cross_entropy": wb.cross_entropy,
}
OF_NUMBERS = {"mae": wb.mae, "r2": wb.r2, "mse": wb.mse}


@FEW
@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 64))
@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("share", SHARES)
def test_a_share_of_hits_is_the_same_quotient_however_rows_lie_and_are_cut(
    share, dtype, hits, size
):
    hit = np.array(hits)
    scores = np.where(hit[:, None], [1.0, 0.0], [0.0, 1.0]).astype(as_dtype(dtype).numpy)
    labels = np.zeros(len(hit), np.int32)
    assert by_batches(SHARES[share], scores, labels, size) == sum(hits) / len(hits)


@FEW
@given(st.data())
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("metric", OF_SCORES)
def test_a_metric_of_narrow_scores_is_that_of_their_float32_copies(metric, dtype, data):
    rows, size = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    drawn = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=(rows, CLASSES)) * 9
    narrow, labels = drawn.astype(as_dtype(dtype).numpy), np.arange(rows, dtype=np.int32) % CLASSES
    found = by_batches(OF_SCORES[metric], narrow, labels, size)
    assert np.array_equal(
        found, by_batches(OF_SCORES[metric], narrow.astype(np.float32), labels, size)
    )


@FEW
@given(st.data())
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("metric", OF_NUMBERS)
def test_a_distance_of_narrow_numbers_is_that_of_their_float32_copies(metric, dtype, data):
    rows, size = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 30))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, y = random.normal(size=(2, rows)).astype(as_dtype(dtype).numpy)
    wide = by_batches(OF_NUMBERS[metric], x.astype(np.float32), y.astype(np.float32), size)
    assert by_batches(OF_NUMBERS[metric], x, y, size) == wide


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("columns", [(), (2,)])
def test_an_area_of_narrow_scores_is_that_of_their_float32_copies(dtype, columns):
    scores = np.random.default_rng(3).normal(size=(200, *columns)) * 50
    narrow, labels = scores.astype(as_dtype(dtype).numpy), np.arange(200, dtype=np.int32) % 2
    assert by_batches(wb.auc, narrow, labels, 7) == by_batches(
        wb.auc, narrow.astype(np.float32), labels, 200
    )


@pytest.mark.parametrize("odd", ["accuracy", "top 1", "top 9", "recall", "f1", "precision"])
@pytest.mark.parametrize("place", range(CLASSES))
@pytest.mark.parametrize("label", range(CLASSES))
def test_a_row_with_a_score_that_is_no_number_is_no_hit(odd, place, label):
    of_name = {**OF_SCORES, "top 1": partial(wb.top_k, k=1), "top 9": partial(wb.top_k, k=9)}
    scores = np.ones((4, CLASSES), np.float32)
    scores[:, place] = math.nan
    assert by_batches(of_name[odd], scores, np.full(4, label, np.int32), 3) == 0.0


@pytest.mark.parametrize("metric", ["precision", "recall", "f1"])
@pytest.mark.parametrize("positive", [0, 1])
def test_a_score_below_no_threshold_is_no_hit_of_the_negative_class(metric, positive):
    found = partial(OF_SCORES[metric], positive=positive)
    scores, labels = np.full(5, math.nan, np.float32), np.full(5, positive, np.int32)
    assert by_batches(found, scores, labels, 2) == 0.0


def test_a_row_with_a_score_that_is_no_number_is_in_no_column_of_the_matrix():
    scores = np.array([[1.0, 0.0], [math.nan, 0.0], [0.0, math.nan]], np.float32)
    counts = by_batches(wb.confusion_matrix, scores, np.array([0, 0, 1], np.int32), 2)
    assert counts.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("target", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("metric", OF_NUMBERS)
def test_a_prediction_that_is_no_number_makes_the_distance_none(metric, target):
    said = np.array([1.0, math.nan, 1.0], np.float32)
    assert math.isnan(by_batches(OF_NUMBERS[metric], said, np.full(3, target, np.float32), 2))


@pytest.mark.parametrize("k", [1, 2, 9])
def test_a_computed_label_that_is_no_class_is_never_among_the_best(k):
    scores = np.array([[-2.0, -1.0], [2.0, 1.0]], np.float32)
    later = np.array([0, 3], np.int32)
    assert by_batches(lambda x, y: wb.top_k(x, y - 1, k), scores, later, 2) == 0.0
    assert by_batches(lambda x, y: wb.accuracy(x, y - 1), scores, later, 2) == 0.0


def test_labels_in_a_column_are_refused_rather_than_compared_with_every_row():
    logits, labels = wb.input("x", (wb.batch, 3)), wb.input("y", (wb.batch, 1), "int32")
    with refused(wb.ShapeError, "(batch, 1)", remedy="one label for each row"):
        wb.accuracy(logits, labels)


def test_the_mean_of_a_steps_metric_weighs_a_short_last_batch_by_its_rows():
    x, y = np.zeros((10, 2), np.float32), (np.arange(10) >= 8).astype(np.int32)
    x[:, 0] = 1.0
    params = {"w": np.eye(2, dtype=np.float32)}
    run = wb.Run(params, wb.sgd(params), wb.Config(1, 4, 0.0, 1, shuffle=False, verbose=False))

    def step(params, opt, x, y, lr):
        scores = x @ params["w"]
        made = wb.default_step(
            params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(x @ p["w"], y)
        )
        return made.with_metrics(accuracy=wb.accuracy(scores, y))

    wb.fit(run, [], wb.data.Dataset(x, y), None, step)
    assert run.history.column("train_accuracy").tolist() == [0.8]

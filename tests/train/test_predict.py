"""Evaluation and prediction: the same rows and numbers at any batch size, and no trace left."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.train.problems import logits, measure, new_run, perceptron, rows, same_bits, step

DATA = rows(10, seed=3)


@pytest.fixture(scope="module")
def run():
    made = new_run()
    wb.fit(made, [], rows(60), None, step)
    return made


def by_hand(run, x):
    first, second = run.params
    hidden = np.maximum(x @ first["w"] + first["b"], 0.0)
    return hidden @ second["w"] + second["b"]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 9, 10, 100])
def test_a_prediction_is_the_same_bits_at_every_batch_size(run, batch_size):
    whole = wb.predict(run, DATA.x, 10, logits)
    parts = wb.predict(run, DATA.x, batch_size, logits)
    assert parts.tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(784, 128, 10), (200, 1), (512, 512)])
@pytest.mark.parametrize("n", [10, 200])
def test_large_products_are_the_same_bits_at_every_batch_size_too(n, sizes, dtype):
    # The BLAS adds in another order for another number of rows.
    params = perceptron(*sizes, dtype=dtype)
    x = np.random.default_rng(5).normal(size=(n, sizes[0])).astype(dtype)
    whole = wb.predict(params, x, 100, logits)
    for batch_size in (1, 3, 8, 64, 1000):
        assert wb.predict(params, x, batch_size, logits).tobytes() == whole.tobytes()


def test_rows_that_look_at_each_other_are_cut_as_they_were_asked_to_be():
    def centred(params, x):
        return x - x.mean(0)

    x = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    by_two = wb.predict({"w": wb.zeros(1)}, x, 2, centred)
    assert by_two.tolist() == [[-1.0, -1.0], [1.0, 1.0]] * 3
    assert np.array_equal(wb.predict({"w": wb.zeros(1)}, x, 6, centred), x - x.mean(0))


def test_predictions_are_in_the_order_of_the_rows(run):
    expected = by_hand(run, DATA.x)
    np.testing.assert_allclose(wb.predict(run, DATA.x, 3, logits), expected, rtol=1e-5, atol=1e-6)
    backwards = wb.predict(run, DATA.x[::-1], 3, logits)
    assert np.array_equal(backwards, wb.predict(run, DATA.x, 3, logits)[::-1])


def test_predicting_no_rows_gives_no_rows_of_the_right_shape_and_type(run):
    none = wb.predict(run, DATA.x[:0], 4, logits)
    assert none.shape == (0, 3)
    assert none.dtype == np.float32


def test_a_tree_of_parameters_predicts_as_its_run_does(run):
    assert np.array_equal(
        wb.predict(run.params, DATA.x, 4, logits), wb.predict(run, DATA.x, 4, logits)
    )


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda p, x: x, lambda x: x),
        (lambda p, x: x.reshape(-1, 5, 1), lambda x: x.reshape(-1, 5, 1)),
        (lambda p, x: x[:, ::-1], lambda x: x[:, ::-1]),
        (lambda p, x: (x * 2.0).reshape(-1, 1, 5), lambda x: (x * 2).reshape(-1, 1, 5)),
        (lambda p, x: x.sum(1), lambda x: x.sum(1)),
        (lambda p, x: wb.argmax(x, -1), lambda x: x.argmax(-1)),
        (lambda p, x: x > 0.0, lambda x: x > 0),
        (lambda p, x: wb.broadcast_to(p["c"], (wb.batch, 2)), lambda x: np.ones((len(x), 2))),
    ],
    ids=["itself", "view", "flip", "view of a result", "sum", "integers", "truths", "parameters"],
)
def test_whatever_has_a_row_for_each_row_is_predicted(forward, expected):
    params = {"c": np.ones(2, np.float32)}
    x = np.linspace(-1, 1, 35, dtype=np.float32).reshape(7, 5)
    result = wb.predict(params, x, 3, forward)
    np.testing.assert_allclose(result, expected(x), rtol=1e-6, atol=1e-6)
    assert result.shape == expected(x).shape


def test_what_has_no_row_for_each_row_is_refused(run):
    with refused(wb.TracingError, "row for each"):
        wb.predict(run, DATA.x, 4, lambda p, x: x.sum())
    with refused(wb.TracingError, "row for each"):
        wb.predict(run, DATA.x, 4, lambda p, x: x.T)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_of_no_rows_is_refused(run, batch_size):
    with refused(wb.ConfigurationError, str(batch_size)):
        wb.predict(run, DATA.x, batch_size, logits)
    with refused(wb.ConfigurationError, str(batch_size)):
        wb.evaluate(run, DATA, measure, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [1, 3, 4, 10, 99, None])
def test_an_evaluation_weighs_each_batch_by_its_rows(run, batch_size):
    found = wb.evaluate(run, DATA, measure, batch_size=batch_size)
    z = by_hand(run, DATA.x).astype(np.float64)
    rowwise = np.log(np.exp(z).sum(1)) - z[np.arange(10), DATA.y]
    assert list(found) == ["loss", "accuracy"]
    assert found["loss"] == pytest.approx(rowwise.mean(), rel=1e-5)
    assert found["accuracy"] == pytest.approx((z.argmax(1) == DATA.y).mean(), rel=1e-6)


def test_evaluating_no_rows_gives_nothing(run):
    assert wb.evaluate(run, wb.data.empty(), measure) == {}


def test_two_metrics_may_be_one_tensor_and_one_may_be_a_parameter(run):
    def twice(p, x, y):
        mean = x.mean()
        return {"a": mean, "b": mean, "bias": p[1]["b"].sum()}

    found = wb.evaluate(run, DATA, twice, batch_size=4)
    assert found["a"] == found["b"] == pytest.approx(DATA.x.mean(), rel=1e-5)
    assert found["bias"] == pytest.approx(run.params[1]["b"].sum(), rel=1e-6)


def test_a_metric_that_is_a_leaf_is_read_and_not_written_over():
    params = {"scale": np.float32(2.5)}
    config = wb.Config(1, 2, 0.1, 1, verbose=False)
    run = wb.Run(params, wb.sgd(params), config)
    assert wb.evaluate(run, DATA, lambda p, x, y: {"scale": p["scale"]}) == {"scale": 2.5}
    wb.fit(run, [], DATA, None, lambda p, o, x, y, lr: wb.StepResult(p["scale"], p, o))
    assert run.history.column("train_loss").tolist() == [2.5]
    assert run.params["scale"] == 2.5


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (lambda p, x, y: x.mean(), "`Tensor`"),
        (lambda p, x, y: {}, "named means"),
        (lambda p, x, y: {"rows": x.sum(1)}, "the metric `rows`"),
        (lambda p, x, y: {"hits": wb.argmax(x.sum(0))}, "the metric `hits`"),
        (lambda p, x, y: {"one": 1.0}, "the metric `one`"),
        (lambda p, x, y: None, "NoneType"),
    ],
)
def test_an_evaluation_that_gives_no_named_means_is_refused(run, result, named):
    with refused(wb.TracingError, named):
        wb.evaluate(run, DATA, result)


def test_evaluating_and_predicting_leave_the_run_as_it_was():
    run, other = new_run(2), new_run(2)
    for made in (run, other):
        wb.fit(made, [], rows(30), None, step)
        made.config = wb.Config(4, 8, 0.01, 7, verbose=False)
    state, status = repr(run.state), run.status
    wb.evaluate(run, DATA, measure)
    wb.predict(run, DATA.x, 3, logits)
    assert (repr(run.state), run.status) == (state, status)
    for made in (run, other):
        wb.fit(made, [], rows(30), None, step)
    assert same_bits(run, other)


def test_an_evaluation_is_compiled_once_for_one_data_set(run):
    wb.evaluate(run, DATA, measure)
    known = len(run.edits.programs.evaluations)
    wb.evaluate(run, DATA, measure)
    assert len(run.edits.programs.evaluations) == known


def test_only_so_many_evaluations_are_kept(run):
    for _ in range(12):
        wb.evaluate(run, DATA, lambda p, x, y: {"loss": measure(p, x, y)["loss"]})
    assert len(run.edits.programs.evaluations) <= 8


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, list])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_floating_type_are_taken_as_fit_takes_them(kind, dtype):
    params = {"w": np.ones((4, 1), dtype)}
    x = np.linspace(0.0, 1.0, 12).reshape(3, 4).astype(np.float16)
    given = x.tolist() if kind is list else x.astype(kind)
    result = wb.predict(params, given, 8, lambda p, x: x @ p["w"])
    assert result.dtype == dtype
    assert np.allclose(result, x.astype(dtype).sum(1, keepdims=True), atol=1e-6)

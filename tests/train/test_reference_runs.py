"""The reference's two runs with the callbacks that are built in, digit by digit.

The classifier has a cosine schedule with warm-up, early stopping, a checkpoint each 10 epochs, the
best file, a log and progress; the linear toy is trained, left and resumed.  Row orders and initial
values are the stored ones: the reference's random stream is its own.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused

ORACLES = Path(__file__).resolve().parents[1] / "oracles"
CLASSIFIER = json.loads((ORACLES / "classifier.json").read_text(encoding="utf-8"))
TOY = json.loads((ORACLES / "linear_toy.json").read_text(encoding="utf-8"))
EXACT = 1e-10  # float64; the reference added in another order
SEED = 20260807

EPOCH_6 = {"lr": 0.0099702603, "train_loss": 0.0760604122, "val_loss": 0.15424896766187593}
MEMORY_AT_10 = {
    "EarlyStopping(accuracy)": [4, 69 / 72, 6, True],
    "Checkpointing(accuracy)": [4, 69 / 72, 6, True],
}


# -- the classifier


def logits(params, x):
    hidden = wb.relu(x @ params["w1"].T + params["b1"])
    return hidden @ params["w2"].T + params["b2"]


def classify(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.cross_entropy(logits(p, x), y))


def measure(params, x, y):
    out = logits(params, x)
    return {"loss": wb.cross_entropy(out, y), "accuracy": wb.accuracy(out, y)}


def blobs():
    raw = np.array(CLASSIFIER["raw_x"])
    data = wb.data.Dataset(wb.data.standardize(raw), CLASSIFIER["labels"], dtype=np.float64)
    order, cut = CLASSIFIER["split_order"], CLASSIFIER["split_cut"]
    return data.take(order[:cut]), data.take(order[cut:])


def callbacks(path):
    """The five, in an order of their own: the loop sorts them."""
    return [
        wb.Progress(24, 0),
        wb.MetricLog(),
        wb.Checkpointing(path, every=10, monitor="accuracy", higher_is_better=True),
        wb.EarlyStopping("accuracy", 8, higher_is_better=True, min_delta=0.001),
        wb.EpochSchedule(wb.CosineRate(0.0, 60, least=0.0002, warmup=3)),
    ]


def new_classifier():
    params = {name: np.array(value) for name, value in CLASSIFIER["init"].items()}
    return wb.Run(params, wb.adam(params), wb.Config(60, 16, 0.01, SEED))


def fit(run, chosen):
    train, val = blobs()
    orders = CLASSIFIER["epoch_orders"]
    wb.fit(run, chosen, train, val, classify, measure, row_order=orders.__getitem__)
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "blobs.ckpt"
    return fit(new_classifier(), callbacks(path)), path


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("column", ["train_loss", "lr", "val_loss", "val_accuracy"])
def test_every_column_of_the_log_is_met_to_full_precision(trained, column):
    close(trained[0].history.column(column), [row[column] for row in CLASSIFIER["log"]])


@pytest.mark.parametrize("name", ["w1", "b1", "w2", "b2"])
def test_every_parameter_ends_where_the_reference_ends(trained, name):
    close(trained[0].params[name], CLASSIFIER["final_params"][name])


def test_it_stops_after_15_of_60_epochs_at_the_ninth_bad_evaluation(trained):
    run, _ = trained
    assert (run.state.epoch, run.state.global_step, run.status) == (15, 270, "stopped")
    assert run.state.stop_reason == (
        "accuracy has not improved for 9 evaluations (patience 8); best was 0.9583 at epoch 6"
    )


def test_the_best_file_is_that_of_epoch_6(trained):
    run, path = trained
    best = path.with_name("blobs.best.ckpt")
    assert run.state.best_path == str(best)
    document = wb.inspect(best).document
    assert (document["state"]["epoch"], document["state"]["global_step"]) == (6, 108)
    assert document["best"]["value"] == pytest.approx(0.958333, abs=5e-7)
    for name, value in EPOCH_6.items():
        assert document["state"][name] == pytest.approx(value, abs=6e-11)
    other = new_classifier()
    wb.restore(other, best, callbacks=None)
    assert int(other.opt.t) == 108


def test_the_periodic_file_is_that_of_epoch_10_with_what_callbacks_remember(trained):
    _, path = trained
    document = wb.inspect(path).document
    expected = CLASSIFIER["at_epoch_10"]
    assert document["state"]["epoch"] == 10
    for name in ("lr", "train_loss", "val_loss"):
        assert document["state"][name] == pytest.approx(expected[name], abs=EXACT)
    other = new_classifier()
    again = callbacks(path)
    wb.restore(other, path, callbacks=again)
    assert int(other.opt.t) == expected["opt_t"] == 180
    packed = {
        each.name: [each.pack()[name] for name in ("wait", "best", "epoch", "seen")]
        for each in again
        if each.name in MEMORY_AT_10
    }
    assert packed == MEMORY_AT_10


def test_going_on_from_epoch_10_ends_with_the_same_bits(trained):
    run, path = trained
    other, again = new_classifier(), callbacks(path.with_name("resumed"))
    wb.restore(other, path, callbacks=again)
    fit(other, again)
    assert other.state.stop_reason == run.state.stop_reason
    for name, value in run.params.items():
        assert other.params[name].tobytes() == value.tobytes()


def test_69_of_72_rows_that_were_held_out_are_right(trained):
    run, _ = trained
    val = blobs()[1]
    said = wb.predict(run, val.x, 64, logits).argmax(1)
    assert (int((said == val.y).sum()), val.n) == (69, 72)


def test_what_is_printed_reads_as_the_log_of_the_reference(trained):
    lines = [report.text for report in trained[0].reports if not report.in_place]
    assert lines[:3] == [
        "epoch  1/60  loss 1.0444  lr 0.002500  val_loss 0.9346  val_accuracy 0.5972",
        "epoch  2/60  loss 0.6686  lr 0.005000  val_loss 0.5529  val_accuracy 0.8611",
        "epoch  3/60  loss 0.3440  lr 0.007500  val_loss 0.3083  val_accuracy 0.9306",
    ]
    assert lines[14:] == [
        "epoch 15/60  loss 0.0208  lr 0.009127  val_loss 0.1256  val_accuracy 0.9583",
        f"stopped: {trained[0].state.stop_reason}",
    ]


# -- the linear toy

ROWS = wb.data.Dataset(TOY["x"], TOY["y"], dtype=np.float64)


def squared_error(params, x, y):
    return wb.mse(x @ params["w"] + params["b"], y)


def step(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, squared_error)


def error(params, x, y):
    return {"loss": squared_error(params, x, y)}


def new_toy(epochs, *, seed=3, optimizer=wb.adam):
    params = {"w": np.zeros(2), "b": np.zeros(())}
    return wb.Run(params, optimizer(params), wb.Config(epochs, 4, 0.05, seed, verbose=False))


def toy(epochs, *chosen, seed=3, val=None, order=None):
    run = new_toy(epochs, seed=seed)
    wb.fit(run, chosen, ROWS, val, step, error, row_order=order)
    return run


def words(run):
    arrays = [*run.params.values(), *run.opt.m.values(), *run.opt.v.values(), run.opt.t]
    return [np.asarray(each).tobytes() for each in arrays], run.state.global_step


def test_six_epochs_of_one_seed_are_identical_and_another_seed_differs():
    first, again, other = toy(6), toy(6), toy(6, seed=4)
    assert words(first) == words(again)
    assert first.state.train_loss == again.state.train_loss
    assert words(first) != words(other)
    assert first.state.train_loss != other.state.train_loss


@pytest.mark.parametrize(("epochs", "seed"), [(20, 3), (12, 5)])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, epochs, seed):
    whole, first = toy(epochs, seed=seed), toy(epochs // 2, seed=seed)
    path = wb.save_checkpoint(first, tmp_path / "half")
    resumed = new_toy(epochs, seed=seed)
    wb.restore(resumed, path)
    assert resumed.state.epoch == epochs // 2
    wb.fit(resumed, [], ROWS, None, step)
    assert words(resumed) == words(whole)


def test_sixty_epochs_reach_a_lower_loss_than_one_in_three_batches_each():
    long, short = toy(60), toy(1)
    assert long.state.train_loss < short.state.train_loss
    assert (short.state.batches, short.state.global_step, long.state.global_step) == (3, 3, 180)


def test_eight_epochs_are_the_same_with_a_validation_set_and_without():
    alone, watched = toy(8), toy(8, val=ROWS)
    assert words(alone) == words(watched)
    assert "loss" in watched.state.val
    assert "loss" not in alone.state.val


def test_ten_rows_are_predicted_alike_a_hundred_and_three_at_a_time():
    def forward(params, x):
        return x @ params["w"] + params["b"]

    run = toy(6)
    whole, parts = (wb.predict(run, ROWS.x, size, forward) for size in (100, 3))
    assert whole.shape == (10,)
    assert whole.tobytes() == parts.tobytes()


EPOCHS = {
    1: (9.712926478846024, [0.12265981940855479, -0.01660103209101701], 0.1232809855186254),
    10: (4.643614813325035, None, None),
    20: (1.8849659660300007, [1.2045818037986804, -1.3788810547826138], 0.5082508528657228),
}


@pytest.mark.parametrize("epochs", EPOCHS)
def test_the_toy_is_where_the_reference_is(epochs):
    loss, w, b = EPOCHS[epochs]
    run = toy(epochs, order=TOY["epoch_orders"].__getitem__)
    close(run.state.train_loss, loss)
    if w is not None:
        close(run.params["w"], w)
        close(run.params["b"], b)
    assert (int(run.opt.t), run.state.global_step) == (3 * epochs, 3 * epochs)


@pytest.mark.parametrize(
    ("optimizer", "loss"), [(wb.sgd, 6.00292558912323), (wb.momentum, 0.5311560438934972)]
)
def test_five_epochs_of_plain_descent_and_of_momentum_end_at_their_loss(optimizer, loss):
    run = new_toy(5, optimizer=optimizer)
    run.lr = 0.01
    wb.fit(run, [], ROWS, None, step, row_order=TOY["epoch_orders"].__getitem__)
    close(run.state.train_loss, loss)


def test_an_empty_training_set_is_refused():
    run = new_toy(5)
    with refused(wb.DataError, "the training set is empty"):
        wb.fit(run, [], wb.data.empty(), None, step)
    assert (run.state.epoch, run.status) == (0, "ready")

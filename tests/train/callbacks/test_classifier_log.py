"""The callbacks of the three-class classifier, over the metrics that its training gave."""

from fractions import Fraction

import pytest

from tests.train.callbacks.paper import Clock, Paper
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.progress import Progress
from workbench.train.callbacks.rate import CosineRate
from workbench.train.callbacks.schedule import EpochSchedule
from workbench.train.config import Config
from workbench.train.packed_callbacks import pack_callbacks

# Training loss, validation loss, hits among 72 rows.
LOG = (
    (1.0443699495, 0.9345749078, 43),
    (0.6686445592, 0.5529439577, 62),
    (0.3440386605, 0.3082528744, 67),
    (0.1703536279, 0.2009604386, 67),
    (0.1036865357, 0.1700231735, 67),
    (0.0760604122, 0.1542489677, 69),
    (0.0574493585, 0.1343409822, 69),
    (0.0488776347, 0.1247223837, 69),
    (0.0428068049, 0.1265213855, 69),
    (0.0356361062, 0.1215980665, 69),
    (0.0325008682, 0.1127363366, 69),
    (0.0284339533, 0.1204644855, 69),
    (0.0259836065, 0.1240549709, 69),
    (0.0224355884, 0.1223527677, 69),
    (0.0208283108, 0.1256317863, 69),
)
RATES = (
    *(0.0025, 0.005, 0.0075, 0.01, 0.0099925594, 0.0099702603, 0.0099331704, 0.0098814023),
    *(0.0098151132, 0.0097345045, 0.0096398209, 0.0095313501, 0.0094094214, 0.0092744051),
    0.0091267113,
)
TENTH = {"wait": 4, "best": 69 / 72, "epoch": 6, "seen": True}


@pytest.fixture(scope="module")
def replay():
    """The run, and what its callbacks remembered after each epoch."""
    clock = Clock()
    callbacks = [
        EpochSchedule(CosineRate(0.01, 60, least=0.0002, warmup=3)),
        EarlyStopping("accuracy", 8, higher_is_better=True, min_delta=0.001),
        MetricLog(),
        Progress(24, 0, clock=clock),
    ]
    paper = Paper(callbacks, Config(60, 16, 0.01, 20260807), batches=18, rows=288).begin()
    packed = []
    for loss, val_loss, hits in LOG:
        assert not paper.state.stop
        clock.move(1)
        paper.epoch(loss, val={"loss": val_loss, "accuracy": float(Fraction(hits, 72))})
        packed.append([entry["state"] for entry in pack_callbacks(callbacks)[0]])
    return paper.end("stopped"), packed


def test_it_stops_after_epoch_15_with_both_numbers(replay):
    paper, _ = replay
    assert (paper.state.epoch, paper.state.stop) == (15, True)
    assert paper.texts[-1] == (
        "stopped: accuracy has not improved for 9 evaluations (patience 8); "
        "best was 0.9583 at epoch 6"
    )


def test_its_rates_are_those_of_the_table(replay):
    assert replay[0].rates == pytest.approx(RATES, abs=6e-11)


def test_its_callbacks_remember_the_sixth_epoch_at_the_tenth(replay):
    (memory,) = replay[1][9]
    assert {name: memory[name] for name in TENTH} == TENTH


def test_the_log_comes_before_the_bar(replay):
    paper, _ = replay
    assert paper.texts[:4] == [
        "epoch  1/60  loss 1.0444  lr 0.002500  val_loss 0.9346  val_accuracy 0.5972",
        "epoch  1/60  [........................]  loss 1.0444  at most 59 s left",
        "epoch  2/60  loss 0.6686  lr 0.005000  val_loss 0.5529  val_accuracy 0.8611",
        "epoch  2/60  [........................]  loss 0.6686  58 s left",
    ]
    assert paper.texts[28].startswith(
        "epoch 15/60  loss 0.0208  lr 0.009127  val_loss 0.1256  val_accuracy 0.9583"
    )

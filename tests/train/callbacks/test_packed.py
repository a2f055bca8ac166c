import pytest

from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.packed import Kind, Packable, Packed
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.progress import Progress
from workbench.train.callbacks.rate import ConstantRate
from workbench.train.callbacks.schedule import EpochSchedule, StepSchedule
from workbench.train.packed_callbacks import pack_callbacks, unpack_callbacks

FORGETFUL = [
    (EpochSchedule(ConstantRate(0.1)), 1),
    (StepSchedule(ConstantRate(0.1)), 1),
    (MetricLog(), 4),
    (Progress(), 5),
]


def stopper(monitor="loss"):
    return EarlyStopping(monitor, higher_is_better=False)


@pytest.mark.parametrize(("callback", "kind"), FORGETFUL)
def test_a_callback_that_remembers_nothing_packs_into_its_kind_and_zeros(callback, kind):
    assert isinstance(callback, Packable)
    assert callback.pack() == (kind, 0, 0, 0, 0)
    callback.unpack(callback.pack())
    assert callback.pack() == (kind, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (stopper, Kind.EARLY_STOP),
        (lambda: PlateauSchedule("loss", higher_is_better=False), Kind.SCHEDULE),
    ],
)
def test_what_was_best_and_how_long_ago_survives(make, kind):
    packed = Packed(kind, 2.0, 0.375, 4.0, 1.0)
    callback = make()
    callback.unpack(packed)
    best = callback.best
    assert (best.wait, best.value, best.epoch, best.seen) == (2, 0.375, 4, True)
    assert callback.pack() == packed


def test_a_resume_takes_the_callbacks_in_any_order():
    first = [stopper(), stopper("accuracy"), MetricLog(), Progress()]
    first[0].unpack(Packed(Kind.EARLY_STOP, 2.0, 0.375, 4.0, 1.0))
    first[1].unpack(Packed(Kind.EARLY_STOP, 1.0, 0.5, 3.0, 1.0))
    second = [Progress(), stopper("accuracy"), MetricLog(), stopper()]
    unpack_callbacks(second, pack_callbacks(first))
    assert (second[3].pack(), second[1].pack()) == (first[0].pack(), first[1].pack())

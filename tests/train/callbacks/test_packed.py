import itertools

import pytest

from tests.refusal import refused
from workbench.errors import DataError
from workbench.train.callback import Callback
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.metric_log import MetricLog
from workbench.train.callbacks.packed import Kind, Packed, pack, unpack
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.callbacks.progress import Progress
from workbench.train.callbacks.rate import ConstantRate
from workbench.train.callbacks.schedule import EpochSchedule


class Own(Callback):
    """A person's callback, which knows nothing of checkpoints."""

    band = 35

    def on_run_end(self, event): ...


def stopper(packed=None):
    made = EarlyStopping("loss", higher_is_better=False)
    if packed is not None:
        made.unpack(packed)
    return made


MEMORY = Packed(Kind.EARLY_STOP, 2.0, 0.375, 4.0, 1.0)


def usual():
    return [Progress(), MetricLog(), EpochSchedule(ConstantRate(0.1)), Own(), stopper(MEMORY)]


def test_each_callback_packs_into_five_numbers_by_ascending_band():
    assert pack(usual()) == [
        *(1, 0, 0, 0, 0),
        *(2, 2, 0.375, 4, 1),
        *(0, 0, 0, 0, 0),
        *(4, 0, 0, 0, 0),
        *(5, 0, 0, 0, 0),
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::7])
def test_a_resume_takes_the_callers_list_in_any_order_of_bands(order):
    packed = pack(usual())
    fresh = [Progress(), MetricLog(), EpochSchedule(ConstantRate(0.1)), Own(), stopper()]
    unpack([fresh[place] for place in order], packed)
    assert fresh[4].best.pack(Kind.EARLY_STOP) == MEMORY


def test_a_plateau_keeps_its_patience_as_a_schedule():
    plateau = PlateauSchedule("loss", higher_is_better=False)
    plateau.unpack(Packed(Kind.SCHEDULE, 3.0, 0.5, 2.0, 1.0))
    other = PlateauSchedule("loss", higher_is_better=False)
    unpack([other], pack([plateau]))
    assert (other.best.wait, other.best.value, other.best.epoch) == (3, 0.5, 2)


def test_another_number_of_callbacks_is_refused_naming_both():
    with refused(DataError, "the state of 3 callbacks", "this run has 0"):
        unpack([], pack([MetricLog(), Progress(), stopper()]))


def test_callbacks_of_other_kinds_are_refused_naming_both_and_nothing_is_changed():
    untouched = stopper()
    packed = [*MEMORY, *Packed(Kind.PROGRESS)]
    with refused(DataError, "callback 1", "kind 5 (progress)", "kind 4 (log)", "`MetricLog`"):
        unpack([untouched, MetricLog()], packed)
    assert not untouched.best.seen


def test_a_kind_of_a_later_version_is_refused():
    with refused(DataError, "unknown kind 9"):
        unpack([MetricLog()], [9, 0, 0, 0, 0])

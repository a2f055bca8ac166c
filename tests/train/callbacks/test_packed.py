import numpy as np
import pytest

import workbench as wb
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.callbacks.plateau import PlateauSchedule
from workbench.train.packed_callbacks import pack_callbacks, unpack_callbacks

SEEN = {"wait": 2, "best": 0.375, "epoch": 4, "seen": True}
FORGETFUL = [
    wb.EpochSchedule(wb.ConstantRate(0.1)),
    wb.StepSchedule(wb.ConstantRate(0.1)),
    wb.MetricLog(),
    wb.Progress(),
]


def stopper(monitor="loss"):
    return EarlyStopping(monitor, higher_is_better=False)


@pytest.mark.parametrize("callback", FORGETFUL, ids=lambda each: type(each).__name__)
def test_what_follows_from_the_position_alone_is_no_memory(callback):
    assert pack_callbacks([callback]) == ([], {})


@pytest.mark.parametrize("make", [stopper, lambda: PlateauSchedule("loss", higher_is_better=False)])
def test_what_was_best_and_how_long_ago_survives(make):
    callback = make()
    packed = dict(callback.pack()) | SEEN
    callback.unpack(packed)
    best = callback.best
    assert (best.wait, best.value, best.epoch, best.seen) == (2, 0.375, 4, True)
    assert callback.pack() == packed


def test_a_resume_takes_the_callbacks_in_any_order():
    first = [stopper(), stopper("accuracy"), wb.MetricLog(), wb.Progress()]
    first[0].best.unpack(SEEN)
    first[1].best.unpack(SEEN | {"wait": 1, "best": 0.5})
    second = [wb.Progress(), stopper("accuracy"), wb.MetricLog(), stopper()]
    unpack_callbacks(second, *pack_callbacks(first))
    assert (second[3].pack(), second[1].pack()) == (first[0].pack(), first[1].pack())


def test_arrays_come_back_wherever_they_were():
    class Holding:
        def __init__(self, memory):
            self.memory = memory

        def pack(self):
            return self.memory

        def unpack(self, packed):
            self.memory = packed

    memory = {"a": np.arange(3), "deep": [{"b": np.zeros((0, 2))}, 1.5, [np.float32(0.1)]]}
    first, second = Holding(memory), Holding({})
    entries, arrays = pack_callbacks([first])
    assert sorted(arrays) == ["memory.0.0", "memory.0.1", "memory.0.2"]
    memory["a"][0] = 7
    unpack_callbacks([second], entries, arrays)
    back = second.memory
    assert back["a"].tolist() == [0, 1, 2]
    assert back["deep"][0]["b"].shape == (0, 2)
    assert back["deep"][1:] == [1.5, [np.float32(0.1)]]

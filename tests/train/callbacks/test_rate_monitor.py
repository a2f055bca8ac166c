from typing import Any

import numpy as np

from tests.refusal import refused
from tests.train.callbacks.paper import Paper
from workbench.errors import ConfigurationError
from workbench.train.callback import hooks_of
from workbench.train.callbacks.rate import StepRate
from workbench.train.callbacks.rate_monitor import RateMonitor
from workbench.train.callbacks.schedule import EpochSchedule
from workbench.train.events import Hook


def test_the_rate_of_each_epoch_is_recorded_after_the_schedule_wrote_it():
    monitor = RateMonitor()
    Paper([monitor, EpochSchedule(StepRate(0.4, 0.5, every=1))]).begin().epoch().epoch().epoch()
    np.testing.assert_array_equal(monitor.steps, [0, 3, 6])
    np.testing.assert_array_equal(monitor.rates, [0.4, 0.2, 0.1])


def test_the_rate_of_each_step_is_recorded_if_it_was_asked_for():
    monitor = RateMonitor("step")
    Paper([monitor], batches=2).begin().epoch().epoch()
    np.testing.assert_array_equal(monitor.steps, [0, 1, 2, 3])
    assert hooks_of(monitor) == (Hook.BATCH_BEGIN,)


def test_the_record_is_a_table():
    monitor = RateMonitor()
    Paper([monitor]).begin().epoch()
    frame = monitor.frame()
    assert list(frame.columns) == ["step", "lr"]
    assert frame.to_dict("records") == [{"step": 0, "lr": 0.1}]


def test_another_portion_is_refused():
    portion: Any = "batch"
    with refused(ConfigurationError, "per is 'batch'"):
        RateMonitor(portion)

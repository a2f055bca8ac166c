import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from workbench.errors import ConfigurationError
from workbench.train.config import Config


def test_the_four_values_without_defaults_are_given_by_position():
    config = Config(60, 16, 0.01, 20260807)
    assert (config.epochs, config.batch_size, config.lr, config.seed) == (60, 16, 0.01, 20260807)


def test_a_run_shuffles_evaluates_each_epoch_reports_and_keeps_the_short_batch_by_default():
    config = Config(1, 1, 0.1, 0)
    assert (config.shuffle, config.eval_every, config.verbose, config.drop_last) == (
        True,
        1,
        True,
        False,
    )


def test_more_epochs_are_asked_for_with_a_changed_copy():
    config = Config(10, 4, 0.05, 3)
    assert dataclasses.replace(config, epochs=20) == Config(20, 4, 0.05, 3)


def test_numpy_numbers_become_python_numbers():
    numbers: list[Any] = [np.int64(2), np.uint8(4), np.float32(0.5), np.uint64(2**64 - 1)]
    config = Config(*numbers)
    assert [
        type(value) for value in (config.epochs, config.batch_size, config.lr, config.seed)
    ] == [
        int,
        int,
        float,
        int,
    ]
    assert config.seed == 2**64 - 1


@pytest.mark.parametrize("change", [{"epochs": 0}, {"lr": 0.0}, {"lr": 1}, {"eval_every": 0}])
def test_the_ends_of_the_ranges_are_accepted(change):
    config = dataclasses.replace(Config(1, 1, 0.1, -(2**63)), **change)
    (name, value), *_ = change.items()
    assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1, got 0"),
        ({"batch_size": -4}, "`batch_size` must be an integer of at least 1, got -4"),
        ({"epochs": -1}, "`epochs` must be an integer of at least 0, got -1"),
        ({"eval_every": -1}, "`eval_every` must be an integer of at least 0, got -1"),
        ({"accum_steps": 0}, "`accum_steps` must be an integer of at least 1, got 0"),
        ({"eval_every_steps": -1}, "`eval_every_steps` must be an integer of at least 0, got -1"),
        ({"steps_per_epoch": 2.5}, "`steps_per_epoch` must be an integer of at least 0, got 2.5"),
        (
            {"validation_split": 1.0},
            "`validation_split` must be a number from 0 to below 1, got 1.0",
        ),
        ({"epochs": 2.5}, "`epochs` must be an integer of at least 0, got 2.5"),
        ({"epochs": None}, "`epochs` must be an integer of at least 0, got None"),
        ({"batch_size": True}, "`batch_size` must be an integer of at least 1, got True"),
        ({"lr": math.nan}, "`lr` must be a finite number of at least 0, got nan"),
        ({"lr": math.inf}, "`lr` must be a finite number of at least 0, got inf"),
        ({"lr": -0.1}, "`lr` must be a finite number of at least 0, got -0.1"),
        ({"lr": "fast"}, "`lr` must be a finite number of at least 0, got 'fast'"),
        ({"lr": None}, "`lr` must be a finite number of at least 0, got None"),
        ({"seed": 2**64}, "`seed` must be an integer of 64 bits, got 18446744073709551616"),
        ({"seed": -(2**63) - 1}, "`seed` must be an integer of 64 bits, got -9223372036854775809"),
        ({"seed": 1.0}, "`seed` must be an integer of 64 bits, got 1.0"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_value_and_a_remedy(change, text):
    with pytest.raises(ConfigurationError) as caught:
        Config(**({"epochs": 1, "batch_size": 1, "lr": 0.1, "seed": 0} | change))
    assert str(caught.value).startswith(text)
    assert caught.value.remedy

"""Made-up blobs: deterministic, balanced, around their centres."""

import numpy as np
import pytest

from workbench.data import blobs
from workbench.errors import ConfigurationError


def test_blobs_have_the_promised_shapes_and_types():
    data = blobs(10, 3, features=2)
    assert (data.x.shape, data.y.tolist()) == ((10, 2), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.int32)
    assert len(data.names) == 3


def test_one_seed_gives_one_set_of_blobs():
    assert (blobs(seed=7).x == blobs(seed=7).x).all()
    assert (blobs(seed=7).x != blobs(seed=8).x).any()


def test_more_rows_begin_with_the_same_rows():
    assert (blobs(500, seed=7).x[:100] == blobs(100, seed=7).x).all()


def test_points_scatter_around_the_centre_of_their_class_by_the_spread():
    near, wide = blobs(6000, spread=0.0, seed=3), blobs(6000, spread=2.0, seed=3)
    noise = wide.x - near.x
    assert np.unique(near.x, axis=0).shape[0] == 3
    # Standard errors are 2 / sqrt(24000) = 0.013 and 0.009: five of them.
    assert abs(float(noise.mean())) < 0.065
    assert abs(float(noise.std()) - 2.0) < 0.046


def test_no_rows_are_allowed():
    assert blobs(0).x.shape == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"n": -1}, "`n` must be an integer of at least 0, got -1"),
        ({"classes": 0}, "`classes` must be an integer of at least 1, got 0"),
        ({"features": 0}, "`features` must be an integer of at least 1, got 0"),
        ({"spread": -0.1}, "`spread` must be a finite number of at least 0, got -0.1"),
        ({"spread": float("nan")}, "`spread` must be a finite number of at least 0, got nan"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, problem):
    with pytest.raises(ConfigurationError, match=problem):
        blobs(**arguments)

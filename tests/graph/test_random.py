import numpy as np
import pytest
from scipy import stats

from tests.oracle import philox
from tests.oracle.numpy_graph import evaluate
from tests.refusal import refused
from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.leaf import input_
from workbench.graph.random import normal, uniform

# Known answers of the reference implementation (Random123, kat_vectors): counter, key, words.
KNOWN = [
    ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (
        [0xFFFFFFFF] * 4,
        (0xFFFFFFFF, 0xFFFFFFFF),
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
    ),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_the_oracle_gives_the_known_answers_of_philox(counter, key, expected):
    assert [
        int(word) for word in philox.philox([np.array(c, np.uint64) for c in counter], key)
    ] == expected


@pytest.mark.parametrize("draw", [uniform, normal])
def test_a_draw_has_the_shape_and_type_asked_for(draw):
    x = draw((batch, 3), seed=1, dtype="float64")
    assert (x.op, x.shape, x.dtype) == (draw.__name__, (batch, 3), DType.F64)
    assert draw(4, seed=1).dtype is DType.F32


def test_seed_counter_and_shape_make_a_draw():
    assert uniform((3,), seed=1) is uniform((3,), seed=1)
    assert uniform((3,), seed=1) is not uniform((3,), seed=2)
    assert uniform((3,), seed=1) is not uniform((3,), seed=1, counter=1)


def test_more_rows_begin_with_the_same_numbers():
    x = uniform((batch, 3), seed=7)
    short, long = (evaluate([x], {}, rows=n)[0] for n in (2, 5))
    np.testing.assert_array_equal(short, long[:2])


def test_a_seed_is_64_bits_whatever_its_sign():
    high = (1 << 64) - 3
    assert uniform((2,), seed=high) is uniform((2,), seed=-3)
    with refused(DTypeError, "uniform: the seed", str(1 << 64)):
        uniform((2,), seed=1 << 64)


def test_a_counter_can_be_fed():
    step = input_("step", (), "int32")
    x = normal((3,), seed=5, counter=step)
    assert x.operands[1].dtype is DType.I64
    fed, fixed = (
        evaluate([t], {step: np.array(9)})[0] for t in (x, normal((3,), seed=5, counter=9))
    )
    np.testing.assert_array_equal(fed, fixed)


@pytest.mark.parametrize("wrong", [0.5, np.ones(2, np.int64), input_("s", (), "float32")])
def test_a_seed_is_one_whole_number(wrong):
    with refused(DTypeError, "normal: the seed is", "not one whole number"):
        normal((2,), seed=wrong)


def test_numbers_are_floats_and_the_batch_comes_first():
    with refused(DTypeError, "uniform: int32"):
        uniform((2,), seed=1, dtype="int32")
    with refused(ShapeError, "normal:", "(3, batch)"):
        normal((3, batch), seed=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_numbers_are_distributed_as_said(dtype: str):
    u, z = evaluate([uniform(4000, seed=3, dtype=dtype), normal(4000, seed=3, dtype=dtype)], {})
    assert u.min() >= 0.0
    assert u.max() < 1.0
    # The seed is fixed, so these are facts about 4,000 numbers and never flaky.
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert stats.kstest(z, "norm").pvalue > 0.01

"""Greatest and least elements and their positions are numpy's, with ties, signs of zero and NaN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.strategies import shapes

CONTEXTS = {"cpu": wb.Context.cpu, "interpreter": wb.Context.interpreter}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
@settings(max_examples=12)
@given(shape=shapes(least_rank=1), seed=st.integers(0, 999), data=st.data())
def test_extremes_and_their_positions_are_numpys_with_nan(context, dtype, shape, seed, data):
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    whole = dtype.startswith("int")
    values = np.random.default_rng(seed).choice(NUMBERS[:5] if whole else NUMBERS, shape)
    x = wb.parameter(values.astype("int64" if whole else "float64"), "x").astype(dtype)
    outputs = [wb.max(x, axis), wb.min(x, axis), wb.argmax(x, axis)]
    compared = "int64" if whole else "float64"
    context = CONTEXTS[context]()
    context, routine = context.compile(
        [outputs[0].astype(compared), outputs[1].astype(compared), outputs[2]]
    )
    context = context.run(routine)
    greatest, least, place = (context.get_values(node) for node in routine.outputs)
    np.testing.assert_array_equal(greatest, values.max(axis))
    np.testing.assert_array_equal(least, values.min(axis))
    np.testing.assert_array_equal(place, values.argmax(axis))
    assert place.dtype == np.int64

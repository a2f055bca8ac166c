"""What large numbers have in common leaves no trace in differences; small ones keep digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb

CONTEXTS = {"cpu": wb.Context.cpu, "interpreter": wb.Context.interpreter}
OF_DIFFERENCES = {
    "softmax": wb.softmax,
    "log_softmax": wb.log_softmax,
    "cross_entropy": lambda x: wb.cross_entropy_rows(x, wb.constant([0] * x.shape[0])),
    "squared error": lambda x: wb.square(x - wb.mean(x, -1, keepdims=True)),
}

# Functions of numbers below 0 whose plain formulas are 0 where 1 plus a small number is 1, and the
# magnitude up to which they are tried.
SMALL = {
    "sigmoid": (lambda x: np.exp(x) / (1.0 + np.exp(x)), 80.0),
    "softplus": (lambda x: np.log1p(np.exp(x)), 80.0),
    "silu": (lambda x: x * np.exp(x) / (1.0 + np.exp(x)), 80.0),
    "expm1": (np.expm1, 80.0),
    "log1p": (np.log1p, 0.9),
}


def run(context, nodes):
    context, routine = context.compile(nodes)
    context = context.run(routine)
    return [context.get_values(node) for node in routine.outputs]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", OF_DIFFERENCES)
@settings(max_examples=8)
@given(
    rows=st.integers(1, 3),
    columns=st.sampled_from([1, 2, 4]),
    dtype=st.sampled_from(["float32", "float64"]),
    power=st.integers(1, 19),
    seed=st.integers(0, 999),
)
def test_an_offset_changes_neither_values_nor_gradients(
    context, name, rows, columns, dtype, power, seed
):
    # Whole numbers below 2**23 are exact, and so is the mean of 1, 2 or 4 even multiples of them.
    near = np.random.default_rng(seed).integers(-2, 3, (rows, columns)) * 4.0

    def found(offset):
        x = wb.parameter((near + offset).astype(dtype), "x")
        y = OF_DIFFERENCES[name](x)
        slope = wb.backward(wb.square(y).sum(), [x])[x]
        return run(CONTEXTS[context](), [y * 1.0, slope * 1.0])

    for here, there in zip(found(0.0), found(2.0**power * 4.0), strict=True):
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_slope_of_expm1_keeps_its_digits_where_it_is_small(context, dtype):
    values = np.linspace(-80.0, 80.0, 2001, dtype=dtype)
    x = wb.parameter(values, "x")
    slope = wb.backward(wb.expm1(x).sum(), [x])[x]
    (found,) = run(CONTEXTS[context](), [slope * 1.0])
    tolerance = {"float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found, np.exp(values.astype(np.float64)), rtol=tolerance)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", SMALL)
def test_values_near_their_limits_keep_their_digits(context, name):
    exact, lowest = SMALL[name]
    x = -np.geomspace(1e-30, lowest, 999).astype(np.float32)
    (found,) = run(CONTEXTS[context](), [getattr(wb, name)(wb.parameter(x, "x"))])
    np.testing.assert_allclose(found, exact(x.astype(np.float64)), rtol=1e-6)

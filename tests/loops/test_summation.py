"""Long sums keep their digits: the error is within 2 units in the last place times log2(n)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.loops.summation import cut

CONTEXTS = {"cpu": lambda: wb.Context.cpu(2), "interpreter": wb.Context.interpreter}

# Where the n terms lie, and how they are added.
LAYOUTS = {
    "all": (lambda n: (n,), 0, lambda x: x.sum()),
    "along rows": (lambda n: (3, n), 1, lambda x: x.sum(1)),
    "down columns": (lambda n: (n, 3), 0, lambda x: x.sum(0)),
    "in the middle": (lambda n: (2, n, 3), 1, lambda x: x.sum(1)),
    "over two axes": (lambda n: (n, 1, 3), 0, lambda x: (x * 1.0).sum((0, 1))),
    "transposed": (lambda n: (n, 2), 0, lambda x: wb.transpose(x, (1, 0)).sum(1)),
    "of terms": (lambda n: (n,), 0, lambda x: wb.square(wb.sqrt(x)).sum()),
    "of a product": (lambda n: (n, 3), 0, lambda x: wb.einsum("nc,nc->c", x, x * 0.0 + 1.0)),
    "added to": (lambda n: (n, 3), 0, lambda x: wb.broadcast_to(x.sum(0), (2, 3)) * 1.0),
}


def computed(context, output, feeds):
    context, routine = context.compile([output])
    return context.set_values(feeds).run(routine).get_values(routine.outputs[0])


def terms(n, kind, dtype):
    """Return n numbers above 0."""
    if kind == "equal":
        return np.full(n, 0.1, dtype)
    return np.random.default_rng(n).random(n).astype(dtype)


def units_off(found, exact, dtype):
    """Return by how many units in the last place the worst element is off."""
    return float(np.max(np.abs(found.astype(np.longdouble) - exact))) / exact / np.finfo(dtype).eps


def laid(values, shape, axis):
    spread = values.reshape([-1 if position == axis else 1 for position in range(len(shape))])
    return np.ascontiguousarray(np.broadcast_to(spread, shape))


def check(layout, n, kind, dtype, context, *, batched=False):
    shape_of, axis, summed = LAYOUTS[layout]
    values, shape = terms(n, kind, dtype), shape_of(n)
    declared = tuple(wb.batch if batched and i == axis else e for i, e in enumerate(shape))
    x = wb.input("x", declared, dtype)
    found = computed(CONTEXTS[context](), summed(x), {x: laid(values, shape, axis)})
    exact = math.fsum(values.astype(np.float64).tolist())
    # The roots and squares of terms have roundings of their own.
    bound = max(2.0 * math.log2(n), 1.0) + (2.0 if layout == "of terms" else 0.0)
    assert units_off(found, exact, dtype) <= bound


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25)
@given(exponent=st.floats(0.0, 11.0), kind=st.sampled_from(["equal", "drawn"]))
def test_a_sum_of_one_sign_is_off_by_two_units_times_log2_n_at_most(
    context, dtype, layout, exponent, kind
):
    check(layout, max(1, int(2**exponent)), kind, dtype, context)


@pytest.mark.parametrize("n", [33, 513, 100_003, 2**20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sum_over_the_batch_is_as_exact(layout, dtype, n):
    batched = layout != "in the middle" and LAYOUTS[layout][1] == 0
    check(layout, n, "equal", dtype, "cpu", batched=batched)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2**24, 2**28])
@pytest.mark.parametrize("layout", ["all", "of terms", "down columns"])
def test_millions_of_terms_are_as_exact(layout, n):
    if layout == "down columns" and n > 2**24:
        n = 2**26  # 800 MB
    check(layout, n, "equal", "float32", "cpu")


def test_the_mean_of_2_to_the_24_tenths_is_a_tenth():
    x = wb.input("x", (wb.batch,))
    found = computed(wb.Context.cpu(), x.mean(), {x: np.full(2**24, 0.1, np.float32)})
    assert abs(float(found) / 0.1 - 1.0) < 1e-6


def test_the_mean_squared_error_of_many_rows_keeps_its_digits():
    x = wb.input("x", (wb.batch, 64))
    rows = {x: np.full((2**16, 64), 0.1, np.float32)}
    found = float(computed(wb.Context.cpu(), wb.mse(x, x * 0.0), rows))
    assert abs(found / 0.01 - 1.0) < 1e-6


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_sixteen_bits_are_added_up_in_float32(dtype):
    x = wb.input("x", (100_000,), dtype)
    rows = np.full(100_000, 0.25)
    assert float(computed(wb.Context.cpu(), x.mean(), {x: rows})) == 0.25


@pytest.mark.parametrize("values", [[np.inf] * 40, [1.0] * 700 + [np.inf], [np.inf, -np.inf] * 400])
def test_infinities_come_through_as_they_would_in_any_order(values):
    x = wb.input("x", (wb.batch, 2))
    rows = np.array([values, values], np.float32).T
    for context in (wb.Context.cpu(), wb.Context.interpreter()):
        for axis in (0, None):
            with np.errstate(invalid="ignore"):
                expected = rows.sum(axis)
            np.testing.assert_array_equal(computed(context, x.sum(axis), {x: rows}), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_sum_has_the_same_bits_on_any_number_of_threads(layout):
    shape_of, axis, summed = LAYOUTS[layout]
    x = wb.input("x", shape_of(30_011))
    rows = laid(terms(30_011, "drawn", np.float32), shape_of(30_011), axis)
    found = [computed(wb.Context.cpu(n), summed(x), {x: rows}).tobytes() for n in (1, 2, 3)]
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("extents", "block", "expected"),
    [
        ((512,), 512, None),
        ((513,), 512, (0, 512)),
        ((wb.batch,), 512, (0, 512)),
        ((4, 8), 32, None),
        ((5, 8), 32, (0, 4)),
        ((7, 5, 8), 32, (1, 4)),
        ((3, 100), 32, (1, 32)),
        ((3, wb.batch), 512, (1, 512)),
        ((100, 20), 32, (0, 1)),
        ((wb.batch, 0), 32, (0, 32)),
    ],
)
def test_of_nested_loops_the_innermost_that_fit_are_one_block(extents, block, expected):
    assert cut(extents, block) == expected


def test_a_reduction_that_is_read_twice_is_computed_once():
    # Its cells are inlined into the readers: 16 terms are few.
    x = wb.input("x", (wb.batch, 40))
    total = wb.square(x).sum(0)
    text = wb.explain([wb.exp(total) + wb.square(total) * wb.sin(total)], rows=16)
    assert text.count(" += ") == 1


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [(), (1,), (3,), (65,), (2, 3)])
@settings(max_examples=5)
@given(n=st.integers(1, 500), seed=st.integers(0, 99), kind=st.sampled_from(["equal", "drawn"]))
def test_a_row_that_is_added_to_often_is_off_by_as_little(context, dtype, columns, n, seed, kind):
    rows = 4
    chosen = np.random.default_rng(seed).integers(-rows, rows, n).astype(np.int32)
    values = terms(n, kind, dtype)
    updates = np.broadcast_to(values.reshape(n, *(1 for _ in columns)), (n, *columns))
    x, i = wb.input("x", (wb.batch, *columns), dtype), wb.input("i", (wb.batch,), "int32")
    found = computed(
        CONTEXTS[context](), wb.scatter_add(rows, i, x), {x: updates.copy(), i: chosen}
    )
    for row in range(rows):
        mine = values[chosen % rows == row].astype(np.float64).tolist()
        if not mine:
            assert not found[row].any()
        else:
            bound = max(2.0 * math.log2(len(mine)), 1.0)
            assert units_off(found[row], math.fsum(mine), dtype) <= bound


@pytest.mark.parametrize("columns", [(), (3,), (100,)])
def test_half_a_million_gradients_of_one_row_keep_their_digits(columns):
    n = 2**19
    table = wb.parameter(np.zeros((3, *columns), np.float32), "table")
    i, x = wb.input("i", (wb.batch,), "int32"), wb.input("x", (wb.batch,))
    weights = wb.reshape(x, (wb.batch, *(1 for _ in columns)))
    loss = (wb.take(table, i) * weights).sum()
    feeds = {i: np.ones(n, np.int32), x: np.full(n, 0.1, np.float32)}
    found = computed(wb.Context.cpu(2), wb.backward(loss, [table])[table], feeds)
    exact = float(np.float32(0.1)) * n
    assert units_off(found[1], exact, np.float32) <= 2.0 * math.log2(n)
    assert not found[0].any()

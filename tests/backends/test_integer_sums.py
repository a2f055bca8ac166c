"""Sums of whole numbers and of truth values are those of numpy: of 64 bits, so they do not wrap."""

import numpy as np
import pytest

import workbench as wb

CONTEXTS = {"cpu": lambda: wb.Context.cpu(2), "interpreter": wb.Context.interpreter}
GREATEST = {"int32": 2**31 - 1, "uint32": 2**32 - 1, "int64": 2**40, "uint64": 2**40, "bool": True}
LEAST = {"int32": -(2**31), "int64": -(2**40)}


def computed(context, output, feeds):
    context, routine = CONTEXTS[context]().compile([output])
    return context.set_values(feeds).run(routine).get_values(routine.outputs[0])


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), ()])
@pytest.mark.parametrize("end", [GREATEST, LEAST], ids=["greatest", "least"])
@pytest.mark.parametrize("dtype", GREATEST)
def test_sums_of_the_greatest_numbers_are_numpys(context, dtype, end, axis):
    values = np.full((70, 3, 5), end.get(dtype, 0), dtype)
    x = wb.input("x", (wb.batch, 3, 5), dtype)
    found = computed(context, x.sum(axis), {x: values})
    expected = values.sum(axis)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("dtype", GREATEST)
def test_rows_that_are_added_do_not_wrap(context, dtype, columns):
    updates = np.full((70, *columns), GREATEST[dtype], dtype)
    x, i = wb.input("x", (wb.batch, *columns), dtype), wb.input("i", (wb.batch,), "int32")
    found = computed(context, wb.scatter_add(2, i, x), {x: updates, i: np.ones(70, np.int32)})
    assert found.dtype == updates.sum(0).dtype
    np.testing.assert_array_equal(found[1], updates.sum(0))
    assert not found[0].any()


def test_a_count_of_what_is_true_needs_no_conversion():
    x = wb.input("x", (wb.batch, 2))
    found = computed("cpu", (x > 0.5).sum(), {x: np.ones((30_000, 2), np.float32)})
    assert int(found) == 60_000


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_elements_that_a_sum_reads_stay_in_their_own_type(context):
    # Only the sum is wide: what is computed before it wraps as it did.
    x = wb.input("x", (4,), "int32")
    values = np.full(4, 2**31 - 1, np.int32)
    with np.errstate(over="ignore"):
        expected = (values + np.int32(1)).sum()
    assert int(computed(context, (x + 1).sum(), {x: values})) == int(expected)

"""Values and gradients at 0, ties, infinities and NaN: PyTorch's, except where the page says so."""

import json
from pathlib import Path

import numpy as np
import pytest

import workbench as wb

ROOT = Path(__file__).parents[2]
EDGES = json.loads((ROOT / "tests/oracles/edges.json").read_text())
CONTEXTS = {"cpu": wb.Context.cpu, "interpreter": wb.Context.interpreter}
# float32 functions are written apart from those of float64, and have the same edges.
TOLERANCES = {"float64": (1e-12, 1e-15), "float32": (2e-6, 1e-7)}

BINARY = {
    "power": lambda a, b: a**b,
    "divide": lambda a, b: a / b,
    "multiply": lambda a, b: a * b,
    "maximum": wb.maximum,
    "minimum": wb.minimum,
    "where": lambda a, b: wb.where(a > 0.0, a, b),
}
SHARES = wb.constant([1.0, 2.0, 3.0])
ROWS = {
    "max": lambda x: wb.max(x, -1),
    "min": lambda x: wb.min(x, -1),
    "logsumexp": lambda x: wb.logsumexp(x, -1),
    "softmax": lambda x: (wb.softmax(x) * SHARES.astype(x.dtype)).sum(-1),
    "log_softmax": lambda x: (wb.log_softmax(x) * SHARES.astype(x.dtype)).sum(-1),
    "mean": lambda x: x.mean(-1),
    "sum": lambda x: x.sum(-1),
}


def exceptions():
    """Return the rows of the page's table: (operation, quantity, at) to (here, PyTorch)."""
    found = {}
    for line in (ROOT / "docs/reference/edges.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0] not in ("operation", "---"):
            found[tuple(cells[:3])] = (float(cells[3]), float(cells[4]))
    return found


EXCEPTIONS = exceptions()


def numbers(texts):
    return np.array(texts, dtype=object).astype(np.float64)


def computed(context, function, arrays, dtype="float64"):
    """Return the value and the gradients of a function of parameters."""
    parameters = [wb.parameter(array.astype(dtype), f"p{n}") for n, array in enumerate(arrays)]
    value = function(*parameters)
    gradients = wb.backward(value.sum(), parameters)
    context, routine = context.compile([value * 1.0, *(gradients[p] * 1.0 for p in parameters)])
    context = context.run(routine)
    return [context.get_values(node) for node in routine.outputs]


def check(name, quantity, places, found, expected):
    """Compare element by element; what the page lists has to be as it says."""
    listed = set()
    rtol, atol = TOLERANCES[found.dtype.name]
    with np.errstate(over="ignore"):
        expected = expected.astype(found.dtype)
    for at, here, there in zip(places, found, expected, strict=True):
        row = EXCEPTIONS.get((name, quantity, at))
        if row is not None:
            listed.add((name, quantity, at))
            np.testing.assert_array_equal(there, row[1], f"{name} {quantity} at {at}: PyTorch's")
            there = row[0]
            assert np.signbit(here) == np.signbit(there)
        np.testing.assert_allclose(
            here, there, rtol=rtol, atol=atol, err_msg=f"{name} {quantity} at {at}"
        )
    assert listed == {key for key in EXCEPTIONS if key[:2] == (name, quantity)}


# No gradient flows through a sign: it is 0 everywhere.
@pytest.mark.filterwarnings("ignore::workbench.errors.UnreachedParameterWarning")
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", EDGES["unary"])
def test_functions_of_one_number(name, context, dtype):
    places, known = EDGES["values"], EDGES["unary"][name]
    value, gradient = computed(CONTEXTS[context](), getattr(wb, name), [numbers(places)], dtype)
    check(name, "value", places, value, numbers(known["value"]))
    check(name, "gradient", places, gradient, numbers(known["gradient"]))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", EDGES["binary"])
def test_functions_of_two_numbers(name, context, dtype):
    values, known = EDGES["values"], EDGES["binary"][name]
    pairs = [(a, b) for a in values for b in values]
    left, right = (numbers(side) for side in zip(*pairs, strict=True))
    found = computed(CONTEXTS[context](), BINARY[name], [left, right], dtype)
    places = [f"{a}, {b}" for a, b in pairs]
    for quantity, array in zip(("value", "left", "right"), found, strict=True):
        check(name, quantity, places, array, numbers(known[quantity]))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ROWS)
def test_reductions_of_a_row(name, context, dtype):
    rows, known = EDGES["row_values"], EDGES["rows"][name]
    value, gradient = computed(CONTEXTS[context](), ROWS[name], [numbers(rows)], dtype)
    places = [", ".join(row) for row in rows]
    check(name, "value", places, value, numbers(known["value"]))
    of_each = [f"{place} [{n}]" for place in places for n in range(3)]
    check(name, "gradient", of_each, gradient.ravel(), numbers(known["gradient"]).ravel())


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_global_norm_is_the_norm_of_a_vector_with_its_gradient(context):
    rows, known = EDGES["row_values"], EDGES["rows"]["norm"]
    for row, value, gradient in zip(rows, known["value"], known["gradient"], strict=True):
        array = numbers(row)
        found = computed(CONTEXTS[context](), lambda x: wb.global_norm({"x": x}), [array])
        np.testing.assert_allclose(found[0], float(value), rtol=1e-12)
        np.testing.assert_allclose(found[1], numbers(gradient), rtol=1e-12, err_msg=str(row))


def test_gradients_of_0_are_clipped_to_0_and_pass_through_clipping():
    x = wb.parameter(np.zeros(3), "x")
    clipped, norm = wb.clip_gradients({"x": x * 1.0}, 1.0)
    slope = wb.backward(clipped["x"].sum() + norm, [x])[x]
    context, routine = wb.Context.cpu().compile([clipped["x"], slope])
    context = context.run(routine)
    np.testing.assert_array_equal(context.get_values(routine.outputs[0]), np.zeros(3))
    np.testing.assert_array_equal(context.get_values(routine.outputs[1]), np.ones(3))

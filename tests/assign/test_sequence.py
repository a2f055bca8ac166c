"""Computations joined with ``+``: one after the other, in one routine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from workbench.assign.assignment import Computation
from workbench.errors import GraphError
from workbench.graph.leaf import state

CONTEXTS = {"interpreter": wb.Context.interpreter, "two threads": lambda: wb.Context.cpu(2)}
START = np.array([1.0, -2.0, 3.0])


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


@pytest.fixture
def w():
    return wb.parameter(START, "w")


def kept(shape=(), label="kept"):
    return state(label, shape, "float64")


def run(root, computation, times=1):
    ctx, routine = root.compile(computation, name="joined")
    for _ in range(times):
        ctx = ctx.run(routine)
    return ctx


def apart(root, *parts):
    """Run the parts as routines of their own, one after another."""
    for part in parts:
        root, routine = root.compile(part, name="apart")
        root = root.run(routine)
    return root


def test_the_second_reads_what_the_first_wrote(root, w):
    double = wb.computation([], {w: w * 2.0})
    add = wb.computation([], {w: w + 1.0})
    assert run(root, double + add).get_values(w).tolist() == (START * 2.0 + 1.0).tolist()
    assert run(root, add + double).get_values(w).tolist() == ((START + 1.0) * 2.0).tolist()


def test_joined_computations_do_what_routines_do_one_after_another(root, w):
    total, last = kept(label="total"), kept((3,), "last")
    parts = [
        wb.computation([], {last: w * 3.0}),
        wb.computation([], {total: total + last.sum(), w: w - 0.5 * last}),
        wb.computation([], {last: wb.exp(w), total: total * 2.0}),
    ]
    joined, separate = run(root, parts[0] + parts[1] + parts[2]), apart(root, *parts)
    for node in (w, total, last):
        assert np.array_equal(joined.get_values(node), separate.get_values(node))


def test_joining_is_associative(root, w):
    a, b, c = (wb.computation([], {w: new}) for new in (w + 1.0, w * w, wb.where(w > 4.0, w, -w)))
    left, right = run(root, (a + b) + c), run(root, a + (b + c))
    assert np.array_equal(left.get_values(w), right.get_values(w))


def test_an_output_is_that_of_the_part_that_computes_it(root, w):
    loss = wb.square(w).sum().named("loss")
    early = wb.computation([loss]) + wb.computation([], {w: w * 2.0})
    late = wb.computation([], {w: w * 2.0}) + wb.computation([loss])
    assert run(root, early).get_values(loss) == 14.0
    assert run(root, late).get_values(loss) == 56.0


def test_an_output_computed_twice_has_its_later_value_and_state_the_earlier(root, w):
    loss, seen = wb.square(w).sum().named("loss"), kept(label="seen")
    twice = (
        wb.computation([loss], {seen: loss})
        + wb.computation([], {w: w * 2.0})
        + wb.computation([loss])
    )
    ctx = run(root, twice)
    assert (ctx.get_values(seen), ctx.get_values(loss)) == (14.0, 56.0)


def test_an_output_that_is_a_leaf_is_read_after_everything(root, w):
    first = wb.computation([w], {w: w + 1.0})
    ctx = run(root, first + wb.computation([], {w: w + 1.0}))
    assert ctx.get_values(w).tolist() == (START + 2.0).tolist()


def test_state_keeps_its_value_from_run_to_run_and_starts_as_it_was_made(root, w):
    count = state("count", (2,), "int64", 5)
    ctx = run(root, wb.computation([], {count: count + 1}), times=3)
    assert ctx.get_values(count).tolist() == [8, 8]


def test_state_is_no_parameter_and_cannot_have_the_batch():
    assert state("s", (2,)).op == "state"
    with refused(GraphError, "state", "keeps the name"):
        state("s", (2,)).named("other")
    with refused(wb.ShapeError, "`sums`", "batch"):
        state("sums", (wb.batch, 2))


def test_what_a_computation_declares_about_gradients_is_joined(w):
    g, h = kept((3,), "g"), kept((3,), "h")
    first, second = wb.computation([], {g: w}), wb.computation([], {h: w})
    first = replace(first, owned=frozenset([w]), zeroes=frozenset([g]), accumulation_runs=3)
    second = replace(second, accumulates=frozenset([h]), requires=frozenset([w]))
    joined = first + second
    assert joined.owned == joined.requires == {w}
    assert (joined.zeroes, joined.accumulates) == ({g}, {h})
    assert joined.accumulation_runs == 3


def test_a_computation_of_statements_made_by_hand_cannot_be_joined(w):
    by_hand = Computation((), (w,), (), name="mine")
    with refused(GraphError, "`mine`", "not made from a graph", remedy="wb.computation"):
        _ = by_hand + wb.computation([], {w: w})


# -- any parts, joined or apart

NEW = [
    lambda a, b: a + b,
    lambda a, b: a * 0.5 - b,
    lambda a, b: wb.where(a > b, a, -b),
    lambda a, b: a @ b,
    lambda a, b: a.T,
    lambda a, b: b.reshape(9).reshape(3, 3),
    lambda a, b: a + b.sum(0, keepdims=True),
    lambda a, b: wb.concat([a[1:], b[:1]], 0),
    lambda a, b: b,
]
LEAF = st.integers(0, 2)
STORES = st.dictionaries(LEAF, st.tuples(st.integers(0, len(NEW) - 1), LEAF, LEAF), max_size=3)
PARTS = st.lists(st.tuples(STORES, st.sets(LEAF)), min_size=2, max_size=4)


@settings(max_examples=40)
@given(parts=PARTS)
def test_any_parts_that_are_joined_do_what_they_do_apart(parts):
    rng = np.random.default_rng(5)
    leaves = [wb.parameter(rng.integers(-3, 4, (3, 3)).astype(np.float64), n) for n in "abc"]
    sums = [wb.square(leaf).sum() for leaf in leaves]
    made = [
        wb.computation(
            [sums[i] for i in sorted(wanted)],
            {leaves[t]: NEW[how](leaves[a], leaves[b]) for t, (how, a, b) in stores.items()},
        )
        for stores, wanted in parts
    ]
    joined, separate = made[0], wb.Context.interpreter()
    for part in made[1:]:
        joined = joined + part
    for part in made:
        separate = run(separate, part)
    together = run(wb.Context.interpreter(), joined)
    for node in (*leaves, *(sums[i] for i in {i for _, wanted in parts for i in wanted})):
        if node in separate.initialized:
            assert np.array_equal(together.get_values(node), separate.get_values(node))

"""Bytes shared by liveness: the same values in less memory, and what can be read no more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.oracle.numpy_graph import rows_of
from tests.refusal import refused
from tests.strategies import random_graph
from workbench.runtime.context import Context
from workbench.runtime.observe import Reading

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}
SIZE = 80  # 25,600 bytes a product: above the limit of local memory


@pytest.fixture(params=MAKE)
def root(request):
    return MAKE[request.param]()


def chain():
    """x, four products, and what comes of them."""
    x = wb.parameter(np.eye(SIZE, dtype=np.float32) * 0.5, "x")
    nodes = []
    h = x
    for number in range(1, 5):
        h = (h @ x).named(f"h{number}")
        nodes.append(h)
    return x, nodes, wb.sum(h).named("out")


def ran(root, *, aliasing):
    _, nodes, out = chain()
    with wb.settings(buffer_aliasing=aliasing):
        ctx, routine = root.compile([out], name="chain")
    return ctx.run(routine), routine, nodes, out


def test_with_the_planner_inner_nodes_are_refused_and_the_output_is_not(root):
    ctx, _, nodes, out = ran(root, aliasing=True)
    assert ctx.get_values(out) == SIZE * 0.5**5
    for node in (nodes[0], nodes[3]):
        verdict = ctx.observability(node)
        assert verdict.reading is Reading.UNOBSERVABLE_ALIASED
        assert verdict.placeholder == "<unobservable: aliased>"
        assert [remedy.action for remedy in verdict.remedies] == ["materialize"]
        with refused(
            wb.NotReadableError,
            node.label,
            "(61: ",
            "in bytes shared by liveness",
            remedy="ctx.compile",
        ):
            ctx.get_values(node)
    reader = wb.exp(nodes[0])
    with wb.settings(buffer_aliasing=True):
        below, _ = ctx.compile([wb.sum(reader * 2.0)])
    assert below.placements[nodes[0]].is_aliased
    verdict = below.observability(reader)
    assert verdict.placeholder == "<unobservable: reads aliased h1>"
    below, _ = ctx.compile([wb.sum(reader * 2.0)])
    verdict = below.observability(reader)
    assert verdict.placeholder == "<unobservable: reads empty h1>"


def test_without_the_planner_all_are_readable(root):
    ctx, _, nodes, _ = ran(root, aliasing=False)
    for power, node in enumerate(nodes, 2):
        assert (ctx.get_values(node) == np.eye(SIZE, dtype=np.float32) * 0.5**power).all()


def test_the_footprint_shrinks_and_values_are_the_same_bits(root):
    found = {}
    for aliasing in (False, True):
        ctx, routine, _, out = ran(root, aliasing=aliasing)
        found[aliasing] = (
            ctx.held_memory() + routine.local_bytes(None),
            ctx.get_values(out).tobytes(),
        )
        ctx.release()
    link = SIZE * SIZE * 4
    assert found[False][0] - found[True][0] == 2 * link
    assert found[False][1] == found[True][1]


def test_what_is_asked_for_and_state_never_share(root):
    x, nodes, out = chain()
    updates = {x: nodes[2]}
    with wb.settings(buffer_aliasing=True):
        ctx, routine = root.compile([nodes[1], out], updates=updates)
    ctx = ctx.run(routine)
    eye = np.eye(SIZE, dtype=np.float32)
    assert (ctx.get_values(nodes[1]) == eye * 0.5**3).all()
    assert (ctx.get_values(x) == eye * 0.5**4).all()
    assert ctx.get_values(out) == SIZE * 0.5**5


def test_what_a_person_asked_to_be_stored_or_observable_shares_nothing(root):
    _, nodes, out = chain()
    wb.set_observable(nodes[0])
    wb.set_materialized(nodes[1])
    with wb.settings(buffer_aliasing=True):
        ctx, routine = root.decide_materialized(nodes[2]).compile([out])
    ctx = ctx.run(routine)
    found = [ctx.observability(node).reading for node in nodes]
    assert found == [Reading.STORED] * 3 + [Reading.UNOBSERVABLE_ALIASED]
    for power, node in enumerate(nodes[:3], 2):
        assert (ctx.get_values(node) == np.eye(SIZE, dtype=np.float32) * 0.5**power).all()


def test_the_explanation_says_which_nodes_share(root):
    _, _, out = chain()
    with wb.settings(buffer_aliasing=True):
        text = wb.explain(out, stage="placement")
    assert text.count("in bytes shared by liveness") == 4
    assert "shared by liveness" not in wb.explain(out, stage="placement")


def test_a_later_routine_that_stores_a_node_makes_it_readable(root):
    ctx, first, nodes, out = ran(root, aliasing=True)
    with wb.settings(buffer_aliasing=True):
        ctx, second = ctx.compile([nodes[0]], name="keep")
    ctx = ctx.run(second)
    assert ctx.observability(nodes[0]).reading is Reading.STORED
    assert (ctx.get_values(nodes[0]) == np.eye(SIZE, dtype=np.float32) * 0.25).all()
    with wb.settings(buffer_aliasing=True):
        ctx, third = ctx.compile([out + 1.0])
    ctx = ctx.run(third)
    assert ctx.observability(nodes[0]).reading is Reading.STORED
    assert ctx.run(first).get_values(out) == SIZE * 0.5**5


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_random_programs_give_the_same_bits_with_and_without(seed):
    outputs, feeds = random_graph(seed)
    rows = rows_of(feeds)
    found = []
    for aliasing in (False, True):
        with wb.settings(buffer_aliasing=aliasing, local_bytes=0):
            ctx, routine = Context.interpreter().compile(outputs)
            ctx = ctx.set_values(feeds).run(routine, rows=rows)
        found.append([ctx.get_values(node).tobytes() for node in outputs])
    assert found[0] == found[1]

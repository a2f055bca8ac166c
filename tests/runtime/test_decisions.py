"""Decisions for one lineage: what they change, what they leave alone, what they give."""

from typing import Any, cast

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.counting import counting_context
from workbench.loops.intent import intent_of
from workbench.loops.placement import Mode
from workbench.loops.preference import CHOICES
from workbench.runtime.context import Context
from workbench.runtime.observe import Reading

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


class Layer:
    """``y = relu(h)``, ``h = m x`` (8 cells, 32 products each: the default keeps it local)."""

    def __init__(self, k=32):
        matrix = np.linspace(-1, 1, 8 * k).reshape(8, k).astype(np.float32)
        self.m = wb.parameter(matrix, "m")
        self.x = wb.input("x", (k,))
        self.h = (self.m @ self.x).named("h")
        self.y = wb.relu(self.h).named("y")
        self.value = np.linspace(0, 1, k, dtype=np.float32)
        self.product = matrix @ self.value

    def run(self, ctx):
        ctx, routine = ctx.compile([self.y], name="layer")
        return ctx.set_values({self.x: self.value}).run(routine)


def code(ctx, node):
    return ctx.placements[node].mode, ctx.placements[node].code


def expect_values(ctx, g):
    np.testing.assert_allclose(ctx.get_values(g.y), np.maximum(g.product, 0), rtol=1e-5, atol=1e-5)


def test_a_decision_to_store_holds_for_the_child_and_no_sibling(root):
    g = Layer()
    child = root.decide_materialized([g.h])
    assert (child.origin.before, child.made_by) == (root.origin, "decide materialize")
    stored, default = g.run(child), g.run(root)
    assert code(stored, g.h) == (Mode.ON_DEVICE, "66")
    assert code(default, g.h) == (Mode.LOCAL, "39")
    assert stored.observability(g.h).reading is Reading.STORED
    np.testing.assert_allclose(stored.get_values(g.h), g.product, rtol=1e-5, atol=1e-5)
    assert default.observability(g.h).reading is Reading.UNOBSERVABLE_LOCAL
    expect_values(stored, g)
    expect_values(default, g)
    assert g.h not in root.placements
    assert intent_of(g.h).placement is None


def test_a_node_asked_to_be_inlined_escapes_the_caps_and_says_so(root):
    g = Layer()
    ctx = g.run(root.decide_inline(g.h))
    assert code(ctx, g.h) == (Mode.VIRTUAL, "67")
    assert "max_inline_reduction=16" in ctx.placements[g.h].reason
    assert ctx.observability(g.h).reading is Reading.RECOMPUTABLE
    expect_values(ctx, g)


def test_large_products_can_be_inlined_too(root):
    x = wb.input("x", (wb.batch, 64))
    w = wb.parameter(np.ones((64, 32), np.float32), "w")
    product = (x @ w).named("product")
    total = wb.relu(product).sum()
    ctx, routine = root.decide_inline(product).compile([total])
    assert code(ctx, product) == (Mode.VIRTUAL, "67")
    ctx = ctx.set_values({x: np.ones((3, 64))}).run(routine)
    assert ctx.get_values(total) == 3 * 32 * 64


def test_what_the_lineage_stores_stays_stored_whatever_is_asked_later():
    g = Layer()
    first = g.run(Context.interpreter().decide_materialized(g.h))
    before = first.placements[g.h]
    for choice in CHOICES:
        later, routine = first.decide_reading(choice, g.h).compile([wb.exp(g.h)])
        assert routine.placements[g.h] == before
        assert later.placements[g.h] == before


def test_what_a_routine_made_local_can_be_decided_otherwise_for_the_next():
    g = Layer()
    first = g.run(Context.interpreter())
    assert code(first, g.h) == (Mode.LOCAL, "39")
    found = {}
    for choice in CHOICES:
        _, routine = first.decide_reading(choice, g.h).compile([wb.exp(g.h)])
        found[choice] = routine.placements[g.h].code
    assert found["materialize"] == "66"
    assert found["inline"] in ("0", "67")


def test_a_decision_to_store_holds_for_what_is_compiled_next_whatever_was_compiled_before(root):
    g = Layer()
    first = g.run(root)
    decided = first.decide_materialized(g.h)
    assert decided.observability(g.h) == first.observability(g.h)
    assert dict(decided.placements) == dict(first.placements)
    again, routine = decided.compile([g.y], name="layer again")
    assert code(again, g.h) == (Mode.ON_DEVICE, "66")
    again = again.run(routine)
    np.testing.assert_allclose(again.get_values(g.h), g.product, rtol=1e-5, atol=1e-5)
    assert code(first, g.h) == (Mode.LOCAL, "39")


def test_what_a_person_can_read_stays_readable_when_it_is_decided_to_be_stored(root):
    g = Layer(8)
    ctx = g.run(root)
    assert ctx.observability(g.h).reading is Reading.RECOMPUTABLE
    decided = ctx.decide_materialized(g.h)
    assert np.array_equal(decided.get_values(g.h), ctx.get_values(g.h))


def test_nodes_that_are_declared_virtual_and_constants_are_left_alone():
    x = wb.input("x", (4,))
    h, declared, number = (x + 1.0).named("h"), (x + 2.0).named("declared"), wb.constant(3.25)
    wb.set_virtual(declared)
    ctx, _ = Context.interpreter().compile([wb.exp(h)])
    assert code(ctx, h) == (Mode.VIRTUAL, "0")
    ctx = ctx.decide_materialized([h, declared, number])
    ctx, routine = ctx.compile([wb.exp(h) * declared * number])
    assert {routine.placements[n].mode for n in (declared, number)} == {Mode.VIRTUAL}
    assert routine.placements[h].mode is Mode.ON_DEVICE


def test_legality_comes_before_a_preference(root):
    p = wb.parameter(np.arange(9.0).reshape(3, 3), "p")
    moved = (p.T * 2.0).named("moved")
    ctx, routine = root.decide_inline(moved).compile([], updates={p: moved})
    assert code(ctx, moved) == (Mode.LOCAL, "10")
    ctx = ctx.run(routine)
    assert ctx.get_values(p).tolist() == (2.0 * np.arange(9.0).reshape(3, 3).T).tolist()


def test_inputs_and_state_stay_on_the_device_whatever_is_preferred():
    x, p = wb.input("x", (3,)), wb.parameter(np.ones(3, np.float32), "p")
    root = Context.interpreter()
    ctx, _ = (
        root.decide_inline([x, p]).decide_footprint([x, p]).compile([x * p], updates={p: p + x})
    )
    assert ctx.placements[x].mode is ctx.placements[p].mode is Mode.ON_DEVICE


def test_of_two_preferences_for_one_node_the_later_holds():
    g = Layer()
    root = Context.interpreter()
    boxed = g.run(root.decide_inline(g.h).decide_footprint(g.h))
    inlined = g.run(root.decide_footprint(g.h).decide_inline(g.h))
    assert code(boxed, g.h) == (Mode.VIRTUAL, "153")
    assert code(inlined, g.h) == (Mode.VIRTUAL, "67")


def test_a_reading_that_does_not_exist_is_refused():
    with refused(wb.ConfigurationError, "`inlined`", remedy="`inline`"):
        Context.interpreter().decide_reading(cast("Any", "inlined"), [])


def test_a_vector_is_applied_in_its_order_and_makes_contexts_for_what_it_holds():
    g = Layer()
    root = Context.interpreter()
    assert root.decide() is root
    ctx = root.decide(materialized=[g.h], inline=[g.y])
    between = ctx.origin.before
    assert between is not None
    assert [ctx.made_by, between.made_by] == ["decide inline", "decide materialize"]
    assert between.before is root.origin
    whole = root.decide(materialized=[g.h], inline=[g.y], skip_empty=False)
    assert whole.made_by == "decide footprint"
    assert (whole.placements, whole.preferences) == (ctx.placements, ctx.preferences)
    assert root.decide(materialized=g.h, inline=g.h).preferences.materialized == {g.h}


def test_what_would_be_lowered_is_what_is_compiled_and_nothing_is_compiled_for_it():
    g = Layer()
    root, backend = counting_context()
    vectors: list[Any] = [{}, {"materialized": [g.h]}, {"inline": [g.h]}, {"footprint": g.h}]
    for vector in vectors:
        lowered = root.lowered_for_decisions([wb.exp(g.h)], **vector)
        assert backend.programs == []
        _, routine = root.decide(**vector).compile([wb.exp(g.h)])
        assert lowered.text() == routine.text()
        assert lowered.placements == routine.placements
        assert "kernels" in repr(lowered)
        backend.programs.clear()


def test_tensors_that_nobody_asked_for_and_the_context_stores_can_be_read_after_a_run(root):
    curve = wb.erf(wb.input("x", (5000,))).named("curve")
    ctx, routine = root.compile([curve.sum(), curve * 2.0])
    assert code(ctx, curve) == (Mode.ON_DEVICE, "60")
    ctx = ctx.set_values({routine.computation.inputs[0]: np.zeros(5000)}).run(routine)
    assert ctx.observability(curve).reading is Reading.STORED
    assert not ctx.get_values(curve).any()


def test_what_is_virtual_in_a_lineage_has_one_component_that_readers_replay():
    g = Layer()
    root = Context.interpreter()
    ctx, _ = root.compile([wb.exp(g.y)])
    assert [ctx.stored_components(node) for node in (g.x, g.h, g.y)] == [0, 0, 1]
    virtual = sum(p.mode is Mode.VIRTUAL for p in ctx.placements.values())
    assert ctx.stored_components() == virtual > 0
    assert (root.stored_components(), root.stored_components(g.y)) == (0, 0)

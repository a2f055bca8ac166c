"""What could be decided: one record for each node, with its cost and what it is refused for."""

import re
import time

import numpy as np
import pytest

import workbench as wb
from tests.runtime.counting import counting_context
from tests.transformer import Sizes, training_step
from workbench.graph.tensor import topological_order
from workbench.runtime.context import Context

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}
LIMIT_S = 0.3


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


class Curve:
    """``total = sum(relu(y)) + sum(y)`` with ``y = exp(u)`` of 64 cells."""

    def __init__(self):
        self.u = wb.input("u", (64,))
        self.y = wb.exp(self.u).named("y")
        self.s1 = wb.relu(self.y).named("s1")
        self.n3, self.n4 = self.s1.sum().named("n3"), self.y.sum().named("n4")
        self.total = (self.n3 + self.n4).named("total")

    def run(self, ctx):
        ctx, routine = ctx.compile([self.total])
        value = np.float32(0.25) * (np.arange(64) % 9).astype(np.float32)
        return ctx.set_values({self.u: value}).run(routine)


def readings(candidate):
    return candidate.default, candidate.placement.code, [a.choice for a in candidate.alternatives]


def test_what_is_virtual_could_be_stored_and_what_a_cap_stores_inlined(root):
    g = Curve()
    surface = root.decision_surface([g.total])
    assert {each.node.label: readings(each) for each in surface} == {
        "y": ("inline", "0", ["materialize"]),
        "s1": ("inline", "0", ["materialize"]),
        "n3": ("materialize", "39", ["inline"]),
        "n4": ("materialize", "39", ["inline"]),
    }
    proxies = {each.node.label: each.alternatives[0].proxy for each in surface}
    assert proxies == {"n3": 64, "n4": 64, "y": 1, "s1": 1}
    assert all(a.is_modeled and a.refused is None for c in surface for a in c.alternatives)
    np.testing.assert_allclose(g.run(root).get_values(g.total), 420.37207, rtol=1e-6)


def test_each_flip_is_followed_and_gives_the_same_value(root):
    g = Curve()
    for flip in root.decision_surface([g.total]).ranked():
        ctx = g.run(root.decide_reading(flip.choice, flip.node))
        assert ctx.placements[flip.node].is_stored == (flip.choice == "materialize")
        np.testing.assert_allclose(ctx.get_values(g.total), 420.37207, rtol=1e-6)


def test_costs_are_operations_of_one_cell_times_cells_times_reads():
    g = Curve()
    surface = Context.interpreter().decision_surface([g.total])
    costs = {each.node.label: each.cost for each in surface}
    # exp costs 8; y is read by two places. n3 adds 64 cells, each a relu of y.
    assert costs == {"y": 8 * 64 * 2, "s1": 9 * 64, "n3": 64 + 64 * 9, "n4": 64 + 64 * 8}
    assert [each.cost for each in surface] == sorted(costs.values(), reverse=True)


def test_flips_are_ranked_by_cost_and_then_by_node():
    x = wb.input("x", (4,))
    a, b = (x + 1.0).named("a"), (x + 2.0).named("b")
    ranked = Context.interpreter().decision_surface([wb.exp(a) * wb.exp(b)]).ranked()
    mine = [(flip.node.label, flip.choice, flip.cost) for flip in ranked if flip.node.label]
    assert mine[-2:] == [("a", "materialize", 4), ("b", "materialize", 4)]
    assert list(ranked) == sorted(ranked, key=lambda flip: (-flip.cost, flip.node.uid))


def test_what_no_compile_would_follow_is_shown_and_not_ranked():
    x = wb.input("x", (3,))
    joined = wb.concat([x, x * 2.0], 0).named("joined")
    surface = Context.interpreter().decision_surface([wb.exp(joined)])
    record = surface[joined]
    (inline,) = record.alternatives
    assert (record.default, inline.choice, inline.is_modeled) == ("materialize", "inline", False)
    assert inline.recompute_cost == inline.proxy
    assert inline.refused == record.placement
    assert record.placement.code == "4"
    assert joined not in {flip.node for flip in surface.ranked()}
    assert "4: several statements write parts of it" in str(surface)


def test_a_flip_that_would_pass_a_write_is_refused_as_a_compile_would():
    p = wb.parameter(np.ones((3, 3), np.float32), "p")
    new = wb.erf(p.T).named("new")
    ctx = Context.interpreter()
    with wb.settings(max_inline_cost=0):
        (inline,) = ctx.decision_surface([], updates={p: new})[new].alternatives
        child, _ = ctx.decide_inline(new).compile([], updates={p: new})
    assert inline.refused is not None
    assert child.placements[new] == inline.refused
    assert inline.refused.code == "10"


def test_a_value_that_would_be_too_long_is_refused_and_stored_all_the_same():
    h = wb.input("x", (3,))
    for _ in range(10):
        h = wb.tanh(h) + wb.sin(h)
    wanted = [wb.exp(h)]
    ctx = Context.interpreter().decide_inline(topological_order([h]))
    refused = [each for each in ctx.decision_surface(wanted) if each.placement.code == "68"]
    assert [each.alternatives[0].refused for each in refused] == [refused[0].placement]
    child, routine = ctx.compile(wanted)
    (node,) = (each.node for each in refused)
    assert child.placements[node] == refused[0].placement
    assert sum(p.code == "67" for p in routine.placements.values()) > 10


def test_a_boxed_node_could_be_stored_and_a_product_could_be_boxed():
    x, w = wb.input("x", (64, 64)), wb.parameter(np.ones((64, 64), np.float32), "w")
    product = (x @ w).named("product")
    total = wb.input("t", (8, 8, 17)).sum(2).named("total")
    wanted = [wb.exp(product[0]), wb.exp(total[0])]
    surface = Context.interpreter().decision_surface(wanted)
    assert readings(surface[total]) == ("footprint", "153", ["materialize"])
    assert readings(surface[product]) == ("materialize", "61", ["inline", "footprint"])
    with wb.settings(footprint_scratch=False):
        surface = Context.interpreter().decision_surface(wanted)
    assert readings(surface[total]) == ("materialize", "39", ["inline"])
    assert readings(surface[product]) == ("materialize", "61", ["inline"])


def test_what_a_person_decided_is_no_candidate():
    x = wb.input("x", (4,))
    asked, stored, virtual, decided = (wb.exp(x * n).named(f"h{n}") for n in (2.0, 3.0, 4.0, 5.0))
    wb.set_materialized(stored)
    wb.set_virtual(virtual)
    wanted = [asked, wb.sin(asked + stored + virtual + decided)]
    ctx = Context.interpreter()
    nodes = {each.node for each in ctx.decide_materialized(decided).decision_surface(wanted)}
    assert not nodes & {asked, stored, virtual, decided}
    assert decided in {each.node for each in ctx.decision_surface(wanted)}


def test_leaves_constants_and_what_nobody_reads_are_no_candidates():
    x = wb.input("x", (4,))
    number = (wb.constant(2.0) * wb.constant(3.0)).named("number")
    labels = wb.input("y", (4,), "int32")
    wanted = [wb.exp(x * number) * wb.one_hot(labels, 4).sum(1)]
    nodes = {each.node for each in Context.interpreter().decision_surface(wanted)}
    assert not nodes & {x, number, labels, wanted[0]}
    assert "is_label" not in {node.op for node in nodes}


def test_an_inlined_node_says_so_and_could_be_stored():
    g = Curve()
    surface = Context.interpreter().decide_inline(g.n3).decision_surface([g.total])
    assert readings(surface[g.n3]) == ("inline", "67", ["materialize"])


def test_a_surface_is_a_table_in_text_and_html():
    x = wb.input("x", (4, 20))
    h = x.sum(1).named("<b>h\n</b>")
    surface = Context.interpreter().decision_surface([wb.exp(h) + 1.0])
    lines = str(surface).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == [
        "node", "now", "code", "who decided", "could be", "cost", "refused because",
    ]  # fmt: skip
    assert repr(surface) == str(surface)
    known = len(surface)
    assert lines[-1] == f"{known} nodes to decide about, {known} flips that a compile would follow"
    html = surface._repr_html_()
    assert html.count("<tr>") == len(lines) - 1
    assert "&lt;b&gt;h\\n&lt;/b&gt;" in html
    assert "<b>" not in html
    assert len(lines) == len(list(surface)) + 2
    with pytest.raises(KeyError):
        surface[x]


def test_asking_compiles_nothing_and_decides_nothing():
    g = Curve()
    root, backend = counting_context()
    ctx = g.run(root)
    backend.programs.clear()
    before = ctx.placements, ctx.preferences, ctx.buffers, ctx.initialized
    ctx.decision_surface([g.total])
    ctx.lowered_for_decisions([g.total], inline=[g.n3], materialized=[g.y])
    assert backend.programs == []
    assert (ctx.placements, ctx.preferences, ctx.buffers, ctx.initialized) == before


@pytest.mark.slow
def test_the_surface_of_twelve_layers_comes_within_its_time_after_the_compile():
    outputs, updates = training_step(Sizes(12))
    root, _ = counting_context()
    _, routine = root.compile(outputs, updates=updates)
    took, flips = [], []
    for wanted, stores in ((routine.computation, None), (outputs, updates)) * 3:
        start = time.process_time()
        surface = root.decision_surface(wanted, updates=stores)
        took.append(time.process_time() - start)
        flips.append(len(surface.ranked()))
    assert min(flips) > 3000
    assert min(took[::2]) <= LIMIT_S
    assert min(took[1::2]) <= LIMIT_S


def test_the_surface_of_a_training_step_names_its_products():
    outputs, updates = training_step(Sizes(1))
    surface = Context.interpreter().decision_surface(outputs, updates=updates)
    codes = {each.placement.code for each in surface}
    assert {"0", "61", "1", "39"} <= codes
    stored = [each for each in surface if each.placement.code == "61"]
    assert all(each.alternatives[0].choice == "inline" for each in stored)
    assert all(each.alternatives[0].refused is None for each in stored)

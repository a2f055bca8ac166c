"""What nothing lifts: each refusal reached, and the same values as where all is stored."""

import numpy as np
import pytest

import workbench as wb
from workbench.graph.tensor import topological_order
from workbench.loops.placement import Mode
from workbench.runtime.context import Context

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}
VALUE = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


def x():
    return wb.input("x", (3, 4))


def in_two_parts():
    joined = wb.concat([wb.exp(x()), x_again() * 2.0], 0)
    return joined, [wb.tanh(joined) + joined], {}


def x_again():
    return wb.input("y", (3, 4))


def scattered():
    rows = wb.constant(np.array([0, 2, 0], np.int32))
    added = wb.scatter_add(4, rows, wb.exp(x()))
    return added, [wb.tanh(added)], {}


def rows_looked_up():
    table = wb.tanh(x())
    chosen = wb.take(table, wb.constant(np.array([2, 0, 1, 2], np.int32)))
    return table, [chosen * 2.0], {}


def a_view():
    shaped = wb.exp(x()).reshape(2, 6)
    return shaped, [shaped.sum(0)], {}


def memory_behind_a_view():
    flat = wb.exp(x())
    return flat, [wb.sqrt(flat.reshape(2, 6))], {}


def past_a_write():
    p = wb.parameter(VALUE[:, :3].copy(), "p")
    moved = p.T * 2.0
    return moved, [], {p: moved}


def past_the_write_of_another():
    p, q = wb.parameter(VALUE[0].copy(), "p"), wb.parameter(VALUE[1].copy(), "q")
    new_p, new_q = (q * 2.0).named("new p"), (p * 3.0).named("new q")
    return new_q, [], {p: new_p, q: new_q}


def too_long():
    h = wb.input("one", (1,)) * 0.1
    for _ in range(10):
        h = (wb.tanh(h) + wb.sin(h)) * 0.5
    ctx = Context.interpreter().decide_inline(topological_order([h]))
    placements = ctx.lowered_for_decisions([wb.exp(h)]).placements
    (node,) = [n for n, p in placements.items() if p.code == "68"]
    return node, [wb.exp(h)], {}


def too_many_points():
    inner = wb.square(wb.input("z", (130, 128))).sum(1)
    outer = (inner * 0.001).sum()
    return outer, [wb.sqrt(outer)], {}


def sought_among_its_own():
    x = wb.input("x", (20, 5))
    w1, w2 = (wb.parameter(np.sin(np.arange(m * n)).reshape(m, n), "w") for m, n in SIZES)
    scores = wb.relu(x @ w1.astype("float32")) @ w2.astype("float32")
    place = wb.argmax(scores, -1)
    (sought,) = (n for n in topological_order([place]) if n.op == "stop_gradient")
    return sought, [wb.logsumexp(scores, -1), place], {}


SIZES = ((5, 6), (6, 3))
CASES = {
    "4: several statements": (in_two_parts, "4"),
    "4: a scatter": (scattered, "4"),
    "10: past a write of its own": (past_a_write, "10"),
    "10: past the write of another": (past_the_write_of_another, "10"),
    "17: rows are looked up": (rows_looked_up, "17"),
    "62: a view": (a_view, "62"),
    "62: memory behind a view": (memory_behind_a_view, "62"),
    "68: too long": (too_long, "68"),
    "68: sums in sums": (too_many_points, "68"),
    "69: sought among its own": (sought_among_its_own, "69"),
}


def values(ctx, wanted, updates):
    ctx, routine = ctx.compile(wanted, updates=updates)
    chance = np.random.default_rng(0)
    feeds = {
        node: chance.normal(size=node.shape).astype(np.float32)
        for node in routine.computation.inputs
        if node.op == "input"
    }
    ctx = ctx.set_values(feeds).run(routine)
    return [ctx.get_values(node) for node in (*wanted, *updates)], routine


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("choice", ["inline", "footprint"])
def test_what_nothing_lifts_is_stored_and_gives_the_values_of_what_is(root, case, choice):
    make, code = CASES[case]
    node, wanted, updates = make()
    nodes = topological_order([*wanted, *updates.values()])
    found, routine = values(root.decide_reading(choice, nodes), wanted, updates)
    placement = routine.placements[node]
    assert (placement.code, placement.mode in (Mode.LOCAL, Mode.ON_DEVICE)) == (code, True)
    stored, _ = values(root.decide_materialized(nodes), wanted, updates)
    for a, b in zip(found, stored, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


VISITED = {
    "a broadcast": lambda h: wb.broadcast_to(h.sum(0).reshape(1, 4), (5, 4)) + 1.0,
    "a product": lambda h: h @ h.T,
    "two transposes": lambda h: h.T.sum(0) + wb.exp(h).sum(1),
    "flipped": lambda h: wb.flip(h, 0) + wb.flip(h, 1),
    "a guard": lambda h: wb.where(h > 0.0, h * h, wb.flip(h, 0)),
    "a fixed cell": lambda h: h + h[1, 2],
    "a maximum": lambda h: h - h.max(1, keepdims=True),
}


@pytest.mark.parametrize("case", VISITED)
def test_what_only_the_caps_store_is_inlined_when_asked_with_the_same_values(root, case):
    h = wb.tanh(x() * 0.5).named("h")
    wanted = [VISITED[case](h)]
    default, routine = values(root, wanted, {})
    inlined, other = values(root.decide_inline(h), wanted, {})
    assert other.placements[h].mode is Mode.VIRTUAL
    stored, kept = values(root.decide_materialized(h), wanted, {})
    assert kept.placements[h].mode is Mode.ON_DEVICE
    assert routine.placements[h].code in ("0", "1", "60")
    for found in (default, inlined):
        np.testing.assert_allclose(found[0], stored[0], rtol=1e-5, atol=1e-6)

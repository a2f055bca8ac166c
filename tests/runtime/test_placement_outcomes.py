"""What the default policy makes of known graphs, and what can be read of them afterwards.

Two of our rules are not among the caps of the published policy: what several readers share is
stored if it is dear (60), and so is what grows too large (63). Where they would decide, the graph
runs under the published caps alone, as well.
"""

import numpy as np
import pytest

import workbench as wb
from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation
from workbench.loops.placement import Mode
from workbench.runtime.context import Context
from workbench.runtime.observe import CAPS, Reading

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}
PUBLISHED_CAPS_ALONE = {"max_shared_cost": 10**9, "max_inline_cost": 10**9}


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


class Chain:
    """``x_k = x_{k-1} + w_k`` for k from 1 to 10, of 4 cells each; ``out`` is a copy of ``x10``."""

    def __init__(self):
        self.x = [wb.input("x0", (4,))]
        self.w = [wb.input(f"w{k}", (4,)) for k in range(1, 11)]
        for k, w in enumerate(self.w, 1):
            self.x.append((self.x[-1] + w).named(f"x{k}"))
        self.out = wb.stop_gradient(self.x[10]).named("out")
        cells = np.arange(1, 5, dtype=np.float32)
        self.feeds = {self.x[0]: cells}
        self.feeds |= {w: 100 * k + 10 * cells for k, w in enumerate(self.w, 1)}

    def codes(self, routine):
        return [routine.placements[x].code for x in self.x[1:]]


OUT = [5601, 5702, 5803, 5904]


def test_the_eighth_of_a_chain_of_sums_is_stored_for_its_nine_sources(root):
    g = Chain()
    ctx, routine = root.compile([g.out])
    assert g.codes(routine) == ["0"] * 7 + ["41"] + ["0"] * 2
    assert routine.placements[g.x[8]].mode is Mode.LOCAL
    assert routine.placements[g.out].mode is Mode.ON_DEVICE
    (inline,) = root.decision_surface([g.out])[g.x[8]].alternatives
    assert (inline.choice, inline.proxy, inline.refused) == ("inline", 9, None)
    ctx = ctx.set_values(g.feeds).run(routine)
    assert ctx.get_values(g.out).tolist() == OUT


def test_without_the_cap_on_sources_the_chain_is_virtual_and_the_values_are_the_same(root):
    g = Chain()
    with wb.settings(max_inline_fanin=-1):
        ctx, routine = root.compile([g.out])
    assert g.codes(routine) == ["0"] * 10
    ctx = ctx.set_values(g.feeds).run(routine)
    assert ctx.get_values(g.out).tolist() == OUT


def test_a_choice_is_charged_its_condition_and_the_wider_of_its_arms(root):
    first = [wb.input(f"a{i}", (4,)) for i in range(4)]
    second = [wb.input(f"b{i}", (4,)) for i in range(4)]
    mask = wb.input("mask", (4,), "bool")
    arms = [(a + b + c + d) for a, b, c, d in (first, second)]
    chosen = wb.where(mask, *arms).named("chosen")
    ctx, routine = root.compile([wb.stop_gradient(chosen)])
    assert routine.placements[chosen].code == "0"
    both = (arms[0] + arms[1] + mask.astype("float32")).named("both")
    _, other = root.compile([wb.stop_gradient(both)])
    assert other.placements[both].code == "41"
    feeds = {x: np.full(4, i + 1.0, np.float32) for i, x in enumerate([*first, *second])}
    ctx = ctx.set_values({**feeds, mask: np.array([True, False, True, False])}).run(routine)
    assert ctx.get_values(routine.outputs[0]).tolist() == [10.0, 26.0, 10.0, 26.0]


def test_a_routine_that_only_defers_does_nothing_and_asks_for_nothing(root):
    g = Chain()
    half = computation([g.x[5]])
    ctx, deferring = root.compile(Computation(half.statements, half.inputs, ()), name="first")
    assert {deferring.placements[x].mode for x in g.x[1:6]} == {Mode.VIRTUAL}
    assert (deferring.program.kernels, deferring.program.device) == ((), ())
    assert not deferring.link.reads | deferring.link.writes
    ctx = ctx.run(deferring)
    ctx, routine = ctx.compile([g.out], name="second")
    assert routine.placements[g.x[8]].code == "41"
    assert {g.x[0], *g.w} <= routine.link.reads
    ctx = ctx.set_values(g.feeds).run(deferring).run(routine)
    assert ctx.get_values(g.out).tolist() == OUT


def test_what_was_deferred_is_computed_from_state_before_it_changes(root):
    state = wb.parameter(np.array([1.0, 2.0], np.float32), "state")
    deferred = (state * 10.0).named("deferred")
    first = computation([deferred])
    ctx, _ = root.compile(Computation(first.statements, first.inputs, ()), name="first")
    out = wb.stop_gradient(deferred).named("out")
    ctx, routine = ctx.compile([out], updates={state: state + 100.0}, name="second")
    assert routine.placements[state].mode is Mode.ON_DEVICE
    assert state in routine.link.reads & routine.link.writes
    ctx = ctx.run(routine)
    assert ctx.get_values(out).tolist() == [10.0, 20.0]
    assert ctx.get_values(state).tolist() == [101.0, 102.0]


def test_a_small_product_is_virtual_and_stored_when_that_is_decided(root):
    chance = np.random.default_rng(0)
    a, b = (chance.normal(size=(8, 8)).astype(np.float32) for _ in range(2))
    ma, mb = wb.input("ma", (8, 8)), wb.input("mb", (8, 8))
    h = (ma @ mb).named("h")
    t = wb.relu(h)
    values = []
    for ctx, mode in ((root, Mode.VIRTUAL), (root.decide_materialized(h), Mode.ON_DEVICE)):
        ctx, routine = ctx.compile([t])
        assert routine.placements[h].mode is mode
        values.append(ctx.set_values({ma: a, mb: b}).run(routine).get_values(t))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(values[0], np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("caps", [{}, PUBLISHED_CAPS_ALONE], ids=["ours", "published"])
def test_of_a_layer_and_its_gradients_only_what_is_read_three_times_is_stored(root, caps):
    weights = np.array([[1, -2, 3], [-4, 5, 6]], np.float32)
    bias = np.array([0.5, -0.5], np.float32)
    w, b = wb.parameter(weights, "w"), wb.parameter(bias, "b")
    x = wb.input("x", (2, 3))
    product = wb.einsum("ni,oi->no", x, w)
    before = (product + b).named("before")
    after = wb.relu(before).named("after")
    loss = after.sum().named("loss")
    gradients = wb.backward(loss, [w, b])
    with wb.settings(**caps):
        ctx, routine = root.compile([loss, *gradients.values()])
    placed = routine.placements
    assert {placed[n].mode for n in (product, before, after)} == {Mode.VIRTUAL}
    assert placed[loss].mode is Mode.ON_DEVICE
    local = {n: p for n, p in placed.items() if p.mode is Mode.LOCAL}
    assert {p.code for p in local.values()} == {"1"}
    assert [(n.op, n.shape) for n in local] == [("where", (2, 2))]
    assert set(routine.program.device) == {w, b, x, loss, *gradients.values()}
    value = np.array([[1, 0, 2], [0, 1, -1]], np.float32)
    ctx = ctx.set_values({x: value}).run(routine)
    pre = value @ weights.T + bias
    assert ctx.get_values(loss) == np.maximum(pre, 0).sum()
    assert ctx.get_values(gradients[b]).tolist() == (pre > 0).sum(0).tolist()
    assert ctx.get_values(gradients[w]).tolist() == ((pre > 0).T.astype(float) @ value).tolist()


@pytest.mark.parametrize(
    ("cells", "observed", "mode"),
    [
        (8, False, Mode.LOCAL),
        (8, True, Mode.ON_DEVICE),
        (4096, False, Mode.LOCAL),
        (4097, False, Mode.ON_DEVICE),
    ],
)
def test_where_a_long_sum_is_stored_is_a_matter_of_size_and_of_who_wants_it(cells, observed, mode):
    total = wb.input("x", (cells, 17)).sum(1).named(f"{cells} {observed}")
    if observed:
        wb.set_observable(total)
    _, routine = Context.interpreter().compile([wb.exp(total)])
    assert (routine.placements[total].mode, routine.placements[total].code) == (mode, "39")


# -- what can be read afterwards


class Product:
    """``h = w x`` with 8 cells of ``k`` products each, ``y = relu(h)``, ``v = exp(h)``."""

    def __init__(self, k):
        self.weights = np.linspace(-1, 1, 8 * k, dtype=np.float32).reshape(8, k)
        self.value = np.linspace(0, 1, k, dtype=np.float32)
        self.w, self.x = wb.parameter(self.weights, "w"), wb.input("x", (k,))
        self.h = (self.w @ self.x).named("h")
        self.y, self.v = wb.relu(self.h).named("y"), wb.exp(self.h).named("v")

    def run(self, ctx, wanted):
        ctx, routine = ctx.compile(wanted)
        return ctx.set_values({self.x: self.value}).run(routine)


def test_a_short_product_is_read_by_computing_it_from_current_operands(root):
    g = Product(8)
    ctx = g.run(root, [g.y])
    assert ctx.observability(g.h).reading is Reading.RECOMPUTABLE
    np.testing.assert_allclose(ctx.get_values(g.h), g.weights @ g.value, rtol=1e-5, atol=1e-6)
    ctx = ctx.set_values({g.w: g.weights * 2.0})
    np.testing.assert_allclose(ctx.get_values(g.h), 2 * g.weights @ g.value, rtol=1e-5, atol=1e-6)


def test_a_long_product_and_what_is_virtual_over_it_cannot_be_read(root):
    g = Product(32)
    ctx = g.run(root, [g.y, wb.sqrt(g.v)])
    own, through = ctx.observability(g.h), ctx.observability(g.v)
    assert own.reading is through.reading is Reading.UNOBSERVABLE_LOCAL
    assert [node.label for node in through.path] == ["v", "h"]
    assert own.placement is not None
    assert own.placement.code == "39"
    assert CAPS[own.placement.code] == "max_inline_reduction"


@pytest.mark.parametrize("how", ["observable", "materialized", "decided"])
def test_a_long_product_that_somebody_spoke_for_is_stored_and_read(root, how):
    g = Product(32)
    match how:
        case "observable":
            wb.set_observable(g.h)
        case "materialized":
            wb.set_materialized(g.h)
        case "decided":
            root = root.decide_materialized(g.h)
    ctx = g.run(root, [g.y, wb.sqrt(g.v)])
    assert ctx.observability(g.h).reading is Reading.STORED
    np.testing.assert_allclose(ctx.get_values(g.h), g.weights @ g.value, rtol=1e-5, atol=1e-5)
    assert ctx.observability(g.v).reading is Reading.RECOMPUTABLE
    np.testing.assert_allclose(ctx.get_values(g.v), np.exp(g.weights @ g.value), rtol=1e-4)


def test_local_memory_is_not_read_until_it_is_materialized_and_never_written(root):
    g = Product(32)
    ctx = g.run(root, [g.y])
    with pytest.raises(wb.NotReadableError):
        ctx.get_values(g.h)
    with pytest.raises(wb.PlacementError):
        ctx.set_values({g.h: np.zeros(8)})
    ctx = g.run(root.decide_materialized(g.h), [g.y])
    assert ctx.get_values(g.h).shape == (8,)
    # It is read from then on; a write no routine would see, since each computes it.
    with pytest.raises(wb.PlacementError):
        ctx.set_values({g.h: np.full(8, 3.0)})

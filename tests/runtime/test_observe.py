"""Which values can be read, which cannot, who decided so, and what to do: every answer reached."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.counting import counting_context
from tests.runtime.test_show_tree import wide_graph
from workbench.graph.tensor import topological_order
from workbench.loops.placement import Mode
from workbench.loops.settings import DEFAULT_SETTINGS
from workbench.runtime.context import Context
from workbench.runtime.observe import CAPS, Reading, Walk
from workbench.runtime.remedy import Remedy

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


class Product:
    """``y = relu(h)``, ``h = w x`` of 8 cells, each a sum of ``k`` products."""

    def __init__(self, k):
        self.weights = np.linspace(-1, 1, 8 * k, dtype=np.float32).reshape(8, k)
        self.w = wb.parameter(self.weights, "w")
        self.x = wb.input("x", (k,))
        self.h = (self.w @ self.x).named("h")
        self.y = wb.relu(self.h).named("y")
        self.value = np.linspace(0, 1, k, dtype=np.float32)

    def run(self, root, *outputs):
        ctx, routine = root.compile(outputs or [self.y])
        return ctx.set_values({self.x: self.value}).run(routine)


def expect_readable(verdict, reading):
    assert verdict.reading is reading
    assert verdict.is_readable
    assert (verdict.path, verdict.placement, verdict.remedies) == ((), None, ())
    assert (verdict.placeholder, verdict.problem, verdict.remedy_text) == ("", "", "")
    assert str(verdict).endswith(f": {reading.value}")


# -- what can be read


def test_a_sum_of_8_products_is_recomputed_from_what_its_operands_hold_now(root):
    g = Product(8)
    ctx = g.run(root)
    expect_readable(ctx.observability(g.h), Reading.RECOMPUTABLE)
    assert ctx.placements[g.h].mode is Mode.VIRTUAL
    np.testing.assert_allclose(ctx.get_values(g.h), g.weights @ g.value, rtol=1e-6, atol=1e-6)
    moved = ctx.set_values({g.w: np.ones((8, 8))})
    np.testing.assert_allclose(moved.get_values(g.h), [g.value.sum()] * 8, rtol=1e-6)
    # The output keeps what the run computed.
    np.testing.assert_allclose(
        moved.get_values(g.y), np.maximum(g.weights @ g.value, 0), rtol=1e-6, atol=1e-6
    )


def test_what_a_person_asked_for_is_stored(root):
    g = Product(32)
    ctx = g.run(root, g.y, g.h)
    expect_readable(ctx.observability(g.h), Reading.STORED)
    np.testing.assert_allclose(ctx.get_values(g.h), g.weights @ g.value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "literal", [wb.constant([1.0, 2.0]), wb.constant(2.5), wb.parameter([3.0], "p")]
)
def test_a_literal_that_was_never_compiled_is_host_data_and_read_as_a_copy(root, literal):
    expect_readable(root.observability(literal), Reading.HOST_INIT)
    first = root.get_values(literal)
    first[...] = 99.0
    assert first.dtype == literal.dtype.numpy
    assert not np.any(root.get_values(literal) == 99.0)
    assert not np.any(Context.interpreter().get_values(literal) == 99.0)


def test_a_slice_is_a_value_like_any_other(root):
    x = wb.input("x", (4, 3))
    part = x[1]
    ctx, routine = root.compile([part * 2.0])
    ctx = ctx.set_values({x: np.arange(12.0).reshape(4, 3)}).run(routine)
    expect_readable(ctx.observability(part), Reading.RECOMPUTABLE)
    assert ctx.get_values(part).tolist() == [3.0, 4.0, 5.0]


def test_what_depends_on_the_batch_alone_is_read_where_the_values_tell_its_size(root):
    x = wb.input("x", (wb.batch, 2))
    mean = (x * 3.0).mean()
    ctx, routine = root.compile([mean])
    extent = next(n for n in topological_order([mean]) if n.op == "extent")
    spread = next(n for n in topological_order([mean]) if n.op == "broadcast")
    ctx = ctx.set_values({x: np.ones((5, 2))}).run(routine)
    assert ctx.get_values(extent) == 10.0
    assert ctx.get_values(spread).shape == (5, 2)


# -- what cannot


def test_a_sum_of_32_products_is_local_and_says_who_decided_and_what_to_do(root):
    g = Product(32)
    ctx = g.run(root)
    verdict = ctx.observability(g.h)
    assert verdict.reading is Reading.UNOBSERVABLE_LOCAL
    assert not verdict.is_readable
    assert verdict.path == (g.h,)
    assert verdict.placement is ctx.placements[g.h]
    assert (verdict.placement.mode, verdict.placement.code) == (Mode.LOCAL, "39")
    assert verdict.remedies == (Remedy("materialize", (g.h,)),)
    assert verdict.placeholder == "<unobservable: Local>"
    assert verdict.problem == (
        "`h` of shape (8,) and type float32 cannot be read: `h` of shape (8,) and type float32 is "
        "local (39: it combines 32 points, more than max_inline_reduction=16)"
    )
    assert verdict.remedy_text == (
        "store it: `ctx, routine = ctx.compile([ctx.node('h')])`, then `ctx = ctx.run(routine)`"
    )
    assert str(verdict) == f"{verdict.problem}\nRemedy: {verdict.remedy_text}"
    with refused(wb.NotReadableError, verdict.problem, remedy=verdict.remedy_text):
        ctx.get_values(g.h)


def test_each_remedy_can_be_done_as_the_data_says(root):
    g = Product(32)
    (materialize,) = g.run(root).observability(g.h).remedies
    expected = g.weights @ g.value
    stored = g.run(root, g.y, *materialize.nodes)
    expect_readable(stored.observability(g.h), Reading.STORED)
    np.testing.assert_allclose(stored.get_values(g.h), expected, rtol=1e-5, atol=1e-5)
    with wb.settings(max_inline_reduction=32):
        virtual = g.run(root)
        expect_readable(virtual.observability(g.h), Reading.RECOMPUTABLE)
        np.testing.assert_allclose(virtual.get_values(g.h), expected, rtol=1e-5, atol=1e-5)


def test_a_virtual_reader_of_a_local_node_is_refused_with_the_path_to_it(root):
    g = Product(32)
    v = wb.exp(g.h).named("v")
    ctx = g.run(root, g.y, (v + 1.0).named("out"))
    assert ctx.placements[v].mode is Mode.VIRTUAL
    assert ctx.observability(g.h).reading is Reading.UNOBSERVABLE_LOCAL
    verdict = ctx.observability(v)
    assert verdict.reading is Reading.UNOBSERVABLE_LOCAL
    assert verdict.path == (v, g.h)
    assert verdict.placement is ctx.placements[g.h]
    assert verdict.remedies == (Remedy("materialize", (v,)),)
    assert verdict.placeholder == "<unobservable: reads Local h>"
    assert verdict.placeholder_naming("#7 h") == "<unobservable: reads Local #7 h>"
    assert "(read through v -> h)" in verdict.problem
    with refused(wb.NotReadableError, "v -> h"):
        ctx.get_values(v)


def test_a_node_never_mentioned_is_absent(root):
    g = Product(8)
    stranger = (g.x * 2.0).named("stranger")
    ctx = g.run(root)
    verdict = ctx.observability(stranger)
    assert verdict.reading is Reading.NEEDS_CONTEXT
    assert (verdict.path, verdict.placement) == ((stranger,), None)
    assert verdict.remedies == (Remedy("materialize", (stranger,)),)
    assert verdict.placeholder == "<unobservable: absent>"
    assert "`stranger` of shape (8,) and type float32 is not part of this context" in str(verdict)
    assert "ctx.compile([t])" in verdict.remedy_text


def test_before_the_run_what_nobody_wrote_is_empty(root):
    g = Product(8)
    ctx, routine = root.compile([g.y], name="layer")
    output, product = ctx.observabilities([g.y, g.h])
    assert output.reading is product.reading is Reading.NEEDS_CONTEXT
    assert (output.path, product.path) == ((g.y,), (g.h, g.x))
    assert output.placeholder == "<unobservable: empty>"
    assert product.placeholder == "<unobservable: reads empty x>"
    assert product.remedies == (Remedy("set", (g.x,)),)
    assert output.remedies == (Remedy("set", (g.x,)), Remedy("run", routines=(routine.name,)))
    assert "holds no value here yet (read through h -> x)" in product.problem


def test_what_depends_on_the_batch_alone_is_bound_to_a_launch(root):
    x, t = wb.input("x", (wb.batch, 2)), wb.input("t", (wb.batch,))
    mean = (x * 3.0).mean().named("mean")
    ctx, _ = root.compile([mean])
    extent = next(n for n in topological_order([mean]) if n.op == "extent")
    for found in (ctx, ctx.set_values({x: np.ones((5, 2)), t: np.ones(4)})):
        verdict = found.observability(extent)
        assert verdict.reading is Reading.LAUNCH_BOUND
        assert verdict.path == (extent,)
        assert verdict.placeholder == "<unobservable: launch-bound>"
        assert "batch size" in verdict.problem
        assert verdict.remedies[-1] == Remedy("materialize", (extent,), asks_rows=True)
        with refused(wb.NotReadableError, "batch size", remedy="rows=..."):
            found.get_values(extent)


def test_every_answer_is_reached_by_some_test_of_this_folder():
    files = Path(__file__).parent.glob("test_*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [r for r in Reading if f"Reading.{r.name}" not in text] == []


# -- several reasons, several nodes


def test_of_several_reasons_the_worst_is_reported_not_the_first(root):
    a = wb.input("a", (4, 20))
    empty = wb.input("empty", (4,))
    h = a.sum(1).named("h")
    both = (wb.exp(empty) * wb.exp(h)).named("both")
    ctx, _ = root.compile([both + 1.0])
    ctx = ctx.set_values({a: np.ones((4, 20))})
    verdict = ctx.observability(both)
    assert verdict.reading is Reading.UNOBSERVABLE_LOCAL
    assert (verdict.path[0], verdict.path[-1]) == (both, h)


def test_of_equal_reasons_the_first_in_the_order_of_the_program_is_reported(root):
    first, second = wb.input("first", (4,)), wb.input("second", (4,))
    total = (wb.exp(first) + wb.exp(second)).named("total")
    ctx, _ = root.compile([total * 2.0])
    assert ctx.observability(total).path[-1] is first
    assert ctx.set_values({first: np.ones(4)}).observability(total).path[-1] is second


def test_asking_about_many_gives_each_its_own_answer(root):
    g = Product(32)
    ctx = g.run(root, g.y, (wb.exp(g.h).named("v") + 1.0).named("out"))
    nodes = topological_order([*ctx.placements])
    together = ctx.observabilities(nodes)
    assert together == [ctx.observability(node) for node in nodes]
    assert {v.reading for v in together} > {Reading.STORED, Reading.UNOBSERVABLE_LOCAL}


def test_reading_many_compiles_once_and_refuses_before_anything_is_compiled():
    g = Product(8)
    root, backend = counting_context()
    ctx = g.run(root, g.y + 1.0)
    backend.programs.clear()
    first, second, again, number = ctx.read([g.h, g.y, g.h, wb.constant(2.0)])
    assert len(backend.programs) == 1
    assert first.tobytes() == again.tobytes()
    np.testing.assert_allclose(second, np.maximum(first, 0))
    assert number == 2.0
    backend.programs.clear()
    with refused(wb.NotReadableError, "`x2`"):
        ctx.read([g.h, wb.input("x2", (3,)), wb.input("x3", (3,))])
    assert backend.programs == []


def test_asking_compiles_nothing():
    g = Product(32)
    root, backend = counting_context()
    ctx = g.run(root)
    backend.programs.clear()
    ctx.observabilities(topological_order([g.y]))
    assert backend.programs == []


def test_the_caps_that_a_remedy_names_are_settings():
    assert {name for name in CAPS.values() if not hasattr(DEFAULT_SETTINGS, name)} == set()


def test_labels_are_escaped_in_every_text():
    x = wb.input("x\n\x1b[2J", (4, 20))
    h = x.sum(1).named("h\x07")
    v = wb.exp(h).named("v\r")
    ctx, routine = Context.interpreter().compile([v + 1.0])
    for found in (ctx, ctx.set_values({x: np.ones((4, 20))}).run(routine)):
        for verdict in found.observabilities([x, h, v]):
            for text in (verdict.placeholder, verdict.problem, verdict.remedy_text):
                assert text.isprintable()


def test_an_answer_through_3000_virtual_nodes_comes_without_recursion():
    x = wb.input("x", (2,))
    y = x
    for _ in range(3000):
        y = -y
    ctx, _ = Context.interpreter().compile([x * 1.0])
    virtual = ctx.placements[x * 1.0]
    placed = replace(
        ctx,
        placements={n: replace(virtual, mode=Mode.VIRTUAL) for n in topological_order([y])}
        | {x: ctx.placements[x]},
    )
    verdict = placed.observability(y)
    assert verdict.reading is Reading.NEEDS_CONTEXT
    assert len(verdict.path) == 3001


def test_questions_about_a_thousand_nodes_one_by_one_look_at_each_node_once(monkeypatch):
    looked_at = []
    joined = Walk._joined

    def counted(self, node):
        looked_at.append(node.uid)
        return joined(self, node)

    monkeypatch.setattr(Walk, "_joined", counted)
    root = wide_graph(1000)
    nodes = topological_order([root])
    with wb.settings(
        max_visits=10**6, max_inline_fanin=-1, max_inline_cost=10**9, max_shared_cost=10**9
    ):
        ctx, routine = Context.interpreter().compile([root.sum()])
    ctx = ctx.run(routine)
    looked_at.clear()
    verdicts = [ctx.observability(node) for node in nodes]
    assert sum(verdict.reading is Reading.RECOMPUTABLE for verdict in verdicts) > 900
    assert 900 < len(looked_at) == len(set(looked_at)) <= len(nodes)


def test_what_was_found_about_a_context_goes_with_its_memory():
    x = wb.parameter(np.ones(3, np.float32), "x")
    ctx, routine = Context.interpreter().compile([(x * 2.0).named("double")])
    ctx = ctx.run(routine)
    (before,) = ctx.verdicts(routine.outputs)
    assert before.is_readable
    ctx.release()
    (after,) = ctx.verdicts(routine.outputs)
    assert after.reading is Reading.NEEDS_CONTEXT

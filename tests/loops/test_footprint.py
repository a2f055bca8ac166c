"""Nodes of which readers need few cells: boxes of those cells, and when there are none."""

import numpy as np
import pytest

import workbench as wb
from workbench.assign.assignment import Assignment, Computation
from workbench.assign.expression import Apply, Number, Read
from workbench.assign.from_graph import computation
from workbench.assign.index import Affine, Axis, at
from workbench.graph.dtype import DType
from workbench.graph.tensor import make
from workbench.loops.footprint import box_of
from workbench.loops.lower import lower
from workbench.loops.placement import BOX, Mode
from workbench.loops.policy import decide_placements
from workbench.loops.settings import Settings
from workbench.runtime.context import Context

ROOTS = {"interpreter": Context.interpreter, "cpu": lambda: Context.cpu(1)}
X = np.arange(256, dtype=np.float32).reshape(8, 32)
Y = np.array([[8 * k + j for j in range(8)] for k in range(32)], np.float32)
DIAGONAL = [83328, 211824, 342368, 474960, 609600, 746288, 885024, 1025808]


@pytest.fixture(params=ROOTS)
def root(request):
    return ROOTS[request.param]()


class Product:
    """``a = x y``, 8 by 8, each cell a sum of 32 products, of which more than the cap allows."""

    def __init__(self):
        self.x, self.y = wb.input("x", (8, 32)), wb.input("y", (32, 8))
        self.a = (self.x @ self.y).named("a")

    def diagonal(self, *, gated=False):
        """Return the computation of the node that reads the diagonal of ``a``, and the node."""
        made = computation([self.a])
        node = make("relu", (self.a,), (8,), DType.F32, {}, label=f"diagonal {gated}")
        i = Axis(8)
        read = Read(self.a, (at(i), at(i)))
        value = Apply("mul", (read, Number(1.0, DType.F32)), DType.F32)
        if gated:
            always = Apply("less", (Number(0.0, DType.F32), Number(1.0, DType.F32)), DType.BOOL)
            value = Apply("where", (always, read, Number(0.0, DType.F32)), DType.F32)
        reader = Assignment(node, (at(i),), (i,), value)
        return Computation((*made.statements, reader), made.inputs, (node,)), node

    def values(self, ctx, wanted, node):
        ctx, routine = ctx.compile(wanted)
        ctx = ctx.set_values({self.x: X, self.y: Y}).run(routine)
        return routine, ctx.get_values(node)


def boxed(buffer):
    return getattr(buffer, "op", "") == BOX


def reads_whole(routine, node):
    """Return whether any kernel has memory for all of ``node``."""
    return node in {b for k in routine.program.kernels for b in k.buffers}


def test_a_diagonal_is_computed_and_nothing_else(root):
    g = Product()
    wanted, node = g.diagonal()
    routine, values = g.values(root, wanted, node)
    assert values.tolist() == DIAGONAL
    found = routine.placements[g.a]
    assert (found.mode, found.code) == (Mode.VIRTUAL, "153")
    assert "need 8 of its 64 cells" in found.reason
    assert "it combines 32 points" in found.reason
    assert not reads_whole(routine, g.a)
    (box,) = {b for k in routine.program.kernels for b in k.buffers if boxed(b)}
    assert (box.shape, routine.program.local) == ((8,), (box,))
    stored, same = g.values(root.decide_materialized(g.a), wanted, node)
    assert same.tolist() == DIAGONAL
    assert stored.placements[g.a].code == "66"
    assert reads_whole(stored, g.a)


def test_the_setting_switches_it_off(root):
    g = Product()
    wanted, node = g.diagonal()
    with wb.settings(footprint_scratch=False):
        routine, values = g.values(root, wanted, node)
        asked, _ = g.values(root.decide_footprint(g.a), wanted, node)
    assert values.tolist() == DIAGONAL
    assert routine.placements[g.a].code == asked.placements[g.a].code == "39"


def test_what_a_choice_may_leave_unused_gets_no_box(root):
    g = Product()
    wanted, node = g.diagonal(gated=True)
    routine, values = g.values(root, wanted, node)
    assert values.tolist() == DIAGONAL
    assert routine.placements[g.a].code == "39"
    # A person may ask for boxes all the same: what none can serve is computed by the reader.
    asked, values = g.values(root.decide_footprint(g.a), wanted, node)
    assert values.tolist() == DIAGONAL
    assert asked.placements[g.a].code == "153"
    assert not reads_whole(asked, g.a)
    assert asked.program.local == ()


def placed(node, wanted, **caps):
    made = computation(wanted)
    caps = Settings(**caps)
    return lower(made, decide_placements(made, 32, settings=caps), 32, settings=caps)[1][node]


def long_sum(*shape):
    total = wb.input("x", (*shape, 17)).sum(len(shape))
    return total.named("total")


def test_a_reader_of_the_whole_gets_no_box():
    h = long_sum(8, 8)
    assert placed(h, [wb.exp(h)]).code == "39"
    assert placed(h, [wb.exp(h.T)]).code == "39"


def test_slices_that_make_up_the_whole_get_no_boxes():
    h = long_sum(8, 8)
    assert placed(h, [wb.exp(h[:4]), wb.exp(h[4:])]).code == "39"
    assert placed(h, [wb.exp(h[:4]), wb.exp(h[5:])]).code == "153"


def test_a_reader_that_is_virtual_itself_gets_no_box():
    h = long_sum(8, 8)
    part = wb.relu(h[0])
    assert placed(h, [part * 2.0]).code == "39"
    assert placed(h, [part]).code == "153"


def test_a_reader_that_several_statements_write_gets_no_box():
    h = long_sum(8, 8)
    assert placed(h, [wb.concat([h[0], h[1]], 0)]).code == "39"


def test_what_somebody_must_read_gets_no_box():
    h = long_sum(8, 8)
    assert placed(h, [wb.exp(h[0]), h]).mode is Mode.ON_DEVICE
    other = long_sum(8, 8)
    wb.set_observable(other)
    found = placed(other, [wb.exp(other[0])])
    assert (found.mode, found.code) == (Mode.ON_DEVICE, "39")


def test_two_reads_of_the_same_cells_share_a_box(root):
    x = wb.input("x", (6, 5, 17))
    h = x.sum(2).named("h")
    wanted = [wb.tanh(h[2]), h[2] * 2.0, h[2, 1] + 1.0]
    ctx, routine = root.compile(wanted)
    assert routine.placements[h].code == "153"
    assert "need 6 of its 30 cells" in routine.placements[h].reason
    assert sum(k.label.count("cells of h") for k in routine.program.kernels) == 2
    value = np.random.default_rng(0).normal(size=(6, 5, 17)).astype(np.float32)
    ctx = ctx.set_values({x: value}).run(routine)
    total = value.sum(2)
    for node, expected in zip(
        wanted, (np.tanh(total[2]), total[2] * 2.0, total[2, 1] + 1.0), strict=True
    ):
        np.testing.assert_allclose(ctx.get_values(node), expected, rtol=1e-5, atol=1e-5)


def test_boxes_of_what_reads_boxes(root):
    x = wb.input("x", (6, 20, 17))
    inner = x.sum(2).named("inner")
    outer = (inner[:, 1:] * 2.0).sum(1).named("outer")
    ctx, routine = root.decide_footprint([inner, outer]).compile([wb.exp(outer[3] * 0.01)])
    assert {routine.placements[n].code for n in (inner, outer)} == {"153"}
    value = np.random.default_rng(1).normal(size=(6, 20, 17)).astype(np.float32)
    ctx = ctx.set_values({x: value}).run(routine)
    expected = np.exp((value.sum(2)[:, 1:] * 2.0).sum(1)[3] * 0.01)
    np.testing.assert_allclose(ctx.get_values(routine.outputs[0]), expected, rtol=1e-5)


def test_the_batch_can_be_an_axis_of_a_box(root):
    x = wb.input("x", (wb.batch, 7, 17))
    h = x.sum(2).named("h")
    last = wb.tanh(h[:, -1])
    ctx, routine = root.compile([last])
    assert routine.placements[h].code == "153"
    value = np.random.default_rng(2).normal(size=(5, 7, 17)).astype(np.float32)
    ctx = ctx.set_values({x: value}).run(routine)
    expected = np.tanh(value.sum(2)[:, -1])
    np.testing.assert_allclose(ctx.get_values(last), expected, rtol=1e-5, atol=1e-6)


def test_a_box_holds_what_was_there_before_an_update(root):
    p = wb.parameter(np.arange(12.0, dtype=np.float32).reshape(3, 4), "p")
    h = wb.tanh(p * 0.1).named("h")
    new = wb.broadcast_to(h[0], (3, 4)) * 2.0
    ctx, routine = root.decide_footprint(h).compile([], updates={p: new})
    ctx = ctx.run(routine)
    expected = np.broadcast_to(np.tanh(np.arange(4.0) * 0.1) * 2.0, (3, 4))
    np.testing.assert_allclose(ctx.get_values(p), expected, rtol=1e-5)


def test_a_virtual_node_that_is_served_from_boxes_can_be_read(root):
    g = Product()
    wanted, node = g.diagonal()
    ctx, routine = root.compile(wanted)
    ctx = ctx.set_values({g.x: X, g.y: Y}).run(routine)
    assert ctx.get_values(g.a).tolist() == (X @ Y).tolist()
    assert ctx.get_values(node).tolist() == DIAGONAL


def test_boxes_are_equal_where_the_same_cells_come_in_the_same_order():
    i, j, one = Axis(8), Axis(8), Axis(1)
    diagonal, backward = (at(i), at(i)), (at(i), Affine(((i, -1),), 7))
    assert box_of(diagonal) == box_of((at(j), at(j))) != box_of(backward)
    assert box_of((at(i), at(j))) == box_of((at(j), at(i)))
    assert box_of((at(i), at(one))) == box_of((at(i), Affine()))
    shapes = [box.extents for box in map(box_of, (diagonal, (at(i), at(j)), ())) if box]
    assert shapes == [(8,), (8, 8), ()]

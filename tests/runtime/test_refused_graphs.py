"""Refusals for what a graph or a node is: not here, not to be written, not to be read."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.assign.from_graph import computation

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


@pytest.fixture
def model():
    x = wb.input("x", (wb.batch, 64))
    hidden = wb.tanh(x).named("hidden")
    return x, hidden, (hidden * 2.0).named("twice")


def head_on(hidden, wanted):
    return computation([wanted], name="head", given=frozenset([hidden]))


# -- a graph whose construction failed


def test_a_graph_that_could_not_be_built_spoils_nothing_that_was(root):
    x, w = wb.parameter(np.ones((2, 3)), "x"), wb.parameter(np.ones((2, 3)), "w")
    before = (x * 2.0).named("before")
    with refused(wb.ShapeError, "(2, 3)"):
        wb.einsum("ij,jk->ik", x, w)
    ctx, routine = root.compile([before, x @ w.T])
    ctx = ctx.run(routine)
    assert ctx.get_values(before).tolist() == [[2.0] * 3] * 2
    assert ctx.get_values(routine.outputs[1]).tolist() == [[3.0] * 2] * 2


# -- a node that this context lacks


def test_a_computation_that_takes_as_given_what_is_not_here_is_refused_before_lowering(
    root, model, monkeypatch
):
    _, hidden, twice = model
    monkeypatch.setattr("workbench.runtime.compiling.lower", None)
    with refused(wb.CompileError, "`head`", "`hidden`", "lacks it", remedy="in this lineage first"):
        root.compile(head_on(hidden, twice))


def test_a_computation_takes_as_given_what_an_earlier_routine_leaves_once_that_ran(root, model):
    x, hidden, twice = model
    ctx, trunk = root.compile([hidden], name="trunk")
    ctx, head = ctx.compile(head_on(hidden, twice))
    ctx = ctx.set_values({x: np.ones((5, 64))})
    with refused(wb.ExecutionError, "head", "`hidden`", remedy="run"):
        ctx.run(head)
    ctx = ctx.run(trunk)
    assert np.array_equal(ctx.run(head).get_values(twice), 2.0 * ctx.get_values(hidden))
    # What is given is what is there, not what would be computed from `x`.
    ctx = ctx.set_values({hidden: np.full((5, 64), 3.0)}).run(head)
    assert ctx.get_values(twice).max() == ctx.get_values(twice).min() == 6.0


def test_a_sibling_does_not_lend_what_it_holds(root, model):
    x, hidden, twice = model
    sibling, trunk = root.compile([hidden])
    sibling.set_values({x: np.ones((5, 64))}).run(trunk)
    with refused(wb.CompileError, "`hidden`", remedy="copy it here"):
        root.compile(head_on(hidden, twice))


# -- a node that cannot be written from outside


def test_a_local_node_cannot_be_set_and_the_text_says_who_decided_so(root):
    x = wb.input("x", (4, 20))
    total = x.sum(1).named("total")
    ctx, routine = root.compile([wb.exp(total)])
    ctx = ctx.set_values({x: np.zeros((4, 20))}).run(routine)
    with refused(
        wb.PlacementError,
        "`total`",
        "local",
        "max_inline_reduction",
        remedy="given=[t]",
    ):
        ctx.set_values({x: np.ones((4, 20)), total: np.ones(4)})
    # All or nothing: what came before it in the call was not written either.
    assert ctx.get_values(x).max() == 0.0
    # Done as the remedy says.
    ctx = root.set_values({total: np.ones(4)})
    ctx, routine = ctx.compile(wb.computation([wb.exp(total)], given=[total]))
    np.testing.assert_allclose(ctx.run(routine).get_values(wb.exp(total)), np.e, rtol=1e-6)


def test_a_view_cannot_be_set_but_what_it_is_a_view_of(root):
    x = wb.parameter(np.arange(6.0), "x")
    folded = x.reshape(2, 3).named("folded")
    ctx, routine = root.compile([folded])
    ctx = ctx.run(routine)
    with refused(wb.PlacementError, "`folded`", "view of `x`", remedy="set `x`"):
        ctx.set_values({folded: np.zeros((2, 3))})
    ctx = ctx.set_values({x: np.ones(6)})
    assert ctx.get_values(folded).tolist() == [[1.0] * 3] * 2


# -- a node that cannot be read


def test_of_several_nodes_the_first_that_cannot_be_read_is_refused_before_any_is_read(root):
    x = wb.input("x", (4, 20))
    total = x.sum(1).named("total")
    ctx, routine = root.compile([wb.exp(total)])
    ctx = ctx.set_values({x: np.zeros((4, 20))}).run(routine)
    with refused(wb.NotReadableError, "`total`", "local", remedy="ctx.node('total')"):
        ctx.read([x, total, wb.input("elsewhere", (2,))])
    assert ctx.get_values(routine.outputs[0]).tolist() == [1.0] * 4

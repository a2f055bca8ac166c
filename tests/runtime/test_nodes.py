"""One node is one node, and a name is none, at every entrance that takes nodes."""

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.graph.gradient import reached_gradients
from workbench.graph.leaf import scalar
from workbench.runtime.explain import explain
from workbench.runtime.reading import verdicts


class Case:
    """A vector, whose slices could be taken for several nodes, in a context that ran."""

    def __init__(self):
        self.w = wb.parameter([1.0, 2.0, 3.0], "w")
        self.v = (self.w * 2.0).named("v")
        self.loss = self.v.sum().named("loss")
        self.c = wb.constant(np.array([4.0, 5.0, 6.0], np.float32))
        self.fresh = wb.Context.interpreter()
        ctx, routine = self.fresh.compile([self.v, self.c * self.w])
        self.ctx = ctx.run(routine)


def kept(ctx):
    stored = (n for n, place in ctx.placements.items() if place.mode.name == "ON_DEVICE")
    return sorted((n.op, n.label, n.shape) for n in stored)


ENTRANCES = {
    "compile": lambda c, n: [t.uid for t in c.fresh.compile(n)[1].outputs],
    "compile_outcome": lambda c, n: [t.uid for t in c.fresh.compile_outcome(n).made[1].outputs],
    "lowered_for_decisions": lambda c, n: c.fresh.lowered_for_decisions(n).text(),
    "lowered_for_decisions materialized": lambda c, n: c.fresh.lowered_for_decisions(
        [c.loss], materialized=n
    ).text(),
    "decision_surface": lambda c, n: repr(c.fresh.decision_surface(n)),
    "link_delta": lambda c, n: c.fresh.link_delta(n),
    "link_trial": lambda c, n: c.fresh.link_trial(n),
    "link_floor": lambda c, n: c.fresh.link_floor(n),
    "explain": lambda c, n: explain(n),
    "computation": lambda c, n: [t.uid for t in wb.computation(n).outputs],
    "computation given": lambda c, n: [t.uid for t in wb.computation([c.loss], given=n).inputs],
    "decide_materialized": lambda c, n: kept(
        c.fresh.decide_materialized(n).compile([c.loss * 2.0])[0]
    ),
    "decide_inline": lambda c, n: kept(c.fresh.decide_inline(n).compile([c.loss * 2.0])[0]),
    "decide_footprint": lambda c, n: kept(c.fresh.decide_footprint(n).compile([c.loss * 2.0])[0]),
    "decide_reading": lambda c, n: kept(
        c.fresh.decide_reading("inline", n).compile([c.loss * 2.0])[0]
    ),
    "decide": lambda c, n: kept(c.fresh.decide(materialized=n).compile([c.loss * 2.0])[0]),
    "read": lambda c, n: [value.tolist() for value in c.ctx.read(n)],
    "observabilities": lambda c, n: [v.reading for v in c.ctx.observabilities(n)],
    "verdicts": lambda c, n: [v.reading for v in verdicts(c.ctx, n)],
    "backward": lambda c, n: [k.uid for k in wb.backward(c.loss, n)],
    "backward stop": lambda c, n: len(wb.backward(c.loss, [c.v], n)),
    "reached_gradients": lambda c, n: [
        k.uid for k in reached_gradients(scalar(1.0, c.loss.dtype), c.loss, n)
    ],
    "grad_update": lambda c, n: [t.uid for t in wb.grad_update(c.loss, params=n).updates],
    "zero_params_grads": lambda c, n: [t.uid for t in wb.zero_params_grads(c.loss, n).updates],
    "grad_checksum": lambda c, n: len(wb.grad_checksum(c.loss, n)[1].inputs),
    "grad_l2_norm": lambda c, n: len(wb.grad_l2_norm(c.loss, n)[1].inputs),
    "clip_by_global_norm": lambda c, n: len(
        wb.clip_by_global_norm(c.loss, max_norm=1.0, params=n).computation.inputs
    ),
    "sgd_update": lambda c, n: [
        t.uid for t in wb.sgd_update(c.loss, learning_rate=0.1, params=n).updates
    ],
    "adam_update": lambda c, n: [
        t.uid for t in wb.adam_update(c.loss, learning_rate=0.1, params=n).updates
    ],
    "gated_scaled_update": lambda c, n: len(
        wb.gated_scaled_update(c.loss, wb.LossScaler(8.0), learning_rate=0.1, params=n)[1].updates
    ),
}
"""Each takes `[node]` or a node, and gives something that tells whether it was the node."""

STEPPED = {"grad_update", "zero_params_grads", "grad_checksum", "grad_l2_norm"} | {
    "clip_by_global_norm",
    "sgd_update",
    "adam_update",
    "gated_scaled_update",
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_tensor_where_several_are_asked_for_is_that_one_and_not_its_slices(entrance):
    case, ask = Case(), ENTRANCES[entrance]
    node = case.w if entrance in STEPPED else case.v
    assert ask(case, node) == ask(case, [node])


ONE = {
    "get_values": lambda c, n: c.ctx.get_values(n),
    "get_value": lambda c, n: c.ctx.get_value(n, 0),
    "set_value": lambda c, n: c.ctx.set_value(n, 0, 1.0),
    "points_1d": lambda c, n: c.ctx.points_1d(n, 0),
    "set_values": lambda c, n: c.ctx.set_values({n: [1.0, 2.0, 3.0]}),
    "observability": lambda c, n: c.ctx.observability(n),
    "is_initialized": lambda c, n: c.ctx.is_initialized(n),
    "buffer_written": lambda c, n: c.ctx.buffer_written(n),
    "copy": lambda c, n: wb.Context.copy(c.ctx, c.fresh, n),
    "own_constants": lambda c, n: c.ctx.own_constants(n),
    "compile updates": lambda c, n: c.fresh.compile([], updates={n: c.v}),
    "set_materialized": lambda c, n: wb.set_materialized(n),
    "set_virtual": lambda c, n: wb.set_virtual(n),
    "set_observable": lambda c, n: wb.set_observable(n),
    "save_values": lambda c, n: wb.save_values(c.ctx, n, "/nowhere/values.safetensors"),
    "stored_components": lambda c, n: c.ctx.stored_components(n),
}


@pytest.mark.parametrize("entrance", [*ENTRANCES, *ONE])
@pytest.mark.parametrize("wrong", ["w", 3.5])
def test_what_is_no_tensor_is_refused_with_what_was_given(entrance, wrong):
    case, ask = Case(), {**ENTRANCES, **ONE}[entrance]
    with refused(wb.GraphError, "must be", f"got {wrong!r}", remedy="pass"):
        ask(case, wrong)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_name_among_tensors_is_refused_as_well(entrance):
    case = Case()
    with refused(wb.GraphError, "got 'v'", remedy="the tensor itself"):
        ENTRANCES[entrance](case, [case.w, "v"])


def test_one_tensor_is_stacked_and_joined_as_one():
    v = wb.parameter([1.0, 2.0], "v")
    ctx = wb.Context.interpreter()
    for join in (wb.stack, wb.concat):
        alone, listed = join(v), join([v])
        assert alone.shape == listed.shape
        done, routine = ctx.compile([alone, listed])
        done = done.run(routine)
        assert np.array_equal(done.get_values(alone), done.get_values(listed))


def test_one_tensor_is_saved_and_restored_as_one(tmp_path):
    case = Case()
    path = wb.save_values(case.ctx, case.w, tmp_path / "w.safetensors")
    ctx = wb.restore_values(case.ctx.set_values({case.w: [0.0, 0.0, 0.0]}), case.w, path)
    assert ctx.get_values(case.w).tolist() == [1.0, 2.0, 3.0]


def test_declarations_take_one_or_several():
    case = Case()
    nodes = [wb.exp(case.w), wb.exp(case.v)]
    wb.set_materialized(*nodes)
    _, routine = case.fresh.compile([sum(nodes, case.w).sum()])
    assert all(routine.placements[node].is_stored for node in nodes)

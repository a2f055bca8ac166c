"""What is asked about one fact in several ways has one answer, and it is what is so."""

import gc
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from workbench.errors import LostRoutineWarning
from workbench.runtime.outcome import Phase
from workbench.runtime.reading import stored

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


class Chain:
    """`x` -> `h` (virtual) -> `y`, which is asked for."""

    def __init__(self, root):
        self.x = wb.input("x", (4,))
        self.h = (self.x * 2.0).named("h")
        self.y = (self.h + 1.0).named("y")
        self.root = root.set_values({self.x: np.ones(4)})
        self.ctx, self.routine = self.root.compile([self.y])


# -- one fact, one answer


def check(ctx, nodes):
    """Ask everything that can be asked of where values are."""
    held = stored(ctx)
    for node in nodes:
        verdict = ctx.observability(node)
        is_stored = verdict.reading.name == "STORED"
        assert is_stored == (node in held) == ctx.is_initialized(node)
        if is_stored:
            assert ctx.buffer_written(node)
        rows = [row for row in ctx.placement_table().rows if row.node is node]
        assert all(row.observability.is_readable == verdict.is_readable for row in rows)
        if verdict.is_readable:
            ctx.get_values(node)
        else:
            with refused(wb.NotReadableError):
                ctx.get_values(node)
            with refused(wb.NotReadableError):
                wb.Context.copy(ctx, wb.Context.interpreter(), node)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_after_any_moves_all_questions_about_a_value_agree(seed):
    draw = random.Random(seed)
    x, total = wb.input("x", (3,)), wb.input("total", (3,))
    h = wb.exp(x).named("h")
    y, s = (h + 1.0).named("y"), (h * 3.0).sum().named("s")
    nodes = [x, total, h, y, s]
    contexts, routines = [wb.Context.interpreter()], []
    wanted = [
        {"wanted": [y]},
        {"wanted": [s, h]},
        {"wanted": [], "updates": {total: x * 1.0}},
        {"wanted": [y], "updates": {total: total + 1.0}},
    ]
    for _ in range(12):
        ctx = draw.choice(contexts[-3:])
        move = draw.choice(["compile", "run", "run", "run", "rollback", "set", "copy", "decide"])
        try:
            if move == "compile":
                made, routine = ctx.compile(**draw.choice(wanted))
                contexts.append(made)
                routines.append(routine)
            elif move == "run" and routines:
                contexts.append(ctx.run(draw.choice(routines)))
            elif move == "rollback" and routines:
                ctx.rollback_execution(draw.choice(routines))
            elif move == "set":
                contexts.append(ctx.set_values({draw.choice([x, total]): np.ones(3)}))
            elif move == "copy":
                contexts.append(wb.Context.copy(draw.choice(contexts), ctx, draw.choice(nodes)))
            elif move == "decide":
                contexts.append(ctx.decide_materialized(draw.choice([h, y])))
        except wb.WorkbenchError:
            continue
        for each in contexts[-3:]:
            check(each, nodes)


def test_a_value_whose_run_was_taken_back_is_none_for_any_question(root):
    chain = Chain(root)
    ctx = chain.ctx.run(chain.routine)
    assert ctx.observability(chain.y).is_readable
    ctx.rollback_execution(chain.routine)
    assert not ctx.buffer_written(chain.y)
    assert not ctx.is_initialized(chain.y)
    assert not ctx.observability(chain.y).is_readable
    with refused(wb.NotReadableError, "`y`", "no value here"):
        ctx.get_values(chain.y)
    assert ctx.run(chain.routine).get_values(chain.y).tolist() == [3.0] * 4
    assert ctx.observability(chain.y).is_readable


# -- what nobody would read is not written


@pytest.mark.parametrize("node", ["h", "y"])
def test_a_value_for_a_node_that_routines_compute_is_refused_naming_given(root, node):
    chain = Chain(root)
    computed = getattr(chain, node)
    for ctx in (chain.ctx, chain.ctx.run(chain.routine)):
        reading = ctx.observability(computed).reading
        with refused(wb.PlacementError, f"`{node}`", "compute it", remedy="given=[t]"):
            ctx.set_values({computed: np.zeros(4)})
        with refused(wb.PlacementError, f"`{node}`"):
            wb.Context.copy(chain.ctx.run(chain.routine), ctx, computed)
        assert ctx.observability(computed).reading is reading or computed is chain.y


def test_a_value_that_is_taken_as_given_may_be_written_as_the_remedy_says(root):
    chain = Chain(root)
    ctx = chain.root.set_values({chain.h: np.full(4, 5.0)})
    ctx, routine = ctx.compile(wb.computation([chain.y], given=[chain.h]))
    assert ctx.run(routine).get_values(chain.y).tolist() == [6.0] * 4
    ctx = ctx.set_values({chain.h: np.full(4, 7.0)})
    assert ctx.run(routine).get_values(chain.y).tolist() == [8.0] * 4


# -- what was lost


def test_a_step_whose_gradient_was_lost_before_it_ran_is_told_by_a_warning(root):
    w = wb.parameter([1.0], "w")
    loss = (w * w).sum()
    ctx, gradients = root.compile(wb.grad_update(loss))
    ctx, update = ctx.compile(wb.sgd_update(loss, learning_rate=0.1))
    del gradients
    gc.collect()
    with pytest.warns(LostRoutineWarning, match="`sgd_update`.*never ran.*`grad_w`"):
        ctx.run(update)
    # Compiled again, the update has what it waits for.
    ctx, gradients = ctx.compile(wb.grad_update(loss))
    ctx.run(gradients).run(update)


# -- what is compiled is what is shown


@pytest.mark.parametrize(
    "change",
    [{"fuse": False}, {"max_inline_reduction": 0}, {"local_bytes": 0}, {"buffer_aliasing": True}],
)
def test_a_lowering_is_not_reused_under_other_settings(root, change):
    x = wb.input("x", (4, 30))
    made = {"wanted": [wb.exp(x.sum(1)).sum()], "name": "f", "reuse": wb.LoweringReuse()}
    root.compile(**made)
    with (
        wb.settings(**change),
        refused(wb.ConfigurationError, "the settings", "differs", remedy="one"),
    ):
        root.compile(**made)
    with wb.settings(print_precision=5):
        root.compile(**made)


def programs(program):
    """Each program that lacks one kernel, and each that has its kernels backwards."""
    for place in range(len(program.kernels)):
        yield replace(program, kernels=program.kernels[:place] + program.kernels[place + 1 :])
    if len(program.kernels) > 1:
        yield replace(program, kernels=program.kernels[::-1])


def test_a_transform_that_drops_or_disorders_kernels_is_refused(root):
    x = wb.input("x", (4, 30))
    w = wb.parameter(np.ones((30, 5), np.float32), "w")
    hidden = wb.tanh(x @ w)
    loss = wb.square(hidden - hidden.mean(0)).sum().named("loss")
    updates = {w: w - 0.1 * wb.backward(loss, [w])[w]}
    for fuse in (True, False):
        with wb.settings(fuse=fuse):
            _, plain = root.compile([loss], updates=updates)
            broken = list(programs(plain.program))
            assert len(broken) > 1
            for program in broken:
                with refused(wb.CompileError, "writes", remedy="kernel"):
                    root.compile(
                        [loss], updates=updates, lowered_transform=lambda _, p=program: [p]
                    )
                outcome = root.compile_outcome(
                    [loss], updates=updates, lowered_transform=lambda _, p=program: [p]
                )
                assert outcome.failure.phase is Phase.TRANSFORM
            for program in broken[:-1]:
                with refused(wb.CompileError, "prelowered", remedy=""):
                    root.compile([loss], updates=updates, prelowered=program)

"""Looking never changes state: everything that can be asked is asked, and all state compared."""

import contextlib
import gc
import io
import pickle
import random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.oracle.numpy_graph import rows_of
from tests.strategies import random_graph
from workbench.graph import tensor
from workbench.graph.tensor import topological_order
from workbench.loops import intent
from workbench.runtime import lineage
from workbench.runtime.context import Context
from workbench.runtime.explain import STAGES
from workbench.runtime.graph_view import GraphView
from workbench.runtime.placement_changes import placement_changes
from workbench.runtime.placement_table import Order
from workbench.runtime.show_tree import tree_text
from workbench.runtime.why_card import WhyCard

SEEDS = st.integers(0, 2**32 - 1)


def state_of(ctx):
    """All that a context holds, in comparable form."""
    buffers = {
        node.uid: (buffer.shape, buffer.array.ctypes.data, buffer.array.tobytes())
        for node, buffer in ctx.buffers.items()
    }
    placements = {node.uid: placement for node, placement in ctx.placements.items()}
    initialized = {node.uid for node in ctx.initialized}
    asked = [
        {node.uid for node in each}
        for each in (
            ctx.preferences.inline,
            ctx.preferences.footprint,
            ctx.preferences.materialized,
        )
    ]
    life = ctx.unit, ctx.unit.is_released, ctx.stage, ctx.unit.newest, ctx.lifecycle_depth
    known = ctx.id, ctx.made_by, buffers, initialized, placements, asked, ctx.held_memory(), life
    return *known, state_of_ledger(ctx)


def state_of_ledger(ctx):
    """All that is known of runs and writes, and what the lineage leaves to the next compile."""
    ledger, frontier = ctx.ledger, ctx.frontier
    records = {
        node.uid: (found.written, found.set_at, set(found.writers))
        for node, found in ((node, buffer.record) for node, buffer in ctx.buffers.items())
    }
    tallies = {n.uid: b.record.tally and dict(b.record.tally.runs) for n, b in ctx.buffers.items()}
    readers = {node.uid: numbers for node, numbers in frontier.readers.items()}
    writers = {node.uid: number for node, number in frontier.writers.items()}
    happened = set(ledger.executed), ledger._clock, dict(ledger._ran_at), ledger.record_count()
    trusted = ledger.poison, ledger.generation, ledger.accumulation.version
    return (
        records,
        tallies,
        readers,
        writers,
        frontier.claims,
        set(frontier.views),
        happened,
        trusted,
    )


def state_of_process():
    """Random streams, and what exists: tensors, contexts, settings."""
    gc.collect()
    shared = pickle.dumps(np.random.get_state())  # noqa: NPY002 (the stream that others may use)
    streams = (shared, random.getstate())
    with wb.settings() as known:
        declared = dict(intent._declared)
        return streams, len(tensor._interned), len(lineage._alive), declared, known


def state_of_routine(routine):
    return list(routine._bound), list(routine._local), routine.text(), routine.dispatch


def ask_everything(ctx, routine, outputs):
    """Ask, print and read all there is; return what was answered."""
    nodes = topological_order(outputs)
    pairs = dict(zip(outputs, reversed(outputs), strict=True))
    answers = [repr(ctx), ctx._repr_html_(), str(ctx.lineage()), ctx.lineage()._repr_html_()]
    answers += [repr(routine), routine._repr_html_(), routine.summary(), routine.text()]
    answers += [routine.local_bytes(rows) for rows in (1, 7)]
    for order in get_args(Order):
        table = ctx.placement_table(order)
        answers += [str(table), table._repr_html_()]
    surface = ctx.decision_surface(outputs)
    nodes_decided = [each.node for each in surface]
    vector = {"materialized": nodes_decided[::3], "inline": nodes_decided[1::3]}
    lowered = ctx.lowered_for_decisions(outputs, **vector, footprint=nodes_decided[2::3])
    answers += [str(surface), surface._repr_html_(), repr(lowered), lowered.text()]
    answers += [f"{flip.node} {flip.choice} {flip.cost}" for flip in surface.ranked()]
    answers += [str(placement) for placement in lowered.placements.values()]
    for stage in STAGES:
        answers += [wb.explain(routine, stage=stage), wb.explain(outputs, stage=stage)]
    answers += [ctx.can_run(routine), ctx.record_count(), ctx.poisoned_failure()]
    answers += [(ctx.is_initialized(node), ctx.buffer_written(node)) for node in nodes]
    for check in (ctx.check_runnable, ctx.check_lineage_runnable, ctx.check_launch_bindings):
        try:
            check(routine)
        except wb.ExecutionError as refusal:
            answers.append(refusal.problem)
    ctx.save_accumulation_history()
    assert ctx.sync() is ctx
    verdicts = [ctx.observability(node) for node in nodes]
    assert verdicts == ctx.observabilities(nodes)
    for node, verdict in zip(nodes, verdicts, strict=True):
        answers += [repr(node), node._repr_html_(), str(verdict), verdict.placeholder]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for root in outputs:
            ctx.printf(root, grads=pairs)
        for depth in (0, 2, 9):
            ctx.printf_tree(outputs[0], depth, grads=pairs)
        ctx.printf_tree(outputs[-1], with_value=False)
    answers.append(printed.getvalue())
    view = GraphView(outputs[0], ctx, pairs)
    answers += [str(view.rows(range(len(view)))), view.outline(), str(view.find("a"))]
    detail = view.detail(0)
    answers += [detail.value.grid, str(detail.readers), str(view.starting("1"))]
    cards = [WhyCard(node, ctx, routine) for node in (outputs[0], nodes[len(nodes) // 2])]
    answers += [text for card in cards for text in (str(card), card._repr_html_())]
    answers += [str(placement_changes(ctx, ctx)), placement_changes(ctx, ctx)._repr_html_()]
    answers += [str(ctx.link_delta(outputs)), str(ctx.link_floor(outputs))]
    answers += [str(ctx.link_trial(outputs)), str(ctx.link_trial(routine.program))]
    answers += [repr(ctx.backend_facts), repr(ctx.hardware_limits), repr(ctx.device_identity())]
    answers += [repr(ctx.static_properties()), repr(ctx.free_and_total_memory())]
    answers.append(str(ctx.held_memory()))
    assert 0 <= ctx.used_memory() <= ctx.peak_memory()
    answers += [str(ctx.lifecycle_depth), str(ctx.same_release_unit(ctx)), ctx.backend_name]
    readable = [verdict.node for verdict in verdicts if verdict.is_readable]
    values = ctx.read(readable)
    answers += [value.tobytes() for value in values]
    for value in values:
        value[...] = 1  # what a person does with a copy is theirs
    return answers


def look(seed, make):
    outputs, feeds = random_graph(seed)
    rows = rows_of(feeds)
    wanted = random.Random(seed).sample(outputs, max(1, len(outputs) // 2))

    nodes = topological_order(outputs)
    vector = {"materialized": nodes[::5], "inline": nodes[1::9], "footprint": nodes[2::5]}

    def ready():
        ctx, routine = make().decide(**vector).compile(wanted, name="first")
        return ctx.set_values(feeds).run(routine, rows=rows), routine

    def go_on(ctx, routine):
        """A run again and another routine; what they give and how they were compiled."""
        ctx = ctx.run(routine, rows=rows)
        ctx, second = ctx.compile(outputs, name="second")
        ctx = ctx.run(second, rows=rows)
        return second.text(), [ctx.get_values(node).tobytes() for node in (*wanted, *outputs)]

    ctx, routine = ready()
    before = state_of(ctx), state_of_routine(routine), [a.tobytes() for a in feeds.values()]
    # Answers are for one state the same whenever they are asked for; the first asking may fill
    # caches of compiled kernels, so that what exists is counted after it.
    first = ask_everything(ctx, routine, outputs)
    process = state_of_process()
    assert ask_everything(ctx, routine, outputs) == first
    assert state_of_process() == process
    after = state_of(ctx), state_of_routine(routine), [a.tobytes() for a in feeds.values()]
    assert after == before
    # A twin that nobody looked at goes on to the same bits.
    assert go_on(ctx, routine) == go_on(*ready())


@given(SEEDS)
@settings(max_examples=12)
def test_looking_changes_nothing_in_the_interpreter(seed):
    look(seed, Context.interpreter)


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=100)
def test_looking_changes_nothing_in_the_interpreter_with_many_more(seed):
    look(seed, Context.interpreter)


@pytest.mark.parametrize("seed", range(4))
def test_looking_changes_nothing_on_the_processor(seed):
    look(seed, lambda: Context.cpu(2))


@pytest.mark.parametrize("make", [Context.interpreter, lambda: Context.cpu(1)])
def test_looking_before_the_first_run_changes_nothing(make):
    outputs, feeds = random_graph(11)
    ctx, routine = make().compile(outputs)
    before = state_of(ctx), state_of_routine(routine)
    ask_everything(ctx, routine, outputs)
    assert (state_of(ctx), state_of_routine(routine)) == before
    ctx = ctx.set_values(feeds).run(routine)
    assert all(ctx.observability(node).is_readable for node in outputs)


def test_reading_a_hundred_times_holds_memory_flat():
    x = wb.parameter(np.ones((100, 100), np.float32), "x")
    h = (x * 2.0).named("h")
    ctx, _ = Context.cpu(1).compile([wb.tanh(h)])
    tree_text(ctx, h)
    before = ctx.held_memory(), state_of_process()
    for _ in range(100):
        tree_text(ctx, h)
    assert (ctx.held_memory(), state_of_process()) == before

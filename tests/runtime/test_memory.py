"""Where nodes lie in memory: never two at once in one place, and side by side where that helps."""

import warnings
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.strategies import random_graph
from workbench.backends.device import LINE, Device
from workbench.graph.extent import count, resolve
from workbench.runtime.memory import (
    PAD,
    arena,
    arena_bytes,
    device_order,
    lifetimes,
    local_memory,
    padded,
    place,
)

# -- placing blocks

blocks = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 30), st.integers(0, 12)), max_size=40
)


@given(blocks)
def test_blocks_that_are_alive_together_never_overlap(drawn):
    sizes = [size for size, _, _ in drawn]
    spans = [(first, first + length) for _, first, length in drawn]
    offsets = place(sizes, spans)
    for i in range(len(sizes)):
        assert offsets[i] >= 0
        for j in range(i):
            together = spans[i][0] <= spans[j][1] and spans[j][0] <= spans[i][1]
            apart = offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]
            assert apart or not together


@given(blocks)
def test_blocks_take_no_more_than_all_of_them_and_no_less_than_one_moment_needs(drawn):
    sizes = [size for size, _, _ in drawn]
    spans = [(first, first + length) for _, first, length in drawn]
    total = max((o + s for o, s in zip(place(sizes, spans), sizes, strict=True)), default=0)
    moments = range(45)
    least = max(
        sum(s for s, (a, b) in zip(sizes, spans, strict=True) if a <= t <= b) for t in moments
    )
    assert least <= total <= sum(sizes)


def test_blocks_that_follow_each_other_share_one_place():
    assert place([64, 64, 64], [(0, 1), (2, 3), (4, 5)]) == [0, 0, 0]


def test_the_largest_block_is_placed_first_and_small_ones_fill_the_gaps():
    # The two large ones are alive at different times; the small one meets both.
    assert place([100, 10, 100], [(0, 1), (0, 3), (2, 3)]) == [0, 100, 0]


# -- programs


def program_of(outputs, updates=None, rows=None):
    _, routine = wb.Context.interpreter().compile(outputs, updates=updates, rows=rows)
    return routine


def addresses(array):
    return array.ctypes.data, array.ctypes.data + array.nbytes


@pytest.mark.parametrize("seed", range(40))
def test_local_nodes_of_a_random_program_never_overlap_while_both_are_alive(seed):
    outputs, _ = random_graph(seed)
    routine = program_of(outputs, rows=3)
    program = routine.program
    memory, size = local_memory(program, 3, routine.groups, Device("test"))
    assert set(memory) == set(program.local)
    life = lifetimes(program)
    for node, array in memory.items():
        start, stop = addresses(array)
        assert start % LINE == 0
        assert array.size >= resolve(count(node.shape), 3)
        for other, beside in memory.items():
            a, b = addresses(beside)
            together = life[node][0] <= life[other][1] and life[other][0] <= life[node][1]
            assert node is other or not together or stop <= a or b <= start
    assert routine.local_bytes(3) == size <= sum(a.nbytes for a in memory.values())


def test_a_life_goes_from_the_first_to_the_last_kernel_that_touches_a_node():
    x = wb.input("x", (64, 64))
    first = x @ x
    second = first @ x
    third = second @ first
    program = program_of([third]).program
    life = lifetimes(program)
    assert (life[x], life[first], life[second], life[third]) == ((0, 1), (0, 2), (1, 2), (2, 2))


def chain(length):
    x = wb.input("x", (64, 64))
    for _ in range(length):
        x = x @ wb.parameter(np.eye(64, dtype=np.float32))
    return x


def test_a_long_chain_needs_the_local_memory_of_two_links():
    link = 64 * 64 * 4
    short, long = program_of([chain(4)]), program_of([chain(24)])
    assert short.local_bytes(None) == long.local_bytes(None) == 2 * link


# -- arenas


def test_an_arena_holds_its_nodes_in_order_aligned_zeroed_and_padded():
    nodes = [
        wb.parameter(np.ones(3, np.float32), "a"),
        wb.parameter(np.ones((5, 20), np.float32), "b"),
        wb.parameter(np.int64(7), "c"),
        wb.parameter(np.ones((0,), np.float32), "d"),
    ]
    device = Device("test")
    memory = arena(nodes, None, device)
    assert device.used() == arena_bytes(nodes, None)
    at = memory[nodes[0]].ctypes.data
    for node in nodes:
        array = memory[node]
        assert array.ctypes.data == at
        assert at % LINE == 0
        assert array.size == padded(node, None)
        assert array.size % PAD == 0
        assert array.dtype == node.dtype.numpy
        assert not array.any()
        at += array.nbytes
    assert len({id(array.base) for array in memory.values()}) == 1


@given(st.integers(0, 10_000))
def test_padding_adds_less_than_one_line_of_elements(size):
    node = wb.input("x", (size,))
    assert max(size, 1) <= padded(node, None) < max(size, 1) + PAD


def test_families_come_first_and_every_node_once():
    a, b, c, d = (wb.input(name, (2,)) for name in "abcd")
    order = device_order([a, b, c, d], [[d, b], [b, c]])
    assert [node.label for node in order] == ["d", "b", "c", "a"]


WIDTH = 64  # the products go to the BLAS, so the optimizer has kernels of its own


def model(layers=3, width=WIDTH):
    """Return a training step of Adam over several layers: loss, updates, parameters."""
    params = [
        {
            "w": wb.parameter(np.eye(width, dtype=np.float32), f"w{i}"),
            "b": wb.parameter(np.zeros(width, np.float32), f"b{i}"),
        }
        for i in range(layers)
    ]
    opt = wb.adam(params)
    state = {
        name: [
            {k: wb.parameter(v, f"{name}_{k}{i}") for k, v in layer.items()}
            for i, layer in enumerate(tree)
        ]
        for name, tree in (("m", opt.m), ("v", opt.v))
    }
    count_ = wb.parameter(np.int64(0), "t")
    x, y = wb.input("x", (wb.batch, width)), wb.input("y", (wb.batch, width))

    def loss(p, x, y):
        for layer in p:
            x = wb.tanh(x @ layer["w"] + layer["b"])
        return wb.mse(x, y)

    begun = wb.OptState("adam", state["m"], state["v"], count_, opt.b1, opt.b2, opt.eps)
    result = wb.default_step(params, begun, x, y, 0.01, loss)
    updates = {count_: result.opt.t}
    for before, after in (
        (params, result.params),
        (state["m"], result.opt.m),
        (state["v"], result.opt.v),
    ):
        for old, new in zip(before, after, strict=True):
            updates |= {old[k]: new[k] for k in old}
    return result.loss, updates, params, (x, y)


def trained(context, steps=3):
    loss, updates, params, (x, y) = model()
    ctx, routine = context.compile([loss], updates=updates, rows=8)
    numbers = np.random.default_rng(2)
    feeds = {node: numbers.normal(size=(8, WIDTH)).astype(np.float32) for node in (x, y)}
    ctx = ctx.set_values(feeds)
    for _ in range(steps):
        ctx = ctx.run(routine)
    return ctx, routine, [ctx.get_values(leaf) for layer in params for leaf in layer.values()]


def test_parameters_gradients_and_moments_each_lie_in_one_row_of_one_order():
    ctx, _, _ = trained(wb.Context.cpu(1))
    places = {
        node.label: ctx.buffers[node].array.ctypes.data
        for node in ctx.buffers
        if node.op == "parameter"
    }
    for prefix in ("", "m_", "v_"):
        offsets = [places[f"{prefix}w{layer}"] - places[f"{prefix}w0"] for layer in range(3)]
        assert offsets == [0, 4 * WIDTH * WIDTH, 8 * WIDTH * WIDTH]


def launches_of(ctx, routine):
    ready, rows = ctx.prepared(routine)
    return routine.launches(rows, ready.arrays())


def test_the_optimizer_of_all_weights_is_one_launch_though_biases_lie_between():
    ctx, routine, _ = trained(wb.Context.cpu(1))
    named = [launch for launch in launches_of(ctx, routine) if "w0" in launch.label.split(", ")]
    assert len(named) == 1
    assert named[0].label == "w0, m_w0, v_w0, w1, m_w1, v_w1, w2, m_w2, v_w2"
    assert len(launches_of(ctx, routine)) < len(routine.program.kernels)


def test_launching_together_changes_no_bit(monkeypatch):
    together = trained(wb.Context.cpu(2))
    monkeypatch.setattr(
        "workbench.backends.numba_cpu.backend.NativeProgram._joined", lambda *args: None
    )
    apart = trained(wb.Context.cpu(2))
    assert len(launches_of(*together[:2])) < len(launches_of(*apart[:2]))
    for a, b in zip(together[2], apart[2], strict=True):
        assert a.tobytes() == b.tobytes()


def test_launches_are_described_for_people():
    ctx, routine, _ = trained(wb.Context.cpu(1))
    launches = launches_of(ctx, routine)
    assert all(launch.label and launch.chunks >= 1 and launch.work >= 0 for launch in launches)
    assert {launch.kernel for launch in launches} <= set(range(len(routine.program.kernels)))
    one = trained(wb.Context.interpreter())
    assert len(launches_of(*one[:2])) == len(one[1].program.kernels)


def test_nothing_is_allocated_by_running_again():
    ctx, routine, _ = trained(wb.Context.cpu(1), steps=1)
    before = (ctx.held_memory(), routine.local_bytes(8), len(routine._bound))
    for _ in range(5):
        ctx = ctx.run(routine)
    assert (ctx.held_memory(), routine.local_bytes(8), len(routine._bound)) == before


def test_only_so_many_pairings_with_memory_are_kept_and_the_latest_stays_right():
    x = wb.input("x", (wb.batch,))
    total = x.sum()
    ctx, routine = wb.Context.cpu(1).compile([total])
    for rows in [*range(1, 40), 3, 2, 1]:
        ctx = ctx.set_values({x: np.ones(rows, np.float32)}).run(routine)
        assert ctx.get_values(total) == rows
    assert len(routine._bound) <= 16


# -- explaining


def fingerprint(ctx):
    return (
        ctx.id,
        {
            node: (b.array.ctypes.data, b.shape, b.array.tobytes())
            for node, b in ctx.buffers.items()
        },
        set(ctx.initialized),
        dict(ctx.placements),
    )


@pytest.mark.parametrize("stage", ["graph", "assign", "placement", "loops", "kernels"])
def test_explaining_a_stage_changes_nothing_and_says_the_same_twice(stage):
    ctx, routine, _ = trained(wb.Context.cpu(1), steps=1)
    before = fingerprint(ctx)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = wb.explain(routine, stage=stage)
    assert text.strip()
    assert text == wb.explain(routine, stage=stage)
    assert fingerprint(ctx) == before
    after = [ctx.run(routine).get_values(n) for n in ctx.buffers if n.op == "parameter"]
    plain = trained(wb.Context.cpu(1), steps=1)[0]
    assert len(after) == sum(n.op == "parameter" for n in plain.buffers)


def test_a_stage_that_is_none_is_refused_naming_those_there_are():
    with pytest.raises(wb.ConfigurationError, match="there is no stage `bytecode`") as caught:
        wb.explain(wb.input("x", (2,)) + 1.0, stage=cast("Any", "bytecode"))
    assert "graph, assign, placement, loops, kernels" in caught.value.remedy

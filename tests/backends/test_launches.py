"""How launches are cut, made one, put side by side, and moved along."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.loops.test_show import lowered
from workbench.backends.device import Device
from workbench.backends.numba_cpu import backend
from workbench.backends.numba_cpu.backend import NumbaCpu, chunk_scratch
from workbench.backends.protocol import Moving
from workbench.loops.kernel import Program
from workbench.runtime.memory import arena

CONTROL_WORDS = 8


def control():
    return np.zeros(CONTROL_WORDS, np.int64)


# -- cuts ------------------------------------------------------------------------------------------


@given(st.integers(0, 100_000), st.integers(1, 16), st.sampled_from([1, 16]))
def test_cuts_cover_the_range_once_at_multiples_of_the_alignment(total, count, align):
    cuts = backend._cuts(total, count, align)
    assert cuts[0] == 0
    assert cuts[-1] == total
    assert cuts == sorted(cuts)
    assert len(cuts) - 1 <= max(count, 1)
    assert all(cut % align == 0 for cut in cuts[1:-1])


@given(st.integers(1, 1000), st.sampled_from(["float32", "float64", "int64", "bool"]))
def test_scratch_starts_on_a_cache_line_and_is_zero(size, dtype):
    device = Device("test")
    array = chunk_scratch(device, size, np.dtype(dtype))
    assert device.used() == array.nbytes + 64
    assert array.ctypes.data % 64 == 0
    assert array.shape == (size,)
    assert not array.any()


def launches(outputs, values, *, threads=2, updates=None):
    ctx, routine = wb.Context.cpu(threads).compile(outputs, updates=updates)
    ctx, rows = ctx.set_values(values).prepared(routine)
    return routine.launches(rows, ctx.arrays())


def test_a_small_launch_is_one_chunk_and_a_large_one_several():
    def chunks(n):
        x = wb.input("x", (n,))
        (launch,) = launches([wb.exp(x)], {x: np.zeros(n)})
        return launch.chunks

    assert chunks(10) == 1
    assert 2 <= chunks(1_000_000) <= backend.MAX_CHUNKS


def test_cuts_do_not_depend_on_the_number_of_threads():
    x = wb.input("x", (wb.batch, 784))
    w = wb.parameter(np.zeros((784, 128), np.float32), "w")
    outputs = [wb.softmax(x @ w)]
    values = {x: np.zeros((256, 784))}
    one, two = (launches(outputs, values, threads=threads) for threads in (1, 2))
    assert one == two
    assert max(launch.chunks for launch in one) > 1


def test_a_launch_over_nothing_is_described_and_run():
    x = wb.input("x", (wb.batch, 4))
    assert [launch.chunks for launch in launches([x * 2.0], {x: np.zeros((0, 4))})] == [1]


# -- launches made one -----------------------------------------------------------------------------


def bound(program, memory, threads=2):
    return NumbaCpu(threads).compile(program).bind(None, memory)


def twice_in_a_row(n):
    """Return ``b = f(a)`` and ``c = f(b)`` as two launches of one kernel over neighbours."""
    nodes = [wb.input(name, (n,)) for name in "abc"]
    (kernel,) = lowered([wb.tanh(nodes[0]) * 3.0 + 1.0]).kernels
    kernels = tuple(replace(kernel, buffers=pair, label=pair[1].label) for pair in pairwise(nodes))
    return nodes, Program(kernels, {}, (), tuple(nodes))


@pytest.mark.parametrize("n", [64, 200_000])
def test_a_launch_that_reads_what_its_neighbour_writes_is_not_made_one_with_it(n):
    n = n // 64 * 64  # no padding between the neighbours
    nodes, program = twice_in_a_row(n)
    memory = arena(nodes, None, Device("test"))
    value = np.linspace(-2, 2, n, dtype=np.float32)
    memory[nodes[0]][:n] = value
    routine = bound(program, memory)
    assert [launch.label for launch in routine.describe()] == ["b", "c"]
    assert routine.run(1, control()) == 1
    expected = np.tanh(np.tanh(value.astype(np.float64)) * 3 + 1) * 3 + 1
    np.testing.assert_allclose(memory[nodes[2]][:n], expected, atol=1e-5)


def side_by_side(n, between=()):
    """Return ``b = f(a)`` and ``d = f(c)``, with other launches in between."""
    a, c, b, d, e = (wb.input(name, (n,)) for name in "acbde")
    (kernel,) = lowered([wb.tanh(a) * 3.0 + 1.0]).kernels
    (other,) = lowered([wb.exp(a)]).kernels
    first = replace(kernel, buffers=(a, b), label="b")
    second = replace(kernel, buffers=(c, d), label="d")
    found = {"reads a": (a, e), "writes c": (a, c), "writes b": (a, b), "reads d": (d, e)}
    middle = [replace(other, buffers=found[what], label=what) for what in between]
    nodes = (a, c, b, d, e)
    return nodes, Program((first, *middle, second), {}, (), nodes)


@pytest.mark.parametrize(
    ("between", "labels"),
    [
        ((), ["b, d"]),
        (("reads a",), ["b, d", "reads a"]),
        (("reads a",) * 3, ["b, d", *["reads a"] * 3]),
        (("writes c",), ["b", "writes c", "d"]),
        (("reads d",), ["b", "reads d", "d"]),
        (("writes b",), ["b, d", "writes b"]),
    ],
)
def test_a_launch_overtakes_what_touches_other_memory_to_join_its_neighbour(between, labels):
    nodes, program = side_by_side(128, between)
    memory = arena(nodes, None, Device("test"))
    chance = np.random.default_rng(0)
    for node in nodes:
        memory[node][...] = chance.normal(size=128)
    expected = {node: array.astype(np.float64) for node, array in memory.items()}
    for kernel in program.kernels:
        source, target = (expected[n] for n in kernel.buffers if isinstance(n, wb.Tensor))
        is_other = kernel.label not in ("b", "d")
        target[...] = np.exp(source) if is_other else np.tanh(source) * 3.0 + 1.0
    routine = bound(program, memory)
    assert [launch.label for launch in routine.describe()] == labels
    routine.run(1, control())
    for node in nodes:
        np.testing.assert_allclose(memory[node], expected[node], atol=1e-5, rtol=1e-5)


def test_neighbours_at_different_pitches_are_not_made_one():
    nodes, program = side_by_side(128)
    memory = arena([nodes[0], nodes[1], nodes[2], nodes[4], nodes[3]], None, Device("test"))
    routine = bound(program, memory)
    assert [launch.label for launch in routine.describe()] == ["b", "d"]


def test_operands_in_two_allocations_are_not_made_one():
    nodes, program = side_by_side(128)
    memory = {node: arena([node], None, Device("test"))[node] for node in nodes}
    assert len(bound(program, memory).describe()) == 2


# -- what moves ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [wb.Context.interpreter, lambda: wb.Context.cpu(2)])
def test_operands_that_move_are_found_at_each_step(make):
    x, total = wb.input("x", (3,)), wb.parameter(np.zeros(3, np.float32), "total")
    loss = x.sum()
    ctx, routine = make().compile([loss], updates={total: total + x})
    data = np.arange(21, dtype=np.float32)
    losses = np.zeros(7, np.float32)
    moving = (
        Moving(x, data.ctypes.data, 12),
        Moving(loss, losses.ctypes.data, 4),
    )
    memory = {**ctx.arrays(), x: data, loss: losses}
    run = routine.bind(None, memory, moving)
    assert run.run(2, control()) == 2
    assert run.run(5, control(), 2) == 5
    assert losses.tolist() == data.reshape(7, 3).sum(1).tolist()
    assert ctx.get_values(total).tolist() == data.reshape(7, 3).sum(0).tolist()


@pytest.mark.parametrize("make", [wb.Context.interpreter, lambda: wb.Context.cpu(2)])
def test_a_control_word_ends_the_steps_and_tells_how_many_there_were(make):
    total = wb.parameter(np.zeros(1, np.float32), "total")
    ctx, routine = make().compile([], updates={total: total + 1.0})
    run = routine.bind(None, ctx.arrays())
    words = control()
    assert run.run(4, words) == 4
    assert words[1] == 4
    assert run.run(3, words, 4) == 3
    assert words[1] == 7
    words[0] = 1
    assert run.run(3, words, 7) == 0
    assert ctx.get_values(total) == 7.0
    words[0] = 0
    assert run.run(0, words, 7) == 0

"""Kernels as the text that is compiled: golden, valid, and computing what the loops say."""

import ast
from itertools import pairwise

import numpy as np
import pytest

import workbench as wb
from tests.loops.programs import PROGRAMS
from tests.loops.test_show import lowered
from tests.strategies import random_graph
from workbench.backends.interpreter.run import run_kernel
from workbench.backends.numba_cpu.render import render, uses_blas
from workbench.graph.dtype import DType
from workbench.graph.extent import count, resolve
from workbench.loops.kernel import Scratch


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_read_as_they_did(golden, name):
    golden(f"kernels/{name}", wb.explain(PROGRAMS[name](), stage="kernels"))


@pytest.mark.parametrize("seed", range(40))
def test_a_rendered_kernel_is_one_python_function_of_three_arguments(seed):
    outputs, _ = random_graph(seed)
    for kernel in lowered(outputs, rows=3).kernels:
        (function,) = ast.parse(render(kernel)).body
        assert isinstance(function, ast.FunctionDef)
        assert [arg.arg for arg in function.args.args] == ["args", "lo", "hi"]


def test_equal_loops_are_equal_text_and_names_do_not_enter():
    def text(name):
        x = wb.input(name, (wb.batch, 64))
        return [render(k) for k in lowered([wb.softmax(x)]).kernels]

    assert text("x") == text("something else")
    assert "something" not in "".join(text("something else"))


def test_the_element_type_of_products_is_known_before_they_are_bound():
    def kinds(dtype):
        x = wb.input("x", (64, 64), dtype)
        return [uses_blas(k.body) for k in lowered([wb.tanh(x @ x)]).kernels]

    assert kinds("float32") == [DType.F32, None]
    assert kinds("float64") == [DType.F64, None]


@pytest.mark.parametrize("seed", range(30))
def test_a_range_that_is_run_in_pieces_gives_what_it_gives_at_once(seed):
    # What every cut of a launch relies on, on any backend.
    outputs, feeds = random_graph(seed, "float64")
    program = lowered(outputs, rows=4)
    chance = np.random.default_rng(seed)
    nodes = [*program.local, *program.device]
    sizes = {node: max(1, resolve(count(node.shape), 4)) for node in nodes}
    start = {node: np.zeros(size, node.dtype.numpy) for node, size in sizes.items()}
    for node, value in {**feeds, **{n: n.value for n in nodes if n.value is not None}}.items():
        if node in start:
            flat = np.asarray(value, node.dtype.numpy).ravel()
            start[node][: len(flat)] = flat[: sizes[node]]
    whole = {node: array.copy() for node, array in start.items()}
    pieces = {node: array.copy() for node, array in start.items()}
    for kernel in program.kernels:
        extents = [resolve(extent, 4) for extent in kernel.extents]
        total = resolve(kernel.range, 4)
        cuts = sorted({0, total, *chance.integers(0, total + 1, 2).tolist()})
        for memory, bounds in ((whole, [0, total]), (pieces, cuts)):
            for lo, hi in pairwise(bounds):
                buffers = [
                    np.full(resolve(b.size, 4), 7, d.numpy) if isinstance(b, Scratch) else memory[b]
                    for b, d in zip(kernel.buffers, kernel.dtypes, strict=True)
                ]
                run_kernel(kernel, buffers, extents, lo, hi)
    for node in nodes:
        np.testing.assert_allclose(pieces[node], whole[node], rtol=1e-12, atol=1e-12)

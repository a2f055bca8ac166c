"""Interpreter and numba backend against numpy, on random graphs of all operations."""

import numpy as np
import pytest

import workbench as wb
from tests.oracle.agreement import assert_agree
from tests.oracle.numpy_graph import evaluate, rows_of
from tests.strategies import random_graph

QUICK = range(100)
REST = range(100, 1000)


def check(seed: int, context: wb.Context, dtype: str) -> None:
    outputs, feeds = random_graph(seed, dtype)
    expected = evaluate(outputs, feeds, rows_of(feeds))
    ctx, routine = context.compile(outputs, name=f"graph {seed}")
    ctx = ctx.set_values(feeds).run(routine)
    for node, value in zip(outputs, expected, strict=True):
        assert_agree(ctx.get_values(node), np.asarray(value), f"seed {seed}: {node!r}")


@pytest.mark.parametrize("seed", QUICK)
def test_the_interpreter_agrees_with_numpy(seed: int) -> None:
    check(seed, wb.Context.interpreter(), "float64" if seed % 4 == 0 else "float32")


@pytest.mark.parametrize("seed", QUICK)
def test_compiled_kernels_agree_with_numpy(seed: int) -> None:
    check(seed, wb.Context.cpu(2), "float64" if seed % 4 == 0 else "float32")


@pytest.mark.slow
@pytest.mark.parametrize("seed", REST)
def test_the_interpreter_agrees_with_numpy_on_many_more(seed: int) -> None:
    check(seed, wb.Context.interpreter(), "float64" if seed % 4 == 0 else "float32")


@pytest.mark.slow
@pytest.mark.parametrize("seed", REST)
def test_compiled_kernels_agree_with_numpy_on_many_more(seed: int) -> None:
    check(seed, wb.Context.cpu(2), "float64" if seed % 4 == 0 else "float32")

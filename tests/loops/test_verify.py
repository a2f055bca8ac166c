"""The verifier passes what the lowering makes and names each fault that is planted in it."""

from dataclasses import replace

import pytest

import workbench as wb
from tests.loops.programs import PROGRAMS
from tests.loops.test_show import lowered
from tests.strategies import random_graph
from workbench.assign.from_graph import computation
from workbench.graph.dtype import DType
from workbench.loops.expression import Apply, Expr, Load, Number, Var, add, integer
from workbench.loops.kernel import (
    Accumulate,
    Declare,
    For,
    Kernel,
    Let,
    Product,
    Program,
    Stmt,
    Store,
    Update,
)
from workbench.loops.lower import lower
from workbench.loops.policy import decide_placements
from workbench.loops.verify import verify


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_was_lowered_is_well_formed(name):
    made = PROGRAMS[name]()
    verify(lower(made, decide_placements(made, 32), 32)[0])


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_is_well_formed(seed):
    outputs, _ = random_graph(seed)
    verify(lowered(outputs, rows=3))


ZERO = integer(0)
ONE = Number(1.0, DType.F32)
X = wb.input("x", (100,))
Y = wb.input("y", (100,))
INDEX = Var("i0")


def program(*body: Stmt, **changes) -> Program:
    """Return a program of one kernel with two buffers, the second of which is written."""
    kernel = Kernel((X, Y), (DType.F32, DType.F32), (100,), (), 100, 1, body, frozenset({1}), "y")
    return Program((replace(kernel, **changes),), {}, (), (X, Y))


def loop(*body: Stmt) -> For:
    return For(INDEX, Var("lo"), Var("hi"), body)


def load(offset: Expr = INDEX, buffer: int = 0, dtype: DType = DType.F32) -> Load:
    return Load(buffer, offset, dtype)


GOOD = loop(Store(1, INDEX, load()))


def test_a_kernel_written_by_hand_is_well_formed():
    verify(program(GOOD))


TOTAL = Var("a0", DType.F32)
LOCAL = Var("t0", DType.F32)
MATRIX = Product(
    DType.F32, False, False, ZERO, ZERO, ZERO, 0, ZERO, ZERO, 0, ZERO, ZERO, 1, ZERO, ZERO
)

FAULTS = {
    "a name that was never given": (
        [loop(Store(1, INDEX, LOCAL))],
        "t0 is not defined here as float32",
    ),
    "a name of another type": (
        [loop(Let(LOCAL, load()), Store(1, INDEX, Var("t0", DType.F64)))],
        "b1 holds another type",
    ),
    "a name that left its loop": (
        [loop(Let(LOCAL, load())), loop(Store(1, INDEX, LOCAL))],
        "t0 is not defined here",
    ),
    "an index outside its loop": ([Store(1, INDEX, ONE)], "i0 is not defined here"),
    "a name given twice": (
        [loop(Let(LOCAL, load()), Let(LOCAL, load()), Store(1, INDEX, LOCAL))],
        "t0 is named twice",
    ),
    "an index named as the one around": ([loop(GOOD)], "i0 is named twice"),
    "an extent that is not passed": (
        [loop(Store(1, add(INDEX, Var("n1")), ONE))],
        "n1 is not defined here",
    ),
    "a local of another type": (
        [loop(Let(Var("t0", DType.F64), load()))],
        "t0 changes its type",
    ),
    "a constant that is updated": (
        [loop(Let(LOCAL, ONE), Update(LOCAL, "add", load()))],
        "t0 is updated and not a variable",
    ),
    "an update of another type": (
        [Declare(TOTAL, ONE), Update(TOTAL, "add", Number(1.0, DType.F64))],
        "a0 changes its type",
    ),
    "a write to what is only read": (
        [loop(Store(0, INDEX, load()))],
        "b0 is written and not declared so",
    ),
    "an accumulation into what is only read": (
        [loop(Accumulate(0, INDEX, "add", load()))],
        "b0 is written and not declared so",
    ),
    "a value of another type": (
        [loop(Store(1, INDEX, Number(1.0, DType.F64)))],
        "b1 holds another type",
    ),
    "a load as another type": (
        [loop(Let(Var("t0", DType.F64), load(dtype=DType.F64)))],
        "b0 holds another type",
    ),
    "an offset that is no whole number": (
        [loop(Store(1, ONE, load()))],
        "an offset is not int64",
    ),
    "a load at no whole number": (
        [loop(Store(1, INDEX, load(ONE)))],
        "an offset is not int64",
    ),
    "operands of two types": (
        [loop(Store(1, INDEX, Apply("add", (load(), Number(1.0, DType.F64)), DType.F32)))],
        "add mixes",
    ),
    "a comparison that is a number": (
        [loop(Store(1, INDEX, Apply("less", (load(), ONE), DType.F32)))],
        "less gives float32",
    ),
    "a sum of another type": (
        [loop(Let(Var("t0", DType.F64), Apply("add", (load(), ONE), DType.F64)))],
        "gives float64",
    ),
    "a product into what is only read": (
        [replace(MATRIX, c=0)],
        "b0 is written and not declared so",
    ),
    "a product of another type": ([replace(MATRIX, dtype=DType.F64)], "is not float64"),
    "a product of unknown size": ([replace(MATRIX, m=Var("n7"))], "n7 is not defined here"),
    "a product at an unknown place": (
        [replace(MATRIX, b_offset=Var("n7"))],
        "n7 is not defined here",
    ),
    "a choice by a number": (
        [loop(Store(1, INDEX, Apply("select", (load(), ONE, ONE), DType.F32)))],
        "select is told by float32",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_with_the_kernel_it_is_in(fault):
    body, named = FAULTS[fault]
    with pytest.raises(AssertionError) as caught:
        verify(program(*body))
    assert named in str(caught.value)
    assert "kernel for lo..hi of 100" in str(caught.value)


def test_a_buffer_without_memory_is_named():
    good = program(GOOD)
    with pytest.raises(AssertionError, match=r"'y'.* has no memory"):
        verify(replace(good, device=(X,)))


def test_what_is_verified_is_what_a_context_compiles(monkeypatch):
    seen = []
    monkeypatch.setattr("workbench.runtime.compiling.verify", seen.append)
    _, routine = wb.Context.interpreter().compile(computation([X + Y]))
    assert seen == [routine.program]

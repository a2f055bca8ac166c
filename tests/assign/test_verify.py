from dataclasses import replace

import pytest

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import Number, Position, Read, Reduce
from workbench.assign.from_graph import computation
from workbench.assign.index import Affine, Axis, Lookup, at
from workbench.assign.verify import verify
from workbench.graph.dtype import DType
from workbench.graph.extent import batch
from workbench.graph.leaf import input_
from workbench.graph.tensor import make

X = input_("x", (3, 4))
ROWS = input_("rows", (batch, 4))
A, J, B = Axis(3), Axis(4), Axis(batch)
Y = make("y", (X,), (3, 4), DType.F32)
Z = make("z", (ROWS,), (batch, 4), DType.F32)
GOOD = Assignment(Y, (at(A), at(J)), (A, J), Read(X, (at(A), at(J))))
SYMBOLIC = Assignment(Z, (at(B), at(J)), (B, J), Read(ROWS, (at(B), at(J))))


def program(*statements: Assignment | View) -> Computation:
    return Computation(statements, (X, ROWS), (statements[-1].target,))


@pytest.mark.parametrize("statement", [GOOD, SYMBOLIC])
def test_a_good_statement_passes(statement: Assignment):
    verify(program(statement))


FAULTS = {
    "an unknown axis": replace(GOOD, value=Read(X, (at(A), at(Axis(4))))),
    "an axis comes twice": replace(GOOD, axes=(A, J, J)),
    "has another type": replace(GOOD, value=Number(1.0, DType.F64)),
    "combines nothing": replace(GOOD, combine="mul"),
    "more than once": replace(GOOD, axes=(A, J, Axis(5))),
    "never written": replace(GOOD, combine="add", fresh=False),
    "1 indices": replace(GOOD, value=Read(X, (at(A),))),
    "leaves 0..3": replace(GOOD, value=Read(X, (Affine(((A, 1),), 1), at(J)))),
    "leaves 0..4": replace(GOOD, value=Read(X, (at(A), Affine(((J, -1),), 2)))),
    "read before": replace(GOOD, value=Read(Z, (Affine(), at(J)))),
    "leaves 0..batch": replace(
        SYMBOLIC, value=Read(ROWS, (at(A), at(J))), axes=(B, J, A), combine="add"
    ),
    "clamped to 9": replace(GOOD, value=Read(X, (Lookup(Position(at(A), DType.I64), 9), at(J)))),
    "not a whole number": replace(
        GOOD, value=Read(X, (Lookup(Position(at(A), DType.F32), 3), at(J)))
    ),
    "reuses an axis": replace(GOOD, value=Reduce("add", (J,), Read(X, (at(A), at(J))), DType.F32)),
    "position is of an unknown axis": replace(GOOD, value=Position(at(Axis(2)), DType.F32)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_shown_with_its_statement(fault: str):
    statement = FAULTS[fault]
    with pytest.raises(AssertionError, match=fault) as caught:
        verify(program(statement))
    assert statement.target.op in str(caught.value)


def test_a_view_keeps_number_and_type_and_follows_its_source():
    flat = make("flat", (X,), (12,), DType.F32)
    verify(program(View(flat, X)))
    for target, source, fault in (
        (make("short", (X,), (11,), DType.F32), X, "number of elements"),
        (make("wide", (X,), (12,), DType.F64), X, "type"),
        (flat, Y, "read before"),
    ):
        with pytest.raises(AssertionError, match=fault):
            verify(program(View(target, source)))


def test_what_is_wanted_is_written():
    made = computation([X * 2.0])
    with pytest.raises(AssertionError, match="never written"):
        verify(replace(made, outputs=(Y,)))


def test_an_empty_axis_touches_nothing_and_so_nothing_outside():
    empty = input_("empty", (0, 4))
    i = Axis(0)
    target = make("e", (empty,), (2, 4), DType.F32)
    block = Assignment(target, (Affine(((i, 1),), 2), at(J)), (i, J), Read(empty, (at(i), at(J))))
    verify(Computation((block,), (empty,), (target,)))
    wide = Axis(1)
    outside = replace(
        block, index=(Affine(((wide, 1),), 2), at(J)), axes=(wide, J, i), combine="add"
    )
    with pytest.raises(AssertionError, match="leaves"):
        verify(Computation((outside,), (empty,), (target,)))

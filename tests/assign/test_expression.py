import sys
import time

from workbench.assign.expression import (
    Apply,
    Number,
    Position,
    Read,
    Reduce,
    Value,
    operands,
    reads,
    reads_within,
    replace_reads,
    substitute,
    walk,
)
from workbench.assign.index import Affine, Axis, Lookup, at
from workbench.graph.dtype import DType
from workbench.graph.leaf import input_

F32, I64 = DType.F32, DType.I64
A, J, K = Axis(2), Axis(3), Axis(4)
X = input_("x", (2, 3))
V = input_("v", (4,))
N = input_("n", (2,), "int64")


def plus(*values: Value) -> Apply:
    return Apply("add", values, F32)


def test_reads_are_found_in_indices_too():
    chosen = Read(N, (at(A),))
    row = Read(X, (Lookup(chosen, 2), at(J)))
    value = plus(row, Number(1.0, F32))
    assert list(reads(value)) == [row, chosen]
    assert operands(row) == (chosen,)
    assert [type(v) for v in walk(value)] == [Apply, Read, Read, Number]


def test_reads_know_the_reductions_around_them():
    inner, outer = Read(V, (at(K),)), Read(X, (at(A), at(J)))
    value = plus(outer, Reduce("add", (K,), inner, F32))
    assert list(reads_within(value)) == [(outer, ()), (inner, (K,))]


def test_substitution_reaches_positions_reads_and_lookups():
    i = Axis(9)
    value = plus(
        Read(X, (Lookup(Read(N, (at(A),)), 2), at(J))), Position(Affine(((A, 2),), 1), F32)
    )
    moved = substitute(value, {A: at(i), J: Affine((), 2)})
    row, position = operands(moved)
    assert isinstance(row, Read)
    assert row.index[1] == Affine((), 2)
    assert isinstance(row.index[0], Lookup)
    assert list(reads(row))[1].index == (at(i),)
    assert isinstance(position, Position)
    assert position.index == Affine(((i, 2),), 1)


def test_substitution_gives_reductions_axes_of_their_own():
    value = Reduce("add", (K,), Read(X, (at(A), at(K))), F32)
    first, second = (substitute(value, {A: at(J)}) for _ in range(2))
    assert isinstance(first, Reduce)
    assert isinstance(second, Reduce)
    assert first.axes[0].extent == 4
    assert len({K, first.axes[0], second.axes[0]}) == 3
    assert next(reads(first)).index == (at(J), at(first.axes[0]))


def test_an_axis_that_a_reduction_binds_is_not_replaced_inside_it():
    value = Reduce("add", (K,), Read(V, (at(K),)), F32)
    moved = substitute(value, {K: at(A)})
    assert isinstance(moved, Reduce)
    assert next(reads(moved)).index == (at(moved.axes[0]),)


def test_what_is_shared_stays_shared():
    shared = Apply("exp", (Read(V, (at(K),)),), F32)
    moved = substitute(plus(shared, shared), {K: at(A)})
    left, right = operands(moved)
    assert left is right


def test_chosen_reads_are_replaced_and_the_rest_kept():
    a, b = Read(V, (at(K),)), Read(V, (at(K),))
    untouched = Apply("exp", (b,), F32)
    value = plus(Apply("log", (a,), F32), untouched, Reduce("add", (J,), a, F32))
    replaced = replace_reads(value, {id(a): Number(2.0, F32)})
    log, kept, total = operands(replaced)
    assert kept is untouched
    assert all(isinstance(operands(v)[0], Number) for v in (log, total))
    assert replace_reads(value, {}) is value


def _chain(length: int) -> Value:
    value: Value = Read(V, (at(K),))
    for _ in range(length):
        value = Apply("sin", (value,), F32)
    return value


def test_depth_is_no_limit():
    chain = _chain(10 * sys.getrecursionlimit())
    moved = substitute(chain, {K: at(A)})
    (read,) = reads(moved)
    assert read.index == (at(A),)
    replaced = replace_reads(moved, {id(read): Number(0.0, F32)})
    assert len(list(walk(replaced))) == len(list(walk(chain)))


def test_substitution_in_a_value_that_doubles_takes_the_time_of_its_parts():
    value: Value = Read(V, (at(K),))
    for _ in range(60):
        value = plus(value, value)
    start = time.process_time()
    substitute(value, {K: at(A)})
    assert time.process_time() - start < 1.0

"""Check that a computation is well formed before anything lowers it.

In: a computation. Out: nothing. Invariant: a failure is a fault of this engine, never of its user;
it raises `AssertionError` with the statement's text.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.assign.assignment import NEUTRAL, Computation, Statement, View
from workbench.assign.expression import Position, Read, Reduce, Value, operands, reads
from workbench.assign.index import Affine, Axis, Index, Lookup
from workbench.assign.show import node_names, show_statement
from workbench.graph.extent import Batch, Extent, count
from workbench.graph.tensor import Tensor


def verify(computation: Computation) -> None:
    """Check every statement.

    Nodes are written before they are read, index maps have one index for each axis and stay inside,
    types agree, axes are those of the iteration space, and what is wanted is there.
    """
    known = set(computation.inputs)
    for statement in computation.statements:
        try:
            _check_statement(statement, known)
        except AssertionError as fault:
            text = show_statement(statement, node_names(computation))
            raise AssertionError(f"{fault}\n{text}") from None
        known.add(statement.target)
    for node in (*computation.outputs, *computation.updates):
        assert node in known, f"{node!r} is wanted and never written"


def _check_statement(statement: Statement, known: set[Tensor]) -> None:
    if isinstance(statement, View):
        target, source = statement.target, statement.source
        assert source in known, f"{source!r} is read before it is written"
        assert count(target.shape) == count(source.shape), "a view has another number of elements"
        assert target.dtype is source.dtype, "a view has another type"
        return
    for read in statement.reads():
        assert read.node in known, f"{read.node!r} is read before it is written"
    axes = set(statement.axes)
    assert len(axes) == len(statement.axes), "an axis comes twice"
    assert statement.value.dtype is statement.target.dtype, "the value has another type"
    assert statement.combine in ("", *NEUTRAL), f"`{statement.combine}` combines nothing"
    if not statement.combine:
        assert not statement.combined_axes, "a plain assignment writes one cell more than once"
    if not statement.fresh:
        assert statement.target in known, "it adds to what was never written"
    _check_value(statement.value, axes)
    _check_index(statement.target, statement.index, axes)


def _check_value(value: Value, axes: set[Axis]) -> None:
    stack: list[tuple[Value, frozenset[Axis]]] = [(value, frozenset(axes))]
    while stack:
        current, around = stack.pop()
        if isinstance(current, Read):
            _check_index(current.node, current.index, around)
        if isinstance(current, Position):
            assert current.index.axes() <= around, "a position is of an unknown axis"
        if isinstance(current, Reduce):
            assert not around & set(current.axes), "a reduction reuses an axis around it"
            around |= set(current.axes)
        stack.extend((operand, around) for operand in operands(current))


def _check_index(node: Tensor, index: tuple[Index, ...], axes: Iterable[Axis]) -> None:
    known = set(axes)
    assert len(index) == node.ndim, f"{len(index)} indices for {node!r}"
    for one, extent in zip(index, node.shape, strict=True):
        if isinstance(one, Lookup):
            assert one.extent == extent, f"a look-up is clamped to {one.extent}, not {extent}"
            assert one.value.dtype.is_integer, "a look-up is not a whole number"
            assert all(
                index.axes() <= known
                for read in reads(one.value)
                for index in read.index
                if isinstance(index, Affine)
            ), "a look-up uses an unknown axis"
        else:
            assert one.axes() <= known, f"an index of {node!r} uses an unknown axis"
            assert _stays_inside(one, extent), f"an index of {node!r} leaves 0..{extent} - 1"


def _stays_inside(index: Affine, extent: Extent) -> bool:
    symbolic = [axis for axis, _ in index.terms if isinstance(axis.extent, Batch)]
    if symbolic or isinstance(extent, Batch):
        # The batch is known when a routine runs: an index into it is the axis itself, or 0.
        return index == Affine() or (index.axis is not None and index.axis.extent == extent)
    least = greatest = index.offset
    for axis, coefficient in index.terms:
        assert isinstance(axis.extent, int)
        if axis.extent == 0:
            return True  # nothing is touched
        reach = coefficient * (axis.extent - 1)
        least, greatest = least + min(0, reach), greatest + max(0, reach)
    return least >= 0 and greatest < extent

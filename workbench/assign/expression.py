"""What an assignment computes for one element: values over tensor reads, before any loop exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from workbench.assign.index import Affine, Axis, Index, Lookup, at
from workbench.graph.dtype import DType
from workbench.graph.extent import Extent
from workbench.graph.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A constant."""

    value: float
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """An index as a value."""

    index: Affine
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class ExtentNumber:
    """An extent as a value; the batch is known when the routine runs."""

    extent: Extent
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """The element of ``node`` at ``index``."""

    node: Tensor
    index: tuple[Index, ...]

    @property
    def dtype(self) -> DType:
        """Element type of the node."""
        return self.node.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An elementwise operation of the graph over values."""

    op: str
    args: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """``body`` combined by ``op`` (``add``, ``maximum`` or ``minimum``) over ``axes``."""

    op: str
    axes: tuple[Axis, ...]
    body: Value
    dtype: DType


Value: TypeAlias = "Number | Position | ExtentNumber | Read | Apply | Reduce"


def operands(value: Value) -> tuple[Value, ...]:
    """Return the values that ``value`` is made of, indices looked up in tensors included."""
    match value:
        case Apply():
            return value.args
        case Reduce():
            return (value.body,)
        case Read():
            return tuple(index.value for index in value.index if isinstance(index, Lookup))
        case Number() | Position() | ExtentNumber():
            return ()


def walk(value: Value) -> Iterator[Value]:
    """Yield ``value`` and everything below it; a value that is shared comes once for each use."""
    stack = [value]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(operands(current)))


def reads(value: Value) -> Iterator[Read]:
    """Yield every read in ``value``."""
    return (v for v in walk(value) if isinstance(v, Read))


def reads_within(value: Value) -> Iterator[tuple[Read, tuple[Axis, ...]]]:
    """Yield every read with the axes of the reductions around it."""
    stack: list[tuple[Value, tuple[Axis, ...]]] = [(value, ())]
    while stack:
        current, around = stack.pop()
        if isinstance(current, Read):
            yield current, around
        inner = (*around, *current.axes) if isinstance(current, Reduce) else around
        stack.extend((operand, inner) for operand in reversed(operands(current)))


def substitute(value: Value, mapping: Mapping[Axis, Affine]) -> Value:
    """Return ``value`` with axes replaced; axes of reductions inside are made anew.

    The work is proportional to the number of different values: a shared value is replaced once.
    """
    done: dict[int, Value] = {}
    return _substitute(value, mapping, done)


def _substitute(value: Value, mapping: Mapping[Axis, Affine], done: dict[int, Value]) -> Value:
    # Post-order with an explicit stack: a chain of 10,000 elementwise operations is one value.
    stack: list[tuple[Value, bool]] = [(value, False)]
    while stack:
        current, expanded = stack.pop()
        if id(current) in done:
            continue
        if isinstance(current, Reduce):
            fresh = {axis: Axis(axis.extent) for axis in current.axes}
            inner = {**mapping, **{old: at(new) for old, new in fresh.items()}}
            body = _substitute(current.body, inner, {})
            done[id(current)] = Reduce(current.op, tuple(fresh.values()), body, current.dtype)
        elif expanded or not operands(current):
            done[id(current)] = _rebuild(current, mapping, done)
        else:
            stack.append((current, True))
            stack.extend((operand, False) for operand in operands(current))
    return done[id(value)]


def _rebuild(value: Value, mapping: Mapping[Axis, Affine], done: Mapping[int, Value]) -> Value:
    match value:
        case Apply():
            return Apply(value.op, tuple(done[id(a)] for a in value.args), value.dtype)
        case Read():
            return Read(value.node, tuple(_index(i, mapping, done) for i in value.index))
        case Position():
            return Position(value.index.substitute(mapping), value.dtype)
        case Number() | ExtentNumber() | Reduce():
            return value


def _index(index: Index, mapping: Mapping[Axis, Affine], done: Mapping[int, Value]) -> Index:
    if isinstance(index, Affine):
        return index.substitute(mapping)
    return Lookup(done[id(index.value)], index.extent)


def replace_reads(value: Value, replace: Mapping[int, Value]) -> Value:
    """Return ``value`` with the reads whose ``id`` is in ``replace`` replaced."""
    done: dict[int, Value] = dict(replace)
    stack: list[tuple[Value, bool]] = [(value, False)]
    while stack:
        current, expanded = stack.pop()
        if id(current) in done:
            continue
        below = operands(current)
        if not expanded and below:
            stack.append((current, True))
            stack.extend((operand, False) for operand in below)
            continue
        if all(done.get(id(o), o) is o for o in below):
            done[id(current)] = current
            continue
        match current:
            case Apply():
                done[id(current)] = Apply(
                    current.op, tuple(done[id(a)] for a in current.args), current.dtype
                )
            case Reduce():
                done[id(current)] = Reduce(
                    current.op, current.axes, done[id(current.body)], current.dtype
                )
            case Read():
                done[id(current)] = Read(
                    current.node, tuple(_index(i, {}, done) for i in current.index)
                )
            case Number() | Position() | ExtentNumber():
                done[id(current)] = current
    return done[id(value)]

"""Assignments, and the computation that is a sequence of them.

In: a graph. Out: ``target[index] op= value`` over an iteration space. Invariant: the meaning of a
computation is that of running its assignments one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from workbench.assign.expression import Read, Value, reads
from workbench.assign.index import Affine, Axis, Index, Lookup
from workbench.errors import GraphError
from workbench.graph.tensor import Tensor

NEUTRAL = {"add": 0.0, "maximum": float("-inf"), "minimum": float("inf")}


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """``target[index] = value``, or combined over the axes that ``index`` does not use.

    Attributes
    ----------
    target
        The node written.
    index
        One index for each axis of the target.
    axes
        The iteration space: axes of ``index`` first, in its order, then those combined over.
    value
        What is computed for one point.
    combine
        ``""`` for plain assignment, else ``add``, ``maximum`` or ``minimum``.
    fresh
        Whether a combining assignment starts from the neutral element (else from what the target
        holds).
    output_axes
        Axes that the written cell depends on.
    combined_axes
        Axes combined over.
    """

    target: Tensor
    index: tuple[Index, ...]
    axes: tuple[Axis, ...]
    value: Value
    combine: str = ""
    fresh: bool = True

    output_axes: tuple[Axis, ...] = field(init=False, repr=False)
    combined_axes: tuple[Axis, ...] = field(init=False, repr=False)
    _reads: tuple[Read, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Every pass asks for these, some of them often; a frozen class has no other way to fill
        # fields.
        used = {axis for index in self.index if isinstance(index, Affine) for axis in index.axes()}
        object.__setattr__(self, "output_axes", tuple(a for a in self.axes if a in used))
        object.__setattr__(self, "combined_axes", tuple(a for a in self.axes if a not in used))
        looked_up = [index.value for index in self.index if isinstance(index, Lookup)]
        found = [read for value in (self.value, *looked_up) for read in reads(value)]
        object.__setattr__(self, "_reads", tuple(found))

    @property
    def is_identity(self) -> bool:
        """Whether the written cell is at the output axes themselves, each once, whole."""
        simple = [index.axis if isinstance(index, Affine) else None for index in self.index]
        used = [axis for axis in simple if axis is not None]
        return len(set(used)) == len(self.index) and all(
            axis is not None and axis.extent == extent
            for axis, extent in zip(simple, self.target.shape, strict=True)
        )

    def reads(self) -> tuple[Read, ...]:
        """Return every read, those of a written index that is looked up included."""
        return self._reads


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """``target`` is ``source`` in another shape: the same elements in the same order, no copy."""

    target: Tensor
    source: Tensor


Statement = Assignment | View


class Source(Protocol):
    """What a computation was written from, and can be written anew from after another one."""

    @property
    def stores(self) -> Mapping[Tensor, Tensor]:
        """For each state leaf that is updated the node that computes its new value."""
        ...

    def sequence(self, first: Computation, second: Computation) -> Computation:
        """Return ``first`` and then ``second`` as one computation."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Computation:
    """A sequence of assignments with what it takes and gives.

    Attributes
    ----------
    statements
        In order.
    inputs
        Leaves that are read: parameters, inputs and array constants.
    outputs
        Nodes that a person wants to read afterwards.
    updates
        Leaves that are written: state that the computation changes in place.
    name
        For people.
    owned
        Nodes whose backward fragment (the code that propagates from their gradient to their
        operands') is part of this computation.
    accumulates
        Gradients that generated backward code adds to. Writes by hand do not count.
    zeroes
        Gradients that generated code resets.
    requires
        Nodes whose backward fragment must be in the lineage, since this computation writes into
        their gradients.
    accumulation_runs
        How often it may run between two resets of the gradients it accumulates into.
    source
        The graph it was written from; None if somebody wrote the statements.
    """

    statements: tuple[Statement, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    updates: tuple[Tensor, ...] = ()
    name: str = ""
    owned: frozenset[Tensor] = frozenset()
    accumulates: frozenset[Tensor] = frozenset()
    zeroes: frozenset[Tensor] = frozenset()
    requires: frozenset[Tensor] = frozenset()
    accumulation_runs: int = 1
    source: Source | None = field(default=None, repr=False)

    def __add__(self, other: Computation) -> Computation:
        """Return the computation that does this one and then the other, in one routine.

        What ``other`` reads of the state has the values that this one gave it, as if two routines
        were run one after the other; but both are compiled together, so that the second reads
        results of the first while they are at hand.

        Raises
        ------
        GraphError
            If one of the two was made of statements by hand, not from a graph.
        """
        other.stores()
        return self._graph().sequence(self, other)

    def stores(self) -> Mapping[Tensor, Tensor]:
        """Return for each state leaf that is updated the node that computes its new value.

        Raises
        ------
        GraphError
            If the computation was made of statements by hand, not from a graph.
        """
        return self._graph().stores

    def _graph(self) -> Source:
        if self.source is None:
            raise GraphError(
                f"the computation `{self.name}` was not made from a graph, so that it cannot be "
                "joined with another",
                remedy="make it with `wb.computation(outputs, updates)`, or compile two routines "
                "and run one after the other",
            )
        return self.source

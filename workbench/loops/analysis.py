"""The facts of a computation, gathered once for all calls about it.

In: a computation. Out: its facts. Invariant: two computations of the same statements over the same
nodes share one analysis, whatever their axes are called; and the analysis keeps no node alive.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from workbench.assign.assignment import Computation, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Reduce,
    Value,
)
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.tensor import Tensor
from workbench.loops.facts import Facts, gather_facts

KEPT: Final = 8
"""Analyses that are kept; the one asked for longest ago goes first."""

_analyses: OrderedDict[tuple[bytes, int], dict[int, Facts]] = OrderedDict()
_digests: WeakKeyDictionary[Computation, bytes] = WeakKeyDictionary()
_analysing: Final = threading.Lock()


def analyse(computation: Computation, rows: int) -> Mapping[Tensor, Facts]:
    """Return the facts of every node that ``computation`` reads or writes.

    Parameters
    ----------
    computation
        Any computation.
    rows
        The batch size to reckon with.
    """
    with _analysing:
        digest = _digests.get(computation)
        known = None if digest is None else _analyses.get((digest, rows))
    if digest is None:
        digest = digest_of(computation)
        with _analysing:
            _digests[computation] = digest
            known = _analyses.get((digest, rows))
    if known is None:
        # Not under the lock: another thread compiles meanwhile; the same is found twice at worst.
        known = {node.uid: fact for node, fact in gather_facts(computation, rows).items()}
    with _analysing:
        _analyses[digest, rows] = known
        _analyses.move_to_end((digest, rows))
        while len(_analyses) > KEPT:
            _analyses.popitem(last=False)
    return {node: known[node.uid] for node in _nodes(computation)}


def _nodes(computation: Computation) -> dict[Tensor, None]:
    found: dict[Tensor, None] = {}
    for statement in computation.statements:
        found[statement.target] = None
        if isinstance(statement, View):
            found[statement.source] = None
        else:
            found.update((read.node, None) for read in statement.reads())
    return found


def digest_of(computation: Computation) -> bytes:
    """Return a digest of the statements: nodes by identity, axes by their order of first use."""
    writer = _Writer()
    for statement in computation.statements:
        if isinstance(statement, View):
            writer.words += ("view", statement.target.uid, statement.source.uid)
            continue
        writer.words += ("set", statement.target.uid, statement.combine, statement.fresh)
        writer.words.extend(writer.axis(axis) for axis in statement.axes)
        for index in statement.index:
            writer.index(index)
        writer.value(statement.value)
    return hashlib.blake2b(repr(writer.words).encode()).digest()


class _Writer:
    """Writes values as words, one after another."""

    def __init__(self) -> None:
        self.words: list[object] = []
        self.axes: dict[Axis, str] = {}

    def axis(self, axis: Axis) -> str:
        name = self.axes.get(axis)
        if name is None:
            name = self.axes[axis] = f"a{len(self.axes)}:{axis.extent}"
        return name

    def index(self, index: Index) -> None:
        if isinstance(index, Affine):
            self.words += ("at", index.offset)
            for axis, coefficient in index.terms:
                self.words += (self.axis(axis), coefficient)
        else:
            self.words += ("lookup", str(index.extent))
            self.value(index.value)

    def value(self, value: Value) -> None:
        match value:
            case Number():
                self.words += (repr(value.value), value.dtype.value)
            case Position():
                self.words += ("position", value.dtype.value)
                self.index(value.index)
            case ExtentNumber():
                self.words += ("extent", str(value.extent), value.dtype.value)
            case Read():
                self.words += ("read", value.node.uid)
                for index in value.index:
                    self.index(index)
            case Apply():
                self.words += (value.op, len(value.args), value.dtype.value)
                for arg in value.args:
                    self.value(arg)
            case Reduce():
                self.words += ("reduce", value.op, len(value.axes))
                self.words.extend(self.axis(axis) for axis in value.axes)
                self.value(value.body)

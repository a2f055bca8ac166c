"""The merge buffer of a lineage: one value from elsewhere at a time, for those that await it.

In: a context to copy from, one to copy to, a node. Out: a context whose merge buffer holds the
value. Invariant: a fill replaces the one before, so it waits for those that were compiled to read
that one; and they can never run on the bytes of another.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

import numpy as np

from workbench.assign.assignment import Computation
from workbench.backends.protocol import Array
from workbench.errors import CompileError, ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.leaf import merge_buffer
from workbench.graph.tensor import Tensor
from workbench.runtime.buffer import Buffer, rows_for
from workbench.runtime.ledger import Record
from workbench.runtime.lifecycle import Unit
from workbench.runtime.memory import arena, padded
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context

_numbers = itertools.count(1)


@final
class Slab:
    """The merge buffer that all contexts of one root share.

    Attributes
    ----------
    number
        Of the latest fill, never used again; 0 before the first.
    leaf
        What stands for its contents in a graph, None before the first fill.
    record
        What the ledger knows of the latest fill.
    """

    def __init__(self) -> None:
        self.number = 0
        self.leaf: Tensor | None = None
        self.record = Record()
        self._memory: Array | None = None
        self._readers: weakref.WeakSet[Routine] = weakref.WeakSet()

    def memory(self, context: Context, leaf: Tensor, rows: int | None) -> Array:
        """Return memory for ``leaf``: the same as before, unless that is too small."""
        size = padded(leaf, rows) * leaf.dtype.itemsize
        if self._memory is None or self._memory.nbytes < size:
            array = arena([leaf], rows, context.backend.device)[leaf]
            self._memory = array.view(np.uint8)
        found: Array = self._memory[:size].view(leaf.dtype.numpy)
        return found

    def refill(self, leaf: Tensor) -> Record:
        """Begin the next fill: what read the one before is not asked for any more."""
        self.number = next(_numbers)
        self.leaf = leaf
        self.record = Record()
        self._readers.clear()
        return self.record

    def await_(self, routine: Routine) -> None:
        """Let ``routine`` read this fill, and no other."""
        routine.transfer = self.number
        self._readers.add(routine)

    def pending(self, context: Context) -> list[Routine]:
        """Return the routines that were compiled to read this fill and did not run yet."""
        waiting: list[Routine] = []
        for routine in self._readers:
            unit = routine.unit()
            if routine.id in context.ledger.executed or unit is None or unit.is_released:
                continue
            waiting.append(routine)
        return sorted(waiting, key=lambda routine: routine.id)


_slabs: Final[weakref.WeakKeyDictionary[Unit, Slab]] = weakref.WeakKeyDictionary()


def slab_of(context: Context) -> Slab:
    """Return the merge buffer of the context's lineage."""
    return _slabs.setdefault(context.unit.root, Slab())


def fill_merge_buffer(source: Context, target: Context, node: Tensor) -> Context:
    """Return ``target`` with the value of ``node`` in ``source`` in its merge buffer.

    Parameters and errors are those of `workbench.runtime.copying.copy`.
    """
    if not source.same_backend(target):
        raise ExecutionError(
            f"{describe(node)} cannot be copied from {source.backend_name} into a merge buffer of "
            f"{target.backend_name}: a merge buffer is filled from the same backend only",
            remedy="copy it into memory of its own: `Context.copy(source, target, node)`",
        )
    held = source.buffers.get(node)
    if held is None:
        raise ExecutionError(
            f"{describe(node)} has no memory in {source.unit.name}, and a merge buffer is not "
            "filled from the host",
            remedy="compile it there among the outputs, or copy it into memory of its own",
        )
    writer = source.frontier.writers.get(node)
    name = None if writer is None else _name(source, writer)
    if writer is not None and name is not None and writer not in source.ledger.executed:
        raise ExecutionError(
            f"{describe(node)} is written by `{name}` (id={writer}), which has not run yet",
            remedy=f"run `{name}` before copying what it writes",
        )
    if node not in source.initialized or not held.record.written:
        raise ExecutionError(
            f"no value was ever written to {describe(node)} in {source.unit.name}",
            remedy="set its value, or run what computes it",
        )
    slab = slab_of(target)
    waiting = slab.pending(target)
    if waiting and slab.leaf is not None:
        names = ", ".join(f"`{each.name}` (id={each.id})" for each in waiting)
        raise ExecutionError(
            f"the merge buffer holds {describe(slab.leaf)}, which {names} did not read yet",
            remedy="run or release them before the next copy into the merge buffer",
        )
    leaf = merge_buffer(node)
    array = slab.memory(target, leaf, rows_for(node, held.shape))
    buffer = Buffer(array, held.shape, slab.refill(leaf))
    buffer.view()[...] = held.view()
    target.ledger.write(buffer.record)
    others = {each for each in target.buffers if each.op == "merge"}
    return target.derived(
        f"copy {leaf.label}",
        buffers={n: b for n, b in target.buffers.items() if n not in others} | {leaf: buffer},
        initialized=target.initialized - others | {leaf},
        frontier=target.frontier.superseded([*others, leaf]),
    )


def check_merged(source: Context, computation: Computation) -> None:
    """Check that the merge buffer of ``source`` holds what a computation reads from it.

    Raises
    ------
    ExecutionError
        If it was filled again, or never.
    """
    for leaf in merged_inputs(computation):
        held = source.buffers.get(leaf)
        if held is None or held.record is not slab_of(source).record:
            raise ExecutionError(
                f"the merge buffer does not hold {describe(leaf)} any more",
                remedy="copy it there again: `Context.copy(source, ctx, node, into_merge=True)`",
            )


def with_merged(source: Context, target: Context, computation: Computation) -> Context:
    """Return ``target``, of another root, with what a computation reads from a merge buffer.

    Errors are those of `check_merged`.
    """
    check_merged(source, computation)
    for leaf in merged_inputs(computation):
        held, slab = source.buffers[leaf], slab_of(target)
        array = slab.memory(target, leaf, rows_for(leaf, held.shape))
        buffer = Buffer(array, held.shape, slab.refill(leaf))
        buffer.view()[...] = held.view()
        target.ledger.write(buffer.record)
        target = replace(
            target,
            buffers={**target.buffers, leaf: buffer},
            initialized=target.initialized | {leaf},
        )
    return target


def _name(context: Context, number: int) -> str | None:
    routine = context.ledger.routines.get(number)
    return None if routine is None else routine.name


def merged_inputs(computation: Computation) -> list[Tensor]:
    """Return the merge buffers that a computation reads."""
    return [node for node in computation.inputs if node.op == "merge"]


def check_transfer(context: Context, computation: Computation, name: str) -> None:
    """Check that the merge buffer holds what a computation reads from it.

    Raises
    ------
    CompileError
        Naming what it reads, and what the merge buffer holds.
    """
    for leaf in merged_inputs(computation):
        slab = slab_of(context)
        buffer = context.buffers.get(leaf)
        if buffer is None or buffer.record is not slab.record:
            held = "nothing" if slab.leaf is None else describe(slab.leaf)
            late = ", filled again since" if slab.leaf is leaf else ""
            raise CompileError(
                f"`{name}` reads {describe(leaf)}, and the merge buffer holds {held}{late}",
                remedy="copy it first, `ctx = Context.copy(source, ctx, node, into_merge=True)`, "
                "and compile in the context that returns",
            )


def check_still_there(context: Context, routine: Routine) -> None:
    """Check that the merge buffer still holds what ``routine`` was compiled to read.

    Raises
    ------
    ExecutionError
        If it was filled again.
    """
    slab = slab_of(context)
    if routine.transfer != slab.number:
        raise ExecutionError(
            f"`{routine.name}` reads a value of the merge buffer that a later copy has replaced",
            remedy="compile it again in the context that the later copy returned",
        )

"""Memory of a routine in a context: what it takes, and taking it.

In: a program and a context. Out: the buffers of the context that it is linked in. Invariant: what a
plan says is requested is what the link requests, allocation by allocation; planning allocates
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from workbench.assign.assignment import Computation, View
from workbench.backends.device import Device
from workbench.graph.extent import Batch, count, resolve_shape
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program
from workbench.runtime.buffer import Buffer
from workbench.runtime.constants import is_on_device, is_shared, shared_constant
from workbench.runtime.memory import arena, arena_bytes, device_order

if TYPE_CHECKING:
    from workbench.runtime.context import Context


@final
@dataclass(frozen=True, slots=True)
class LinkPlan:
    """What a link requests from a device.

    Attributes
    ----------
    own
        Nodes that get memory in the context, all in one allocation.
    constants
        Array constants that are not on the device yet, an allocation each.
    present
        Array constants that are there already.
    """

    own: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    present: tuple[Tensor, ...] = ()

    def sizes(self) -> list[int]:
        """Return the bytes of each allocation."""
        own = [arena_bytes(self.own, None)] if self.own else []
        return [*own, *(arena_bytes([node], None) for node in self.constants)]

    def total(self) -> int:
        """Return the bytes of all allocations."""
        return sum(self.sizes())


def plan_link(nodes: Iterable[Tensor], held: Mapping[Tensor, object], device: Device) -> LinkPlan:
    """Return what a link has to request.

    Parameters
    ----------
    nodes
        Those that the program wants on the device. Nodes with a batch axis get memory at a run,
        when the size of the batch is known.
    held
        Nodes that have memory in the context.
    device
        Where the memory is.
    """
    missing = [n for n in nodes if n not in held and not isinstance(count(n.shape), Batch)]
    shared = [node for node in missing if is_shared(node)]
    return LinkPlan(
        own=tuple(node for node in missing if not is_shared(node)),
        constants=tuple(node for node in shared if not is_on_device(node, device)),
        present=tuple(node for node in shared if is_on_device(node, device)),
    )


def linked_buffers(
    context: Context, program: Program, groups: Sequence[Sequence[Tensor]]
) -> tuple[dict[Tensor, Buffer], frozenset[Tensor]]:
    """Return the context's buffers and those of the program, and which of them hold values.

    Parameters
    ----------
    context
        Where the program is linked.
    program
        With the nodes that it wants on the device.
    groups
        Nodes that want to lie side by side.
    """
    device = context.backend.device
    plan = plan_link(device_order(program.device, groups), context.buffers, device)
    buffers = dict(context.buffers)
    initialized = set(context.initialized)
    for node, array in arena(plan.own, None, device).items():
        buffers[node] = Buffer(array, resolve_shape(node.shape, None))
        if node.value is not None:
            buffers[node].view()[...] = node.value
            context.ledger.write(buffers[node].record)
            initialized.add(node)
    for node in (*plan.constants, *plan.present):
        constant = shared_constant(node, device)
        record = constant.record(context.ledger)
        if not record.written:
            context.ledger.write(record)
        buffers[node] = Buffer(constant.array, resolve_shape(node.shape, None), record, constant)
        initialized.add(node)
    return buffers, frozenset(initialized)


def link_floor(
    program: Program, computation: Computation, held: Mapping[Tensor, object], device: Device
) -> LinkPlan:
    """Return what every way of compiling the computation has to request at least.

    Only what is read from outside, asked for or updated has memory in the context whatever is
    decided about the rest; and what differs in shape alone may share its memory.
    """
    owner: dict[Tensor, Tensor] = {}
    for statement in computation.statements:
        if isinstance(statement, View):
            owner[statement.target] = owner.get(statement.source, statement.source)
    known = {owner.get(node, node) for node in held}
    present = set(program.device)
    groups: dict[Tensor, Tensor] = {}
    for node in (*computation.inputs, *computation.outputs, *computation.updates):
        root = owner.get(node, node)
        if root not in known and program.views.get(node, node) in present:
            groups.setdefault(root, node)
    return plan_link(groups.values(), held, device)

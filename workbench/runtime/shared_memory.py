"""What a lineage may do with constants whose memory it shares with others on its device.

In: a context and array constants. Out: a context that has them for itself, or a refusal. Invariant:
no lineage reads, without being told, what a lineage of another root has written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.errors import ExecutionError, PlacementError
from workbench.graph.elementwise import describe
from workbench.graph.extent import resolve_shape
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.runtime.buffer import Buffer
from workbench.runtime.constants import is_shared
from workbench.runtime.memory import arena

if TYPE_CHECKING:
    from workbench.runtime.context import Context


def own_constants(context: Context, nodes: Iterable[Tensor]) -> Context:
    """Return a context that holds the given array constants in memory of its own.

    Parameters are those of `workbench.runtime.context.Context.own_constants`.
    """
    context.unit.check_live()
    wanted = list(dict.fromkeys(nodes_from("nodes", nodes)))
    for node in wanted:
        if not is_shared(node):
            raise PlacementError(
                f"{describe(node)} is no array constant: its memory is the context's own anyway",
                remedy="name arrays that were made with `wb.constant([...])`",
            )
    unit, stage = context.unit.extended(context.stage)
    buffers = dict(context.buffers)
    for node, array in arena(wanted, None, context.backend.device).items():
        buffers[node] = Buffer(array, resolve_shape(node.shape, None))
        buffers[node].view()[...] = node.value
        context.ledger.write(buffers[node].record)
    return context.derived(
        "own_constants",
        buffers=buffers,
        initialized=context.initialized | set(wanted),
        frontier=context.frontier.superseded(wanted),
        unit=unit,
        stage=stage,
    )


def refuse_overwritten(context: Context, nodes: Iterable[Tensor], what: str) -> None:
    """Refuse ``what`` if it reads a constant that another root has written into.

    Raises
    ------
    ExecutionError
        Naming the constant and the context that wrote.
    """
    for node in nodes:
        buffer = context.buffers.get(node)
        constant = None if buffer is None else buffer.constant
        if constant is not None and not constant.is_known(context.unit):
            raise ExecutionError(
                f"{what} reads the constant {describe(node)}, whose memory all contexts on "
                f"{context.backend.device.name} share, and {constant.writer} of another root has "
                "written into it",
                remedy="take its value over with `Context.copy(source, ctx, node)`, set your own "
                "with `ctx.set_values`, or give this context memory of its own with "
                "`ctx.own_constants([node])`",
            )

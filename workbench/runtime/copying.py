"""Values from one context into another.

In: two contexts and a node. Out: the second, holding the value that the first has. Invariant: the
first stays as it was; nothing of the second is touched unless the value can be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.graph.nodes import node_from
from workbench.graph.tensor import Tensor, printable
from workbench.runtime.merging import fill_merge_buffer
from workbench.runtime.shared_memory import refuse_overwritten
from workbench.runtime.transfer import check_writable, upload

if TYPE_CHECKING:
    from workbench.runtime.context import Context


def copy(source: Context, target: Context, node: Tensor, *, into_merge: bool) -> Context:
    """Return ``target`` with the value that ``node`` has in ``source``.

    Parameters are those of `workbench.runtime.context.Context.copy`.
    """
    node_from("node", node)
    for context in (source, target):
        context.unit.check_live()
        context.ledger.refuse_poisoned("copying")
    if into_merge:
        return fill_merge_buffer(source, target, node)
    check_writable(target, node)
    made_by = f"copy {printable(node.label) or node.op}"
    held, there = source.buffers.get(node), target.buffers.get(node)
    if held is None or node not in source.initialized:
        return upload(target, {node: source.get_values(node)}, made_by=made_by)
    refuse_overwritten(source, [node], "copying")
    if there is None or there.array.ctypes.data != held.array.ctypes.data:
        return upload(target, {node: held.view()}, made_by=made_by)
    # The same bytes: nothing moves, and the target's lineage has them as its own value.
    if there.constant is not None:
        there.constant.take_over(target.unit)
    target.ledger.write(there.record)
    return target.derived(
        made_by,
        initialized=target.initialized | {node},
        frontier=target.frontier.superseded([node]),
    )

"""Values from outside into the memory of a context.

In: arrays by node. Out: a context in which the nodes hold them. Invariant: the arrays given are
copied, and checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from workbench.assign.from_graph import LEAVES
from workbench.errors import ExecutionError, PlacementError
from workbench.graph.elementwise import describe
from workbench.graph.nodes import node_keys_from
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Mode
from workbench.runtime.buffer import Buffer, check_fits, rows_for
from workbench.runtime.memory import arena

if TYPE_CHECKING:
    from workbench.runtime.context import Context


def upload(
    context: Context, values: Mapping[Tensor, npt.ArrayLike], *, made_by: str = "set_values"
) -> Context:
    """Return a context in which the given nodes hold the given values (copied).

    Parameters are those of `workbench.runtime.context.Context.set_values`.
    """
    context.unit.check_live()
    context.ledger.refuse_poisoned("setting values")
    arrays = {node: np.asarray(value) for node, value in node_keys_from("values", values).items()}
    for node, array in arrays.items():
        check_writable(context, node)
        check_fits(node, array)
    # The same mapping as long as nothing is added to it: a routine that ran over it is ready.
    buffers = context.buffers
    unit, stage = context.unit, context.stage
    for node, array in arrays.items():
        buffer = buffers.get(node)
        if buffer is None or buffer.shape != array.shape or buffer.lent:
            memory = arena([node], rows_for(node, array.shape), context.backend.device)[node]
            buffer = Buffer(memory, array.shape)
            buffers = {**buffers, node: buffer}
            if stage == context.stage:
                unit, stage = unit.extended(stage)
        buffer.view()[...] = array
        if buffer.constant is not None:
            buffer.constant.wrote(context.unit)
        context.ledger.write(buffer.record)
    initialized = context.initialized
    return context.derived(
        made_by,
        buffers=buffers,
        initialized=initialized if arrays.keys() <= initialized else initialized | arrays.keys(),
        frontier=context.frontier.superseded(arrays),
        unit=unit,
        stage=stage,
    )


_GIVEN: Final = (
    "set what it is computed from; or set it in a context in which nothing computes it, and "
    "compile what reads it there with `wb.computation([...], given=[t])`"
)


def check_writable(context: Context, node: Tensor) -> None:
    """Refuse a write that no routine would see, or that belongs to another node.

    Raises
    ------
    PlacementError
        For a local node, with who decided so, for a node that routines compute, and for a view,
        with what it is a view of.
    ExecutionError
        For a static index, which has no value outside a launch.
    """
    placement = context.placements.get(node)
    if placement is not None and placement.mode is Mode.LOCAL:
        raise PlacementError(
            f"{describe(node)} was given a value, and is {placement} in this lineage: no routine "
            "reads it from outside",
            remedy=_GIVEN,
        )
    viewed = context.frontier.views.get(node)
    if viewed is not None:
        raise PlacementError(
            f"{describe(node)} was given a value, and is a view of {describe(viewed)}",
            remedy=f"set {describe(viewed)}, whose memory it is",
        )
    if node.op not in LEAVES and placement is not None and node not in context.frontier.given:
        raise PlacementError(
            f"{describe(node)} was given a value, and routines of this lineage compute it: none "
            "of them would read the value",
            remedy=_GIVEN,
        )
    if declared_extent(node) is not None:
        raise ExecutionError(
            f"the static index `{node.label}` was given a value, and is bound at each launch",
            remedy="set it in the mapping that the routine was compiled with as `bindings`",
        )

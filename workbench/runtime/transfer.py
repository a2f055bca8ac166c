"""Values from outside into the memory of a context.

In: arrays by node. Out: a context in which the nodes hold them. Invariant: the arrays given are
copied, and checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from workbench.graph.tensor import Tensor
from workbench.runtime.buffer import Buffer, check_fits, rows_for
from workbench.runtime.memory import arena

if TYPE_CHECKING:
    from workbench.runtime.context import Context


def upload(context: Context, values: Mapping[Tensor, npt.ArrayLike]) -> Context:
    """Return a context in which the given nodes hold the given values (copied).

    Parameters are those of `workbench.runtime.context.Context.set_values`.
    """
    context.unit.check_live()
    arrays = {node: np.asarray(value) for node, value in values.items()}
    for node, array in arrays.items():
        check_fits(node, array)
    buffers = dict(context.buffers)
    unit, stage = context.unit, context.stage
    for node, array in arrays.items():
        buffer = buffers.get(node)
        if buffer is None or buffer.shape != array.shape:
            memory = arena([node], rows_for(node, array.shape), context.backend.device)[node]
            buffer = buffers[node] = Buffer(memory, array.shape)
            if stage == context.stage:
                unit, stage = unit.extended(stage)
        buffer.view()[...] = array
    return context.derived(
        "set_values",
        buffers=buffers,
        initialized=context.initialized | frozenset(values),
        unit=unit,
        stage=stage,
    )

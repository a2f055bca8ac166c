"""Metrics over batches, as an evaluation computes them, without a run."""

from functools import cache
from typing import Any

import numpy as np

from workbench.graph.extent import batch
from workbench.graph.leaf import input as input_leaf
from workbench.runtime.context import Context
from workbench.train.ratio import taken_apart
from workbench.train.statistic import Statistic


@cache
def compiled(metric, shapes, backend="interpreter"):
    """Return a metric of two inputs, traced and compiled; ``shapes`` have no batch."""
    leaves = [
        input_leaf(name, (batch, *shape), dtype)
        for name, (shape, dtype) in zip("xy", shapes, strict=True)
    ]
    made = metric(*leaves)
    made = made if isinstance(made, Statistic) else taken_apart(made)
    wanted = list(made.tensors) if isinstance(made, Statistic) else [made]
    context, routine = getattr(Context, backend)().compile(wanted, rows=4)
    return leaves, made, wanted, context, routine


def by_batches(metric, x, y, size, backend="interpreter") -> Any:
    """Return the value of ``metric`` over all rows, ``size`` of them at a time."""
    shapes = tuple((array.shape[1:], str(array.dtype)) for array in (x, y))
    leaves, made, wanted, context, routine = compiled(metric, shapes, backend)
    parts, rows = [[] for _ in wanted], []
    for first in range(0, len(x), size):
        here = [array[first : first + size] for array in (x, y)]
        context = context.set_values(dict(zip(leaves, here, strict=True))).run(routine)
        rows.append(len(here[0]))
        for part, node in zip(parts, wanted, strict=True):
            part.append(context.get_values(node).copy())
    if not isinstance(made, Statistic):
        return float(np.average(np.array(parts[0], np.float64), weights=rows))
    per_batch = len(made.per_batch)
    arrays = {
        node: np.stack(part) if place < per_batch else np.concatenate(part)
        for place, (node, part) in enumerate(zip(wanted, parts, strict=True))
    }
    return made.value(arrays, rows)

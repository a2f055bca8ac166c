"""How many points an iteration space has, for estimates.

In: axes and a batch size to reckon with. Out: a number. Invariant: nothing that is compiled depends
on the number; decisions do.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.assign.index import Axis
from workbench.graph.extent import resolve


def points(axes: Iterable[Axis], rows: int) -> int:
    """Return the number of points of an iteration space when the batch has ``rows`` rows."""
    total = 1
    for axis in axes:
        total *= resolve(axis.extent, rows)
    return total

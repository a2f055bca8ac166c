"""Derivatives by central differences in float64, to judge gradient rules by.

``(f(x + h) - f(x - h)) / 2h`` has an error of h**2 f'''/6 from the formula and of about eps |f| / h
from rounding; h = 1e-5 balances them for values near 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracle.numpy_graph import evaluate
from workbench.graph.gradient import backward
from workbench.graph.tensor import Tensor

STEP = 1e-5
# A thousand times the rounding error of a difference; the errors of wrong rules are of order 1.
TOLERANCE = 1e-6

Feeds = Mapping[Tensor, npt.NDArray[Any]]


def difference(loss: Tensor, leaf: Tensor, feeds: Feeds, step: float = STEP) -> npt.NDArray[Any]:
    """Return the derivative of ``loss`` by each element of ``leaf``."""
    start = np.array(feeds[leaf], np.float64)
    slope = np.zeros_like(start)
    for place in np.ndindex(start.shape):
        sides: list[float] = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[place] += sign * step
            sides.append(float(evaluate([loss], {**feeds, leaf: moved})[0]))
        slope[place] = (sides[0] - sides[1]) / (2.0 * step)
    return slope


def check_gradients(
    loss: Tensor,
    leaves: list[Tensor],
    feeds: Feeds,
    step: float = STEP,
    tolerance: float = TOLERANCE,
) -> None:
    """Compare ``backward`` with central differences at every element of ``leaves``."""
    gradients = backward(loss, leaves)
    found = evaluate([gradients[leaf] for leaf in leaves], feeds)
    for leaf, gradient in zip(leaves, found, strict=True):
        np.testing.assert_allclose(
            gradient,
            difference(loss, leaf, feeds, step),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"by {leaf!r}",
        )

"""Initial values of parameters, from an explicit seed.

Invariant: a value depends on the seed, the purpose and the shape alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.seeds import generator


def he_normal(
    inputs: int,
    outputs: int,
    *,
    seed: int,
    purpose: str = "init",
    dtype: npt.DTypeLike = np.float32,
) -> npt.NDArray[Any]:
    """Return normal numbers of variance ``2 / inputs``, for relu layers (He et al. 2015).

    Parameters
    ----------
    inputs, outputs
        The shape is ``(inputs, outputs)``.
    seed
        The run's seed.
    purpose
        Which parameter: two purposes give independent values.
    dtype
        Element type.
    """
    values = generator(seed, purpose).standard_normal((inputs, outputs))
    return np.asarray(values * np.sqrt(2.0 / inputs), dtype)


def zeros(*shape: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """Return zeros of ``shape``."""
    return np.zeros(shape, dtype)

"""When two backends agree on a tensor.

Whole numbers and truth values agree exactly. Floating numbers agree to a share of the greatest of
the tensor, since a sum of many may cancel; infinities and NaN are where the other has them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

# Between float32 and float64 evaluation of 2,000 random graphs the median was 3e-8, the worst 3e-5.
FLOAT32_SHARE = 2e-4
FLOAT64_SHARE = 1e-10
# Below this the greatest of a tensor is itself the rounding error of something that cancelled.
LEAST_SCALE = 1e-3

Array = npt.NDArray[Any]


def assert_agree(found: Array, expected: Array, name: str = "") -> None:
    """Compare shape, type and values."""
    assert found.shape == expected.shape, f"{name}: shape {found.shape}, not {expected.shape}"
    assert found.dtype == expected.dtype, f"{name}: type {found.dtype}, not {expected.dtype}"
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    share = FLOAT64_SHARE if found.dtype == np.float64 else FLOAT32_SHARE
    scale = max(float(finite.max(initial=0.0)), LEAST_SCALE)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=share * scale, err_msg=name)

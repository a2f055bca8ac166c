"""Numbers as a person reads them: few digits, cut and never rounded up.

In: one number. Out: its text. Invariant: what is printed is never greater in magnitude than the
number at hand, beyond the rounding of the three digits that are cut off: 2.999 is ``2.99``.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_CUT: Final = 3
"""So many digits are computed and not shown; they keep 0.7 in float32 from printing as 6.99e-1."""


def format_number(value: float, precision: int = 2) -> str:
    """Return ``value`` in scientific notation with the exponent as short as it can be.

    Parameters
    ----------
    value
        Any number.
    precision
        Digits after the point.

    Examples
    --------
    >>> [format_number(each) for each in (60.0, 0.7, 2.999, -15.744, 1e-10, 0.0)]
    ['6.00e+1', '7.00e-1', '2.99', '-1.57e+1', '1.00e-10', '0.00']
    >>> format_number(3.14159265, 4), format_number(float("-inf"))
    ('3.1415', '-inf')
    """
    if not math.isfinite(value):
        return f"{value}"
    mantissa, _, exponent = f"{value:.{precision + _CUT}e}".partition("e")
    power = int(exponent)
    return mantissa[:-_CUT] + (f"e{power:+d}" if power else "")


def format_elements(values: npt.NDArray[Any], precision: int = 2) -> list[str]:
    """Return the elements of a flat array as text: whole numbers and truth values in full.

    >>> format_elements(np.array([0.25, 3.0])), format_elements(np.array([1200, -7]))
    (['2.50e-1', '3.00'], ['1200', '-7'])
    """
    if values.dtype.kind in "biu":
        return [str(value) for value in values]
    return [format_number(float(value), precision) for value in values]


def note_non_finite(array: npt.NDArray[Any]) -> str:
    """Return which values that are no numbers ``array`` includes, empty if there are none.

    >>> note_non_finite(np.array([1.0, np.nan, -np.inf]))
    'includes NaN, neg. inf.'
    """
    if array.dtype.kind in "biu":
        return ""
    present = [
        name
        for name, is_there in (
            ("NaN", bool(np.isnan(array).any())),
            ("pos. inf.", bool(np.any(array == np.inf))),
            ("neg. inf.", bool(np.any(array == -np.inf))),
        )
        if is_there
    ]
    return f"includes {', '.join(present)}" if present else ""

"""Element types: the first thing that every stage of the pipeline agrees on.

In: names, numpy dtypes, Python scalar types. Out: one of the frozen ``DType`` members.
Invariant: a ``DType`` has exactly one native numpy dtype of the same size.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from workbench.errors import DTypeError

Array: TypeAlias = npt.NDArray[Any]


_BFLOAT16: np.dtype[Any] = np.dtype(cast("npt.DTypeLike", ml_dtypes.bfloat16))


# Bits of the mantissa and greatest exponent, as IEEE 754 has them; bfloat16 is a cut float32.
_FORMATS = {"float32": (23, 127), "float64": (52, 1023), "bfloat16": (7, 127), "float16": (10, 15)}


class DType(enum.Enum):
    """The element type of a tensor or of a scalar expression.

    ``uint32`` and ``uint64`` serve counter-based random numbers; tensors that a person makes are of
    the other types. ``bfloat16`` and ``float16`` are types of storage: memory holds 16 bits,
    arithmetic is float32, and every result is rounded back.
    """

    F32 = "float32"
    F64 = "float64"
    BF16 = "bfloat16"
    F16 = "float16"
    I32 = "int32"
    I64 = "int64"
    U32 = "uint32"
    U64 = "uint64"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The native numpy dtype; bfloat16 is that of ``ml_dtypes``."""
        return _BFLOAT16 if self is DType.BF16 else np.dtype(str(self.value))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type, and so can carry a gradient."""
        return self in (DType.F32, DType.F64) or self.is_half

    @property
    def is_half(self) -> bool:
        """Whether the type is stored in 16 bits and computed in float32."""
        return self in (DType.BF16, DType.F16)

    @property
    def computed(self) -> DType:
        """The type that arithmetic on it is done in."""
        return DType.F32 if self.is_half else self

    @property
    def summed(self) -> DType:
        """The type that sums of it have, as in numpy: whole numbers and truth values have 64 bits.

        A sum of float32 or less stays of its type.
        """
        if self is DType.U32:
            return DType.U64
        return DType.I64 if self in (DType.I32, DType.BOOL) else self

    @property
    def greatest(self) -> float:
        """The greatest finite number of a floating type."""
        mantissa_bits, exponent = _FORMATS[self.value]
        return (2.0 - 2.0**-mantissa_bits) * 2.0**exponent

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer type (``bool`` is not)."""
        return self in (DType.I32, DType.I64, DType.U32, DType.U64)

    def __repr__(self) -> str:
        return str(self.value)

    __str__ = __repr__


_PYTHON_TYPES: dict[object, DType] = {float: DType.F32, int: DType.I64, bool: DType.BOOL}


def as_dtype(dtype: object) -> DType:
    """Return the ``DType`` that ``dtype`` names.

    Parameters
    ----------
    dtype
        A ``DType``, a name such as ``"float32"``, a numpy dtype or scalar type, or ``float``,
        ``int``, ``bool`` (meaning float32, int64, bool).

    Raises
    ------
    DTypeError
        If there is no such element type.

    Examples
    --------
    >>> as_dtype("float32"), as_dtype(bool)
    (float32, bool)
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _PYTHON_TYPES[dtype]
    try:
        # To numpy, None means float64: here it is a forgotten argument.
        named = "None" if dtype is None else np.dtype(cast("npt.DTypeLike", dtype)).name
        return DType(named)
    except (TypeError, ValueError):
        known = ", ".join(str(each) for each in DType)
        name = str(cast("object", dtype)) if isinstance(dtype, np.dtype) else repr(dtype)
        raise DTypeError(
            f"`{name}` is not an element type of this engine",
            remedy=f"use one of {known}, or convert the array with `.astype(...)` first",
        ) from None

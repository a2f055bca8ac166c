"""Turn whatever a user holds into an array that native code may walk by its address.

First stage of the data layer: in come lists, frames and arrays of any layout; out goes a
contiguous, aligned, writable array in the machine's byte order, with one of the element types
that the engine computes with.  Invariant: values are kept.  A number that the wanted element
type cannot hold is refused with its row, it never wraps around or turns into an infinity.
"""

from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from workbench.errors import ConfigurationError, DataError

__all__ = ["admit", "floating_dtype"]

_KEPT: Final = frozenset(np.dtype(kept) for kept in (np.int32, np.int64, np.float32, np.float64))


def admit(values: ArrayLike, name: str, dtype: np.dtype[Any] | None) -> NDArray[Any]:
    """Return ``values`` as an array fit for native code, copied only where it must be.

    Parameters
    ----------
    values
        Numbers or booleans, shape ``(n, ...)``.
    name
        What the values are called in error messages.
    dtype
        The element type of floating values; ``None`` keeps float32 and float64.  Integers are
        never made floating: int32 and int64 are kept, narrower ones become int32, uint32 and
        uint64 become int64.

    Returns
    -------
    NDArray
        The same numbers: contiguous, aligned, writable, in native byte order.

    Raises
    ------
    DataError
        If the values are ragged, masked, not numbers, have no rows, or do not fit the type.
    """
    array = _as_array(values, name)
    target = _target(array, name, dtype)
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        _refuse_first(array, array > np.iinfo(np.int64).max, name, target)
    try:
        # A cast raises "overflow" where a finite number becomes an infinity, and only there.
        with np.errstate(over="raise"):
            return np.require(array, target, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
    except FloatingPointError:
        with np.errstate(over="ignore"):
            overflowed = np.isinf(array.astype(target)) & ~np.isinf(array)
        _refuse_first(array, overflowed, name, target)


def floating_dtype(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    """Return the element type a user asked for floating values to have.

    Raises
    ------
    ConfigurationError
        If it is neither float32 nor float64.
    """
    if dtype is None:
        return None
    try:
        chosen = np.dtype(dtype)
    except TypeError as error:
        raise _unknown_dtype(dtype) from error
    if chosen not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise _unknown_dtype(dtype)
    return chosen


def _unknown_dtype(dtype: DTypeLike) -> ConfigurationError:
    return ConfigurationError(
        f"dtype is {dtype!r}; floating values are stored as float32 or float64",
        remedy="pass dtype=np.float32, dtype=np.float64, or None to keep what is given.",
    )


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(
            f"{name} is a masked array, and the mask would be lost",
            remedy="fill the masked entries first, for instance with `.filled(np.nan)`.",
        )
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{name} cannot be read as one array: {error}",
            remedy="give every row the same shape.",
        ) from error
    if array.ndim == 0:
        raise DataError(
            f"{name} is the single value {array.item()!r}, which has no rows",
            remedy="pass an array whose first axis counts the rows.",
        )
    return array


def _target(array: NDArray[Any], name: str, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    native = array.dtype.newbyteorder("=")
    match native.kind:
        case "f" if dtype is not None:
            return dtype
        case "f" | "i" if native in _KEPT:
            return native
        case "f":
            return np.dtype(np.float32 if native.itemsize < 4 else np.float64)
        case "i":
            return np.dtype(np.int32)
        case "u":
            return np.dtype(np.int32 if native.itemsize < 4 else np.int64)
        case "b":
            return native
        case _:
            raise DataError(
                f"{name} has dtype {array.dtype}; rows are made of real numbers or booleans",
                remedy=f"convert {name} to a numeric array first, for instance with `.astype`.",
            )


def _refuse_first(
    array: NDArray[Any], lost: NDArray[np.bool_], name: str, target: np.dtype[Any]
) -> NoReturn:
    place = tuple(int(i) for i in np.argwhere(lost)[0])
    where = ", ".join(str(i) for i in place)
    raise DataError(
        f"{name}[{where}] is {array[place]}, which {target} cannot hold",
        remedy="scale the values, or pass dtype=np.float64."
        if target.kind == "f"
        else "use values below 2**63.",
    )

"""Leaves of a graph: parameters, inputs, constants, positions, and the batch's extent as a number.

In: arrays, numbers, shapes. Out: tensors without operands. Invariant: an array that a leaf holds is
a private, read-only, contiguous copy in native byte order, so that no later write can reach it.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import Array, DType, as_dtype
from workbench.graph.extent import Batch, Extent, as_shape, show_shape
from workbench.graph.tensor import Tensor, builder, make, make_leaf


def native_array(value: object) -> Array:
    """Return ``value`` as a contiguous array in native byte order, copied, of one of our types.

    Raises
    ------
    DTypeError
        If the elements are not numbers or truth values of a type that this engine computes in.
    """
    array = _as_array(value)
    dtype = as_dtype(array.dtype)
    return np.array(array, dtype=dtype.numpy, order="C", copy=True)


def _as_array(value: object) -> Array:
    try:
        return np.asarray(cast("npt.ArrayLike", value))
    except ValueError as error:
        raise ShapeError(
            f"the nested list does not make an array: {error}",
            remedy="give all rows the same length",
        ) from None


def _frozen(value: object, dtype: object) -> Array:
    """Return a private, read-only array; lists of Python floats become float32."""
    array = _as_array(value)
    if dtype is not None:
        array = array.astype(as_dtype(dtype).numpy)
    elif not isinstance(value, (np.ndarray, np.generic)) and array.dtype == np.float64:
        array = array.astype(np.float32)
    array = native_array(array)
    array.flags.writeable = False
    return array


def parameter(value: object, label: str = "", *, dtype: object = None) -> Tensor:
    """Return a trainable leaf that starts with a private copy of ``value``.

    Parameters
    ----------
    value
        Array or nested list; Python floats become float32.
    label
        Name for people and for checkpoints.
    dtype
        Element type; the default keeps numpy's, except that lists of floats become float32.
    """
    array = _frozen(value, dtype)
    return make_leaf("parameter", array.shape, as_dtype(array.dtype), label, array)


def input_(label: str, shape: object, dtype: object = "float32") -> Tensor:
    """Return a leaf whose value is fed at each run.

    Parameters
    ----------
    label
        Name for people.
    shape
        Extents; one may be ``wb.batch``.
    dtype
        Element type.
    """
    return make_leaf("input", as_shape(shape), as_dtype(dtype), label)


def state(label: str, shape: object = (), dtype: object = "float32", value: float = 0.0) -> Tensor:
    """Return a leaf that a program keeps from one run to the next, such as a sum or a momentum.

    It is no parameter: no gradient is asked for it, and no optimizer steps it.

    Parameters
    ----------
    label
        Name for people.
    shape
        Extents, all of them numbers.
    dtype
        Element type.
    value
        What every element is to begin with.

    Raises
    ------
    ShapeError
        If an extent is symbolic: what stays from run to run has one size.
    """
    extents = as_shape(shape)
    if any(isinstance(extent, Batch) for extent in extents):
        raise ShapeError(
            f"state: `{label}` of shape {show_shape(extents)} has the batch as an extent",
            remedy="keep what does not depend on the number of rows, such as a sum over them",
        )
    element = as_dtype(dtype)
    # One number stands for all: a view that repeats it takes no memory.
    start = np.broadcast_to(element.numpy.type(value), cast("tuple[int, ...]", extents))
    return make_leaf("state", extents, element, label, start)


def merge_buffer(node: Tensor) -> Tensor:
    """Return a leaf for the value of ``node`` that was last copied into a merge buffer.

    A context has one merge buffer, which `Context.copy` fills with ``into_merge=True``. What reads
    this leaf is compiled in the context that the copy returned. Its value is gone with the next
    copy, so that nobody can ask for it.

    Parameters
    ----------
    node
        What is copied: any tensor that has memory in the context copied from.
    """
    return make(
        "merge",
        (),
        node.shape,
        node.dtype,
        {"of": node.uid},
        label=f"{node.label or node.op}.merge",
    )


@builder
def constant(
    value: object, *, like: Tensor | None = None, op: str = "", dtype: object = None
) -> Tensor:
    """Return a value that never changes: a number, or an array (copied).

    Parameters
    ----------
    value
        A Python or numpy number, or an array or a list of them.
    like
        Its element type is that of the constant, if it can hold what Python wrote.
    op
        Name of the operation that asks, for the error text.
    dtype
        Element type. The default is that of ``like``, else float32, int64 or bool for what Python
        wrote, and numpy's own for an array.

    Raises
    ------
    DTypeError
        If a fraction meets an integer tensor, or a number is out of the range of its type.
    """
    asker = op or "constant"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = cast("object", value[()])
    if isinstance(value, (list, tuple, np.ndarray)):
        wanted = dtype
        if dtype is None and like is not None and not isinstance(value, np.ndarray):
            wanted = _list_dtype(_as_array(cast("object", value)), like)
        array = _frozen(cast("object", value), wanted)
        return make_leaf("array", array.shape, as_dtype(array.dtype), "", array)
    python: Any = value
    own: object = type(value)
    if isinstance(value, np.generic):
        python, own = cast("Any", value).item(), cast("Any", value).dtype
    if not isinstance(python, (bool, int, float)):
        raise DTypeError(
            f"{asker}: `{python!r}` of type `{type(python).__name__}` is not a tensor, a number or "
            "an array",
            remedy="pass a tensor, a Python number or a numpy array",
        )
    if dtype is not None:
        element = as_dtype(dtype)
    elif like is None:
        element = as_dtype(own)
    else:
        element = _scalar_dtype(python, like, asker)
    _check_range(python, element, asker)
    return scalar(python, element)


def _list_dtype(array: Array, like: Tensor) -> DType | None:
    """Return the type that a list takes beside ``like``, or None for its own."""
    if like.dtype.is_float and (array.dtype == np.float64 or array.dtype == np.int64):
        return like.dtype
    return like.dtype if like.dtype.is_integer and array.dtype == np.int64 else None


def _scalar_dtype(python: object, like: Tensor, asker: str) -> DType:
    """Return the type of a number beside ``like``: the tensor decides, where it can hold it."""
    if isinstance(python, bool):
        return DType.BOOL
    if like.dtype.is_float and isinstance(python, (int, float)):
        return like.dtype
    if like.dtype.is_integer and isinstance(python, int):
        return like.dtype
    raise DTypeError(
        f"{asker}: {like!r} is {like.dtype} and the other operand is {python!r}",
        remedy="convert the tensor: `x.astype('float32')`"
        + (", or use a whole number" if like.dtype.is_integer else ", or use `True` or `False`"),
    )


def _check_range(python: Any, element: DType, asker: str) -> None:
    if not _fits(python, element):
        raise DTypeError(
            f"{asker}: {python!r} is out of the range of {element}",
            remedy="use a wider type, or `float('inf')` in a floating tensor",
        )


def _fits(python: Any, element: DType) -> bool:
    if element is DType.BOOL:
        return True
    if element.is_float:
        try:
            with np.errstate(over="ignore"):
                rounded = float(element.numpy.type(python))
        except OverflowError:  # a whole number beyond float64
            return False
        return math.isfinite(rounded) or not math.isfinite(python)
    limits = np.iinfo(element.value)
    return bool(int(limits.min) <= python <= int(limits.max))  # NaN compares false


def scalar(value: float, dtype: DType) -> Tensor:
    """Return the constant ``value`` of shape ``()``.

    It is kept as text, so that -0.0 and NaN stay themselves when constants are compared.
    """
    if dtype.is_float:
        text = repr(float(dtype.numpy.type(value)))
    elif dtype is DType.BOOL:
        text = repr(bool(value))
    else:
        text = repr(int(value))
    return make("constant", (), (), dtype, {"value": text})


def scalar_value(node: Tensor) -> float:
    """Return the number that a ``constant`` node holds."""
    text = str(node.attribute("value"))
    if node.dtype is DType.BOOL:
        return text == "True"
    return float(text) if node.dtype.is_float else int(text)


def iota(shape: object, axis: int, dtype: object = "int64") -> Tensor:
    """Return the tensor whose elements are their own position along ``axis``, counted from 0."""
    checked = as_shape(shape)
    element = as_dtype(dtype)
    if element is DType.BOOL:
        raise DTypeError("iota: positions are not of type bool", remedy="use int64, and compare")
    if not -len(checked) <= axis < len(checked):
        raise ShapeError(
            f"iota: axis {axis} is outside the shape {show_shape(checked)}",
            remedy=f"use an axis from {-len(checked)} to {len(checked) - 1}"
            if checked
            else "give the shape an axis to count along",
        )
    return make("iota", (), checked, element, {"axis": axis % len(checked)})


def extent_value(extent: Extent, dtype: DType) -> Tensor:
    """Return an extent as a number of shape ``()``; a symbolic one is looked up at each run."""
    if isinstance(extent, Batch):
        return make("extent", (), (), dtype, {"extent": extent})
    return scalar(extent, dtype)


# The name that people write; Python's own `input` is not used in this module.
input = input_

"""The meaning of every graph operation, in numpy: what all backends are compared with.

In: tensors and the arrays that their leaves hold. Out: one array for each tensor. Invariant:
operations are carried out one by one in the element type of the node; sums and products over axes
are accumulated in float64 and rounded once, so that the order of a backend's additions is judged by
a tolerance.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from tests.oracle import philox
from workbench.graph.dtype import as_dtype
from workbench.graph.extent import Batch, Extent, resolve, resolve_shape
from workbench.graph.leaf import scalar_value
from workbench.graph.tensor import Tensor, topological_order

Array = npt.NDArray[Any]
Operation = Callable[..., Array]


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, np.zeros((), x.dtype))


def _rsqrt(x: Array) -> Array:
    return np.ones((), x.dtype) / np.sqrt(x)


def _gelu(x: Array) -> Array:
    wide = x.astype(np.float64)
    return wide * 0.5 * (1.0 + special.erf(wide / np.sqrt(2.0)))


ELEMENTWISE: dict[str, Operation] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": lambda x: np.ones((), x.dtype) / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "erf": special.erf,
    "gelu": _gelu,
    "silu": lambda x: x * special.expit(x),
    "softplus": _softplus,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "where": np.where,
    "stop_gradient": lambda x: x,
}


def _sum(node: Tensor, rows: int | None, x: Array) -> Array:
    axes: Any = node.attribute("axes")
    return np.sum(x, axis=axes, dtype=np.float64 if node.dtype.is_float else None)


def _broadcast(node: Tensor, rows: int | None, x: Array) -> Array:
    return np.broadcast_to(x, resolve_shape(node.shape, rows))


def _reshape(node: Tensor, rows: int | None, x: Array) -> Array:
    return np.reshape(x, resolve_shape(node.shape, rows))


def _slice(node: Tensor, rows: int | None, x: Array) -> Array:
    size = resolve_shape(node.shape, rows)
    begin: Any = node.attribute("begin")
    return x[tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))]


def _pad(node: Tensor, rows: int | None, x: Array) -> Array:
    padded = np.zeros(resolve_shape(node.shape, rows), x.dtype)
    before: Any = node.attribute("before")
    padded[tuple(slice(b, b + s) for b, s in zip(before, x.shape, strict=True))] = x
    return padded


def _einsum(node: Tensor, rows: int | None, a: Array, b: Array) -> Array:
    left, right, result = (node.attribute(name) for name in ("left", "right", "result"))
    return np.einsum(f"{left},{right}->{result}", a.astype(np.float64), b.astype(np.float64))


def _take(node: Tensor, rows: int | None, table: Array, indices: Array) -> Array:
    return table[_inside(indices, table.shape[0])]


def _inside(indices: Array, extent: int) -> Array:
    return np.clip(np.where(indices < 0, indices + extent, indices), 0, extent - 1)


def _is_label(node: Tensor, rows: int | None, labels: Array) -> Array:
    classes: Any = node.attribute("classes")
    return labels[..., np.newaxis] == np.arange(classes)


def _scatter_add(node: Tensor, rows: int | None, indices: Array, updates: Array) -> Array:
    wide = np.float64 if node.dtype.is_float else updates.dtype
    total = np.zeros(resolve_shape(node.shape, rows), wide)
    np.add.at(total, _inside(indices, total.shape[0]), updates)
    return total


def _uniform(node: Tensor, rows: int | None, seed: Array, counter: Array) -> Array:
    shape = resolve_shape(node.shape, rows)
    return philox.uniform(int(seed), int(counter), shape, node.dtype.numpy)


def _normal(node: Tensor, rows: int | None, seed: Array, counter: Array) -> Array:
    shape = resolve_shape(node.shape, rows)
    return philox.normal(int(seed), int(counter), shape, node.dtype.numpy)


def _iota(node: Tensor, rows: int | None) -> Array:
    shape = resolve_shape(node.shape, rows)
    axis: Any = node.attribute("axis")
    positions = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(positions, shape)


def _extent(node: Tensor, rows: int | None) -> Array:
    extent: Any = node.attribute("extent")
    return np.asarray(resolve(extent, rows))


STRUCTURAL: dict[str, Operation] = {
    "cast": lambda node, rows, x: x,  # rounding to the node's type is done for every operation
    "constant": lambda node, rows: np.asarray(scalar_value(node)),
    "extent": _extent,
    "iota": _iota,
    "sum": _sum,
    "max": lambda node, rows, x: np.max(x, axis=node.attribute("axes")),
    "min": lambda node, rows, x: np.min(x, axis=node.attribute("axes")),
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": lambda node, rows, x: np.transpose(x, node.attribute("axes")),
    "flip": lambda node, rows, x: np.flip(x, node.attribute("axes")),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda node, rows, *parts: np.concatenate(parts, node.attribute("axis")),
    "einsum": _einsum,
    "is_label": _is_label,
    "take": _take,
    "scatter_add": _scatter_add,
    "uniform": _uniform,
    "normal": _normal,
}

OPERATIONS = frozenset(ELEMENTWISE) | frozenset(STRUCTURAL)


def rows_of(feeds: Mapping[Tensor, Array]) -> int | None:
    """Return the batch size that the arrays have, or None if no leaf has a batch axis."""
    for leaf, array in feeds.items():
        for extent, have in zip(leaf.shape, np.shape(array), strict=True):
            if isinstance(extent, Batch):
                return have // extent.factor
    return None


def _leaf(node: Tensor, feeds: Mapping[Tensor, Array]) -> Array:
    value = feeds.get(node, node.value)
    assert value is not None, f"{node!r} was not fed"
    return np.asarray(value, node.dtype.numpy)


def evaluate(
    outputs: Sequence[Tensor], feeds: Mapping[Tensor, Array], rows: int | None = None
) -> list[Array]:
    """Return the value of each of ``outputs``.

    Parameters
    ----------
    outputs
        Tensors of one graph.
    feeds
        Arrays for leaves; parameters and array constants that are not fed have their own value.
    rows
        Batch size. The default is read from the feeds.
    """
    rows = rows_of(feeds) if rows is None else rows
    values: dict[Tensor, Array] = {}
    with np.errstate(all="ignore"):
        for node in topological_order(outputs):
            values[node] = _value(node, feeds, rows, [_widened(values[t]) for t in node.operands])
    return [values[node] for node in outputs]


def _widened(value: Array) -> Array:
    """Return 16-bit numbers as float32, in which arithmetic on them is done."""
    return value.astype(np.float32) if as_dtype(value.dtype).is_half else value


def _value(
    node: Tensor, feeds: Mapping[Tensor, Array], rows: int | None, operands: list[Array]
) -> Array:
    if node.op in ("parameter", "input", "array"):
        value = _leaf(node, feeds)
    elif node.op in ELEMENTWISE:
        value = ELEMENTWISE[node.op](*operands)
    else:
        value = STRUCTURAL[node.op](node, rows, *operands)
    rounded = np.asarray(value).astype(node.dtype.numpy)
    expected: tuple[Extent, ...] = resolve_shape(node.shape, rows)
    assert rounded.shape == expected, f"{node!r} has shape {rounded.shape}, not {expected}"
    return rounded

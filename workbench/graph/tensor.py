"""Tensor nodes: what a person's expressions build, and what every later stage reads.

In: an operation name, operands and attributes. Out: the one node of that structure. Invariant:
nodes are immutable, and two nodes of the same operation, operands, attributes and label are the
same object, so that a graph is compared and shared by identity.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, ParamSpec, TypeAlias, cast, final

import numpy as np

from workbench.errors import GraphError, ShapeError, TracingError
from workbench.graph.dtype import Array, DType, as_dtype
from workbench.graph.extent import Batch, Extent, Shape, count, show_shape
from workbench.graph.markup import card

Attribute: TypeAlias = object
Scalar: TypeAlias = "float | int | bool | np.generic"
Operand: TypeAlias = "Tensor | Scalar | Array | list[Any]"
Axes: TypeAlias = "int | Sequence[int] | None"

_Parameters = ParamSpec("_Parameters")

_uids = itertools.count(1)
_interned: weakref.WeakValueDictionary[tuple[object, ...], Tensor] = weakref.WeakValueDictionary()
# A notebook traces in one thread while a run traces an edited step in another.
_interning = threading.Lock()
_builders: dict[str, Callable[..., Tensor]] = {}

# Small integers that share a dict with tensors must never hash like one: Python would then compare
# the two, and a comparison of tensors has no truth value.
_HASH_OFFSET = 1 << 48


def builder(function: Callable[_Parameters, Tensor]) -> Callable[_Parameters, Tensor]:
    """Register ``function`` as what the ``Tensor`` method of the same name calls.

    An underscore at the end, which keeps a function apart from Python's own, does not count.
    """
    _builders[function.__name__.rstrip("_")] = function
    return function


def build(name: str, *operands: object, **attributes: object) -> Tensor:
    """Call the registered function ``name``; the border between methods and the functions above."""
    return _builders[name](*operands, **attributes)


def printable(label: str) -> str:
    """Return ``label`` with line breaks and other control characters written as escapes."""
    if label.isprintable():
        return label
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in label)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Tensor:
    """One value in a graph: an operation over tensors, with its shape, element type and label.

    Attributes
    ----------
    op
        Name of the operation, such as ``"add"`` or ``"parameter"``.
    operands
        The tensors it reads.
    shape
        Extents, of which one may be symbolic (``wb.batch``).
    dtype
        Element type.
    attributes
        What else the operation needs (axes, a permutation), as sorted pairs.
    label
        A name for people; escaped wherever it is shown.
    value
        What a parameter starts with, or an array constant holds; read-only. None for other nodes.
    uid
        Identity: never used again in this process.
    """

    op: str
    operands: tuple[Tensor, ...]
    shape: Shape
    dtype: DType
    attributes: tuple[tuple[str, Attribute], ...]
    label: str
    value: Array | None
    uid: int = field(init=False, default_factory=lambda: next(_uids))

    def attribute(self, name: str) -> Attribute:
        """Return the attribute ``name``."""
        for key, value in self.attributes:
            if key == name:
                return value
        known = ", ".join(f"`{key}`" for key, _ in self.attributes) or "no attributes"
        raise GraphError(f"{self!r} has no attribute `{name}`", remedy=f"it has {known}")

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Extent:
        """Number of elements."""
        return count(self.shape)

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return build("transpose", self)

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        return f"<Tensor {self.op}{label} {show_shape(self.shape)} {self.dtype}>"

    def _repr_html_(self) -> str:
        what = [
            ("operation", self.op),
            ("shape", show_shape(self.shape)),
            ("type", str(self.dtype)),
            ("operands", ", ".join(repr(operand) for operand in self.operands) or "none"),
        ]
        return card(self.label or "Tensor", what).text

    def __hash__(self) -> int:
        # Unique for each node, so that dict and set never need to compare two different tensors.
        return _HASH_OFFSET + self.uid

    # A node is its identity: a copy would be another value with the same structure.

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self

    def __reduce__(self) -> NoReturn:
        raise GraphError(
            f"{self!r} cannot be pickled: a graph lives in one process",
            remedy="store values instead, and build the graph again where they are loaded",
        )

    # What depends on a value cannot be answered while a graph is built.

    def _unknown(self, wanted: str, remedy: str) -> TracingError:
        return TracingError(
            f"{wanted} was asked of {self!r}, whose value is not known while a graph is built",
            remedy=remedy,
        )

    def __bool__(self) -> bool:
        raise self._unknown(
            "a truth value",
            "write `wb.where(condition, a, b)` instead of `if`, `&` and `|` instead of `and` and "
            "`or`; to find a tensor in a list, compare with `is`",
        )

    def __float__(self) -> float:
        raise self._unknown(
            "a Python float",
            "keep the computation in tensors, or return the tensor and read it after the run",
        )

    def __int__(self) -> int:
        raise self._unknown(
            "a Python int",
            "keep the computation in tensors, or return the tensor and read it after the run",
        )

    def item(self) -> float:
        """Refuse: there is no number while a graph is built."""
        return float(self)

    def tolist(self) -> list[float]:
        """Refuse: there are no numbers while a graph is built."""
        return [float(self)]

    def __index__(self) -> int:
        raise self._unknown(
            "an index",
            "choose rows with `wb.take(table, indices)`, or use a Python number as extent or index",
        )

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        raise self._unknown(
            "a numpy array",
            "use the function of this package (`wb.exp` for `np.exp`), or return the tensor and "
            "read it after the run",
        )

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(
                f"{self!r} has no axes, so it has no length", remedy="use `x.reshape(1)` first"
            )
        first = self.shape[0]
        if isinstance(first, Batch):
            raise self._unknown(
                "the number of rows",
                "compute with all rows at once, or divide by `x.mean()` in place of a count",
            )
        return first

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the rows, where their number is known."""
        return (self[index] for index in range(len(self)))

    # Operators, as in numpy.

    __array_priority__ = 1000  # numpy arrays on the left give way to `__radd__` and its kin

    def __pos__(self) -> Tensor:
        return self

    def __neg__(self) -> Tensor:
        return build("neg", self)

    def __abs__(self) -> Tensor:
        return build("abs", self)

    def __invert__(self) -> Tensor:
        return build("logical_not", self)

    def __add__(self, other: Operand) -> Tensor:
        return build("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return build("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return build("sub", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return build("sub", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return build("mul", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return build("mul", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return build("div", self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return build("div", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return build("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return build("pow", other, self)

    def __matmul__(self, other: Operand) -> Tensor:
        return build("matmul", self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return build("matmul", other, self)

    def __lt__(self, other: Operand) -> Tensor:
        return build("less", self, other)

    def __le__(self, other: Operand) -> Tensor:
        return build("less_equal", self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return build("greater", self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return build("greater_equal", self, other)

    # Elementwise, as in numpy. Sets and dicts stay correct: see `__hash__`. What is no operand
    # (None, a text) is left to Python, to which it is simply not the same object.

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return build("equal", self, other) if _is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return build("not_equal", self, other) if _is_operand(other) else NotImplemented

    def __and__(self, other: Operand) -> Tensor:
        return build("logical_and", self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return build("logical_and", other, self)

    def __or__(self, other: Operand) -> Tensor:
        return build("logical_or", self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return build("logical_or", other, self)

    def __getitem__(self, key: object) -> Tensor:
        return build("getitem", self, key)

    # numpy's method names.

    def sum(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Return the sum over ``axis`` (all axes if None)."""
        return build("sum", self, axis, keepdims=keepdims)

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Return the mean over ``axis`` (all axes if None)."""
        return build("mean", self, axis, keepdims=keepdims)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Return the greatest element over ``axis``; NaN if there is one."""
        return build("max", self, axis, keepdims=keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        """Return the least element over ``axis``; NaN if there is one."""
        return build("min", self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = -1, *, keepdims: bool = False) -> Tensor:
        """Return the int64 position of the first greatest element along ``axis``."""
        return build("argmax", self, axis, keepdims=keepdims)

    def reshape(self, *shape: object) -> Tensor:
        """Return the same elements in another shape; one extent may be -1."""
        return build("reshape", self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: object) -> Tensor:
        """Return the tensor with its axes permuted (reversed if none are given)."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            return build("transpose", self, cast("Sequence[int] | None", axes[0]))
        return build("transpose", self, axes or None)

    def astype(self, dtype: object) -> Tensor:
        """Return the elements converted to ``dtype``."""
        return build("cast", self, dtype)

    def named(self, label: str) -> Tensor:
        """Return the same computation under a label of yours."""
        if self.op in ("parameter", "input", "state"):
            raise GraphError(
                f"{self!r} is a leaf and keeps the name it was made with",
                remedy="give the label where the parameter or input is made",
            )
        attributes = dict(self.attributes)
        if self.value is not None:
            return make_leaf(self.op, self.shape, self.dtype, label, self.value, attributes)
        return make(self.op, self.operands, self.shape, self.dtype, attributes, label=label)


def _is_operand(value: object) -> bool:
    return isinstance(value, (Tensor, bool, int, float, np.generic, np.ndarray, list, tuple))


def make(
    op: str,
    operands: Iterable[Tensor],
    shape: Shape,
    dtype: DType,
    attributes: dict[str, Attribute] | None = None,
    *,
    label: str = "",
) -> Tensor:
    """Return the node of this structure, making it if it does not exist.

    Attribute values are hashable; that the operands fit together was checked by the caller.

    Raises
    ------
    ShapeError
        If the batch would be two axes of ``shape``.
    """
    operands = tuple(operands)
    pairs = tuple(sorted((attributes or {}).items()))
    key = (op, tuple(t.uid for t in operands), shape, dtype, pairs, label)
    with _interning:
        found = _interned.get(key)
        if found is None:
            _check_batch(op, operands, shape)
            found = Tensor(op, operands, shape, dtype, pairs, label, None)
            _interned[key] = found
    return found


def _check_batch(op: str, operands: tuple[Tensor, ...], shape: Shape) -> None:
    if len([extent for extent in shape if isinstance(extent, Batch)]) > 1:
        given = " and ".join(repr(t) for t in operands)
        raise ShapeError(
            f"{op}: {given} would give the shape {show_shape(shape)}, which holds the batch twice",
            remedy="reduce over the batch first, or give one of the axes a whole number as extent",
        )


def make_leaf(
    op: str,
    shape: Shape,
    dtype: DType,
    label: str,
    value: Array | None = None,
    attributes: dict[str, Attribute] | None = None,
) -> Tensor:
    """Return a new leaf; leaves are never interned, two parameters of one shape are two values."""
    return Tensor(op, (), shape, dtype, tuple(sorted((attributes or {}).items())), label, value)


def as_tensor(value: object, like: Tensor | None = None, op: str = "") -> Tensor:
    """Return ``value`` as a tensor: itself, or a constant.

    Parameters
    ----------
    value
        A tensor, a Python or numpy scalar, or an array.
    like
        Decides the element type of a Python scalar: the type of ``like`` where it can hold it.
    op
        Name of the operation that asks, for the error text.
    """
    if isinstance(value, Tensor):
        return value
    return build("constant", value, like=like, op=op)


def as_tensors(values: Sequence[object], op: str) -> list[Tensor]:
    """Return ``values`` as tensors; what is a Python number takes the type of one that is more.

    The first tensor decides, else the first numpy array, else the first float.
    """
    tensors = [value for value in values if isinstance(value, Tensor)]
    if len(tensors) == len(values):
        return tensors
    leader = min(values, key=_authority, default=None)
    like = as_tensor(leader, op=op) if _authority(leader) < len(_AUTHORITIES) else None
    return [as_tensor(value, like, op) for value in values]


_AUTHORITIES: tuple[type, ...] = (Tensor, np.ndarray, np.generic, float)


def _authority(value: object) -> int:
    """Return how little ``value`` has to say about the type of numbers beside it."""
    for place, kind in enumerate(_AUTHORITIES):
        if isinstance(value, kind):
            return place
    return len(_AUTHORITIES)


def topological_order(
    roots: Iterable[Tensor], stop: frozenset[Tensor] = frozenset()
) -> list[Tensor]:
    """Return every tensor that ``roots`` depend on, operands first.

    A tensor in ``stop`` is listed, what it depends on is not followed. The walk keeps its own
    stack, so that no depth is too great for it.
    """
    order: list[Tensor] = []
    seen: set[int] = set()
    for root in roots:
        stack: list[tuple[Tensor, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                order.append(node)
                continue
            if node.uid in seen:
                continue
            seen.add(node.uid)
            stack.append((node, True))
            if node not in stop:
                stack.extend((t, False) for t in reversed(node.operands) if t.uid not in seen)
    return order


__all__ = [
    "Attribute",
    "Axes",
    "DType",
    "Operand",
    "Scalar",
    "Tensor",
    "as_dtype",
    "as_tensor",
    "as_tensors",
    "build",
    "builder",
    "make",
    "make_leaf",
    "printable",
    "topological_order",
]

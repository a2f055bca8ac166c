"""Write a graph as assignments: one for each node, a few for joins and scatters.

In: the tensors wanted and the state to update. Out: a `Computation`. Invariant: operations are translated one by
one; nothing is fused or moved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Value,
)
from workbench.assign.index import Affine, Axis, Index, Lookup, at
from workbench.errors import CompileError, GraphError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import describe
from workbench.graph.extent import Extent, Shape
from workbench.graph.leaf import scalar_value
from workbench.graph.tensor import Tensor, topological_order

LEAVES = ("parameter", "input", "array")
REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum"}

Translation = Callable[[Tensor], Iterator[Statement]]
_translations: dict[str, Translation] = {}


def translates(*ops: str) -> Callable[[Translation], Translation]:
    """Register how the operations ``ops`` are written as assignments."""

    def register(function: Translation) -> Translation:
        for op in ops:
            _translations[op] = function
        return function

    return register


def computation(
    outputs: Iterable[Tensor],
    updates: Mapping[Tensor, Tensor] | None = None,
    *,
    name: str = "",
) -> Computation:
    """Return the assignments that compute ``outputs`` and then store new values into state.

    Parameters
    ----------
    outputs
        Tensors to compute.
    updates
        For each leaf to change, the tensor that becomes its value. All new values are computed from the old
        ones, whatever the order.
    name
        For people.

    Raises
    ------
    GraphError
        If an update's target is no leaf, or its new value has another shape or type.
    CompileError
        If an operation has no translation.
    """
    wanted = tuple(outputs)
    stores = dict(updates or {})
    for target, new in stores.items():
        if target.op not in LEAVES:
            raise GraphError(
                f"{describe(target)} is computed, so it cannot be updated",
                remedy="update parameters and inputs only",
            )
        if target.shape != new.shape or target.dtype is not new.dtype:
            raise GraphError(
                f"the update of {describe(target)} is {describe(new)}",
                remedy="give the new value the parameter's shape and type",
            )
    statements: list[Statement] = []
    inputs: list[Tensor] = []
    for node in topological_order([*wanted, *stores.values()]):
        if node.op in LEAVES:
            inputs.append(node)
            continue
        translation = _translations.get(node.op)
        if translation is None:
            raise CompileError(
                f"the operation `{node.op}` of {node!r} cannot be written as assignments",
                remedy="register a translation with `@translates`",
            )
        statements.extend(translation(node))
    statements.extend(_copy(target, new) for target, new in stores.items() if target is not new)
    # A dict, not a list: `in` on a list would compare tensors elementwise.
    leaves = dict.fromkeys([*inputs, *stores])
    return Computation(tuple(statements), tuple(leaves), wanted, tuple(stores), name)


def _copy(target: Tensor, source: Tensor) -> Assignment:
    axes = _axes(target.shape)
    index = tuple(at(axis) for axis in axes)
    return Assignment(target, index, axes, Read(source, index))


def _axes(shape: Shape) -> tuple[Axis, ...]:
    return tuple(Axis(extent) for extent in shape)


def _pointwise(node: Tensor, value: Callable[[tuple[Axis, ...]], Value]) -> Iterator[Statement]:
    axes = _axes(node.shape)
    yield Assignment(node, tuple(at(axis) for axis in axes), axes, value(axes))


def _identity(node: Tensor, axes: Sequence[Axis]) -> Read:
    return Read(node, tuple(at(axis) for axis in axes))


@translates("constant")
def _constant(node: Tensor) -> Iterator[Statement]:
    return _pointwise(node, lambda axes: Number(scalar_value(node), node.dtype))


@translates("extent")
def _extent(node: Tensor) -> Iterator[Statement]:
    return _pointwise(
        node, lambda axes: ExtentNumber(cast("Extent", node.attribute("extent")), node.dtype)
    )


@translates("iota")
def _iota(node: Tensor) -> Iterator[Statement]:
    axis = cast("int", node.attribute("axis"))
    return _pointwise(node, lambda axes: Position(at(axes[axis]), node.dtype))


@translates(
    "neg", "abs", "sign", "square", "relu", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt",
    "reciprocal", "sin", "cos", "tanh", "sigmoid", "erf", "gelu", "silu", "softplus", "add", "sub", "mul",
    "div", "maximum", "minimum", "pow", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "logical_and", "logical_or", "logical_not", "where", "cast",
)  # fmt: skip
def _elementwise(node: Tensor) -> Iterator[Statement]:
    return _pointwise(
        node,
        lambda axes: Apply(node.op, tuple(_identity(o, axes) for o in node.operands), node.dtype),
    )


@translates("stop_gradient")
def _stop_gradient(node: Tensor) -> Iterator[Statement]:
    return _pointwise(node, lambda axes: _identity(node.operands[0], axes))


@translates("uniform", "normal")
def _random(node: Tensor) -> Iterator[Statement]:
    def value(axes: tuple[Axis, ...]) -> Value:
        words = tuple(Read(o, ()) for o in node.operands)
        return Apply(node.op, (*words, Position(_flat(node.shape, axes), DType.I64)), node.dtype)

    return _pointwise(node, value)


def _flat(shape: Shape, axes: Sequence[Axis]) -> Affine:
    """Return the row-major position; the batch can only be the first axis of a random tensor."""
    terms: list[tuple[Axis, int]] = []
    stride = 1
    for position in range(len(shape) - 1, -1, -1):
        extent = shape[position]
        terms.append((axes[position], stride))
        if isinstance(extent, int):
            stride *= extent
        elif position:
            raise CompileError(
                "random numbers were asked for with the batch not as first axis",
                remedy="draw with the batch first and transpose",
            )
    return Affine(tuple(reversed(terms)))


@translates("broadcast")
def _broadcast(node: Tensor) -> Iterator[Statement]:
    source = node.operands[0]

    def value(axes: tuple[Axis, ...]) -> Value:
        own = axes[node.ndim - source.ndim :]
        index = tuple(
            at(axis) if extent == axis.extent else Affine()
            for axis, extent in zip(own, source.shape, strict=True)
        )
        return Read(source, index)

    return _pointwise(node, value)


@translates("reshape")
def _reshape(node: Tensor) -> Iterator[Statement]:
    source = node.operands[0]
    mine = [(i, e) for i, e in enumerate(node.shape) if e != 1]
    its = [(i, e) for i, e in enumerate(source.shape) if e != 1]
    if [e for _, e in mine] != [e for _, e in its]:
        yield View(node, source)
        return
    axes = _axes(node.shape)
    index: list[Index] = [Affine()] * source.ndim
    for (i, _), (j, _) in zip(mine, its, strict=True):
        index[j] = at(axes[i])
    yield Assignment(node, tuple(at(axis) for axis in axes), axes, Read(source, tuple(index)))


@translates("transpose")
def _transpose(node: Tensor) -> Iterator[Statement]:
    order = cast("tuple[int, ...]", node.attribute("axes"))

    def value(axes: tuple[Axis, ...]) -> Value:
        index: list[Index] = [Affine()] * node.ndim
        for position, source_axis in enumerate(order):
            index[source_axis] = at(axes[position])
        return Read(node.operands[0], tuple(index))

    return _pointwise(node, value)


@translates("flip")
def _flip(node: Tensor) -> Iterator[Statement]:
    flipped = cast("tuple[int, ...]", node.attribute("axes"))
    for position in flipped:
        if not isinstance(node.shape[position], int):
            raise CompileError(
                f"the batch axis of {describe(node)} cannot be reversed", remedy="reverse the rows on the host"
            )

    def value(axes: tuple[Axis, ...]) -> Value:
        index = tuple(
            Affine(((axis, -1),), cast("int", axis.extent) - 1) if position in flipped else at(axis)
            for position, axis in enumerate(axes)
        )
        return Read(node.operands[0], index)

    return _pointwise(node, value)


@translates("slice")
def _slice(node: Tensor) -> Iterator[Statement]:
    begin = cast("tuple[int, ...]", node.attribute("begin"))
    return _pointwise(
        node,
        lambda axes: Read(
            node.operands[0],
            tuple(Affine(((a, 1),), b) for a, b in zip(axes, begin, strict=True)),
        ),
    )


def _block(node: Tensor, source: Tensor, begin: Sequence[int]) -> Assignment:
    axes = _axes(source.shape)
    index = tuple(Affine(((a, 1),), b) for a, b in zip(axes, begin, strict=True))
    return Assignment(node, index, axes, _identity(source, axes))


def _fill(node: Tensor, value: float) -> Iterator[Statement]:
    return _pointwise(node, lambda axes: Number(value, node.dtype))


@translates("pad")
def _pad(node: Tensor) -> Iterator[Statement]:
    yield from _fill(node, 0)
    yield _block(node, node.operands[0], cast("tuple[int, ...]", node.attribute("before")))


@translates("concat")
def _concat(node: Tensor) -> Iterator[Statement]:
    joined = cast("int", node.attribute("axis"))
    offset = 0
    for operand in node.operands:
        yield _block(node, operand, [offset if i == joined else 0 for i in range(node.ndim)])
        offset += cast("int", operand.shape[joined])


@translates("sum", "max", "min")
def _reduction(node: Tensor) -> Iterator[Statement]:
    source = node.operands[0]
    combined = cast("tuple[int, ...]", node.attribute("axes"))
    axes = _axes(source.shape)
    kept = tuple(axis for i, axis in enumerate(axes) if i not in combined)
    over = tuple(axis for i, axis in enumerate(axes) if i in combined)
    yield Assignment(
        node, tuple(at(a) for a in kept), (*kept, *over), _identity(source, axes), REDUCTIONS[node.op]
    )


@translates("einsum")
def _einsum(node: Tensor) -> Iterator[Statement]:
    left, right, result = (str(node.attribute(k)) for k in ("left", "right", "result"))
    a, b = node.operands
    axis_of: dict[str, Axis] = {}
    for letters, operand in ((left, a), (right, b)):
        for letter, extent in zip(letters, operand.shape, strict=True):
            axis_of.setdefault(letter, Axis(extent))
    over = [c for c in dict.fromkeys(left + right) if c not in result]
    product = Apply(
        "mul",
        (_identity(a, [axis_of[c] for c in left]), _identity(b, [axis_of[c] for c in right])),
        node.dtype,
    )
    kept = tuple(axis_of[c] for c in result)
    yield Assignment(
        node, tuple(at(x) for x in kept), (*kept, *(axis_of[c] for c in over)), product, "add"
    )


@translates("take")
def _take(node: Tensor) -> Iterator[Statement]:
    table, indices = node.operands

    def value(axes: tuple[Axis, ...]) -> Value:
        chosen = Lookup(_identity(indices, axes[: indices.ndim]), table.shape[0])
        return Read(table, (chosen, *(at(axis) for axis in axes[indices.ndim :])))

    return _pointwise(node, value)


@translates("scatter_add")
def _scatter_add(node: Tensor) -> Iterator[Statement]:
    indices, updates = node.operands
    yield from _fill(node, 0)
    axes = _axes(updates.shape)
    chosen = Lookup(_identity(indices, axes[: indices.ndim]), node.shape[0])
    index = (chosen, *(at(axis) for axis in axes[indices.ndim :]))
    yield Assignment(node, index, axes, _identity(updates, axes), "add", fresh=False)

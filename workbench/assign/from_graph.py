"""Write a graph as assignments: one for each node, a few for joins and scatters.

In: the tensors wanted and the state to update. Out: a `Computation`. Invariant: operations are
translated one by one; nothing is fused or moved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast, final

from workbench.assign.assignment import Assignment, Computation, Statement, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Value,
)
from workbench.assign.in_place import computed_in_place
from workbench.assign.index import Affine, Axis, Index, Lookup, at
from workbench.errors import CompileError, GraphError
from workbench.graph.dtype import DType
from workbench.graph.elementwise import (
    BINARY_NUMERIC,
    COMPARISONS,
    UNARY_FLOAT,
    UNARY_NUMERIC,
    describe,
)
from workbench.graph.extent import Extent, Shape
from workbench.graph.leaf import scalar_value
from workbench.graph.nodes import node_keys_from, nodes_from
from workbench.graph.substitution import substitute
from workbench.graph.tensor import Tensor, make, topological_order

LEAVES = ("parameter", "input", "state", "array", "merge")
STATE = ("parameter", "input", "state")
ELEMENTWISE = (
    *UNARY_FLOAT,
    *UNARY_NUMERIC,
    *BINARY_NUMERIC,
    *COMPARISONS,
    "div",
    "pow",
    "logical_and",
    "logical_or",
    "logical_not",
    "where",
    "cast",
)
REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum"}

Translation: TypeAlias = Callable[[Tensor], Iterator[Statement]]
_translations: dict[str, Translation] = {}


def translates(*ops: str) -> Callable[[Translation], Translation]:
    """Register how the operations ``ops`` are written as assignments."""

    def register(function: Translation) -> Translation:
        for op in ops:
            _translations[op] = function
        return function

    return register


def operations_with_translations() -> frozenset[str]:
    """Return the names of all operations that can be written as assignments."""
    return frozenset(_translations)


def computation(
    outputs: Tensor | Iterable[Tensor],
    updates: Mapping[Tensor, Tensor] | None = None,
    *,
    name: str = "",
    given: Tensor | Iterable[Tensor] = (),
) -> Computation:
    """Return the assignments that compute ``outputs`` and then store new values into state.

    Parameters
    ----------
    outputs
        Tensors to compute, from the values that state has before the updates. An output that is
        itself a leaf is not computed: whoever reads it afterwards finds its new value.
    updates
        For each parameter or input to change, the tensor that becomes its value. All new values are
        computed from the old ones, whatever the order.
    name
        For people.
    given
        Tensors that hold a value already: they are read, not computed.

    Raises
    ------
    GraphError
        If an update's target is no parameter or input, or its new value has another shape or type.
    CompileError
        If an operation has no translation.
    """
    wanted = nodes_from("outputs", outputs)
    stores = dict(node_keys_from("updates", updates or {}))
    nodes_from("updates", stores.values())
    held = frozenset(nodes_from("given", given))
    for target, new in stores.items():
        _check_update(target, new)
    return _written(GraphSource({node: node for node in wanted}, stores), name=name, given=held)


@final
@dataclass(frozen=True, slots=True, eq=False)
class GraphSource:
    """The graph that a computation was written from.

    Attributes
    ----------
    results
        For each output the node that computes it: itself, unless the computation goes on from the
        updates of another one.
    stores
        For each state leaf that is updated the node that computes its new value.
    """

    results: Mapping[Tensor, Tensor]
    stores: Mapping[Tensor, Tensor]

    def sequence(self, first: Computation, second: Computation) -> Computation:
        """Return ``first``, whose source this is, and then ``second`` as one computation."""
        later = second.source
        assert isinstance(later, GraphSource), "whoever joins two computations has looked"
        # In the second, state stands for what the first has made of it.
        before = [node for node in later.results.values() if node.op not in LEAVES]
        before += later.stores.values()
        after = dict(zip(before, substitute(before, self.stores), strict=True))
        results = {**self.results, **{h: after.get(n, n) for h, n in later.results.items()}}
        stores = {**self.stores, **{t: after[n] for t, n in later.stores.items()}}
        made = _written(_with_twins(GraphSource(results, stores)), name=first.name or second.name)
        return replace(
            made,
            owned=first.owned | second.owned,
            accumulates=first.accumulates | second.accumulates,
            zeroes=first.zeroes | second.zeroes,
            requires=first.requires | second.requires,
            accumulation_runs=max(first.accumulation_runs, second.accumulation_runs),
        )


def with_stores(part: Computation, stores: Mapping[Tensor, Tensor]) -> Computation:
    """Return ``part`` with other updates; what it declares about gradients stays.

    Parameters
    ----------
    part
        Made from a graph.
    stores
        For each state leaf to change, the tensor that becomes its value.
    """
    assert isinstance(part.source, GraphSource), "whoever changes its updates has looked"
    made = _written(GraphSource(part.source.results, stores), name=part.name)
    return replace(
        part,
        statements=made.statements,
        inputs=made.inputs,
        updates=made.updates,
        source=made.source,
    )


def _with_twins(source: GraphSource) -> GraphSource:
    """Return the source with nodes that are computed twice, before an update and after, told apart.

    Who reads an output afterwards finds the later value; the earlier one goes by another node.
    """
    moved = [h for h, node in source.results.items() if h is not node]
    if not moved:
        return source
    exprs = [*source.results.values(), *source.stores.values()]
    reached = set(topological_order(exprs))
    twins = {
        h: make(h.op, h.operands, h.shape, h.dtype, dict(h.attributes), label=f"{h.label} before")
        for h in moved
        if h in reached
    }
    told = substitute(exprs, twins)
    count = len(source.results)
    return GraphSource(
        dict(zip(source.results, told[:count], strict=True)),
        dict(zip(source.stores, told[count:], strict=True)),
    )


def _written(
    source: GraphSource, *, name: str, given: frozenset[Tensor] = frozenset()
) -> Computation:
    """Return a source as assignments."""
    results, stores = source.results, source.stores
    wanted = tuple(results.values())
    changes = {target: new for target, new in stores.items() if target is not new}
    statements: list[Statement] = []
    inputs: dict[Tensor, None] = {}
    for node in topological_order([*wanted, *stores.values()], given):
        if node.op in LEAVES or node in given:
            inputs[node] = None
            continue
        translation = _translations.get(node.op)
        if translation is None:
            raise CompileError(
                f"the operation `{node.op}` of {node!r} cannot be written as assignments",
                remedy="register a translation with `@translates`",
            )
        statements.extend(translation(node))
    late = [*changes.values(), *(node for node in wanted if node.op not in LEAVES)]
    copies = {leaf: _snapshot(leaf) for leaf in _overwritten(statements, late, changes)}
    redirected = [_redirect(statement, copies) for statement in statements]
    kept, copied = computed_in_place(redirected, changes, {*wanted, *results, *copies})
    kept += [View(handle, node) for handle, node in results.items() if handle is not node]
    return Computation(
        statements=(
            *(_copy(copy, leaf) for leaf, copy in copies.items()),
            *kept,
            *(_copy(target, copies.get(new, new)) for target, new in copied.items()),
        ),
        inputs=tuple({**inputs, **dict.fromkeys(stores)}),
        outputs=tuple(results),
        updates=tuple(stores),
        name=name,
        source=source,
    )


def _check_update(target: Tensor, new: Tensor) -> None:
    if target.op not in STATE:
        raise GraphError(
            f"{describe(target)} is not state, so it cannot be updated",
            remedy="update parameters and inputs only",
        )
    if target.shape != new.shape or target.dtype is not new.dtype:
        raise GraphError(
            f"the update of {describe(target)} is {describe(new)}",
            remedy="give the new value the parameter's shape and type",
        )


def _overwritten(
    statements: Iterable[Statement], late: Iterable[Tensor], changes: Mapping[Tensor, Tensor]
) -> list[Tensor]:
    """Return the leaves whose memory is read, under whatever name, after an update wrote to it."""
    owner: dict[Tensor, Tensor] = {}
    for statement in statements:
        if isinstance(statement, View):
            owner[statement.target] = owner.get(statement.source, statement.source)
    found = (owner.get(node, node) for node in late)
    return list(dict.fromkeys(node for node in found if node in changes))


def _snapshot(leaf: Tensor) -> Tensor:
    """Return a node for the value that ``leaf`` has before the updates."""
    return make("copy", (leaf,), leaf.shape, leaf.dtype)


def _redirect(statement: Statement, copies: Mapping[Tensor, Tensor]) -> Statement:
    """Return a view of a leaf as a view of its copy."""
    if isinstance(statement, View) and statement.source in copies:
        return View(statement.target, copies[statement.source])
    return statement


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


@translates(*ELEMENTWISE)
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
    """Return the row-major position; the batch is the first axis of a random tensor, if any."""
    terms: list[tuple[Axis, int]] = []
    stride = 1
    for axis, extent in zip(reversed(axes), reversed(shape), strict=True):
        terms.append((axis, stride))
        stride *= extent if isinstance(extent, int) else 1
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


def _zeros(node: Tensor) -> Iterator[Statement]:
    zero = 0.0 if node.dtype.is_float else 0
    return _pointwise(node, lambda axes: Number(zero, node.dtype))


@translates("pad")
def _pad(node: Tensor) -> Iterator[Statement]:
    yield from _zeros(node)
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
        node,
        tuple(at(a) for a in kept),
        (*kept, *over),
        _identity(source, axes),
        REDUCTIONS[node.op],
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


@translates("is_label")
def _is_label(node: Tensor) -> Iterator[Statement]:
    labels = node.operands[0]
    return _pointwise(
        node,
        lambda axes: Apply(
            "equal",
            (_identity(labels, axes[:-1]), Position(at(axes[-1]), labels.dtype)),
            node.dtype,
        ),
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
    yield from _zeros(node)
    axes = _axes(updates.shape)
    chosen = Lookup(_identity(indices, axes[: indices.ndim]), node.shape[0])
    index: tuple[Index, ...] = (chosen, *(at(axis) for axis in axes[indices.ndim :]))
    yield Assignment(node, index, axes, _identity(updates, axes), "add", fresh=False)

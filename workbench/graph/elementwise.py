"""Operations that work element by element, with numpy's broadcasting.

In: tensors, numbers, arrays. Out: tensors. Invariant: operands of an elementwise node have one
shape; broadcasting is a node of its own, so that every gradient rule is free of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.extent import Batch, Extent, Shape, as_shape, show_shape
from workbench.graph.tensor import (
    Attribute,
    Operand,
    Tensor,
    as_tensor,
    as_tensors,
    builder,
    make,
    printable,
)

UNARY_FLOAT = (
    "exp",
    "log",
    "log1p",
    "expm1",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "gelu",
    "silu",
    "softplus",
)
UNARY_NUMERIC = ("neg", "abs", "sign", "square", "relu")
BINARY_NUMERIC = ("add", "sub", "mul", "maximum", "minimum")
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def describe(node: Tensor) -> str:
    """Return how an error names an operand: label or operation, shape and type."""
    article = "an" if node.op[0] in "aeiou" else "a"
    name = f"`{printable(node.label)}`" if node.label else f"{article} `{node.op}`"
    return f"{name} of shape {show_shape(node.shape)} and type {node.dtype}"


def broadcast_shapes(op: str, operands: Sequence[Tensor], *, skip: int = 0) -> Shape:
    """Return the shape that numpy's rules give the operands together.

    Parameters
    ----------
    op
        Name of the operation, for the error text.
    operands
        One or more tensors.
    skip
        How many axes at the end of each take no part.

    Raises
    ------
    ShapeError
        Naming the operation, both operands and the axis that does not fit.
    """
    shapes = [t.shape[: max(0, t.ndim - skip)] for t in operands]
    rank = max(len(shape) for shape in shapes)
    result: list[Extent] = [1] * rank
    owner = [operands[0]] * rank
    for t, shape in zip(operands, shapes, strict=True):
        for position, extent in enumerate(shape, start=rank - len(shape)):
            if extent == 1 or result[position] == extent:
                continue
            if result[position] != 1:
                raise ShapeError(
                    f"{op}: left is {describe(owner[position])}, right is {describe(t)}; extents "
                    f"{result[position]} and {extent} of axis {position - rank - skip} differ",
                    remedy="make the extents equal or 1: `reshape` to add an axis of extent 1, "
                    "`transpose` if the axes are in another order",
                )
            result[position] = extent
            owner[position] = t
    symbolic = [owner[i] for i, extent in enumerate(result) if isinstance(extent, Batch)]
    if len(symbolic) > 1:
        raise ShapeError(
            f"{op}: left is {describe(symbolic[0])}, right is {describe(symbolic[1])}; together "
            f"they have the batch twice, as {show_shape(result)}",
            remedy="put the batch on the same axis of both with `reshape`, or reduce over it first",
        )
    return tuple(result)


@builder
def broadcast_to(x: Operand, shape: object) -> Tensor:
    """Return ``x`` repeated to ``shape``, axes aligned at the last; nothing is copied."""
    x = as_tensor(x)
    target = as_shape(shape)
    if x.shape == target:
        return x
    lead = len(target) - x.ndim
    fits = lead >= 0 and all(
        have in (1, want) for have, want in zip(x.shape, target[lead:], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"broadcast_to: {describe(x)} does not broadcast to {show_shape(target)}",
            remedy="only axes of extent 1 can be repeated; `reshape` first",
        )
    return make("broadcast", (x,), target, x.dtype, {"shape": target})


def _align(op: str, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the operands, each broadcast to the shape of all."""
    first = operands[0].shape
    if all(operand.shape == first for operand in operands):
        return tuple(operands)
    shape = broadcast_shapes(op, operands)
    return tuple(broadcast_to(operand, shape) for operand in operands)


def common_dtype(op: str, operands: Sequence[Tensor]) -> DType:
    """Return the one element type of the operands; refuse two, in the name of ``op``.

    A 16-bit type beside float32 widens to it: nothing is lost.
    """
    dtype = operands[0].dtype
    halves = [o for o in operands if o.dtype.is_half]
    if halves and all(o.dtype.is_half or o.dtype is DType.F32 for o in operands):
        alike = all(o.dtype is halves[0].dtype for o in operands)
        return halves[0].dtype if alike else DType.F32
    for other in operands[1:]:
        if other.dtype is not dtype:
            wider = other.dtype if other.dtype.is_float and not dtype.is_float else dtype
            raise DTypeError(
                f"{op}: left is {describe(operands[0])}, right is {describe(other)}; "
                f"the types {dtype} and {other.dtype} differ",
                remedy=f"convert one: `.astype('{wider}')`",
            )
    return dtype


def require_float(op: str, x: Tensor) -> None:
    """Refuse a tensor that is not floating, in the name of ``op``."""
    if not x.dtype.is_float:
        raise DTypeError(
            f"{op}: the operand is {describe(x)}, not of a floating type",
            remedy="convert it: `.astype('float32')`",
        )


def require_number(op: str, x: Tensor) -> None:
    """Refuse a tensor of truth values, in the name of ``op``."""
    if x.dtype is DType.BOOL:
        raise DTypeError(
            f"{op}: the operand is {describe(x)}, not a number",
            remedy="convert it: `.astype('float32')`, or `.astype('int64')` for a count",
        )


def _require_bool(op: str, x: Tensor) -> None:
    if x.dtype is not DType.BOOL:
        raise DTypeError(
            f"{op}: the operand is {describe(x)}, not of type bool",
            remedy="compare first: `x > 0`",
        )


def computed(
    op: str,
    operands: Sequence[Tensor],
    shape: Shape,
    dtype: DType,
    attributes: dict[str, Attribute] | None = None,
) -> Tensor:
    """Return a node that computes: 16-bit operands widen to float32, a 16-bit result is rounded.

    The parameters are those of `make`. Conversions are nodes, so that no later stage and no
    gradient rule needs to know the 16-bit types.
    """
    wide = [cast(o, o.dtype.computed) for o in operands]
    return cast(make(op, wide, shape, dtype.computed, attributes), dtype)


def _unary(op: str, x: Operand, *, floating: bool) -> Tensor:
    x = as_tensor(x, op=op)
    (require_float if floating else require_number)(op, x)
    return computed(op, (x,), x.shape, x.dtype)


def _binary(op: str, left: Operand, right: Operand, *, floating: bool = False) -> Tensor:
    given = as_tensors((left, right), op)
    dtype = common_dtype(op, given)
    (require_float if floating else require_number)(op, given[0])
    operands = _align(op, [cast(g, dtype) for g in given])
    return computed(op, operands, operands[0].shape, dtype)


def _compare(op: str, left: Operand, right: Operand) -> Tensor:
    given = as_tensors((left, right), op)
    dtype = common_dtype(op, given)
    operands = _align(op, [cast(g, dtype) for g in given])
    return computed(op, operands, operands[0].shape, DType.BOOL)


@builder
def neg(x: Operand) -> Tensor:
    """Return ``-x``."""
    return _unary("neg", x, floating=False)


@builder
def abs_(x: Operand) -> Tensor:
    """Return ``|x|``; its derivative at 0 is 0."""
    return _unary("abs", x, floating=False)


@builder
def sign(x: Operand) -> Tensor:
    """Return -1, 0 or 1 with the sign of ``x``; NaN stays NaN."""
    return _unary("sign", x, floating=False)


@builder
def square(x: Operand) -> Tensor:
    """Return ``x * x``."""
    return _unary("square", x, floating=False)


@builder
def relu(x: Operand) -> Tensor:
    """Return ``max(x, 0)``; its derivative at 0 is 0, NaN stays NaN."""
    return _unary("relu", x, floating=False)


@builder
def exp(x: Operand) -> Tensor:
    """Return e to the power ``x``."""
    return _unary("exp", x, floating=True)


@builder
def log(x: Operand) -> Tensor:
    """Return the natural logarithm."""
    return _unary("log", x, floating=True)


@builder
def log1p(x: Operand) -> Tensor:
    """Return ``log(1 + x)``, exact for small ``x``."""
    return _unary("log1p", x, floating=True)


@builder
def expm1(x: Operand) -> Tensor:
    """Return ``exp(x) - 1``, exact for small ``x``."""
    return _unary("expm1", x, floating=True)


@builder
def sqrt(x: Operand) -> Tensor:
    """Return the square root; NaN below 0."""
    return _unary("sqrt", x, floating=True)


@builder
def rsqrt(x: Operand) -> Tensor:
    """Return ``1 / sqrt(x)``."""
    return _unary("rsqrt", x, floating=True)


@builder
def reciprocal(x: Operand) -> Tensor:
    """Return ``1 / x``."""
    return _unary("reciprocal", x, floating=True)


@builder
def sin(x: Operand) -> Tensor:
    """Return the sine of ``x`` radians."""
    return _unary("sin", x, floating=True)


@builder
def cos(x: Operand) -> Tensor:
    """Return the cosine of ``x`` radians."""
    return _unary("cos", x, floating=True)


@builder
def tanh(x: Operand) -> Tensor:
    """Return the hyperbolic tangent."""
    return _unary("tanh", x, floating=True)


@builder
def sigmoid(x: Operand) -> Tensor:
    """Return ``1 / (1 + exp(-x))``."""
    return _unary("sigmoid", x, floating=True)


@builder
def erf(x: Operand) -> Tensor:
    """Return the error function."""
    return _unary("erf", x, floating=True)


@builder
def gelu(x: Operand) -> Tensor:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2``, the exact form (Hendrycks and Gimpel 2016)."""
    return _unary("gelu", x, floating=True)


@builder
def silu(x: Operand) -> Tensor:
    """Return ``x * sigmoid(x)``."""
    return _unary("silu", x, floating=True)


@builder
def softplus(x: Operand) -> Tensor:
    """Return ``log(1 + exp(x))`` without overflow."""
    return _unary("softplus", x, floating=True)


@builder
def add(left: Operand, right: Operand) -> Tensor:
    """Return ``left + right``."""
    return _binary("add", left, right)


@builder
def sub(left: Operand, right: Operand) -> Tensor:
    """Return ``left - right``."""
    return _binary("sub", left, right)


@builder
def mul(left: Operand, right: Operand) -> Tensor:
    """Return ``left * right``."""
    return _binary("mul", left, right)


@builder
def div(left: Operand, right: Operand) -> Tensor:
    """Return ``left / right`` of floating tensors."""
    return _binary("div", left, right, floating=True)


@builder
def maximum(left: Operand, right: Operand) -> Tensor:
    """Return the greater of the two; NaN if either is.

    At a tie the cotangent is halved between both, which is the mean of the one-sided derivatives.
    """
    return _binary("maximum", left, right)


@builder
def minimum(left: Operand, right: Operand) -> Tensor:
    """Return the lesser of the two; NaN if either is.

    At a tie the cotangent is halved between both, which is the mean of the one-sided derivatives.
    """
    return _binary("minimum", left, right)


@builder
def pow_(left: Operand, right: Operand) -> Tensor:
    """Return ``left`` to the power ``right``; a few constant powers become cheaper operations.

    ``left`` is a floating tensor; powers 1, 2 and 3 work for whole numbers too.
    """
    if isinstance(left, Tensor) and isinstance(right, (int, float, np.generic)):
        power = right.item() if isinstance(right, np.generic) else right
        cheaper = _POWERS.get(power)
        if cheaper is not None and (left.dtype.is_float or power in _WHOLE_POWERS):
            return cheaper(left)
    return _binary("pow", left, right, floating=True)


_POWERS: dict[float, Callable[[Tensor], Tensor]] = {
    1.0: lambda x: x,
    2.0: square,
    3.0: lambda x: mul(square(x), x),
    0.5: sqrt,
    -1.0: reciprocal,
}
_WHOLE_POWERS = (1.0, 2.0, 3.0)


@builder
def less(left: Operand, right: Operand) -> Tensor:
    """Return where ``left < right``."""
    return _compare("less", left, right)


@builder
def less_equal(left: Operand, right: Operand) -> Tensor:
    """Return where ``left <= right``."""
    return _compare("less_equal", left, right)


@builder
def greater(left: Operand, right: Operand) -> Tensor:
    """Return where ``left > right``."""
    return _compare("greater", left, right)


@builder
def greater_equal(left: Operand, right: Operand) -> Tensor:
    """Return where ``left >= right``."""
    return _compare("greater_equal", left, right)


@builder
def equal(left: Operand, right: Operand) -> Tensor:
    """Return where ``left == right``."""
    return _compare("equal", left, right)


@builder
def not_equal(left: Operand, right: Operand) -> Tensor:
    """Return where ``left != right``."""
    return _compare("not_equal", left, right)


def _logical(op: str, *values: Operand) -> Tensor:
    given = as_tensors(values, op)
    for operand in given:
        _require_bool(op, operand)
    operands = _align(op, given)
    return make(op, operands, operands[0].shape, DType.BOOL)


@builder
def logical_and(left: Operand, right: Operand) -> Tensor:
    """Return where both hold."""
    return _logical("logical_and", left, right)


@builder
def logical_or(left: Operand, right: Operand) -> Tensor:
    """Return where either holds."""
    return _logical("logical_or", left, right)


@builder
def logical_not(x: Operand) -> Tensor:
    """Return where ``x`` does not hold."""
    return _logical("logical_not", x)


@builder
def where(condition: Operand, left: Operand, right: Operand) -> Tensor:
    """Return ``left`` where ``condition`` holds, else ``right``; the arm not taken never shows.

    Parameters
    ----------
    condition
        Of type bool.
    left, right
        Of one element type.
    """
    test = as_tensor(condition, op="where")
    _require_bool("where", test)
    arms = as_tensors((left, right), "where")
    dtype = common_dtype("where", arms)
    operands = _align("where", (test, *(cast(arm, dtype) for arm in arms)))
    return computed("where", operands, operands[0].shape, dtype)


@builder
def cast(x: Operand, dtype: object, *, gradient: object = None) -> Tensor:
    """Return the elements as ``dtype``; floats are cut toward 0 when they become integers.

    Parameters
    ----------
    x, dtype
        What to convert, and to what.
    gradient
        A floating type that the cotangent is rounded to on its way back, as if it were stored so;
        by default it keeps the type that it is computed in.
    """
    x = as_tensor(x, op="cast")
    target = as_dtype(dtype)
    if gradient is None:
        return x if x.dtype is target else make("cast", (x,), x.shape, target)
    return make("cast", (x,), x.shape, target, {"gradient": as_dtype(gradient)})


@builder
def stop_gradient(x: Operand) -> Tensor:
    """Return ``x``, through which no cotangent flows back."""
    x = as_tensor(x)
    return make("stop_gradient", (x,), x.shape, x.dtype)


def isfinite(x: Operand) -> Tensor:
    """Return where the floating tensor ``x`` is neither infinite nor NaN."""
    x = as_tensor(x, op="isfinite")
    require_float("isfinite", x)
    return less_equal(abs_(x), x.dtype.greatest)


# The names that people write; Python's own `abs` and `pow` are not used in this module.
abs = abs_
pow = pow_

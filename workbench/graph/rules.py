"""The gradient rule of every operation; the formula is beside each where it is not the code itself.

In: a node, and ``g``, the cotangent of its value ``y``. Out: one cotangent for each operand, or
None where none flows. Invariant: rules build graph only, of operations that have rules, so that
derivatives have derivatives.
"""

from __future__ import annotations

import math
from typing import TypeAlias, cast

from workbench.graph import elementwise as ops
from workbench.graph.contraction import einsum
from workbench.graph.elementwise import (
    broadcast_to,
    cos,
    equal,
    erf,
    exp,
    greater_equal,
    less,
    log,
    logical_and,
    sigmoid,
    sign,
    sin,
    square,
    where,
)
from workbench.graph.gradient import rule
from workbench.graph.indexing import scatter_add, take
from workbench.graph.movement import flip, pad, reshape, slice_, transpose
from workbench.graph.reduction import keep_axes
from workbench.graph.reduction import sum_ as sum_over
from workbench.graph.tensor import Tensor

Parts: TypeAlias = "tuple[Tensor | None, ...]"


def _numbers(node: Tensor, name: str) -> tuple[int, ...]:
    """Return an attribute that holds axes or offsets."""
    return cast("tuple[int, ...]", node.attribute(name))


def _spread(node: Tensor, reduced: Tensor) -> Tensor:
    """Return a reduced tensor repeated to the shape of the operand of the reduction ``node``."""
    shape = node.operands[0].shape
    if _numbers(node, "axes") == tuple(range(len(shape) - reduced.ndim)):
        return broadcast_to(reduced, shape)  # the axes that are gone come first anyway
    return broadcast_to(reshape(reduced, keep_axes(shape, _numbers(node, "axes"))), shape)


@rule("add")
def _add(node: Tensor, g: Tensor) -> Parts:
    return g, g


@rule("sub")
def _sub(node: Tensor, g: Tensor) -> Parts:
    return g, -g


@rule("mul")
def _mul(node: Tensor, g: Tensor) -> Parts:
    a, b = node.operands
    return g * b, g * a


@rule("div")
def _div(node: Tensor, g: Tensor) -> Parts:
    _, b = node.operands
    first = g / b
    return first, -(first * node)


@rule("pow")
def _pow(node: Tensor, g: Tensor) -> Parts:
    # d/da a**b = b * a**(b-1), which is 0 where b is 0, even at a = 0, where the power is infinite.
    # d/db a**b = a**b * log(a), which is taken as 0 where a is 0 and b is not below: its limit for
    # b > 0. Below, the power is infinite and so is the derivative.
    a, b = node.operands
    constant = equal(b, 0.0)
    slope = where(constant, 0.0, b * a ** where(constant, 1.0, b - 1.0))
    at_zero = logical_and(equal(a, 0.0), greater_equal(b, 0.0))
    return g * slope, where(at_zero, 0.0, g * node * log(where(at_zero, 1.0, a)))


@rule("maximum")
def _maximum(node: Tensor, g: Tensor) -> Parts:
    # NaN is neither less nor equal: both operands get the whole cotangent of what it made NaN.
    a, b = node.operands
    shared = where(equal(a, b), g * 0.5, g)
    return where(less(a, b), 0.0, shared), where(less(b, a), 0.0, shared)


@rule("minimum")
def _minimum(node: Tensor, g: Tensor) -> Parts:
    a, b = node.operands
    shared = where(equal(a, b), g * 0.5, g)
    return where(less(b, a), 0.0, shared), where(less(a, b), 0.0, shared)


@rule("neg")
def _neg(node: Tensor, g: Tensor) -> Parts:
    return (-g,)


@rule("abs")
def _abs(node: Tensor, g: Tensor) -> Parts:
    return (g * sign(node.operands[0]),)


@rule("sign")
def _sign(node: Tensor, g: Tensor) -> Parts:
    return (None,)


@rule("square")
def _square(node: Tensor, g: Tensor) -> Parts:
    return (g * (node.operands[0] * 2.0),)


@rule("relu")
def _relu(node: Tensor, g: Tensor) -> Parts:
    # Read from y, which is at hand, not from x: y is 0 exactly where x is not above. Where y is NaN
    # the cotangent passes, so that the fault is seen further up.
    return (where(equal(node, 0.0), 0.0, g),)


@rule("exp")
def _exp(node: Tensor, g: Tensor) -> Parts:
    return (g * node,)


@rule("log")
def _log(node: Tensor, g: Tensor) -> Parts:
    return (g / node.operands[0],)


@rule("log1p")
def _log1p(node: Tensor, g: Tensor) -> Parts:
    return (g / (node.operands[0] + 1.0),)


@rule("expm1")
def _expm1(node: Tensor, g: Tensor) -> Parts:
    # Not y + 1: below 0 that is what rounding left of a small difference.
    return (g * exp(node.operands[0]),)


@rule("sqrt")
def _sqrt(node: Tensor, g: Tensor) -> Parts:
    return (g * 0.5 / node,)


@rule("rsqrt")
def _rsqrt(node: Tensor, g: Tensor) -> Parts:
    return (g * (-0.5) * node * square(node),)


@rule("reciprocal")
def _reciprocal(node: Tensor, g: Tensor) -> Parts:
    return (-(g * square(node)),)


@rule("sin")
def _sin(node: Tensor, g: Tensor) -> Parts:
    return (g * cos(node.operands[0]),)


@rule("cos")
def _cos(node: Tensor, g: Tensor) -> Parts:
    return (-(g * sin(node.operands[0])),)


@rule("tanh")
def _tanh(node: Tensor, g: Tensor) -> Parts:
    return (g * (1.0 - square(node)),)


@rule("sigmoid")
def _sigmoid(node: Tensor, g: Tensor) -> Parts:
    return (g * (node * (1.0 - node)),)


@rule("erf")
def _erf(node: Tensor, g: Tensor) -> Parts:
    return (g * (exp(-square(node.operands[0])) * (2.0 / math.sqrt(math.pi))),)


@rule("gelu")
def _gelu(node: Tensor, g: Tensor) -> Parts:
    # d/dx x*Phi(x) = Phi(x) + x*phi(x)
    x = node.operands[0]
    cumulative = (erf(x * math.sqrt(0.5)) + 1.0) * 0.5
    density = exp(square(x) * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
    return (g * (cumulative + x * density),)


@rule("silu")
def _silu(node: Tensor, g: Tensor) -> Parts:
    x = node.operands[0]
    s = sigmoid(x)
    return (g * (s * (1.0 + x * (1.0 - s))),)


@rule("softplus")
def _softplus(node: Tensor, g: Tensor) -> Parts:
    return (g * sigmoid(node.operands[0]),)


@rule("where")
def _where(node: Tensor, g: Tensor) -> Parts:
    condition = node.operands[0]
    return None, where(condition, g, 0.0), where(condition, 0.0, g)


@rule("cast")
def _cast(node: Tensor, g: Tensor) -> Parts:
    # Cotangents of 16-bit tensors are float32: rounding them would lose small gradients, and in
    # float16 overflow large ones.
    source = node.operands[0].dtype
    if not (source.is_float and g.dtype.is_float):
        return (None,)
    for _, stored in node.attributes:  # unless somebody asked for it
        g = ops.cast(g, stored)
    return (ops.cast(g, source.computed),)


@rule("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
def _comparison(node: Tensor, g: Tensor) -> Parts:
    return None, None


@rule("logical_and", "logical_or")
def _logical(node: Tensor, g: Tensor) -> Parts:
    return None, None


@rule("logical_not", "stop_gradient", "is_label")
def _blocked(node: Tensor, g: Tensor) -> Parts:
    return (None,)


@rule("uniform", "normal")
def _random(node: Tensor, g: Tensor) -> Parts:
    return None, None


@rule("broadcast")
def _broadcast(node: Tensor, g: Tensor) -> Parts:
    shape = node.operands[0].shape
    lead = node.ndim - len(shape)
    repeated = tuple(range(lead)) + tuple(
        lead + i for i, extent in enumerate(shape) if extent == 1 and node.shape[lead + i] != 1
    )
    return (reshape(sum_over(g, repeated), shape),)


@rule("sum")
def _sum(node: Tensor, g: Tensor) -> Parts:
    return (_spread(node, g),)


@rule("max", "min")
def _extreme(node: Tensor, g: Tensor) -> Parts:
    # All elements equal to the extreme share its cotangent in equal parts. No element equals NaN:
    # then 0 / ties is NaN, and all elements get that.
    x = node.operands[0]
    chosen = equal(x, _spread(node, node))
    ties = sum_over(ops.cast(chosen, x.dtype.computed), _numbers(node, "axes"))
    return (where(chosen, _spread(node, g / ties), _spread(node, 0.0 / ties)),)


@rule("reshape")
def _reshape(node: Tensor, g: Tensor) -> Parts:
    return (reshape(g, node.operands[0].shape),)


@rule("transpose")
def _transpose(node: Tensor, g: Tensor) -> Parts:
    order = _numbers(node, "axes")
    return (transpose(g, [order.index(axis) for axis in range(len(order))]),)


@rule("flip")
def _flip(node: Tensor, g: Tensor) -> Parts:
    return (flip(g, _numbers(node, "axes")),)


@rule("slice")
def _slice(node: Tensor, g: Tensor) -> Parts:
    return (pad(g, _numbers(node, "begin"), node.operands[0].shape),)


@rule("pad")
def _pad(node: Tensor, g: Tensor) -> Parts:
    return (slice_(g, _numbers(node, "before"), node.operands[0].shape),)


@rule("concat")
def _concat(node: Tensor, g: Tensor) -> Parts:
    axis = cast("int", node.attribute("axis"))
    parts: list[Tensor] = []
    offset = 0
    for operand in node.operands:
        begin = [offset if i == axis else 0 for i in range(node.ndim)]
        parts.append(slice_(g, begin, operand.shape))
        offset += cast("int", operand.shape[axis])  # the batch is never joined
    return tuple(parts)


@rule("einsum")
def _einsum(node: Tensor, g: Tensor) -> Parts:
    a, b = node.operands
    left, right, result = (str(node.attribute(k)) for k in ("left", "right", "result"))
    return (
        einsum(f"{result},{right}->{left}", g, b),
        einsum(f"{result},{left}->{right}", g, a),
    )


@rule("take")
def _take(node: Tensor, g: Tensor) -> Parts:
    table, indices = node.operands
    return scatter_add(table.shape[0], indices, g), None


@rule("scatter_add")
def _scatter_add(node: Tensor, g: Tensor) -> Parts:
    return None, take(g, node.operands[0])

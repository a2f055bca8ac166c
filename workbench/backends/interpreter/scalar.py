"""The value of a scalar expression of the loop IR, computed in numpy over whole arrays at once.

In: an expression, the values of its variables, a way to read buffers. Out: an array. Invariant:
every operation is carried out in exactly the element type that its operands have: a float32
product is rounded to float32, integers wrap in their own width, and no product is fused with a
sum. This is the meaning that compiled backends are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from workbench.errors import CompileError
from workbench.graph.dtype import DType
from workbench.loops.expression import LIBM, Apply, Expr, Load, Number, Var, children

Array: TypeAlias = npt.NDArray[Any]
Loader: TypeAlias = Callable[[int, Array, DType], Array]


def evaluate(
    expr: Expr, environment: Mapping[str, npt.NDArray[Any] | np.generic], load: Loader
) -> Array:
    """Return the value of ``expr``, of the broadcast shape of the variables in it.

    Parameters
    ----------
    expr
        The expression. An operand that is one Python object in two places is computed once; the
        depth is not limited by Python's stack.
    environment
        The value of each variable by name, with the numpy dtype of the variable.
    load
        Called with a buffer's number, the flat offsets (int64, in elements) and the element type;
        returns the elements, an array of the offsets' shape.

    Returns
    -------
    numpy.ndarray
        Of the expression's element type. It may be an array of ``environment`` itself, or a
        view of one: copy before writing to it. Numbers alone give an array of shape ``()``.

    Raises
    ------
    CompileError
        If a variable has no value or one of another type, or an operation is unknown or not
        defined for its operands' type.
    """
    order, uses = _order(expr)
    values: dict[int, Array] = {}
    # Overflow, division by zero and NaN are ordinary values of the loop language.
    with np.errstate(all="ignore"):
        for node in order:
            match node:
                case Number():
                    value = np.asarray(node.value, node.dtype.numpy)
                case Var():
                    value = _variable(node, environment)
                case Load():
                    value = load(node.buffer, values[id(node.offset)], node.dtype)
                case Apply():
                    value = _apply(node, [values[id(arg)] for arg in node.args])
            values[id(node)] = value
            for child in children(node):
                uses[id(child)] -= 1
                if uses[id(child)] == 0:  # a long chain must not keep all its arrays
                    del values[id(child)]
    return values[id(expr)]


def _order(expr: Expr) -> tuple[list[Expr], dict[int, int]]:
    """Return each object under ``expr`` once, operands first, and how often each is an operand."""
    order: list[Expr] = []
    uses: dict[int, int] = {id(expr): 1}  # the caller's use keeps the result alive
    entered: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, operands_done = stack.pop()
        if operands_done:
            order.append(node)
            continue
        if id(node) in entered:
            continue
        entered.add(id(node))
        stack.append((node, True))
        for child in reversed(children(node)):
            uses[id(child)] = uses.get(id(child), 0) + 1
            stack.append((child, False))
    return order, uses


def _variable(var: Var, environment: Mapping[str, npt.NDArray[Any] | np.generic]) -> Array:
    if var.name not in environment:
        raise CompileError(
            f"the variable `{var.name}` has no value here; there are {sorted(environment)}",
            remedy="bind it in a loop or a local around the expression",
        )
    value = np.asarray(environment[var.name])
    if value.dtype != var.dtype.numpy:
        raise CompileError(
            f"the variable `{var.name}` is of type {var.dtype} but its value of type {value.dtype}",
            remedy="convert the value before it is bound",
        )
    return value


def _apply(node: Apply, args: list[Array]) -> Array:
    operation = _OPERATIONS.get(node.op)
    operand_type = node.args[-1].dtype if node.args else node.dtype
    if operation is None or (node.op in LIBM and operand_type is not DType.F64):
        raise CompileError(
            f"the interpreter has no `{node.op}` of {operand_type}",
            remedy="expand it with `workbench.loops.expand_math.expand` first",
        )
    result = np.asarray(operation(args, node.dtype))
    if result.dtype != node.dtype.numpy:
        types = ", ".join(str(arg.dtype) for arg in node.args)
        raise CompileError(
            f"`{node.op}` of ({types}) gives {result.dtype}, not {node.dtype} as the node says",
            remedy="put a `cast` where the element type changes",
        )
    return result


def _div(args: list[Array], dtype: DType) -> Any:
    """Return the quotient; of integers, cut toward zero, and 0 where the divisor is 0."""
    left, right = args
    if dtype.is_float:
        return np.divide(left, right)
    quotient = np.floor_divide(left, right)
    inexact = np.multiply(quotient, right) != left
    toward_zero = np.where(inexact & ((left < 0) != (right < 0)), 1, 0).astype(dtype.numpy)
    return np.where(right == 0, np.zeros_like(quotient), quotient + toward_zero)


def _maximum(args: list[Array], dtype: DType) -> Any:
    """Return the greater; NaN if either is NaN, the second of two that compare equal."""
    left, right = args
    if not dtype.is_float:
        return np.maximum(left, right)
    # np.maximum of 0.0 and -0.0 depends on the processor.
    return np.where((left > right) | (left != left), left, right)


def _minimum(args: list[Array], dtype: DType) -> Any:
    """Return the lesser; NaN if either is NaN, the second of two that compare equal."""
    left, right = args
    if not dtype.is_float:
        return np.minimum(left, right)
    return np.where((left < right) | (left != left), left, right)


def _cast(args: list[Array], dtype: DType) -> Any:
    return args[0].astype(dtype.numpy)


def _bitcast(args: list[Array], dtype: DType) -> Any:
    return np.ascontiguousarray(args[0]).reshape(args[0].shape).view(dtype.numpy)


def _select(args: list[Array], dtype: DType) -> Any:
    condition, left, right = args
    return np.where(condition, left, right)


def _erf(args: list[Array], dtype: DType) -> Any:
    # Imported when it is needed: scipy.special alone takes longer to load than the engine's own
    # text.
    from scipy.special import erf

    return erf(args[0])


def _ufunc(function: Callable[..., Any]) -> Callable[[list[Array], DType], Any]:
    """Return an operation that is ``function`` of its operands, element by element."""
    return lambda args, dtype: function(*args)


_OPERATIONS: dict[str, Callable[[list[Array], DType], Any]] = {
    "neg": _ufunc(np.negative),
    "abs": _ufunc(np.abs),
    "floor": _ufunc(np.floor),
    "round": _ufunc(np.rint),
    "sqrt": _ufunc(np.sqrt),
    "exp": _ufunc(np.exp),
    "log": _ufunc(np.log),
    "sin": _ufunc(np.sin),
    "cos": _ufunc(np.cos),
    "tanh": _ufunc(np.tanh),
    "erf": _erf,
    "expm1": _ufunc(np.expm1),
    "log1p": _ufunc(np.log1p),
    "pow": _ufunc(np.power),
    "add": _ufunc(np.add),
    "sub": _ufunc(np.subtract),
    "mul": _ufunc(np.multiply),
    "div": _div,
    "maximum": _maximum,
    "minimum": _minimum,
    "bit_and": _ufunc(np.bitwise_and),
    "bit_or": _ufunc(np.bitwise_or),
    "bit_xor": _ufunc(np.bitwise_xor),
    "shift_left": _ufunc(np.left_shift),
    "shift_right": _ufunc(np.right_shift),
    "less": _ufunc(np.less),
    "less_equal": _ufunc(np.less_equal),
    "greater": _ufunc(np.greater),
    "greater_equal": _ufunc(np.greater_equal),
    "equal": _ufunc(np.equal),
    "not_equal": _ufunc(np.not_equal),
    "logical_and": _ufunc(np.logical_and),
    "logical_or": _ufunc(np.logical_or),
    "logical_not": _ufunc(np.logical_not),
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
}

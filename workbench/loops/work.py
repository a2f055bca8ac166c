"""How much work a kernel does, to decide into how many chunks a launch is cut.

Out: rough multiplications for one unit of the outermost range. Invariant: the estimate depends on
shapes alone, never on the number of threads, so that the cut, and with it every bit of the result,
is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from workbench.loops.expression import Apply, Expr, Load, Number, Var, children
from workbench.loops.kernel import (
    HI,
    LO,
    Accumulate,
    Assign,
    Declare,
    For,
    Kernel,
    Let,
    Product,
    Stmt,
    Store,
    Update,
)

PER_PRODUCT = 0.06
"""Time of a multiply-add inside the BLAS against one in a loop."""


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """Return an extent expression as a number; loop indices count as 0."""
    match expr:
        case Number():
            return int(expr.value)
        case Var():
            return values.get(expr.name, 0)
        case Apply():
            args = [evaluate(arg, values) for arg in expr.args]
            match expr.op:
                case "add":
                    return args[0] + args[1]
                case "mul":
                    return args[0] * args[1]
                case "neg":
                    return -args[0]
                case "minimum":
                    return min(args)
                case _:
                    return 0
        case Load():
            return 0


def work_per_unit(kernel: Kernel, extents: tuple[int, ...]) -> float:
    """Return the rough multiplications of one unit of the outermost range.

    Parameters
    ----------
    kernel
        Any kernel.
    extents
        Its extents as numbers.
    """
    values = {f"n{i}": extent for i, extent in enumerate(extents)} | {"lo": 0, "hi": 1}
    return _body(kernel.body, values)


def _body(body: tuple[Stmt, ...], values: Mapping[str, int]) -> float:
    total = 0.0
    for stmt in body:
        match stmt:
            case For():
                span = 1 if stmt.stop == HI or stmt.start == LO else evaluate(stmt.stop, values)
                total += -(-span // stmt.step) * _body(stmt.body, values)
            case Product():
                m, n, k = (evaluate(e, values) for e in (stmt.m, stmt.n, stmt.k))
                total += PER_PRODUCT * m * n * k
            case Let() | Declare() | Update() | Assign():
                total += _size(stmt.value)
            case Store() | Accumulate():
                total += 1 + _size(stmt.value)
            case _:
                assert_never(stmt)
    return total


def _size(expr: Expr) -> int:
    if isinstance(expr, (Number, Var)):
        return 0
    own = 0 if expr.dtype.is_integer else 1
    return own + sum(_size(child) for child in children(expr) if child.dtype.is_float)

"""Check that a program is well formed before anything renders or runs it.

A failure is a fault of this engine, never of its user: it raises `AssertionError` with the kernel's
text.
"""

from __future__ import annotations

from typing import assert_never

from workbench.graph.dtype import DType
from workbench.loops.expression import COMPARE, LOGIC, Apply, Expr, Load, Number, Var, children
from workbench.loops.kernel import (
    Accumulate,
    Assign,
    Declare,
    For,
    Kernel,
    Let,
    Product,
    Program,
    Scratch,
    Stmt,
    Store,
    Update,
)
from workbench.loops.show import show_kernel


def verify(program: Program) -> None:
    """Check every kernel: names defined before use, types agree, buffers known, writes declared."""
    homes = {*program.local, *program.device}
    for kernel in program.kernels:
        try:
            for buffer in kernel.buffers:
                if not isinstance(buffer, Scratch):
                    assert buffer in homes, f"{buffer!r} has no memory"
            names: dict[str, DType] = {"lo": DType.I64, "hi": DType.I64}
            names |= {f"n{i}": DType.I64 for i in range(len(kernel.extents))}
            names |= {f"c{i}": c.dtype for i, c in enumerate(kernel.constants)}
            _check_body(kernel, kernel.body, names, set())
        except AssertionError as fault:
            raise AssertionError(f"{fault}\n{show_kernel(kernel)}") from None


def _check_body(
    kernel: Kernel, body: tuple[Stmt, ...], outer: dict[str, DType], variables: set[str]
) -> None:
    names = dict(outer)
    for stmt in body:
        match stmt:
            case Let() | Declare():
                assert stmt.var.name not in names, f"{stmt.var.name} is named twice"
                _check(kernel, stmt.value, names)
                assert stmt.value.dtype is stmt.var.dtype, f"{stmt.var.name} changes its type"
                names[stmt.var.name] = stmt.var.dtype
                if isinstance(stmt, Declare):
                    variables = variables | {stmt.var.name}
            case Update() | Assign():
                assert stmt.var.name in variables, f"{stmt.var.name} is updated and not a variable"
                _check(kernel, stmt.value, names)
                assert stmt.value.dtype is stmt.var.dtype, f"{stmt.var.name} changes its type"
            case Store() | Accumulate():
                assert stmt.buffer in kernel.writes, (
                    f"b{stmt.buffer} is written and not declared so"
                )
                assert stmt.offset.dtype is DType.I64, "an offset is not int64"
                assert stmt.value.dtype is kernel.dtypes[stmt.buffer].computed, (
                    f"b{stmt.buffer} holds another type"
                )
                _check(kernel, stmt.offset, names)
                _check(kernel, stmt.value, names)
            case For():
                assert stmt.var.name not in names, f"{stmt.var.name} is named twice"
                assert stmt.step > 0, f"{stmt.var.name} never ends"
                _check(kernel, stmt.start, names)
                _check(kernel, stmt.stop, names)
                _check_body(kernel, stmt.body, {**names, stmt.var.name: DType.I64}, variables)
            case Product():
                assert stmt.c in kernel.writes, f"b{stmt.c} is written and not declared so"
                for buffer in (stmt.a, stmt.b, stmt.c):
                    assert kernel.dtypes[buffer] is stmt.dtype, f"b{buffer} is not {stmt.dtype}"
                places = (stmt.a_offset, stmt.b_offset, stmt.c_offset)
                for expr in (stmt.m, stmt.n, stmt.k, stmt.lda, stmt.ldb, stmt.ldc, *places):
                    _check(kernel, expr, names)
            case _:
                assert_never(stmt)


def _check(kernel: Kernel, expr: Expr, names: dict[str, DType]) -> None:
    match expr:
        case Number():
            return
        case Var():
            assert names.get(expr.name) is expr.dtype, (
                f"{expr.name} is not defined here as {expr.dtype}"
            )
        case Load():
            assert expr.dtype is kernel.dtypes[expr.buffer].computed, (
                f"b{expr.buffer} holds another type"
            )
            assert expr.offset.dtype is DType.I64, "an offset is not int64"
        case Apply():
            kinds = {arg.dtype for arg in (expr.args[1:] if expr.op == "select" else expr.args)}
            if expr.op == "select":
                chosen = expr.args[0].dtype
                assert chosen is DType.BOOL, f"select is told by {chosen}"
            if expr.op not in ("cast", "bitcast"):
                assert len(kinds) == 1, f"{expr.op} mixes {kinds}"
                if expr.op in COMPARE or expr.op in LOGIC:
                    assert expr.dtype is DType.BOOL, f"{expr.op} gives {expr.dtype}"
                else:
                    assert kinds == {expr.dtype}, f"{expr.op} of {kinds} gives {expr.dtype}"
    for child in children(expr):
        _check(kernel, child, names)

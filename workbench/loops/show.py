"""Kernels and programs as short readable text.

Invariant: the text of a kernel depends on its structure only; it is also what kernels are compared
and shared by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from workbench.graph.extent import show_shape
from workbench.graph.tensor import Tensor
from workbench.loops.expression import Apply, Expr, Load, Number, Var
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

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "logical_and": "and",
    "logical_or": "or", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
    "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip
COMBINE = {"add": "+=", "maximum": "max=", "minimum": "min="}


def show_expr(expr: Expr) -> str:
    """Return an expression as text."""
    match expr:
        case Number():
            return repr(expr.value)
        case Var():
            return expr.name
        case Load():
            return f"b{expr.buffer}[{_bare(expr.offset)}]"
        case Apply():
            if expr.op == "add" and isinstance(expr.args[1], Apply) and expr.args[1].op == "neg":
                return f"({show_expr(expr.args[0])} - {show_expr(expr.args[1].args[0])})"
            if expr.op in INFIX and len(expr.args) == 2:
                return f"({show_expr(expr.args[0])} {INFIX[expr.op]} {show_expr(expr.args[1])})"
            name = expr.dtype.value if expr.op == "cast" else expr.op
            if expr.op == "bitcast":
                name = f"bits_{expr.dtype.value}"
            return f"{name}({', '.join(_bare(arg) for arg in expr.args)})"
        case _:
            assert_never(expr)


def _bare(expr: Expr) -> str:
    text = show_expr(expr)
    return text[1:-1] if isinstance(expr, Apply) and expr.op in INFIX else text


def show_body(body: tuple[Stmt, ...], indent: str = "  ") -> Iterator[str]:
    """Yield the lines of a kernel's statements."""
    for stmt in body:
        match stmt:
            case Let():
                yield f"{indent}{stmt.var.name} = {_bare(stmt.value)}"
            case Declare():
                yield f"{indent}var {stmt.var.name} = {_bare(stmt.value)}"
            case Assign():
                yield f"{indent}{stmt.var.name} = {_bare(stmt.value)}"
            case Update():
                yield f"{indent}{stmt.var.name} {COMBINE[stmt.op]} {_bare(stmt.value)}"
            case Store():
                yield f"{indent}b{stmt.buffer}[{_bare(stmt.offset)}] = {_bare(stmt.value)}"
            case Accumulate():
                cell = f"b{stmt.buffer}[{_bare(stmt.offset)}]"
                yield f"{indent}{cell} {COMBINE[stmt.op]} {_bare(stmt.value)}"
            case For():
                by = f" by {stmt.step}" if stmt.step != 1 else ""
                span = f"{_bare(stmt.start)}..{_bare(stmt.stop)}{by}"
                yield f"{indent}for {stmt.var.name} in {span}:"
                yield from show_body(stmt.body, indent + "  ")
            case Product():
                yield indent + _product(stmt)
            case _:
                assert_never(stmt)


def _product(p: Product) -> str:
    a, b = f"b{p.a}{'.T' * p.transpose_a}", f"b{p.b}{'.T' * p.transpose_b}"
    places = ", ".join(
        f"{name}[{_bare(offset)}:{_bare(leading)}]"
        for name, offset, leading in (
            (f"b{p.a}", p.a_offset, p.lda),
            (f"b{p.b}", p.b_offset, p.ldb),
            (f"b{p.c}", p.c_offset, p.ldc),
        )
    )
    sign = "+=" if p.accumulate else "="
    sizes = f"m={_bare(p.m)}, n={_bare(p.n)}, k={_bare(p.k)}"
    return f"b{p.c} {sign} {a} @ {b}   ({sizes}; {places})"


def show_kernel(kernel: Kernel, names: Mapping[Tensor, str] | None = None) -> str:
    """Return a kernel as text; with ``names``, its buffers are named for people."""
    lines = [f"kernel for lo..hi of {kernel.range}"]
    for number, (buffer, dtype) in enumerate(zip(kernel.buffers, kernel.dtypes, strict=True)):
        if isinstance(buffer, Scratch):
            what = f" scratch of {buffer.size}"
        else:
            name = "" if names is None else names.get(buffer, buffer.label)
            what = f" {name} {show_shape(buffer.shape)}" if name else ""
        lines.append(f"  b{number}: {dtype}{what}")
    lines.extend(
        f"  n{number} = {extent}"
        for number, extent in enumerate(kernel.extents)
        if names is not None
    )
    lines.extend(
        f"  c{number} = {constant.value!r}"
        for number, constant in enumerate(kernel.constants)
        if names is not None
    )
    lines.extend(show_body(kernel.body))
    return "\n".join(lines)


def canonical_text(kernel: Kernel) -> str:
    """Return the text that two kernels share exactly when one compiled kernel serves both."""
    head = [f"b{i}: {d}" for i, d in enumerate(kernel.dtypes)] + [f"{len(kernel.extents)} extents"]
    head += [f"c{i}: {c.dtype}" for i, c in enumerate(kernel.constants)]
    return "\n".join([*head, *show_body(kernel.body)])


def show_program(program: Program, names: Mapping[Tensor, str]) -> str:
    """Return all kernels, each under the nodes it computes."""
    parts = [f"# {kernel.label}\n{show_kernel(kernel, names)}" for kernel in program.kernels]
    return "\n\n".join(parts)

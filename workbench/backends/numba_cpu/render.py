"""Render kernels as the text that ``workbench_kernels`` compiles through numba.

In: a kernel of the loop IR. Out: ``def kernel(args, lo, hi)``. Invariant: the text depends on the
kernel's structure only. The argument block holds buffer addresses, then extents, then the bits of
constants, then the address of the BLAS routine if one is called.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import assert_never

import numpy as np

from workbench.graph.dtype import DType
from workbench.loops.expression import LIBM, Apply, Expr, Load, Number, Var
from workbench.loops.kernel import (
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

SHORT = {
    DType.F32: "f32", DType.F64: "f64", DType.I32: "i32", DType.I64: "i64", DType.U32: "u32",
    DType.U64: "u64", DType.BOOL: "b1",
}  # fmt: skip
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "logical_and": "&", "logical_or": "|",
}  # fmt: skip
WRAPPING = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "neg": "neg", "abs": "abs",
    "bit_and": "and", "bit_or": "or", "bit_xor": "xor", "shift_left": "shl",
}  # fmt: skip
FLOATING = {
    "neg": "neg", "abs": "fabs", "floor": "floor", "round": "round_even", "sqrt": "sqrt",
    "maximum": "maximum", "minimum": "minimum", "select": "select",
}  # fmt: skip
LIBRARY = {"exp": "exp_f64", "log": "log_f64"}


def uses_blas(body: tuple[Stmt, ...]) -> DType | None:
    """Return the element type of the matrix products in ``body``, if there are any."""
    for stmt in body:
        if isinstance(stmt, Product):
            return stmt.dtype
        if isinstance(stmt, For):
            found = uses_blas(stmt.body)
            if found is not None:
                return found
    return None


def render(kernel: Kernel) -> str:
    """Return the kernel as text."""
    lines = ["def kernel(args, lo, hi):"]
    word = 0
    for number in range(len(kernel.buffers)):
        lines.append(f"    p{number} = pointer_{number}(args[{word}])")
        word += 1
    for number in range(len(kernel.extents)):
        lines.append(f"    n{number} = args[{word}]")
        word += 1
    for number, constant in enumerate(kernel.constants):
        lines.append(f"    c{number} = {_from_word(constant.dtype, word)}")
        word += 1
    if uses_blas(kernel.body) is not None:
        lines.append(f"    blas = args[{word}]")
    lines.extend(_body(kernel.body, "    "))
    return "\n".join(lines) + "\n"


def constant_word(constant: Number) -> int:
    """Return the argument word of a constant: its bits, or the integer itself."""
    if not constant.dtype.is_float:
        return int(np.uint64(int(constant.value) & (2**64 - 1)).astype(np.int64))
    bits = np.int32 if constant.dtype is DType.F32 else np.int64
    return int(np.array(constant.value, constant.dtype.numpy).view(bits))


def _from_word(dtype: DType, word: int) -> str:
    """Return the text that reads a constant back from its argument word.

    Bits and not values, since a conversion would count a subnormal number as 0.
    """
    if dtype is DType.F32:
        return f"bitcast_i32_f32(i32(args[{word}]))"
    if dtype is DType.F64:
        return f"bitcast_i64_f64(args[{word}])"
    return f"args[{word}]" if dtype is DType.I64 else f"{SHORT[dtype]}(args[{word}])"


def _body(body: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    for stmt in body:
        match stmt:
            case Let() | Declare() | Assign():
                yield f"{indent}{stmt.var.name} = {_expr(stmt.value)}"
            case Update():
                name = stmt.var.name
                yield f"{indent}{name} = {_combine(stmt.op, name, stmt.value, reassociate=True)}"
            case Store():
                yield f"{indent}p{stmt.buffer}[{_expr(stmt.offset)}] = {_expr(stmt.value)}"
            case Accumulate():
                cell = f"p{stmt.buffer}[{_expr(stmt.offset)}]"
                yield f"{indent}{cell} = {_combine(stmt.op, cell, stmt.value, reassociate=False)}"
            case For():
                bounds = f"{_expr(stmt.start)}, {_expr(stmt.stop)}"
                if stmt.step != 1:
                    bounds += f", {stmt.step}"
                yield f"{indent}for {stmt.var.name} in range({bounds}):"
                yield from _body(stmt.body, indent + "    ")
            case Product():
                yield indent + _product(stmt)
            case _:
                assert_never(stmt)


def _combine(op: str, left: str, right: Expr, *, reassociate: bool) -> str:
    text = _expr(right)
    if op != "add":
        return f"{op}({left}, {text})"
    if right.dtype.is_float:
        return f"reassoc_add({left}, {text})" if reassociate else f"{left} + {text}"
    return f"{SHORT[right.dtype]}_add({left}, {text})"


def _product(p: Product) -> str:
    kind = SHORT[p.dtype]
    words = [
        "blas",
        str(int(p.transpose_a)),
        str(int(p.transpose_b)),
        *(_expr(e) for e in (p.m, p.n, p.k)),
        f"{kind}(1.0)",
        f"p{p.a}",
        _expr(p.a_offset),
        _expr(p.lda),
        f"p{p.b}",
        _expr(p.b_offset),
        _expr(p.ldb),
        f"{kind}({1.0 if p.accumulate else 0.0})",
        f"p{p.c}",
        _expr(p.c_offset),
        _expr(p.ldc),
    ]
    return f"gemm_{kind}({', '.join(words)})"


def _expr(expr: Expr) -> str:
    match expr:
        case Number():
            return _number(expr)
        case Var():
            return expr.name
        case Load():
            return f"p{expr.buffer}[{_expr(expr.offset)}]"
        case Apply():
            return _apply(expr)
        case _:
            assert_never(expr)


def _number(number: Number) -> str:
    if number.dtype is DType.BOOL:
        return f"b1({int(number.value)})"
    if number.dtype is DType.I64:
        return str(int(number.value))
    if not number.dtype.is_float:
        return f"{SHORT[number.dtype]}({int(number.value)})"
    if math.isnan(number.value):
        # The language has no name for NaN; its quiet bits have one.
        return (
            "bitcast_i32_f32(i32(2143289344))"
            if number.dtype is DType.F32
            else "bitcast_i64_f64(9221120237041090560)"
        )
    value = (
        "1e999"
        if number.value == math.inf
        else "-1e999"
        if number.value == -math.inf
        else repr(number.value)
    )
    return f"{SHORT[number.dtype]}({value})"


def _apply(expr: Apply) -> str:
    args = [_expr(arg) for arg in expr.args]
    kind = expr.args[-1].dtype
    match expr.op:
        case "cast":
            return f"{SHORT[expr.dtype]}({args[0]})"
        case "bitcast":
            return f"bitcast_{SHORT[kind]}_{SHORT[expr.dtype]}({args[0]})"
        case "logical_not":
            return f"(not {args[0]})"
        case "shift_right":
            shift = "lshr" if kind in (DType.U32, DType.U64) else "ashr"
            return f"{SHORT[kind]}_{shift}({', '.join(args)})"
        case _:
            pass
    plain = (
        kind.is_float
        or expr.op not in WRAPPING
        or (kind is DType.I64 and expr.op in ("add", "sub", "mul"))
    )
    if not plain:
        return f"{SHORT[kind]}_{WRAPPING[expr.op]}({', '.join(args)})"
    if expr.op in INFIX:
        return f"({args[0]} {INFIX[expr.op]} {args[1]})"
    if expr.op in LIBM:
        return f"{LIBRARY.get(expr.op, expr.op)}({', '.join(args)})"
    return f"{FLOATING[expr.op]}({', '.join(args)})"

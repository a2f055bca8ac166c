"""Which kernels are one flat loop: launches of them over neighbouring memory can become one."""

from __future__ import annotations

from workbench.loops.expression import Expr, Load, Number, Var, children
from workbench.loops.kernel import HI, LO, For, Kernel, Let, Store


def walking_buffers(kernel: Kernel) -> frozenset[int] | None:
    """Return the buffers that a flat kernel walks, the others being read at 0 only.

    None if the kernel is not one loop from ``lo`` to ``hi`` of locals and stores.
    """
    if len(kernel.body) != 1:
        return None
    loop = kernel.body[0]
    if not (isinstance(loop, For) and loop.start == LO and loop.stop == HI):
        return None
    walking: set[int] = set()
    fixed: set[int] = set()

    def visit(expr: Expr) -> bool:
        if isinstance(expr, Var):
            return expr != loop.var
        if isinstance(expr, Load):
            return place(expr.buffer, expr.offset)
        return all(visit(child) for child in children(expr))

    def place(buffer: int, offset: Expr) -> bool:
        if offset == loop.var:
            walking.add(buffer)
            return True
        if isinstance(offset, Number) and offset.value == 0:
            fixed.add(buffer)
            return True
        return False

    for stmt in loop.body:
        if isinstance(stmt, Let):
            fits = visit(stmt.value)
        elif isinstance(stmt, Store):
            fits = place(stmt.buffer, stmt.offset) and visit(stmt.value)
        else:
            fits = False
        if not fits:
            return None
    if walking & fixed or fixed & kernel.writes:
        return None
    return frozenset(walking)

"""Run kernels of the loop IR in plain numpy: the reference for compiled backends.

In: a kernel, flat arrays, extents. Out: the arrays changed. Invariant: loops run in their written
order; an innermost loop that only stores, or only combines into one local, runs as one numpy
operation, which is the same thing because scheduling let no iteration depend on another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from workbench.backends.interpreter.scalar import evaluate
from workbench.graph.dtype import DType
from workbench.loops.expression import Expr, Number, Var
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

Array = npt.NDArray[Any]
COMBINE = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


def run_kernel(
    kernel: Kernel, buffers: Sequence[Array], extents: Sequence[int], lo: int, hi: int
) -> None:
    """Run ``kernel`` for its outermost index from ``lo`` to ``hi`` - 1.

    Parameters
    ----------
    kernel
        What to run.
    buffers
        One flat array for each buffer of the kernel; those in ``kernel.writes`` are changed.
    extents
        One number for each extent of the kernel.
    lo, hi
        The share of the outermost range.
    """
    names: dict[str, Any] = {f"n{i}": np.int64(extent) for i, extent in enumerate(extents)}
    names |= {f"c{i}": c.dtype.numpy.type(c.value) for i, c in enumerate(kernel.constants)}
    names |= {"lo": np.int64(lo), "hi": np.int64(hi)}
    with np.errstate(all="ignore"):
        _Run(buffers).body(kernel.body, names)


class _Run:
    def __init__(self, buffers: Sequence[Array]) -> None:
        self.buffers = buffers

    def load(self, buffer: int, offset: Array, dtype: DType) -> Array:
        taken: Array = self.buffers[buffer][offset]
        return np.asarray(taken, dtype.numpy)

    def value(self, expr: Expr, names: Mapping[str, Any]) -> Array:
        return evaluate(expr, names, self.load)

    def integer(self, expr: Expr, names: Mapping[str, Any]) -> int:
        if isinstance(expr, Number):
            return int(expr.value)
        if isinstance(expr, Var):
            return int(names[expr.name])
        return int(self.value(expr, names))

    def body(self, body: tuple[Stmt, ...], names: dict[str, Any]) -> None:
        """Run statements; locals made here end here, updates reach the locals around."""
        made: list[str] = []
        for stmt in body:
            match stmt:
                case Let() | Declare():
                    names[stmt.var.name] = self.value(stmt.value, names)
                    made.append(stmt.var.name)
                case Update():
                    name = stmt.var.name
                    names[name] = COMBINE[stmt.op](names[name], self.value(stmt.value, names))
                case Assign():
                    names[stmt.var.name] = self.value(stmt.value, names)
                case Store():
                    self.buffers[stmt.buffer][self.value(stmt.offset, names)] = self.value(
                        stmt.value, names
                    )
                case Accumulate():
                    # `at` adds once for each repeated cell, as the loop would.
                    offset = self.value(stmt.offset, names)
                    value = self.value(stmt.value, names)
                    COMBINE[stmt.op].at(self.buffers[stmt.buffer], offset, value)
                case For():
                    self.loop(stmt, names)
                case Product():
                    self.product(stmt, names)
                case _:
                    assert_never(stmt)
        for name in made:
            del names[name]

    def loop(self, loop: For, names: dict[str, Any]) -> None:
        start, stop = self.integer(loop.start, names), self.integer(loop.stop, names)
        if stop <= start:
            return
        name = loop.var.name
        last = loop.body[-1]
        if all(isinstance(stmt, (Let, Store, Accumulate)) for stmt in loop.body):
            names[name] = np.arange(start, stop, loop.step)
            self.body(loop.body, names)
        elif isinstance(last, Update) and all(isinstance(stmt, Let) for stmt in loop.body[:-1]):
            names[name] = np.arange(start, stop, loop.step)
            made = [stmt for stmt in loop.body[:-1] if isinstance(stmt, Let)]
            for stmt in made:
                names[stmt.var.name] = self.value(stmt.value, names)
            values = np.broadcast_to(self.value(last.value, names), names[name].shape)
            combine = COMBINE[last.op]
            total = combine.reduce(values, dtype=last.var.dtype.numpy)
            names[last.var.name] = combine(names[last.var.name], total)
            for stmt in made:
                del names[stmt.var.name]
        else:
            for index in range(start, stop, loop.step):
                names[name] = np.int64(index)
                self.body(loop.body, names)
        del names[name]

    def product(self, p: Product, names: Mapping[str, Any]) -> None:
        m, n, k = (self.integer(e, names) for e in (p.m, p.n, p.k))
        a = self._matrix(p.a, p.a_offset, p.lda, (k, m) if p.transpose_a else (m, k), names)
        b = self._matrix(p.b, p.b_offset, p.ldb, (n, k) if p.transpose_b else (k, n), names)
        c = self._matrix(p.c, p.c_offset, p.ldc, (m, n), names)
        result = (a.T if p.transpose_a else a) @ (b.T if p.transpose_b else b)
        c[...] = c + result if p.accumulate else result

    def _matrix(
        self,
        buffer: int,
        offset: Expr,
        leading: Expr,
        shape: tuple[int, int],
        names: Mapping[str, Any],
    ) -> Array:
        flat = self.buffers[buffer][self.integer(offset, names) :]
        step = flat.itemsize
        return np.lib.stride_tricks.as_strided(
            flat, shape, (self.integer(leading, names) * step, step), writeable=True
        )

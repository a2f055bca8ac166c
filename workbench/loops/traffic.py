"""Which nodes a program reads from before it writes them, and which it writes.

In: a program. Out: two sets of nodes. Invariant: only the kernels are looked at, so that a program
that no computation stands behind can be linked as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.graph.tensor import Tensor
from workbench.loops.expression import Expr, Load, children
from workbench.loops.kernel import (
    Accumulate,
    Assign,
    Declare,
    For,
    Let,
    Product,
    Program,
    Stmt,
    Store,
    Update,
)


def traffic(program: Program) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the nodes on the device that are read before they are written, and those written.

    A kernel that reads a node and writes it reads it first.
    """
    read: dict[Tensor, None] = {}
    written: dict[Tensor, None] = {}
    device = set(program.device)
    for kernel in program.kernels:
        loaded = set(_loaded(kernel.body))
        for number, node in enumerate(kernel.buffers):
            if not isinstance(node, Tensor) or node not in device:
                continue
            if number in loaded and node not in written:
                read[node] = None
        for number in sorted(kernel.writes):
            node = kernel.buffers[number]
            if isinstance(node, Tensor) and node in device:
                written[node] = None
    return tuple(read), tuple(written)


def found_there(program: Program) -> frozenset[Tensor]:
    """Return the nodes that a kernel reads and does not write before any kernel has written them.

    Local ones count. A kernel that writes a node as well may read what it wrote itself.
    """
    found: set[Tensor] = set()
    written: set[Tensor] = set()
    for kernel in program.kernels:
        loaded = set(_loaded(kernel.body)) - kernel.writes
        nodes = ((node, number) for number, node in enumerate(kernel.buffers))
        touched = [(node, number) for node, number in nodes if isinstance(node, Tensor)]
        found |= {node for node, number in touched if number in loaded and node not in written}
        written |= {node for node, number in touched if number in kernel.writes}
    return frozenset(found)


def _loaded(body: Iterable[Stmt]) -> Iterator[int]:
    """Yield the numbers of the buffers that statements read."""
    for stmt in body:
        match stmt:
            case Let() | Declare() | Update() | Assign():
                yield from _loads(stmt.value)
            case Store():
                yield from _loads(stmt.offset)
                yield from _loads(stmt.value)
            case Accumulate():
                yield stmt.buffer
                yield from _loads(stmt.offset)
                yield from _loads(stmt.value)
            case For():
                yield from _loads(stmt.start)
                yield from _loads(stmt.stop)
                yield from _loaded(stmt.body)
            case Product():
                yield stmt.a
                yield stmt.b
                if stmt.accumulate:
                    yield stmt.c


def _loads(expr: Expr) -> Iterator[int]:
    if isinstance(expr, Load):
        yield expr.buffer
    for child in children(expr):
        yield from _loads(child)

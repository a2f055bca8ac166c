"""Kernels of the loop IR: loop nests over flat buffers, and the few block operations they may call.

In: fused groups of assignments. Out: what a renderer prints. Invariant: a kernel is self-contained:
buffers and extents are numbered by first use, names are canonical, so equal work has equal text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from workbench.graph.dtype import DType
from workbench.graph.extent import Extent
from workbench.graph.tensor import Tensor
from workbench.loops.expression import Expr, Number, Var


@dataclass(frozen=True, slots=True)
class Let:
    """Name a scalar that does not change."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """Make a local scalar that `Update` and `Assign` change."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Update:
    """``var = var op value``; ``op`` is ``add`` (in any order), ``maximum`` or ``minimum``."""

    var: Var
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """``var = value``."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[offset] = value``."""

    buffer: int
    offset: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """``buffer[offset] = buffer[offset] op value``."""

    buffer: int
    offset: Expr
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    """Run ``body`` for ``var`` from ``start`` to below ``stop``, ``step`` apart."""

    var: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    step: int = 1


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product by the BLAS: ``c[m, n] = (accumulate) + a[m, k] @ b[k, n]``, all row-major.

    ``transpose_a`` means that ``a`` is stored as ``(k, m)`` with leading dimension ``lda``, and so
    on; a transpose is a flag, never a copy. ``accumulate`` keeps what ``c`` holds.
    """

    dtype: DType
    transpose_a: bool
    transpose_b: bool
    m: Expr
    n: Expr
    k: Expr
    a: int
    a_offset: Expr
    lda: Expr
    b: int
    b_offset: Expr
    ldb: Expr
    c: int
    c_offset: Expr
    ldc: Expr
    accumulate: bool = False


Stmt: TypeAlias = "Let | Declare | Update | Assign | Store | Accumulate | For | Product"


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory of one chunk of a kernel, for values that never leave it; ``size`` in elements."""

    size: Extent
    dtype: DType


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: ``body`` for the outermost index from ``lo`` to ``hi``.

    Attributes
    ----------
    buffers
        Nodes whose memory the kernel touches, or scratch; the position is the number in loads and
        stores.
    dtypes
        Element type of each buffer.
    extents
        Extents passed at launch, named ``n0``, ``n1``... in ``body``.
    constants
        Numbers of the program passed at launch, named ``c0``, ``c1``...: a rate or a decay that is
        changed needs no other kernel.
    range
        Extent of the outermost index ``lo..hi``, which may be cut into chunks; 1 if there is
        nothing to cut.
    align
        Chunks are cut at multiples of this.
    body
        Statements; they use ``lo`` and ``hi``.
    writes
        Numbers of the buffers that are written.
    label
        For people: the nodes computed.
    """

    buffers: tuple[Tensor | Scratch, ...]
    dtypes: tuple[DType, ...]
    extents: tuple[Extent, ...]
    constants: tuple[Number, ...]
    range: Extent
    align: int
    body: tuple[Stmt, ...]
    writes: frozenset[int]
    label: str


LO = Var("lo")
HI = Var("hi")


@dataclass(frozen=True, slots=True)
class Program:
    """Kernels in order, with what memory each node has.

    Attributes
    ----------
    kernels
        In order of launch.
    views
        Nodes that share the memory of another: the other, at the same flat offsets.
    local
        Nodes that live only while the routine runs.
    device
        Nodes with a buffer in the context.
    """

    kernels: tuple[Kernel, ...]
    views: dict[Tensor, Tensor]
    local: tuple[Tensor, ...]
    device: tuple[Tensor, ...]

"""Lower groups of statements to kernels: loops, loads, stores, and locals for what is used twice.

In: loop trees from ``schedule``. Out: a `Program`. Invariant: names and numbers follow the order of
first use, so two groups of the same structure become the same kernel text.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.assign.assignment import Computation, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Reduce,
    Value,
    walk,
)
from workbench.assign.index import Affine, Axis, Index
from workbench.assign.show import node_names
from workbench.graph.dtype import DType
from workbench.graph.extent import Batch, Extent, count, multiply
from workbench.graph.tensor import Tensor
from workbench.loops import expression as scalar
from workbench.loops.constants import BAKED, is_textual
from workbench.loops.expand_math import expand
from workbench.loops.expression import Expr, Load, Var, add, children, integer, mul
from workbench.loops.flat import Flat, flatten
from workbench.loops.inline import inline
from workbench.loops.kernel import (
    HI,
    LO,
    For,
    Kernel,
    Let,
    Program,
    Scratch,
    Stmt,
    Store,
)
from workbench.loops.placement import BOX, WIDE, Mode, Placement
from workbench.loops.pool import Pool
from workbench.loops.product import lower_product
from workbench.loops.reduce import collapses, combine, combine_rows
from workbench.loops.schedule import Group, Loop, Node, Piece, schedule
from workbench.loops.settings import DEFAULT_SETTINGS, Settings

TYPE_NAMES = frozenset(("i32", "i64"))
"""What renderers call types, so that no loop of a kernel of many loops is called that."""

DEEP = 6
"""An expression deeper than this is split by a local, for people and for compilers."""


def lower(
    computation: Computation,
    placements: dict[Tensor, Placement],
    rows: int,
    *,
    settings: Settings = DEFAULT_SETTINGS,
) -> tuple[Program, dict[Tensor, Placement]]:
    """Return the kernels of ``computation``, and its placements as legality left them.

    Parameters
    ----------
    computation
        What to compute.
    placements
        From ``decide_placements``.
    rows
        The batch size to reckon with; kernels work for any.
    settings
        Caps.
    """
    inlined = inline(computation, placements, rows, settings)
    groups = schedule(inlined.statements, rows, settings)
    names = node_names(computation)
    names |= {s.target: s.target.label for s in inlined.statements if s.target not in names}
    views = {s.target: s.source for s in inlined.statements if isinstance(s, View)}
    roots = {target: _root(target, views) for target in views}
    uses: dict[Tensor, set[int]] = {}
    for number, group in enumerate(groups):
        for piece in group.pieces:
            for node in (piece.statement.target, *(r.node for r in piece.statement.reads())):
                uses.setdefault(roots.get(node, node), set()).add(number)
    keep = set(computation.outputs) | set(computation.updates) | set(computation.inputs)
    keep |= set(roots) | set(roots.values())
    kernels: list[Kernel] = []
    for group in groups:
        inside = {
            node
            for node in (piece.statement.target for piece in group.pieces)
            if len(uses[roots.get(node, node)]) == 1
            and node not in keep
            and inlined.placements[node].mode is Mode.LOCAL
        }
        kernels.append(_Writer(group, roots, inside, names, rows).kernel())
    touched = {b for k in kernels for b in k.buffers if isinstance(b, Tensor)}
    stored = [n for n in inlined.placements if n in touched and n not in views]
    local = tuple(n for n in stored if inlined.placements[n].mode is Mode.LOCAL)
    device = tuple(n for n in stored if inlined.placements[n].mode is not Mode.LOCAL)
    extra = tuple(
        roots.get(n, n)
        for n in (*computation.outputs, *computation.updates)
        if roots.get(n, n) not in touched
    )
    program = Program(tuple(kernels), roots, local, (*device, *dict.fromkeys(extra)))
    # Wide copies and boxes are no nodes of the computation: nobody can ask for them.
    return program, {n: p for n, p in inlined.placements.items() if n.op not in (WIDE, BOX)}


def _root(node: Tensor, views: dict[Tensor, Tensor]) -> Tensor:
    while node in views:
        node = views[node]
    return node


class _Writer:
    """Writes one kernel."""

    def __init__(
        self,
        group: Group,
        roots: dict[Tensor, Tensor],
        inside: set[Tensor],
        names: dict[Tensor, str],
        rows: int,
    ) -> None:
        self.group = group
        self.roots = roots
        self.rows = rows
        self.label = ", ".join(dict.fromkeys(names[p.statement.target] for p in group.pieces))
        self.pool = Pool()
        self.buffers: list[Tensor | Scratch] = []
        self.dtypes: list[DType] = []
        self.numbers: dict[Tensor, int] = {}
        self.extents: list[Extent] = []
        self.constants: list[scalar.Number] = []
        self.written: set[int] = set()
        self.counters = {"i": 0, "t": 0, "a": 0}
        self.env: dict[Axis, Expr] = {}
        self.blocks: list[list[Stmt]] = [[]]
        self.named: list[dict[int, Var]] = [{}]
        self.scalars: dict[Tensor, Expr] = {}
        for piece in group.pieces:
            self.env.update({a: integer(0) for a in piece.statement.axes if a.extent == 1})
        self.skips = self._contracted(inside)
        self.changing = {roots.get(p.statement.target, p.statement.target) for p in group.pieces}

    # -- which values stay inside the kernel
    # ---------------------------------------------------------------------

    def _contracted(self, inside: set[Tensor]) -> dict[Tensor, int]:
        """Return how many axes all uses share, for nodes that never leave the kernel."""
        paths: dict[Piece, tuple[Loop, ...]] = {}

        def visit(nodes: Sequence[Node], around: tuple[Loop, ...]) -> None:
            for node in nodes:
                if isinstance(node, Loop):
                    visit(node.children, (*around, node))
                else:
                    paths[node] = around

        visit(self.group.tree, ())
        skips: dict[Tensor, int] = {}
        for node in inside:
            setters = [p for p in self.group.pieces if p.statement.target is node]
            readers = [
                p for p in self.group.pieces if any(r.node is node for r in p.statement.reads())
            ]
            if len(setters) != 1 or not setters[0].statement.is_identity or setters[0].is_product:
                continue
            common = paths[setters[0]]
            for reader in readers:
                theirs = paths[reader]
                shared = 0
                while shared < min(len(common), len(theirs)) and common[shared] is theirs[shared]:
                    shared += 1
                common = common[:shared]
            covered = {setters[0].outer[level] for level in range(len(common))}
            own = [i.axis for i in setters[0].statement.index if isinstance(i, Affine)]
            # Leading axes that are shared loops, or of extent 1, need no memory.
            skip = 0
            while skip < len(own) and (own[skip] in covered or node.shape[skip] == 1):
                skip += 1
            if setters[0].by_rows and skip == len(node.shape):
                continue
            skips[node] = skip
        return skips

    # -- buffers, extents, offsets
    # ----------------------------------------------------------------------------------

    def buffer(self, node: Tensor) -> int:
        root = self.roots.get(node, node)
        if root not in self.numbers:
            skip = self.skips.get(root)
            self.numbers[root] = len(self.buffers)
            self.buffers.append(
                root if skip is None else Scratch(count(root.shape[skip:]), root.dtype)
            )
            self.dtypes.append(root.dtype)
        return self.numbers[root]

    def scratch(self, size: Extent, dtype: DType) -> int:
        """Return the number of a new buffer of each chunk's own."""
        self.buffers.append(Scratch(size, dtype))
        self.dtypes.append(dtype)
        return len(self.buffers) - 1

    def extent(self, extent: Extent, *, baked: int = BAKED) -> Expr:
        """Return an extent, stride or offset as an expression."""
        if not isinstance(extent, Batch) and -baked <= extent <= baked:
            return integer(extent)
        if extent not in self.extents:
            self.extents.append(extent)
        return Var(f"n{self.extents.index(extent)}")

    def constant(self, number: scalar.Number) -> Expr:
        """Return a number of the program as an expression: most are arguments of the kernel."""
        if is_textual(number):
            return number
        if number not in self.constants:
            self.constants.append(number)
        return Var(f"c{self.constants.index(number)}", number.dtype)

    def step(self, stride: Extent, coefficient: int) -> Expr:
        """Return ``stride * coefficient``; a symbolic stride walked backwards is no extent."""
        if isinstance(stride, Batch) and coefficient < 0:
            return mul(self.extent(stride), integer(coefficient))
        return self.extent(multiply(stride, coefficient))

    def flat(self, node: Tensor, index: tuple[Index, ...]) -> Flat:
        return flatten(node.shape, index, self.skips.get(node, 0))

    def offset(self, place: Flat) -> Expr:
        total: Expr = integer(0)
        for axis, coefficient, stride in place.strides:
            index = self.env[axis]
            if not (isinstance(index, scalar.Number) and index.value == 0):
                total = add(total, mul(index, self.step(stride, coefficient)))
        for constant, stride in place.offsets:
            total = add(total, self.extent(multiply(stride, constant)))
        for value, extent, stride in place.lookups:
            total = add(total, mul(self.row(value, extent), self.extent(stride)))
        return total

    def row(self, value: Value, extent: Extent) -> Expr:
        """Return a row that is looked up, as a number from 0 to ``extent`` - 1.

        One below 0 counts from the end; what is outside then is the nearest row.
        """
        row = scalar.apply("cast", self.value(value), dtype=DType.I64)
        top = (
            add(self.extent(extent), integer(-1))
            if isinstance(extent, Batch)
            else self.extent(extent - 1)
        )
        from_end = scalar.apply("less", row, integer(0))
        row = scalar.apply("select", from_end, add(row, self.extent(extent)), row)
        return scalar.apply("maximum", scalar.apply("minimum", row, top), integer(0))

    # -- blocks and locals

    def fresh(self, kind: str, dtype: DType = DType.I64) -> Var:
        name = f"{kind}{self.counters[kind]}"
        self.counters[kind] += 1
        return self.fresh(kind, dtype) if name in TYPE_NAMES else Var(name, dtype)

    def emit(self, stmt: Stmt) -> None:
        self.blocks[-1].append(stmt)

    def open(self) -> None:
        # Values loaded from what this kernel writes are not the same in every iteration.
        changing = {self.numbers[n] for n in self.changing if n in self.numbers}
        for scope in self.named:
            for key in [k for k in scope if self.loads_of[k] & changing]:
                del scope[key]
        self.blocks.append([])
        self.named.append({})

    def close(self, var: Var, start: Expr, stop: Expr, step: int = 1) -> None:
        self.named.pop()
        self.emit_loop(For(var, start, stop, tuple(self.blocks.pop()), step))

    def emit_loop(self, loop: For) -> None:
        if loop.body:
            self.emit(loop)

    @property
    def loads_of(self) -> dict[int, frozenset[int]]:
        return self.pool.loads_by_id

    def find(self, expr: Expr) -> Var | None:
        for scope in reversed(self.named):
            if id(expr) in scope:
                return scope[id(expr)]
        return None

    def name(self, expr: Expr) -> Var:
        """Return a local that holds ``expr``, making it here if no block around has one."""
        if isinstance(expr, Var):
            return expr
        found = self.find(expr)
        if found is not None:
            return found
        var = self.fresh("t", expr.dtype)
        self.emit(Let(var, expr))
        self.pool.loads(expr)
        self.named[-1][id(expr)] = var
        return var

    def finish(self, expr: Expr) -> Expr:
        """Return ``expr`` with what it uses twice, or nests too deep, moved into locals."""
        root = self.pool.intern(expr)
        uses: dict[int, int] = {}
        order: list[Expr] = []
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            current, expanded = stack.pop()
            if expanded:
                order.append(current)
                continue
            uses[id(current)] = uses.get(id(current), 0) + 1
            if uses[id(current)] > 1 or self.find(current) is not None:
                continue
            stack.append((current, True))
            stack.extend((child, False) for child in reversed(children(current)))
        done: dict[int, tuple[Expr, int]] = {}
        for current in order:
            below = [self._done(child, done) for child in children(current)]
            rebuilt = _with_children(current, tuple(e for e, _ in below))
            depth = 1 + max((d for _, d in below), default=0)
            trivial = isinstance(current, (scalar.Number, Var))
            if current is not root and not trivial and (uses[id(current)] > 1 or depth > DEEP):
                var = self.fresh("t", current.dtype)
                self.emit(Let(var, rebuilt))
                self.pool.loads(current)
                self.named[-1][id(current)] = var
                done[id(current)] = (var, 0)
            else:
                done[id(current)] = (rebuilt, 0 if trivial else depth)
        return self._done(root, done)[0]

    def _done(self, expr: Expr, done: dict[int, tuple[Expr, int]]) -> tuple[Expr, int]:
        known = done.get(id(expr))
        if known is not None:
            return known
        var = self.find(expr)
        assert var is not None, "an operand is finished before what uses it"
        return var, 0

    def stored(self, buffer: int) -> None:
        """Forget locals that were loaded from ``buffer``."""
        self.written.add(buffer)
        for scope in self.named:
            for key in [k for k in scope if buffer in self.loads_of[k]]:
                del scope[key]

    # -- values

    def value(self, value: Value) -> Expr:
        match value:
            case Number():
                return self.constant(scalar.number(value.value, value.dtype.computed))
            case Position():
                place: Expr = self.extent(value.index.offset)
                for axis, coefficient in value.index.terms:
                    place = add(place, mul(self.env[axis], self.extent(coefficient)))
                return (
                    place
                    if value.dtype is DType.I64
                    else scalar.apply("cast", place, dtype=value.dtype.computed)
                )
            case ExtentNumber():
                number = self.extent(value.extent)
                return (
                    number
                    if value.dtype is DType.I64
                    else scalar.apply("cast", number, dtype=value.dtype.computed)
                )
            case Read():
                return self.read(value)
            case Apply():
                return self.pool.intern(
                    expand(value.op, tuple(self.value(arg) for arg in value.args), value.dtype)
                )
            case Reduce():
                return self.reduced(value)

    def reduced(self, value: Reduce) -> Expr:
        """Return the local that holds a reduction, made here unless a block around has one."""
        same = self._as_expression(value)
        found = None if same is None else self.find(same)
        if found is not None:
            return found
        result = combine(self, value.op, value.axes, value.body, value.dtype, None)
        if same is not None:
            self.pool.loads(same)
            self.named[-1][id(same)] = result
        return self.pool.intern(result)

    def _as_expression(self, value: Reduce) -> Expr | None:
        """Return what equal reductions have in common; None if it has others inside."""
        if any(isinstance(part, Reduce) for part in walk(value.body)):
            return None
        self.env.update({axis: Var(f"r{number}") for number, axis in enumerate(value.axes)})
        span = [self.extent(axis.extent) for axis in value.axes]
        return self.pool.intern(
            scalar.Apply(f"reduce_{value.op}", (*span, self.value(value.body)), value.dtype)
        )

    def read(self, read: Read) -> Expr:
        if read.node in self.scalars:
            return self.scalars[read.node]
        offset = self.offset(self.flat(read.node, read.index))
        return self.pool.intern(Load(self.buffer(read.node), offset, read.node.dtype.computed))

    # -- statements

    def kernel(self) -> Kernel:
        only = self.group.pieces[0]
        if only.is_product:
            return self._finished(*lower_product(only, self))
        extent: Extent = 1
        align = 1
        for node in self.group.tree:
            match node:
                case Loop():
                    extent, align = self.loop(node, outermost=True), 1
                case Piece():
                    if node.outer:
                        extent, align = node.outer[-1].extent, 16
                    self.leaf(node, outermost=bool(node.outer))
        return self._finished(tuple(self.blocks[0]), extent, align)

    def _finished(self, body: tuple[Stmt, ...], extent: Extent, align: int) -> Kernel:
        return Kernel(
            tuple(self.buffers),
            tuple(self.dtypes),
            tuple(self.extents),
            tuple(self.constants),
            extent,
            align,
            body,
            frozenset(self.written),
            self.label,
        )

    def loop(self, loop: Loop, *, outermost: bool) -> Extent:
        """Write a shared loop, as one with the loop in it if memory allows; return its extent."""
        extent = loop.extent
        while len(loop.children) == 1 and isinstance(loop.children[0], Loop):
            inner = loop.children[0]
            if not self._collapses_all(loop, inner):
                break
            for axis in loop.axes:
                self.env[axis] = integer(0)
            extent = multiply(extent, inner.extent)
            loop = inner
        var = self.fresh("i")
        for axis in loop.axes:
            self.env[axis] = var
        stop = HI if outermost else self.extent(extent)
        self.open()
        scalars = dict(self.scalars)
        for child in loop.children:
            if isinstance(child, Loop):
                self.loop(child, outermost=False)
            else:
                self.leaf(child, outermost=False)
        self.scalars = scalars
        self.close(var, LO if outermost else integer(0), stop)
        return extent

    def _collapses_all(self, outer: Loop, inner: Loop) -> bool:
        for piece, a, b in zip(_pieces_of(outer), outer.axes, inner.axes, strict=True):
            statement = piece.statement
            for value in walk(statement.value):
                if isinstance(value, Position) and {a, b} & value.index.axes():
                    return False
            accesses = [(statement.target, statement.index)]
            accesses += [(r.node, r.index) for r in statement.reads()]
            places = [
                self.flat(n, i)
                for n, i in accesses
                if self.skips.get(n, -1) != len(n.shape) or not n.shape
            ]
            if not collapses(places, a, b):
                return False
        return True

    def leaf(self, piece: Piece, *, outermost: bool) -> None:
        statement = piece.statement
        if piece.by_rows:
            combine_rows(self, piece, outermost=outermost)
            return
        for axis in piece.outer:
            assert axis in self.env
        if not statement.combine:
            self._define(piece, self.value(statement.value))
            return
        start = None
        if not statement.fresh:
            start = self.finish(self.read(Read(statement.target, statement.index)))
        over = piece.combined
        if over:
            result: Expr = combine(
                self, statement.combine, over, statement.value, statement.target.dtype, start
            )
        else:
            single = self.value(statement.value)
            result = single if start is None else combined(statement.combine, start, single)
        self._define(piece, result)

    def _define(self, piece: Piece, value: Expr) -> None:
        """Give the target its value: a local if it never leaves these loops, else a store."""
        target = piece.statement.target
        if self.skips.get(target) == len(target.shape):
            self.scalars[target] = self.name(self.pool.intern(self.finish(value)))
            return
        place = self.flat(target, piece.statement.index)
        offset = self.finish(self.offset(place))
        final = self.pool.intern(self.finish(value))
        if not isinstance(final, (Var, scalar.Number)):
            final = self.name(final)  # later statements of these loops need not load it again
        buffer = self.buffer(target)
        self.emit(Store(buffer, offset, final))
        self.stored(buffer)
        if isinstance(final, Var):
            load = self.pool.intern(
                Load(buffer, self.pool.intern(self.offset(place)), target.dtype.computed)
            )
            self.pool.loads(load)
            self.named[-1][id(load)] = final


def _pieces_of(loop: Loop) -> list[Piece]:
    found: list[Piece] = []
    for child in loop.children:
        found.extend(_pieces_of(child) if isinstance(child, Loop) else [child])
    return found


def combined(op: str, left: Expr, right: Expr) -> Expr:
    """Return ``left op right`` for a combining ``op``."""
    return scalar.apply(op, left, right)


def _with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    match expr:
        case scalar.Apply():
            return expr if new == expr.args else scalar.Apply(expr.op, new, expr.dtype)
        case Load():
            return Load(expr.buffer, new[0], expr.dtype)
        case scalar.Number() | Var():
            return expr

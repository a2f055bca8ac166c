"""Where a search or a test may step into a compile: the lowered program, and the compiled code.

In: a program as lowered. Out: the program that is compiled in its place. Invariant: whatever is put
in is checked like what the engine makes itself, and refused as its maker's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

from workbench.assign.assignment import Computation
from workbench.errors import CompileError, ConfigurationError
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program
from workbench.loops.placement import Mode, Placement
from workbench.loops.settings import Settings
from workbench.loops.traffic import found_there, traffic
from workbench.loops.verify import verify

if TYPE_CHECKING:
    from workbench.backends.protocol import Executable
    from workbench.runtime.context import Context

Transform: TypeAlias = Callable[[Program], Sequence[Program]]
"""Takes a program as lowered; returns segments that run one after another instead of it."""

Placed: TypeAlias = tuple[Program, dict[Tensor, Placement]]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Seams:
    """What a caller puts into a compile.

    Attributes
    ----------
    lowered_transform
        Rewrites the lowered program before the backend sees it.
    prelowered
        Is compiled instead of what would be lowered.
    reuse
        Lowers once for several compiles.
    """

    lowered_transform: Transform | None = None
    prelowered: Program | None = None
    reuse: LoweringReuse | None = None


@final
class LoweringReuse:
    """A cell that the compiles of one search share: the first lowers, the others take its result.

    All have to be compiles of the same: context, computation, updates, rows, bindings and
    name, under the same settings.
    """

    def __init__(self) -> None:
        self._of: tuple[object, ...] | None = None
        self._lowered: Placed | None = None

    @property
    def is_filled(self) -> bool:
        """Whether a compile has left its lowering here."""
        return self._lowered is not None

    def lowered(self, request: Request, lower: Callable[[], Placed]) -> Placed:
        """Return what ``lower`` gave the first time.

        Raises
        ------
        ConfigurationError
            If this is not the same compile as the first.
        """
        if self._lowered is None or self._of is None:
            self._lowered, self._of = lower(), request.key()
        different = [
            what
            for what, ours, theirs in zip(_KEY, request.key(), self._of, strict=True)
            if ours != theirs
        ]
        if different:
            raise ConfigurationError(
                f"the reuse cell holds the lowering of another compile: {', '.join(different)} "
                "differ" + ("s" if len(different) == 1 else ""),
                remedy="use one `LoweringReuse()` for each computation of a search",
            )
        program, placements = self._lowered
        return replace(program, views=dict(program.views)), dict(placements)


_KEY: Final = (
    "the context",
    "the computation",
    "the rows",
    "the bindings",
    "the name",
    "the settings",
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What is to be compiled, checked and ready to be lowered.

    Attributes
    ----------
    context
        Where.
    made
        The computation.
    rows
        The batch size to reckon with.
    bindings
        Of static indices.
    name
        For people.
    given
        The computation as the caller gave it, None if it was made of tensors.
    """

    context: Context
    made: Computation
    rows: int
    bindings: Mapping[Tensor, int]
    name: str
    given: Computation | None = None

    def key(self) -> tuple[object, ...]:
        """Return what two compiles agree in if they are the same."""
        made = self.made
        what: object = (
            (tuple(t.uid for t in made.outputs), tuple(t.uid for t in made.updates))
            if self.given is None
            else id(self.given)
        )
        nodes = tuple(s.target.uid for s in made.statements) if self.given is None else ()
        return (
            self.context.id,
            (what, nodes),
            self.rows,
            tuple(sorted((node.uid, value) for node, value in self.bindings.items())),
            self.name,
            # How values are printed changes no program.
            replace(self.context.settings_in_force(), print_precision=2),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A computation compiled and not linked.

    Attributes
    ----------
    request
        What it was compiled from.
    program, placements, executable
        What became of it.
    settings
        Those it was compiled with.
    touched
        Nodes read before they are written and nodes written, where the kernels alone say so.
    transform, prelowered
        What the caller put into the compile.
    """

    request: Request
    program: Program
    placements: Mapping[Tensor, Placement]
    executable: Executable
    settings: Settings
    touched: tuple[frozenset[Tensor], frozenset[Tensor]] | None = None
    transform: Transform | None = None
    prelowered: Program | None = None


@final
@dataclass(slots=True, eq=False)
class RetainedCode:
    """Compiled code that can be linked once more without being compiled again.

    It holds no memory of a routine: that is taken by each link.
    """

    code: Code
    is_used: bool = field(default=False)

    def take(self, context: Context) -> Code:
        """Return the code, for the one link that it is good for.

        Raises
        ------
        ConfigurationError
            If it was linked again before, or was compiled in another context.
        """
        name = self.code.request.name
        if self.is_used:
            raise ConfigurationError(
                f"the retained code of `{name}` was linked again already",
                remedy="retain it anew: `ctx.compile_outcome(..., retain=...)`",
            )
        home = self.code.request.context
        if home is not context:
            raise ConfigurationError(
                f"the retained code of `{name}` was compiled in context {home.id}, and this is "
                f"context {context.id}",
                remedy="link it in the context that it was compiled in",
            )
        self.is_used = True
        return self.code


def lowered_by(seams: Seams, request: Request, lower: Callable[[], Placed]) -> Placed:
    """Return the program of a request before any transform."""
    if seams.prelowered is not None:
        if seams.reuse is not None:
            raise ConfigurationError(
                f"`{request.name}` was given a lowered program and a reuse cell",
                remedy="give one of `prelowered` and `reuse`",
            )
        _check(seams.prelowered, "prelowered")
        _check_written(seams.prelowered, request.made)
        return seams.prelowered, placements_of(seams.prelowered)
    return lower() if seams.reuse is None else seams.reuse.lowered(request, lower)


def placements_of(program: Program) -> dict[Tensor, Placement]:
    """Return where the nodes of a program live that was lowered elsewhere."""
    by_hand = "a program that was lowered before says so"
    return {
        **{n: Placement(Mode.ON_DEVICE, "prelowered", by_hand) for n in program.device},
        **{n: Placement(Mode.LOCAL, "prelowered", by_hand) for n in program.local},
    }


def computation_of(program: Program, name: str) -> Computation:
    """Return a computation that takes and gives what a program reads and writes."""
    read, written = traffic(program)
    inputs = set(read)
    changed = tuple(node for node in written if node in inputs)
    return Computation(
        (),
        inputs=read,
        outputs=tuple(node for node in written if node not in inputs),
        updates=changed,
        name=name,
    )


def transformed(transform: Transform, placed: Placed, asked: Iterable[Tensor]) -> Placed:
    """Return what ``transform`` makes of a program, its segments joined.

    Parameters
    ----------
    transform
        Of the caller.
    placed
        The program as lowered, and where its nodes live.
    asked
        Nodes that must have memory in the context afterwards as well.

    Raises
    ------
    CompileError
        If there are no segments, one is not well formed, what was asked for is gone or no longer
        written, or something is read before it is written.
    """
    program, placements = placed
    joined = _joined(transform(program))
    _check(joined, "lowered_transform")
    device = set(joined.device)
    lost = [node for node in asked if joined.views.get(node, node) not in device]
    if lost:
        raise CompileError(
            f"`lowered_transform` left no memory for {', '.join(repr(node) for node in lost)}",
            remedy="keep what is read, asked for or updated in `device` of a segment",
        )
    _check_traffic(program, joined)
    modes = {**dict.fromkeys(joined.local, Mode.LOCAL), **dict.fromkeys(device, Mode.ON_DEVICE)}
    return joined, {
        node: replace(place, mode=modes[node]) if place.is_stored and node in modes else place
        for node, place in placements.items()
    }


def _joined(segments: object) -> Program:
    given = cast("Sequence[object]", segments) if isinstance(segments, (list, tuple)) else ()
    listed = [each for each in given if isinstance(each, Program)]
    if not listed or len(listed) != len(given):
        raise CompileError(
            f"`lowered_transform` returned {segments!r}, which is no list of programs",
            remedy="return a list of at least one `Program`; `[program]` changes nothing",
        )
    device = dict.fromkeys(node for each in listed for node in each.device)
    local = dict.fromkeys(node for each in listed for node in each.local if node not in device)
    return Program(
        kernels=tuple(kernel for each in listed for kernel in each.kernels),
        views={view: root for each in listed for view, root in each.views.items()},
        local=tuple(local),
        device=tuple(device),
    )


def _check_traffic(before: Program, after: Program) -> None:
    """Refuse a transformed program that would show memory which nothing has written.

    Raises
    ------
    CompileError
        Naming nodes that are not written any more, or are read too early.
    """
    _, written_before = map(set, traffic(before))
    _, written = map(set, traffic(after))
    unwritten = [n for n in after.device if n in written_before and n not in written]
    if unwritten:
        raise CompileError(
            f"`lowered_transform` left no kernel that writes {_listed(unwritten)}",
            remedy="keep every kernel that writes what stays in `device`, or write it otherwise",
        )
    early = sorted(found_there(after) - found_there(before), key=lambda n: n.uid)
    if early:
        raise CompileError(
            f"the program of `lowered_transform` reads {_listed(early)} before anything writes it",
            remedy="keep the kernels in an order in which each reads what those before it wrote",
        )


def _check_written(program: Program, made: Computation) -> None:
    """Refuse a program lowered before that leaves an output or an update unwritten.

    Raises
    ------
    CompileError
        Naming the nodes, or those of the routine's own memory that are read too early.
    """
    _, written = map(set, traffic(program))
    known = written | set(made.inputs)
    asked = dict.fromkeys((*made.outputs, *made.updates))
    lacking = [n for n in asked if program.views.get(n, n) not in known]
    unwritten = [n for n in made.updates if program.views.get(n, n) not in written]
    if lacking or unwritten:
        raise CompileError(
            f"the program of `prelowered` writes no {_listed(lacking or unwritten)}",
            remedy="give a program that was lowered for this computation",
        )
    there = found_there(program)
    early = [n for n in program.local if n in there]
    if early:
        raise CompileError(
            f"the program of `prelowered` reads {_listed(early)} before anything writes it",
            remedy="order its kernels so that each reads what those before it wrote",
        )


def _listed(nodes: Iterable[Tensor]) -> str:
    return ", ".join(map(describe, nodes))


def _check(program: Program, what: str) -> None:
    try:
        verify(program)
    except AssertionError as fault:
        raise CompileError(
            f"the program of `{what}` is not well formed: {fault}",
            remedy="names are defined before use, types agree, written buffers are declared",
        ) from fault

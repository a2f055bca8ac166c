"""From tensors or a computation to a routine and the context that has memory for it.

In: a context and what is wanted of it. Out: a new context, and a routine linked to its memory.
Invariant: the context compiled in stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import LEAVES
from workbench.assign.from_graph import computation as computation_from
from workbench.errors import CompileError
from workbench.graph.elementwise import describe
from workbench.graph.nodes import nodes_from
from workbench.graph.static_index import declared_extent
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program
from workbench.loops.lower import lower
from workbench.loops.placement import Mode, Placement
from workbench.loops.policy import decide_placements
from workbench.loops.traffic import traffic
from workbench.loops.verify import verify
from workbench.runtime.aliasing import share_by_liveness
from workbench.runtime.collection import collection_paused
from workbench.runtime.frontier import link
from workbench.runtime.lifecycle import Unit
from workbench.runtime.linking import LinkPlan, link_floor, linked_buffers, plan_link
from workbench.runtime.merging import check_transfer, merged_inputs, slab_of
from workbench.runtime.outcome import Phase, Reached, count_backend_compile
from workbench.runtime.ownership import check_ownership
from workbench.runtime.routine import Conditions, Routine
from workbench.runtime.seams import (
    Code,
    Request,
    RetainedCode,
    Seams,
    computation_of,
    lowered_by,
    transformed,
)

if TYPE_CHECKING:
    from workbench.runtime.context import Context

Wanted: TypeAlias = Computation | Iterable[Tensor] | Program

DEFAULT_ROWS: Final = 32
"""Batch size to reckon with where nobody said one."""

NO_SEAMS: Final = Seams()
"""A compile that nobody steps into."""


@collection_paused()
def compile_code(
    context: Context,
    wanted: Computation | Iterable[Tensor],
    *,
    name: str,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
    bindings: Mapping[Tensor, int] | None,
    seams: Seams = NO_SEAMS,
    reached: Reached | None = None,
) -> Code:
    """Return what is wanted as compiled code, which takes no memory of the context yet.

    Parameters are those of `workbench.runtime.context.Context.compile`; ``reached`` is told how far
    this has come.
    """
    at = Reached() if reached is None else reached
    context.unit.check_live()
    given = wanted if isinstance(wanted, Computation) else None
    made, expected = as_computation(wanted, updates, name), expected_rows(rows)
    title = name or made.name or "routine"
    if seams.prelowered is not None and not made.statements:
        made = computation_of(seams.prelowered, title)
    # An empty mapping may be filled later.
    request = Request(
        context, made, expected, {} if bindings is None else bindings, title, given=given
    )
    _check_request(request)
    placed = lowered_by(seams, request, lambda: lowered(context, made, expected))
    if seams.lowered_transform is not None:
        at.phase = Phase.TRANSFORM
        device = set(placed[0].device)
        known = (*made.inputs, *made.outputs, *made.updates)
        asked = [node for node in known if placed[0].views.get(node, node) in device]
        placed = transformed(seams.lowered_transform, placed, asked)
    at.phase = Phase.BACKEND_CODEGEN
    program, placements = placed
    executable = context.backend.compile(program)
    count_backend_compile()
    touched = None
    if seams.prelowered is not None:
        read, written = traffic(program)
        touched = frozenset(read), frozenset(written)
    caps = context.settings_in_force()
    return Code(
        request,
        program,
        placements,
        executable,
        caps,
        touched,
        seams.lowered_transform,
        seams.prelowered,
    )


def compile_routine(
    context: Context,
    wanted: Computation | Iterable[Tensor],
    *,
    name: str,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
    bindings: Mapping[Tensor, int] | None,
    seams: Seams = NO_SEAMS,
) -> tuple[Context, Routine]:
    """Return a context with memory for the routine, and the routine.

    Parameters are those of `workbench.runtime.context.Context.compile`.
    """
    return link_code(
        compile_code(
            context,
            wanted,
            name=name,
            updates=updates,
            rows=rows,
            bindings=bindings,
            seams=seams,
        )
    )


def link_code(code: Code) -> tuple[Context, Routine]:
    """Return a context with memory for compiled code, and the code as a routine of its own."""
    request = code.request
    context, made, title = request.context, request.made, request.name
    linked = link(
        context.ledger,
        context.frontier,
        title,
        made,
        code.program,
        request.bindings,
        touched=code.touched,
    )
    unit = Unit(context.unit)
    routine = Routine(
        title,
        made,
        code.program,
        code.executable,
        code.placements,
        context.backend,
        unit,
        linked,
        Conditions(code.settings, request.rows, context.frontier, code.transform, code.prelowered),
    )
    if merged_inputs(made):
        slab_of(context).await_(routine)
    return _linked(context, routine, unit), routine


def relink(
    context: Context, retained: RetainedCode, reached: Reached | None = None
) -> tuple[Context, Routine]:
    """Return retained code linked once more; see `workbench.runtime.context.Context.relink`."""
    context.unit.check_live()
    code = retained.take(context)
    _check_request(code.request)
    if reached is not None:
        reached.phase = Phase.BACKEND_LINK
    return link_code(code)


def _check_request(request: Request) -> None:
    """Refuse what cannot be compiled in the lineage as it stands."""
    context, made, title = request.context, request.made, request.name
    check_ownership(context.frontier, made, title)
    _check_inputs(context, made, title)
    _check_bindings(request.bindings, title)
    check_transfer(context, made, title)


def _check_inputs(context: Context, made: Computation, name: str) -> None:
    """Refuse a computation that reads a computed node which nothing here holds or makes."""
    known = context.buffers.keys() | context.frontier.writers.keys() | context.frontier.views.keys()
    lacking = [node for node in made.inputs if node.op not in LEAVES and node not in known]
    if lacking:
        raise CompileError(
            f"`{name}` reads {', '.join(map(describe, lacking))} as given, and this context lacks "
            f"{'it' if len(lacking) == 1 else 'them'}",
            remedy="compile what computes it in this lineage first, copy it here, or let this "
            "computation compute it",
        )


def _check_bindings(bindings: Mapping[Tensor, int], name: str) -> None:
    for node in bindings:
        if declared_extent(node) is None:
            raise CompileError(
                f"`{name}`: {describe(node)} is bound at launch, and is no static index",
                remedy="make it with `wb.static_index(label, extent)`, or set its value with "
                "`ctx.set_values`",
            )


def as_computation(
    wanted: Computation | Iterable[Tensor],
    updates: Mapping[Tensor, Tensor] | None,
    name: str = "",
) -> Computation:
    """Return what is wanted as a computation."""
    if isinstance(wanted, Computation):
        return wanted
    return computation_from(nodes_from("wanted", wanted), updates, name=name)


def expected_rows(rows: int | None) -> int:
    """Return the batch size to reckon with."""
    return DEFAULT_ROWS if rows is None else max(1, rows)


def lowered(
    context: Context, made: Computation, expected: int
) -> tuple[Program, dict[Tensor, Placement]]:
    """Return the program of a computation compiled in ``context``, and where its nodes live."""
    context.unit.check_live()
    caps = context.settings_in_force()
    chosen = decide_placements(
        made,
        expected,
        decided=stored_decisions(context),
        preferences=context.preferences,
        settings=caps,
    )
    program, placements = lower(made, chosen, expected, settings=caps)
    if caps.buffer_aliasing:
        program, placements = share_by_liveness(program, placements, made, kept=context.buffers)
    verify(program)
    return program, placements


def link_request(
    context: Context,
    wanted: Wanted,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
    *,
    floor: bool = False,
) -> LinkPlan:
    """Return what linking would request; nothing is compiled, linked or allocated.

    Parameters
    ----------
    context
        Where to link.
    wanted, updates, rows
        As for `workbench.runtime.context.Context.link_delta`.
    floor
        Whether to count only what every way of compiling needs; not of a program as lowered.
    """
    device = context.backend.device
    if isinstance(wanted, Program):
        context.unit.check_live()
        return plan_link(wanted.device, context.buffers, device)
    made = as_computation(wanted, updates)
    program, _ = lowered(context, made, expected_rows(rows))
    if floor:
        return link_floor(program, made, context.buffers, device)
    return plan_link(program.device, context.buffers, device)


MATERIALIZED: Final = Placement(Mode.ON_DEVICE, "66", "this context decided to store it")


def stored_decisions(context: Context) -> dict[Tensor, Placement]:
    """Return decisions that bind later routines: what lies on the device stays there.

    So does what the lineage decided to store, whatever a routine before has made of it. Whether a
    node shares its bytes is decided by each routine for itself.
    """
    return {
        **dict.fromkeys(context.preferences.materialized, MATERIALIZED),
        **{
            node: replace(place, is_aliased=False) if place.is_aliased else place
            for node, place in context.placements.items()
            if place.mode is Mode.ON_DEVICE
        },
    }


def _linked(context: Context, routine: Routine, unit: Unit) -> Context:
    """Return the context with memory for what the routine needs on the device."""
    buffers, initialized = linked_buffers(context, routine.program, routine.groups)
    return context.derived(
        f"compile {routine.name}",
        unit=unit,
        stage=0,
        buffers=buffers,
        initialized=initialized,
        placements={**context.placements, **routine.placements},
        frontier=routine.link.frontier,
    )

"""Compiles and runs that give back a failure instead of raising it.

In: what `compile` and `run` take. Out: an `Outcome`. Invariant: what is not one candidate's fault
is raised: a released context, an order of runs, an interrupt; a failure that may have left values
half written condemns the lineage, as it does in `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from workbench.assign.assignment import Computation
from workbench.errors import DeviceMemoryError, ExecutionError
from workbench.graph.tensor import Tensor
from workbench.runtime.compiling import compile_code, link_code, relink
from workbench.runtime.outcome import Failure, Outcome, Phase, Reached, blames, classify
from workbench.runtime.routine import Routine
from workbench.runtime.runnable import check_launch_bindings, check_lineage_runnable
from workbench.runtime.running import run_routine
from workbench.runtime.seams import Code, RetainedCode, Seams

if TYPE_CHECKING:
    from workbench.runtime.context import Context

Compiled: TypeAlias = "tuple[Context, Routine]"


def compile_outcome(
    context: Context,
    wanted: Computation | Iterable[Tensor],
    *,
    name: str,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
    bindings: Mapping[Tensor, int] | None,
    seams: Seams,
    retain: Callable[[RetainedCode], None] | None,
) -> Outcome[Compiled]:
    """Compile, and return what failed in a transform, the code generator or the link.

    Parameters are those of `workbench.runtime.context.Context.compile_outcome`.
    """
    codes: list[Code] = []

    def attempt(reached: Reached) -> Compiled:
        code = compile_code(
            context,
            wanted,
            name=name,
            updates=updates,
            rows=rows,
            bindings=bindings,
            seams=seams,
            reached=reached,
        )
        codes.append(code)
        reached.phase = Phase.BACKEND_LINK
        return link_code(code)

    outcome = _contained(context, attempt)
    if outcome.made is not None and retain is not None:
        try:
            retain(RetainedCode(codes[0]))
        except BaseException:  # whatever a person's function raised: the routine is not kept
            outcome.made[0].release()
            raise
    return outcome


def relink_outcome(context: Context, retained: RetainedCode) -> Outcome[Compiled]:
    """Link retained code again, and return a failure of the link.

    Parameters are those of `workbench.runtime.context.Context.relink`.
    """
    context.unit.check_live()
    return _contained(context, lambda reached: relink(context, retained, reached))


def run_outcome(context: Context, routine: Routine, rows: int | None) -> Outcome[Context]:
    """Run, and return what failed in the bindings, the launch or the wait for it.

    Parameters are those of `workbench.runtime.context.Context.run_outcome`.
    """
    check_lineage_runnable(context, routine)
    reached = Reached()
    try:
        check_launch_bindings(context, routine, rows)
    except ExecutionError as error:
        return Outcome(None, Failure(Phase.PREFLIGHT, error, is_candidates=True))
    try:
        ran = run_routine(context, routine, rows, reached=reached)
        reached.phase = Phase.SYNC
        return Outcome(ran.sync())
    except Exception as error:  # drivers have no common base; what is no candidate's fault passes
        phase = reached.phase
        if phase is None:
            if not isinstance(error, DeviceMemoryError):
                raise
            phase = Phase.PREFLIGHT
        is_candidates = classify(phase, error, blames(context.backend.device.kind))
        return Outcome(None, Failure(phase, error, is_candidates))


def _contained(context: Context, attempt: Callable[[Reached], Compiled]) -> Outcome[Compiled]:
    reached = Reached()
    try:
        return Outcome(attempt(reached))
    except Exception as error:  # the same: backends raise what they like
        phase = reached.phase
        if phase is None or not classify(phase, error, blames(context.backend.device.kind)):
            raise
        return Outcome(None, Failure(phase, error, is_candidates=True))

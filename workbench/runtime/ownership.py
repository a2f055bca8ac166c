"""Gradients have owners: what a lineage cannot keep correct is refused before it is computed.

In: what computations declare of gradients. Out: nothing, or a refusal that names gradient and
routines. Invariant: only what is declared counts; writes by hand are the writer's own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.assign.assignment import Computation
from workbench.errors import CompileError, ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.runtime.frontier import Frontier, is_whole

if TYPE_CHECKING:
    from workbench.runtime.context import Context
    from workbench.runtime.routine import Routine


def check_ownership(frontier: Frontier, computation: Computation, name: str) -> None:
    """Refuse a computation whose gradients the lineage cannot keep correct.

    Raises
    ------
    CompileError
        If it owns a backward fragment that a routine of the lineage owns already, unless both are
        whole ways back from their losses; if it accumulates into a gradient that another one
        accumulates into, and the two cannot be kept apart; or if what it contributes to has been
        propagated by a routine before it.
    """
    if not frontier.claims:
        return
    _refuse_second_owner(frontier, computation, name)
    for gradient in sorted(computation.accumulates, key=lambda each: each.uid):
        _refuse_second_contributor(frontier, computation, gradient, name)
    _refuse_late_contributor(frontier, computation, name)


def _refuse_second_owner(frontier: Frontier, computation: Computation, name: str) -> None:
    whole = is_whole(computation)
    taken = [
        (node, claim)
        for claim in frontier.claims
        for node in claim.owned
        if node in computation.owned and not (whole and claim.is_whole)
    ]
    if taken:
        taken.sort(key=lambda pair: pair[0].uid)
        listed = ", ".join(f"that of {describe(node)} is in {claim}" for node, claim in taken)
        raise CompileError(
            f"`{name}` carries backward fragments that this lineage has already: {listed}; a "
            "second copy would count the gradient twice",
            remedy=f"run {taken[0][1]} again; or compile the alternative as a sibling, in a "
            "context that does not come from the one in which that was compiled",
        )


def _refuse_second_contributor(
    frontier: Frontier, computation: Computation, gradient: Tensor, name: str
) -> None:
    claims = frontier.claims
    whole = is_whole(computation)
    resets = gradient in computation.zeroes
    adding = [
        place
        for place, claim in enumerate(claims)
        if gradient in claim.accumulates
        # A whole gradient in the place of another, or the same one compiled again: no sum of both.
        and not (whole and claim.is_whole and (resets or claim.owned <= computation.owned))
    ]
    if not adding:
        return
    zeroing = [place for place, claim in enumerate(claims) if gradient in claim.zeroes]
    kept_apart = (
        gradient not in computation.zeroes
        and not any(gradient in claims[place].zeroes for place in adding)
        and zeroing
        and max(zeroing) < adding[0]
    )
    if not kept_apart:
        if gradient in computation.zeroes:
            why = f"`{name}` zeroes it before it adds, which loses what was there"
        elif any(gradient in claims[place].zeroes for place in adding):
            why = f"{claims[adding[0]]} zeroes it as well, which loses what `{name}` adds"
        elif zeroing:
            why = f"{claims[max(zeroing)]}, which zeroes it, was compiled after {claims[adding[0]]}"
        else:
            why = "nothing in this lineage zeroes it on its own"
        raise CompileError(
            f"`{name}` adds to the gradient {describe(gradient)}, and so does "
            f"{claims[adding[0]]} of this lineage; {why}: the sum would be neither loss's gradient",
            remedy="compute the gradient of the sum of the losses in one routine; or compile "
            "`zero_params_grads` first, and then a `grad_update` with `accum_steps` for each loss",
        )


def _refuse_late_contributor(frontier: Frontier, computation: Computation, name: str) -> None:
    for claim in frontier.claims:
        late = claim.owned & computation.requires - computation.owned
        if late:
            node = min(late, key=lambda each: each.uid)
            raise CompileError(
                f"`{name}` adds to the gradient of {describe(node)}, which {claim} has propagated "
                "already: what is added would never reach the parameters",
                remedy=f"compile `{name}` first and `{claim.name}`, which propagates, last",
            )


def check_required(context: Context, routine: Routine) -> None:
    """Refuse a run whose gradients nothing in the lineage would propagate.

    The lineage is the context's if it comes from the routine's compile, so that an owner compiled
    later counts; else it is the routine's own.

    Raises
    ------
    ExecutionError
        Naming the node without an owner, and owners outside the lineage.
    """
    known = context.frontier.claims
    if all(claim.id != routine.id for claim in known):
        known = routine.link.frontier.claims
    owned = frozenset[Tensor]().union(*(claim.owned for claim in known))
    missing = routine.computation.requires - owned
    if not missing:
        return
    node = min(missing, key=lambda each: each.uid)
    outside = [
        f"`{other.name}` (id={other.id})"
        for other in sorted(context.ledger.routines.values(), key=lambda each: each.id)
        if node in other.computation.owned
    ]
    siblings = (
        f"; {', '.join(outside)} of another branch carries it, and a sibling does not count"
        if outside
        else ""
    )
    raise ExecutionError(
        f"`{routine.name}` writes into the gradient of {describe(node)}, and no routine of its "
        f"lineage carries the code that propagates it: it would be dropped{siblings}",
        remedy="compile the one routine in the context that the compile of the other returned",
    )


def check_reset(context: Context, routine: Routine) -> None:
    """Refuse a run that would add to a gradient which holds the sum of an earlier step.

    Raises
    ------
    ExecutionError
        Naming the gradient and what zeroes it.
    """
    allowed = routine.computation.accumulation_runs
    dispatch = routine.dispatch
    accumulation = context.ledger.accumulation
    if (
        dispatch is not None
        and dispatch.buffers is context.buffers
        and dispatch.version == accumulation.version
        and dispatch.added_tally is not None
        and dispatch.added_tally.runs.get(routine.link.counted_as, 0) < allowed
    ):
        return
    for gradient in routine.link.accumulating:
        buffer = context.buffers.get(gradient)
        if buffer is None:
            continue
        runs = accumulation.runs(buffer.record, routine.link.counted_as)
        if runs < allowed:
            continue
        zeroing = [str(c) for c in context.frontier.claims if gradient in c.zeroes]
        how = f"run {' or '.join(zeroing)} first" if zeroing else "set it with `ctx.set_values`"
        times = "once" if runs == 1 else f"{runs} times"
        raise ExecutionError(
            f"`{routine.name}` has added to the gradient {describe(gradient)} {times} since it was "
            f"reset, and may do so {allowed} times: another run would add this step's gradient to "
            "that of the step before",
            remedy=f"{how}; or build it with `accum_steps`, if it is to add up that many",
        )

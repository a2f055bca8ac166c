"""A routine compiled once more, with a decision, to see what it would be like.

In: a context, a routine of its lineage, an offer. Out: another context and routine, what a step of
it takes. Invariant: memory, placements and ledger of the context given stay as they are; the new
one has memory of its own, into which the values are copied; what is lent to the one given, such as
the rows of a data set, is lent to it as well.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from workbench.assign.assignment import Computation
from workbench.errors import ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.loops.policy import decide_placements
from workbench.loops.settings import Settings, settings
from workbench.runtime.frontier import Frontier
from workbench.runtime.ledger import Ledger
from workbench.runtime.lifecycle import Unit
from workbench.runtime.offer import Cost, Offer
from workbench.runtime.reading import batch_rows
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context

MEASURED_S: Final = 0.02
"""One measurement of a step runs it for about so long, and is the best of `MEASUREMENTS`."""
MEASUREMENTS: Final = 5


@final
class Trial:
    """A routine to be compiled once more.

    Parameters
    ----------
    context
        Whose values it starts with.
    routine
        Compiled in its lineage.
    """

    def __init__(self, context: Context, routine: Routine) -> None:
        self.context = context
        self.routine = routine
        self.rows = batch_rows(context)

    def compiled(self, offer: Offer | None) -> tuple[Context, Routine]:
        """Return a context with memory of its own, and the routine compiled in it.

        Parameters
        ----------
        offer
            What is decided before; None for nothing.

        Raises
        ------
        ExecutionError
            If a setting is to be raised, and no value of it makes a difference.
        """
        of_routine = self.routine.placements
        others = {n: p for n, p in self.context.placements.items() if n not in of_routine}
        lent = {node: buffer for node, buffer in self.context.buffers.items() if buffer.lent}
        fork = self.context.derived(
            "why" if offer is None else f"why: {offer.label}",
            buffers=lent,
            initialized=self.context.initialized & lent.keys(),
            placements=others,
            ledger=Ledger(),
            frontier=Frontier(),
            unit=Unit(),
            stage=0,
        )
        wanted = self.routine.computation
        if offer is not None:
            fork = self._decided(fork, wanted, offer)
        # With settings of its own a context would keep them for all that is compiled in it later.
        with self._as_before():
            fork, routine = fork.compile(
                wanted,
                name=self.routine.name,
                rows=self.routine.conditions.rows,
                bindings=self.routine.link.bindings,
            )
        stored = self.context.initialized & self.context.buffers.keys()
        # A view follows what it is a view of, and what has become local can hold nothing.
        settable = stored - lent.keys() - fork.frontier.views.keys() - set(routine.program.local)
        values = {node: self.context.buffers[node].view() for node in settable}
        return fork.set_values(cast("dict[Tensor, Any]", values)), routine

    def _decided(self, fork: Context, wanted: Computation, offer: Offer) -> Context:
        match offer.action:
            case "materialize":
                return fork.decide_materialized(offer.node)
            case "inline":
                return fork.decide_inline(offer.node)
            case "footprint":
                return fork.decide_footprint(offer.node)
            case "raise":
                return replace(fork, settings=self._raised(fork, wanted, offer))
            case "switch off":
                changed = cast("dict[str, Any]", {offer.setting: False})
                return replace(fork, settings=replace(self._settings(), **changed))
            case _:
                return fork

    def _settings(self) -> Settings:
        return self.routine.conditions.settings

    def _as_before(self) -> AbstractContextManager[Settings]:
        """Return a block in which settings are those that the routine was compiled with."""
        return settings(**cast("Any", asdict(self._settings())))

    def _raised(self, fork: Context, wanted: Computation, offer: Offer) -> Settings:
        """Return the settings with the least power of two that keeps the node virtual."""
        known = self._settings()
        value = int(getattr(known, offer.setting))
        for _ in range(31):
            value = max(2 * value, 1)
            raised = replace(known, **cast("dict[str, Any]", {offer.setting: value}))
            chosen = decide_placements(wanted, self.routine.conditions.rows, settings=raised)
            if not chosen[offer.node].is_stored:
                return raised
        raise ExecutionError(
            f"{describe(offer.node)} is stored whatever `{offer.setting}` is",
            remedy="store it where it can be read: `apply('materialize')`",
        )

    def measured(self, offer: Offer | None) -> Cost:
        """Return what a step takes with ``offer`` taken, on copies of the values.

        Raises
        ------
        ExecutionError
            As `compiled` does.
        """
        context, routine = self.compiled(offer)
        rows = self.rows
        scratch = routine.local_bytes(rows)
        # What a static index is bound to is looked up by `run`, which does more than the step.
        if not can_run(context, routine) or routine.link.indices:
            return Cost(stored_bytes(context), scratch, None)
        ready, rows = context.prepared(routine, rows)
        bound = routine.bind(rows, ready.arrays())
        control = np.zeros(8, np.int64)
        began = perf_counter()
        bound.run(1, control)
        times = max(1, int(MEASURED_S / max(perf_counter() - began, 1e-7)))
        best = np.inf
        for _ in range(MEASUREMENTS):
            began = perf_counter()
            bound.run(times, control)
            best = min(best, (perf_counter() - began) / times)
        return Cost(stored_bytes(ready), scratch, float(best))


def can_run(context: Context, routine: Routine) -> bool:
    """Return whether all that ``routine`` reads has values in ``context``."""
    return routine.link.required <= context.initialized


def stored_bytes(context: Context) -> int:
    """Return the bytes of all values that ``context`` has memory for."""
    return sum(buffer.view().nbytes for buffer in context.buffers.values())

"""A routine compiled once more, with a decision, to see what it would be like.

In: a context, a routine of its lineage, an offer. Out: another context and routine, what a step of
it takes. Invariant: memory, placements and ledger of the context given stay as they are; the new
one has memory of its own, into which the values are copied; what is lent to the one given, such as
the rows of a data set, is lent to it as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import LEAVES
from workbench.errors import ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Mode
from workbench.loops.policy import decide_placements
from workbench.loops.preference import CHOICES, as_choice
from workbench.loops.settings import Settings, settings
from workbench.runtime.buffer import Buffer, rows_for
from workbench.runtime.compiling import lowered, stored_decisions
from workbench.runtime.decision_surface import DecisionSurface, decision_surface
from workbench.runtime.decisions import lineage_of
from workbench.runtime.ledger import Ledger
from workbench.runtime.lifecycle import Unit
from workbench.runtime.memory import arena
from workbench.runtime.merging import check_merged, with_merged
from workbench.runtime.observe import Observability, Walk
from workbench.runtime.offer import Cost, Offer
from workbench.runtime.reading import batch_rows, stored
from workbench.runtime.routine import Routine
from workbench.runtime.seams import transformed

if TYPE_CHECKING:
    from workbench.runtime.context import Context

MEASURED_S: Final = 0.02
"""One measurement of a step runs it for about so long, and is the best of `MEASUREMENTS`."""
MEASUREMENTS: Final = 5


@final
@dataclass(frozen=True, slots=True)
class Predicted:
    """What an offer would lead to.

    Attributes
    ----------
    verdict
        How the node asked about could be read, once the routine has run.
    lost
        Nodes of the routine that can be read now and could not then.
    """

    verdict: Observability
    lost: tuple[Tensor, ...]


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
        conditions, wanted = self.routine.conditions, self.routine.computation
        decided = self._decided(offer)
        fork = self.context.derived(
            "why" if offer is None else f"why: {offer.label}",
            buffers=decided.buffers,
            initialized=decided.initialized,
            placements=decided.placements,
            preferences=decided.preferences,
            settings=decided.settings,
            ledger=decided.ledger,
            frontier=decided.frontier,
            unit=decided.unit,
            stage=0,
        )
        fork = with_merged(self.context, fork, wanted)
        # What is taken as given is there before the compile, which asks for it.
        fork = with_values(self.context, fork, self._stored() & {*wanted.inputs} - _leaves(wanted))
        # With settings of its own a context would keep them for all that is compiled in it later.
        with self._as_before():
            fork, routine = fork.compile(
                wanted,
                name=self.routine.name,
                rows=conditions.rows,
                bindings=self.routine.link.bindings,
                lowered_transform=conditions.transform,
                prelowered=conditions.prelowered,
            )
        # A view follows what it is a view of, and what has become local can hold nothing.
        settable = self._stored() - fork.frontier.views.keys() - set(routine.program.local)
        fork = with_values(self.context, fork, settable)
        # Owners of gradients that were compiled after the routine count when it runs.
        known = {claim.id for claim in fork.frontier.claims} | {self.routine.id}
        later = [claim for claim in self.context.frontier.claims if claim.id not in known]
        frontier = replace(fork.frontier, claims=(*fork.frontier.claims, *later))
        return replace(fork, frontier=frontier), routine

    def predicted(self, offer: Offer, node: Tensor) -> Predicted:
        """Return how nodes could be read after ``offer``; nothing is compiled.

        Parameters
        ----------
        offer
            What is decided before.
        node
            The node asked about.

        Raises
        ------
        WorkbenchError
            If a compile would be refused, or no value of a setting makes a difference.
        """
        routine, context = self.routine, self.context
        conditions, wanted = routine.conditions, routine.computation
        if offer.action == "run":
            program, placements = routine.program, routine.placements
            others = context.placements
        else:
            fork = self._decided(offer)
            check_merged(context, wanted)
            if conditions.prelowered is not None:
                raise ExecutionError(
                    "the program was given as lowered, and is not lowered once more",
                    remedy="compile it without `prelowered`",
                )
            with self._as_before():
                program, placements = lowered(fork, wanted, conditions.rows)
            if conditions.transform is not None:
                device = set(program.device)
                known = (*wanted.inputs, *wanted.outputs, *wanted.updates)
                asked = [each for each in known if program.views.get(each, each) in device]
                program, placements = transformed(
                    conditions.transform, (program, placements), asked
                )
            others = fork.placements
        device, views = set(program.device), program.views
        held = self._stored() - views.keys() - set(program.local)
        targets = {views.get(each.target, each.target) for each in wanted.statements} & device
        made = {*wanted.outputs, *wanted.updates, *targets, *routine.link.required}
        made |= {each for each, root in views.items() if root in targets and each in placements}
        held |= {
            each
            for each, place in placements.items()
            if place.mode is Mode.ON_DEVICE and views.get(each, each) in targets
        }
        walk = Walk(held | made, {**others, **placements})
        rows = self.rows or conditions.rows
        before = context.observabilities(routine.placements)
        lost = [
            verdict.node
            for verdict in before
            if verdict.is_readable and not walk.answer(verdict.node, lambda: rows).is_readable
        ]
        return Predicted(walk.answer(node, lambda: rows), tuple(lost))

    def surface(self) -> DecisionSurface:
        """Return what could be decided about the routine, beside what was decided already."""
        with self._as_before():
            return decision_surface(
                self._decided(None),
                self.routine.computation,
                updates=None,
                rows=self.routine.conditions.rows,
            )

    def _stored(self) -> frozenset[Tensor]:
        return stored(self.context)

    def _decided(self, offer: Offer | None) -> Context:
        """Return the context to compile in, without values, as a thing to ask only.

        It has what binds the routine's compile: decisions, settings, what routines before it left.
        """
        of_routine, context = self.routine.placements, self.context
        lent = {node: buffer for node, buffer in context.buffers.items() if buffer.lent}
        frontier, ledger = self.routine.conditions.frontier, Ledger()
        # What ran before has left its values, which are taken over; what has not left none.
        ledger.executed.update(frontier.writers.values(), *frontier.readers.values())
        fork = replace(
            context,
            buffers=lent,
            initialized=context.initialized & lent.keys(),
            placements={n: p for n, p in context.placements.items() if n not in of_routine},
            ledger=ledger,
            frontier=frontier,
            unit=Unit(),
            stage=0,
        )
        if offer is None:
            return fork
        if offer.action in CHOICES:
            decided = lineage_of(fork).with_choice(as_choice(offer.action), [offer.node])
            return replace(fork, preferences=decided.preferences)
        if offer.action == "raise":
            return replace(fork, settings=self._raised(fork, offer))
        if offer.action == "switch off":
            changed = cast("dict[str, Any]", {offer.setting: False})
            return replace(fork, settings=replace(self._settings(), **changed))
        return fork

    def _settings(self) -> Settings:
        return self.routine.conditions.settings

    def _as_before(self) -> AbstractContextManager[Settings]:
        """Return a block in which settings are those that the routine was compiled with."""
        return settings(**cast("Any", asdict(self._settings())))

    def _raised(self, fork: Context, offer: Offer) -> Settings:
        """Return the settings with the least power of two that keeps the node virtual."""
        known = self._settings()
        value = int(getattr(known, offer.setting))
        for _ in range(31):
            value = max(2 * value, 1)
            raised = replace(known, **cast("dict[str, Any]", {offer.setting: value}))
            chosen = decide_placements(
                self.routine.computation,
                self.routine.conditions.rows,
                decided=stored_decisions(fork),
                preferences=fork.preferences,
                settings=raised,
            )
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
        scratch = routine.local_bytes(rows or routine.conditions.rows)
        # What a static index is bound to is looked up by `run`, which does more than the step.
        if not self.can_run(context, routine) or routine.link.indices:
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

    def can_run(self, context: Context, routine: Routine) -> bool:
        """Return whether ``routine`` could be run in ``context`` now."""
        try:
            context.check_runnable(routine, rows=self.rows)
        except ExecutionError:
            return False
        return True


def with_values(source: Context, target: Context, nodes: Iterable[Tensor]) -> Context:
    """Return ``target`` with the values that ``nodes`` have in ``source``, in its own memory.

    Unlike `Context.set_values` it takes what routines computed as well: the values are of one
    moment, and belong together.
    """
    buffers, device = dict(target.buffers), target.backend.device
    known: set[Tensor] = set()
    for node in nodes:
        held, there = source.buffers[node], buffers.get(node)
        known.add(node)
        if held.lent or held.array is (None if there is None else there.array):
            continue
        if held.constant is not None:
            buffers[node] = replace(held, lent=True, constant=None)
            continue
        if there is None or there.shape != held.shape or there.constant is not None:
            memory = arena([node], rows_for(node, held.shape), device)[node]
            there = buffers[node] = Buffer(memory, held.shape)
        there.view()[...] = held.view()
        target.ledger.write(there.record)
    return replace(target, buffers=buffers, initialized=target.initialized | known)


def _leaves(wanted: Computation) -> set[Tensor]:
    return {node for node in wanted.inputs if node.op in LEAVES}


def stored_bytes(context: Context) -> int:
    """Return the bytes of all values that ``context`` has memory for."""
    return sum(buffer.view().nbytes for buffer in context.buffers.values())

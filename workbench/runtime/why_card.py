"""Why a node lives where it does, what could be done about it, and what that would cost.

In: a node, a context, the routine that computes it. Out: sentences, offers, and what an offer gave.
Invariant: the context asked is never changed. An offer that is taken gives another context, with
memory of its own and copies of the values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from workbench.assign.assignment import Computation
from workbench.errors import ConfigurationError, ExecutionError
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, count, resolve
from workbench.graph.markup import Content, Markup, card, element
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Mode
from workbench.loops.policy import decide_placements
from workbench.loops.settings import Settings
from workbench.runtime.frontier import Frontier
from workbench.runtime.ledger import Ledger
from workbench.runtime.lifecycle import Unit
from workbench.runtime.node_title import title
from workbench.runtime.observe import Observability, Reading
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context

MEASURED_S: Final = 0.02
"""One measurement of a step runs it for about so long, and is the best of `MEASUREMENTS`."""
MEASUREMENTS: Final = 5

_SENTENCES: Final = {
    Mode.EFFECTIVELY_CONSTANT: "is constant: it has no memory",
    Mode.VIRTUAL: "is virtual: it has no memory, and readers compute it anew",
    Mode.NEVER_VIRTUAL: "is stored",
    Mode.LOCAL: "is local: it has memory for the time of one step, which others use again",
    Mode.ON_DEVICE: "is on the device: it has memory as long as the context has",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to do about a node, as a button says it.

    Attributes
    ----------
    action
        ``"materialize"``, ``"inline"``, ``"footprint"``, ``"raise"`` or ``"run"``.
    node
        The node it acts on: the one asked about, or the one at fault.
    setting
        The setting to raise, for ``"raise"``.
    label
        What the button says.
    expected
        What it costs as far as one knows before.
    """

    action: str
    node: Tensor
    setting: str
    label: str
    expected: str

    @property
    def name(self) -> str:
        """What `WhyCard.apply` is called with."""
        return self.setting or self.action


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step takes.

    Attributes
    ----------
    stored_bytes
        Memory that the context keeps.
    scratch_bytes
        Memory for the time of a step.
    step_s
        Seconds a step, the best of several measurements; None if it cannot be run.
    """

    stored_bytes: int
    scratch_bytes: int
    step_s: float | None


@final
@dataclass(frozen=True, slots=True, repr=False)
class Applied:
    """What an offer gave.

    Attributes
    ----------
    context
        With the decision, in memory of its own; the routine was run there once, if it can be.
    routine
        Compiled with the decision.
    before, after
        What a step took without and takes with it, measured in turn on copies of the values.
    observability
        Whether the node asked about can be read now.
    """

    context: Context
    routine: Routine
    before: Cost
    after: Cost
    observability: Observability

    def changes(self) -> list[tuple[str, str]]:
        """Return what changed, as names and text."""
        before, after = self.before, self.after
        rows = [
            ("stored", _bytes_change(before.stored_bytes, after.stored_bytes)),
            ("scratch", _bytes_change(before.scratch_bytes, after.scratch_bytes)),
        ]
        if before.step_s is not None and after.step_s is not None:
            share = after.step_s / before.step_s - 1
            times = f"{_microseconds(before.step_s)} before, {_microseconds(after.step_s)} now"
            rows.append(("step", f"{times} ({share:+.0%})"))
        return rows

    def __str__(self) -> str:
        changes = [f"{name}: {what}" for name, what in self.changes()]
        return "\n".join([str(self.observability), *changes])

    __repr__ = __str__


@final
class WhyCard:
    """The answer to "why does this live there, and can I read it?", with what to do.

    Parameters
    ----------
    node
        Any tensor.
    context
        Where it is asked about.
    routine
        What computes the node; by default the latest routine of the lineage that does and still
        exists.
    """

    def __init__(self, node: Tensor, context: Context, routine: Routine | None = None) -> None:
        self.node = node
        self.context = context
        self.observability = context.observability(node)
        self.placement = context.placements.get(node)
        self.fault = self.observability.path[-1] if self.observability.path else node
        self.routine = _routine_of(self.fault, context) if routine is None else routine

    # -- what it says

    @property
    def name(self) -> str:
        """What the node is called."""
        return title(self.node)

    @property
    def sentence(self) -> str:
        """Where the node lives, and who decided so."""
        name = f"`{title(self.node)}`"
        if self.placement is None:
            return f"{name} is not part of any routine of this context: nothing was decided."
        what = _SENTENCES[self.placement.mode]
        rule = f"Rule {self.placement.code}: " if self.placement.code else ""
        return f"{name} {what}. {rule}{self.placement.reason}."

    @property
    def answer(self) -> str:
        """Whether the node can be read, and how or why not."""
        if self.observability.is_readable:
            return {
                Reading.STORED: "It can be read: its value is stored.",
                Reading.HOST_INIT: "It can be read: it has the value that it was made with.",
            }.get(
                self.observability.reading,
                "It can be read: its value is computed again from what is stored.",
            )
        return f"It cannot be read: {self.observability.problem.partition('cannot be read: ')[2]}."

    @property
    def path(self) -> list[str]:
        """The names from the node to what is at fault; empty if it can be read."""
        return [title(node) for node in self.observability.path]

    def offers(self) -> list[Offer]:
        """Return what can be done, the surest first; nothing is compiled to find out."""
        if self.routine is None:
            return []
        found = [
            self._offer(remedy.action, remedy.node, remedy.setting)
            for remedy in self.observability.remedies
            if remedy.action != "run" or _can_run(self.context, self.routine)
        ]
        is_virtual = self.placement is not None and self.placement.mode is Mode.VIRTUAL
        if is_virtual and self.observability.reading is Reading.RECOMPUTABLE:
            found.append(self._offer("materialize", self.node))
        return found

    def _offer(self, action: str, node: Tensor, setting: str = "") -> Offer:
        name = title(node)
        match action:
            case "materialize":
                label = f"Store `{name}`"
                expected = f"{self._size(node):,} bytes that stay, and writing them each step"
            case "raise":
                label = f"Raise `{setting}` until `{name}` is not stored"
                expected = "other nodes may stay virtual as well, and be computed more than once"
            case "run":
                assert self.routine is not None
                label = f"Run `{self.routine.name}` once"
                expected = "one step"
            case _:
                label = f"{action.capitalize()} `{name}`"
                expected = "no memory that stays; readers compute what they need"
        return Offer(action, node, setting, label, expected)

    def _size(self, node: Tensor) -> int:
        return resolve(count(node.shape), self._rows() or 1) * node.dtype.itemsize

    def _rows(self) -> int | None:
        sizes = {
            actual // extent.factor
            for node, buffer in self.context.buffers.items()
            for extent, actual in zip(node.shape, buffer.shape, strict=True)
            if isinstance(extent, Batch)
        }
        return sizes.pop() if len(sizes) == 1 else None

    def cost(self) -> Cost:
        """Return the bytes that the routine takes in this context; nothing is run."""
        scratch = 0 if self.routine is None else self.routine.local_bytes(self._rows())
        return Cost(_stored_bytes(self.context), scratch, None)

    # -- what it does

    def apply(self, name: str) -> Applied:
        """Take the offer ``name`` and return what it gave; this card's context stays as it is.

        Parameters
        ----------
        name
            An action (``"materialize"``, ``"run"``...) or the setting to raise.

        Raises
        ------
        ConfigurationError
            If there is no such offer.
        ExecutionError
            If no value of the setting makes a difference.
        """
        offers = {offer.name: offer for offer in reversed(self.offers())}
        if name not in offers or self.routine is None:
            known = ", ".join(f"`{each}`" for each in offers) or "nothing"
            raise ConfigurationError(
                f"nothing called `{name}` can be done about {describe(self.node)}",
                remedy=f"there is {known}"
                + ("" if self.routine else "; name the routine: `wb.why(node, ctx, routine=...)`"),
            )
        offer = offers[name]
        before = self._measured(None)
        after = self._measured(offer)
        context, routine = self._compiled(offer)
        # What has no inputs yet is compiled all the same; it can be read after its first run.
        if _can_run(context, routine):
            context = context.run(routine, rows=self._rows())
        return Applied(context, routine, before, after, context.observability(self.node))

    def _compiled(self, offer: Offer | None) -> tuple[Context, Routine]:
        """Compile the routine anew in memory of its own, with what ``offer`` decides."""
        assert self.routine is not None
        of_routine = self.routine.placements
        others = {n: p for n, p in self.context.placements.items() if n not in of_routine}
        fork = self.context.derived(
            "why" if offer is None else f"why: {offer.label}",
            buffers={},
            initialized=frozenset[Tensor](),
            placements=others,
            ledger=Ledger(),
            frontier=Frontier(),
            unit=Unit(),
            stage=0,
        )
        wanted = self.routine.computation
        if offer is not None:
            fork, wanted = self._decided(fork, wanted, offer)
        fork, routine = fork.compile(wanted, name=self.routine.name)
        stored = self.context.initialized & self.context.buffers.keys()
        # A view follows what it is a view of, and what has become local can hold nothing.
        settable = stored - fork.frontier.views.keys() - set(routine.program.local)
        values = {node: self.context.buffers[node].view() for node in settable}
        return fork.set_values(cast("dict[Tensor, Any]", values)), routine

    def _decided(
        self, fork: Context, wanted: Computation, offer: Offer
    ) -> tuple[Context, Computation]:
        match offer.action:
            case "materialize":
                outputs = tuple(dict.fromkeys((*wanted.outputs, offer.node)))
                return fork, replace(wanted, outputs=outputs)
            case "raise":
                return replace(fork, settings=self._raised(fork, wanted, offer)), wanted
            case _:
                return fork, wanted

    def _raised(self, fork: Context, wanted: Computation, offer: Offer) -> Settings:
        """Return the settings with the least power of two that keeps the node virtual."""
        known = fork.settings_in_force()
        value = int(getattr(known, offer.setting))
        for _ in range(31):
            value = max(2 * value, 1)
            settings = replace(known, **cast("dict[str, Any]", {offer.setting: value}))
            chosen = decide_placements(wanted, self._rows() or 32, settings=settings)
            if not chosen[offer.node].is_stored:
                return settings
        raise ExecutionError(
            f"{describe(offer.node)} is stored whatever `{offer.setting}` is",
            remedy="store it where it can be read: `apply('materialize')`",
        )

    def _measured(self, offer: Offer | None) -> Cost:
        context, routine = self._compiled(offer)
        rows = self._rows()
        scratch = routine.local_bytes(rows)
        if not _can_run(context, routine):
            return Cost(_stored_bytes(context), scratch, None)
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
        return Cost(_stored_bytes(ready), scratch, float(best))

    # -- as text and HTML

    def __str__(self) -> str:
        lines = [self.sentence, self.answer]
        if len(self.path) > 1:
            lines.append(f"Path: {' -> '.join(self.path)}")
        lines += [
            f"- {offer.label}: {offer.expected}   .apply({offer.name!r})" for offer in self.offers()
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.markup().text

    def markup(self) -> Markup:
        """Return a table of what the card says."""
        rows: list[tuple[str, Content]] = [("where", self.sentence), ("value", self.answer)]
        if len(self.path) > 1:
            rows.append(("path", " → ".join(self.path)))
        rows += [
            (
                "to do" if not number else "or",
                element("span", f"{offer.label}: {offer.expected} ", element("code", _call(offer))),
            )
            for number, offer in enumerate(self.offers())
        ]
        return card(title(self.node), rows)


def _call(offer: Offer) -> str:
    return f".apply({offer.name!r})"


def _routine_of(node: Tensor, context: Context) -> Routine | None:
    for routine in context.unit.routines():
        if isinstance(routine, Routine) and node in routine.placements:
            return routine
    return None


def _can_run(context: Context, routine: Routine) -> bool:
    return routine.link.required <= context.initialized


def _stored_bytes(context: Context) -> int:
    return sum(buffer.view().nbytes for buffer in context.buffers.values())


def _bytes_change(before: int, after: int) -> str:
    change = "unchanged" if before == after else f"{after - before:+,}"
    return f"{after:,} bytes ({change})"


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"

"""Why a node lives where it does, what could be done about it, and what that would cost.

In: a node, a context, the routine that computes it. Out: sentences, offers, and what an offer gave.
Invariant: the context asked is never changed. An offer that is taken gives another context, with
memory of its own and copies of the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, final

from workbench.errors import ConfigurationError, WorkbenchError
from workbench.graph.elementwise import describe
from workbench.graph.extent import count, resolve
from workbench.graph.markup import Content, Markup, card, element
from workbench.graph.tensor import Tensor
from workbench.loops.intent import intent_of
from workbench.loops.placement import Mode
from workbench.loops.surface import Alternative
from workbench.runtime.node_title import name_of
from workbench.runtime.observe import CAPS, Reading
from workbench.runtime.offer import Applied, Cost, Offer
from workbench.runtime.reading import batch_rows
from workbench.runtime.routine import Routine
from workbench.runtime.text_block import counted
from workbench.runtime.trial import Trial, stored_bytes

if TYPE_CHECKING:
    from workbench.runtime.context import Context

_SENTENCES: Final = {
    Mode.EFFECTIVELY_CONSTANT: "is constant: it has no memory",
    Mode.VIRTUAL: "is virtual: it has no memory, and readers compute it again",
    Mode.NEVER_VIRTUAL: "is stored",
    Mode.LOCAL: "is local: it has memory for the time of one step, which others use again",
    Mode.ON_DEVICE: "is on the device: it has memory as long as the context has",
}


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
        if routine is None:
            routine = _routine_of(node, context) or _routine_of(self.fault, context)
        self.routine = routine
        self._offers: tuple[Offer, ...] | None = None

    # -- what it says

    @property
    def name(self) -> str:
        """What the node is called."""
        return name_of(self.node)

    @property
    def sentence(self) -> str:
        """Where the node lives, and who decided so."""
        name = f"`{name_of(self.node)}`"
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
        return [name_of(node) for node in self.observability.path]

    @property
    def lacking(self) -> str:
        """What the card needs before anything can be done, empty if it has it."""
        if self.routine is not None or self.observability.is_readable:
            return ""
        return (
            "No routine is held any more that computes it, so that none can be compiled otherwise: "
            "keep the routine in a variable and name it, `wb.why(node, ctx, routine=routine)`; or "
            + self.observability.remedy_text
        )

    def offers(self) -> list[Offer]:
        """Return what can be done, the surest first; nothing is compiled to find out."""
        if self._offers is None:
            self._offers = () if self.routine is None else tuple(self._found(self.routine))
        return list(self._offers)

    def _found(self, routine: Routine) -> Iterator[Offer]:
        trial = Trial(self.context, routine)
        runs = self.context.can_run(routine) and trial.can_run(self.context, routine)
        if self.observability.reading is Reading.NEEDS_CONTEXT and runs:
            yield self._judged(trial, self._offer("run", self.node))
        listed: set[str] = set()
        if not self.observability.is_readable and (target := self._storable(routine)) is not None:
            listed.add("materialize")
            yield self._judged(trial, self._offer("materialize", target))
        placement = self.observability.placement
        if self.observability.reading is Reading.UNOBSERVABLE_LOCAL and placement is not None:
            cap = CAPS.get(placement.code)
            if cap is not None:
                yield self._judged(trial, self._offer("raise", self.fault, cap))
        if self.observability.reading is Reading.UNOBSERVABLE_ALIASED:
            yield self._judged(trial, self._offer("switch off", self.fault, "buffer_aliasing"))
        for each in self._alternatives(trial):
            if each.choice not in listed:
                offer = self._decision(each)
                yield offer if offer.is_refused else self._judged(trial, offer)

    def _storable(self, routine: Routine) -> Tensor | None:
        """Return the node asked about, or the first on the way to the fault that can be stored."""
        for node in self.observability.path:
            placed = routine.placements.get(node)
            is_open = placed is not None and (node is self.fault or placed.code != "66")
            declared = intent_of(node).placement
            if is_open and declared is None and placed is not None and placed.code != "40":
                is_held = placed.mode is Mode.ON_DEVICE and not placed.is_aliased
                return None if is_held else node
        return None

    def _judged(self, trial: Trial, offer: Offer) -> Offer:
        """Return the offer with what it would lead to, or why it would be refused."""
        try:
            told = trial.predicted(offer, self.node)
        except WorkbenchError as refusal:
            reason = f"not possible: {refusal.problem}"
            return replace(offer, expected=reason, is_refused=True)
        said = [offer.expected]
        verdict = told.verdict
        if not verdict.is_readable:
            what = verdict.placeholder_naming(f"`{name_of(verdict.path[-1])}`")
            said.append(f"then {what.strip('<>').removeprefix('unobservable: ')} instead")
        elif not self.observability.is_readable:
            said.append("then it can be read")
        lost = [name_of(node) for node in told.lost if node is not self.node]
        if lost:
            more = f" and {counted(len(lost) - 1, 'other')}" if len(lost) > 1 else ""
            said.append(f"`{lost[0]}`{more} can no longer be read")
        return replace(offer, expected="; ".join(said))

    def _alternatives(self, trial: Trial) -> tuple[Alternative, ...]:
        """Return what could be decided about the node at fault."""
        surface = trial.surface()
        found = (each.alternatives for each in surface if each.node is self.fault)
        return next(found, ())

    def _decision(self, alternative: Alternative) -> Offer:
        offer = self._offer(alternative.choice, self.fault)
        if alternative.refused is not None:
            reason = f"not possible: {alternative.refused.reason}"
            return replace(offer, expected=reason, is_refused=True)
        about = "" if alternative.is_modeled else "about "
        work = f"{about}{counted(alternative.recompute_cost, 'operation')}"
        side = "fewer" if alternative.choice == "materialize" else "more"
        return replace(offer, expected=f"{offer.expected}; {work} {side} a step")

    def _offer(self, action: str, node: Tensor, setting: str = "") -> Offer:
        name = name_of(node)
        match action:
            case "materialize":
                label, expected = f"Store `{name}`", f"{counted(self._size(node), 'byte')} kept"
            case "inline":
                label, expected = f"Inline `{name}`", "no memory"
            case "footprint":
                label, expected = f"Box `{name}`", "scratch for the cells that readers need"
            case "raise":
                label = f"Raise `{setting}` until `{name}` is not stored"
                expected = "other nodes may stay virtual as well"
            case "switch off":
                label, expected = f"Compile without `{setting}`", "nodes no longer share bytes"
            case _:
                assert self.routine is not None
                label, expected = f"Run `{self.routine.name}` once", "one step"
        return Offer(action, node, setting, label, expected)

    def _size(self, node: Tensor) -> int:
        return resolve(count(node.shape), batch_rows(self.context) or 1) * node.dtype.itemsize

    def cost(self) -> Cost:
        """Return the bytes that the routine takes in this context; nothing is run."""
        scratch, routine = 0, self.routine
        if routine is not None:
            # Before anything was given, nobody but the compiler has reckoned with a batch size.
            scratch = routine.local_bytes(batch_rows(self.context) or routine.conditions.rows)
        return Cost(stored_bytes(self.context), scratch, None)

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
        offers = {each.name: each for each in reversed(self.offers()) if not each.is_refused}
        if name not in offers or self.routine is None:
            known = ", ".join(f"`{each}`" for each in offers) or "nothing"
            raise ConfigurationError(
                f"nothing called `{name}` can be done about {describe(self.node)}",
                remedy=f"there is {known}"
                + ("" if self.routine else "; name the routine: `wb.why(node, ctx, routine=...)`"),
            )
        offer = offers[name]
        trial = Trial(self.context, self.routine)
        before, after = trial.measured(None), trial.measured(offer)
        context, routine = trial.compiled(offer)
        # What has no inputs yet is compiled all the same; it can be read after its first run.
        if trial.can_run(context, routine):
            context = context.run(routine, rows=trial.rows)
        places = (self.context.placements.get(offer.node), context.placements.get(offer.node))
        verdict = context.observability(self.node)
        return Applied(offer, places, context, routine, before, after, verdict)

    # -- as text and HTML

    def __str__(self) -> str:
        lines = [self.sentence, self.answer]
        if len(self.path) > 1:
            lines.append(f"Path: {' -> '.join(self.path)}")
        lines += [self.lacking] if self.lacking else []
        lines += [
            f"- {offer.label}: {offer.expected}{_call(offer, '   ')}" for offer in self.offers()
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
        if self.lacking:
            rows.append(("lacks", self.lacking))
        rows += [
            (
                "to do" if not number else "or",
                element(
                    "span", f"{offer.label}: {offer.expected} ", element("code", _call(offer, ""))
                ),
            )
            for number, offer in enumerate(self.offers())
        ]
        return card(name_of(self.node), rows)


def _call(offer: Offer, before: str) -> str:
    return "" if offer.is_refused else f"{before}.apply({offer.name!r})"


def _routine_of(node: Tensor, context: Context) -> Routine | None:
    for routine in context.unit.routines():
        if isinstance(routine, Routine) and node in routine.placements:
            return routine
    return None

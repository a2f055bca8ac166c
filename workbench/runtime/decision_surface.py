"""What could be decided about a computation, as a table.

In: the candidates of a context. Out: text, HTML, and the flips worth trying. Invariant: the table
is a picture of the moment it was asked for; nothing is compiled or decided to make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from workbench.assign.assignment import Computation
from workbench.assign.show import node_names
from workbench.graph.markup import Markup, table
from workbench.graph.tensor import Tensor, printable
from workbench.loops.preference import Choice
from workbench.loops.surface import Alternative, Candidate, candidates
from workbench.runtime.collection import collection_paused
from workbench.runtime.compiling import as_computation, expected_rows, stored_decisions
from workbench.runtime.text_block import columns, counted

if TYPE_CHECKING:
    from workbench.runtime.context import Context

HEADER: Final = ("node", "now", "code", "who decided", "could be", "cost", "refused because")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Flip:
    """One decision that a compile would follow: ``ctx.decide_reading(flip.choice, flip.node)``.

    Attributes
    ----------
    node
        What is decided about.
    choice
        How it is read then.
    cost
        Operations that readers do to compute it anew: spent by inlining, saved by storing.
    """

    node: Tensor
    choice: Choice
    cost: int


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DecisionSurface:
    """The nodes of a computation that could be read otherwise, the dearest first.

    Attributes
    ----------
    candidates
        One record for each node; flips that would be refused are among their alternatives.
    names
        What each node is called in the text.
    """

    candidates: tuple[Candidate, ...]
    names: Mapping[Tensor, str]

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __getitem__(self, node: Tensor) -> Candidate:
        """Return the record of ``node``.

        Raises
        ------
        KeyError
            If nothing can be decided about it.
        """
        for candidate in self.candidates:
            if candidate.node is node:
                return candidate
        raise KeyError(node)

    def ranked(self) -> tuple[Flip, ...]:
        """Return the flips that a compile would follow, the dearest first; ties by node."""
        flips = [
            Flip(candidate.node, each.choice, each.recompute_cost)
            for candidate in self.candidates
            for each in candidate.alternatives
            if each.refused is None
        ]
        return tuple(sorted(flips, key=lambda flip: (-flip.cost, flip.node.uid)))

    def __str__(self) -> str:
        return "\n".join([*columns([HEADER, *self._lines()]), self._summary()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.markup().text

    def markup(self) -> Markup:
        """Return an HTML table."""
        return table(HEADER, self._lines(), self._summary())

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            self._line(candidate, alternative)
            for candidate in self.candidates
            for alternative in candidate.alternatives
        ]

    def _line(self, candidate: Candidate, alternative: Alternative) -> tuple[str, ...]:
        refused = alternative.refused
        return (
            printable(self.names[candidate.node]),
            candidate.default,
            candidate.placement.code,
            candidate.placement.reason,
            alternative.choice,
            f"{alternative.recompute_cost:,}{'' if alternative.is_modeled else ' or so'}",
            "" if refused is None else f"{refused.code}: {refused.reason}",
        )

    def _summary(self) -> str:
        flips = counted(len(self.ranked()), "flip")
        return f"{counted(len(self), 'node')} to decide about, {flips} that a compile would follow"


@collection_paused()
def decision_surface(
    context: Context,
    wanted: Computation | Iterable[Tensor],
    *,
    updates: Mapping[Tensor, Tensor] | None,
    rows: int | None,
) -> DecisionSurface:
    """Return what could be decided about ``wanted`` in ``context``; nothing is changed.

    Parameters are those of `workbench.runtime.context.Context.decision_surface`.
    """
    context.unit.check_live()
    made = as_computation(wanted, updates)
    found = candidates(
        made,
        expected_rows(rows),
        decided=stored_decisions(context),
        preferences=context.preferences,
        settings=context.settings_in_force(),
    )
    return DecisionSurface(found, node_names(made))

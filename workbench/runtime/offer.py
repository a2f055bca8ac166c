"""What can be done about a node, and what doing it gave.

In: a decision, a context before and after it. Out: data that a button shows, and text. Invariant:
an offer is a description: it does nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from workbench.graph.tensor import Tensor
from workbench.loops.placement import Placement
from workbench.runtime.node_title import name_of
from workbench.runtime.observe import Observability
from workbench.runtime.routine import Routine

if TYPE_CHECKING:
    from workbench.runtime.context import Context


@dataclass(frozen=True, slots=True)
class Offer:
    """Something to do about a node, as a button says it.

    Attributes
    ----------
    action
        ``"materialize"``, ``"inline"``, ``"footprint"``, ``"raise"``, ``"switch off"`` or
        ``"run"``.
    node
        The node it acts on: the one asked about, or the one at fault.
    setting
        The setting to raise or to switch off.
    label
        What the button says.
    expected
        What it costs as far as one knows before, or why it is refused.
    is_refused
        Whether a compile would not follow it.
    """

    action: str
    node: Tensor
    setting: str
    label: str
    expected: str
    is_refused: bool = False

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
    offer
        What was taken.
    placements
        Where the node of the offer lived, and lives now.
    context
        With the decision, in memory of its own; the routine was run there once, if it can be.
    routine
        Compiled with the decision.
    before, after
        What a step took without and takes with it, measured in turn on copies of the values.
    observability
        Whether the node asked about can be read now.
    """

    offer: Offer
    placements: tuple[Placement | None, Placement | None]
    context: Context
    routine: Routine
    before: Cost
    after: Cost
    observability: Observability

    def changes(self) -> list[tuple[str, str]]:
        """Return what changed, as names and text."""
        before, after = self.before, self.after
        was, now = self.placements
        lives = f"{was}, as before" if was == now else f"{was} → {now}"
        rows = [
            (name_of(self.offer.node), lives),
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


def _bytes_change(before: int, after: int) -> str:
    change = "unchanged" if before == after else f"{after - before:+,}"
    return f"{after:,} bytes ({change})"


def _microseconds(seconds: float) -> str:
    size = seconds * 1e6
    return f"{size:,.0f} µs" if size >= 1000 else f"{size:.3g} µs"

"""What a person asked of nodes in one lineage, beside what the default policy would do.

In: nodes by choice. Out: `Preferences`. Invariant: a node is asked to be inlined or to be served
from boxes, not both; the later request holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from workbench.errors import ConfigurationError
from workbench.graph.tensor import Tensor

Choice = Literal["materialize", "inline", "footprint"]
"""How readers come by a node: from its memory, by computing it anew, or from a box of its cells."""

CHOICES: Final[tuple[Choice, ...]] = get_args(Choice)


def as_choice(choice: str) -> Choice:
    """Return ``choice`` if it is one.

    Raises
    ------
    ConfigurationError
        If it is none, naming all of them.
    """
    for known in CHOICES:
        if choice == known:
            return known
    raise ConfigurationError(
        f"there is no reading `{choice}` of a node",
        remedy=f"use one of {', '.join(f'`{known}`' for known in CHOICES)}",
    )


@dataclass(frozen=True, slots=True)
class Preferences:
    """Nodes that the caps of the default policy do not apply to.

    Attributes
    ----------
    inline
        Nodes to compute anew wherever they are read.
    footprint
        Nodes of which each reader gets a box of the cells that it reads.
    """

    inline: frozenset[Tensor] = frozenset()
    footprint: frozenset[Tensor] = frozenset()

    def inlined(self, nodes: Iterable[Tensor]) -> Preferences:
        """Return the preferences with ``nodes`` inlined."""
        chosen = frozenset(nodes)
        return Preferences(self.inline | chosen, self.footprint - chosen)

    def boxed(self, nodes: Iterable[Tensor]) -> Preferences:
        """Return the preferences with ``nodes`` served from boxes."""
        chosen = frozenset(nodes)
        return Preferences(self.inline - chosen, self.footprint | chosen)


NO_PREFERENCES: Final = Preferences()

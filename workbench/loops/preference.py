"""What a person asked of nodes in one lineage, beside what the default policy would do.

In: nodes by choice. Out: `Preferences`. Invariant: a node is asked to be stored, inlined or
served from boxes, one of them; of the last two the later request holds, and a request to store is
final.
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
    """Nodes about which a lineage has decided, for whatever is compiled in it next.

    Attributes
    ----------
    materialized
        Nodes to store. They are placed by the next routine that computes them.
    inline
        Nodes to compute anew wherever they are read.
    footprint
        Nodes of which each reader gets a box of the cells that it reads.
    """

    inline: frozenset[Tensor] = frozenset()
    footprint: frozenset[Tensor] = frozenset()
    materialized: frozenset[Tensor] = frozenset()

    def stored(self, nodes: Iterable[Tensor]) -> Preferences:
        """Return the preferences with ``nodes`` stored."""
        chosen = frozenset(nodes)
        kept = self.inline - chosen, self.footprint - chosen
        return Preferences(*kept, self.materialized | chosen)

    def inlined(self, nodes: Iterable[Tensor]) -> Preferences:
        """Return the preferences with ``nodes`` inlined."""
        chosen = frozenset(nodes)
        return Preferences(self.inline | chosen, self.footprint - chosen, self.materialized)

    def boxed(self, nodes: Iterable[Tensor]) -> Preferences:
        """Return the preferences with ``nodes`` served from boxes."""
        chosen = frozenset(nodes)
        return Preferences(self.inline - chosen, self.footprint | chosen, self.materialized)


NO_PREFERENCES: Final = Preferences()

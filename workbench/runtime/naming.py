"""Names under which the nodes of a context can be typed: a label, or an operation with a number.

In: the placements of a context. Out: a name for each node, and the node of a name. Invariant: a
name leads to one node; it depends on labels, operations and the order of the placements only, so
that a notebook that is run once more has the same names.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from typing import Final, final

from workbench.errors import GraphError
from workbench.graph.tensor import Tensor, printable

_LONGEST: Final = 60
"""A label that is longer is no name to type; such a node goes by its operation."""


@final
class Names:
    """The names of some nodes, made when the first of them is asked for.

    Parameters
    ----------
    nodes
        In an order that does not depend on identities.
    """

    def __init__(self, nodes: Iterable[Tensor]) -> None:
        self._nodes = nodes
        self._by_node: dict[Tensor, str] = {}
        self._by_name: dict[str, Tensor] = {}

    def of(self, node: Tensor) -> str | None:
        """Return the name of ``node``, None if it is not among the nodes."""
        self._make()
        return self._by_node.get(node)

    def node(self, name: str) -> Tensor:
        """Return the node of a name.

        Raises
        ------
        GraphError
            If there is none, naming some that are like it.
        """
        self._make()
        found = self._by_name.get(name)
        if found is None:
            like = difflib.get_close_matches(name, self._by_name, 3) or list(self._by_name)[:5]
            known = ", ".join(f"`{printable(each)}`" for each in like)
            raise GraphError(
                f"this context has no node called `{printable(name)}`",
                remedy=f"there is {known}"
                if known
                else "compile a routine first, whose nodes it then knows",
            )
        return found

    def _make(self) -> None:
        if self._by_name:
            return
        nodes = list(self._nodes)
        labels = Counter(node.label for node in nodes if node.label)
        taken = {label for label in labels if len(label) <= _LONGEST}
        numbers: Counter[str] = Counter()
        for node in nodes:
            base = node.label if node.label in taken else node.op
            name = base
            if base not in taken or labels[base] > 1:
                numbers[base] += 1
                name = f"{base}#{numbers[base]}"
                while name in labels:
                    numbers[base] += 1
                    name = f"{base}#{numbers[base]}"
            self._by_node[node] = name
            self._by_name[name] = node

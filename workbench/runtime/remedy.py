"""What to do so that a node can be read, as lines to type.

In: what is missing: values, runs, memory. Out: steps, in the order in which they are taken.
Invariant: each step says how to come by the nodes that it names, from the context that was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from workbench.graph.extent import show_shape
from workbench.graph.tensor import Tensor


@final
@dataclass(frozen=True, slots=True)
class Remedy:
    """One step towards the value of a node, as data that a button can act on.

    Attributes
    ----------
    action
        ``"set"``: give ``nodes`` their values; ``"run"``: run the routines ``routines``;
        ``"materialize"``: store the node asked about; ``"fill"``: copy into the merge buffer.
    nodes
        The nodes to act on.
    routines
        Names of routines, for ``"run"``.
    bindings
        What has to be bound for the routine that stores the node: static indices.
    asks_rows
        Whether the run has to be told the batch size.
    places
        How each node is typed.
    """

    action: str
    nodes: tuple[Tensor, ...] = ()
    routines: tuple[str, ...] = ()
    bindings: tuple[Tensor, ...] = ()
    asks_rows: bool = False
    places: Mapping[Tensor, str] = field(default_factory=dict[Tensor, str], compare=False)

    def __str__(self) -> str:
        if self.action == "set":
            listed = ", ".join(f"{self._place(node)}: ..." for node in self.nodes)
            shapes = ", ".join(f"{show_shape(node.shape)} {node.dtype}" for node in self.nodes)
            kind = "an array" if len(self.nodes) == 1 else "arrays"
            return f"`ctx = ctx.set_values({{{listed}}})` with {kind} of {shapes}"
        if self.action == "run":
            listed = ", ".join(f"`{name}`" for name in self.routines)
            one = len(self.routines) == 1
            return f"run {listed}: `ctx = ctx.run(routine)`{'' if one else ' for each of them'}"
        (node,) = self.nodes
        if self.action == "fill":
            return (
                f"fill it: `ctx = wb.Context.copy(source, ctx, node, into_merge=True)`, and "
                f"compile what reads {self._place(node)} in the context that this returns"
            )
        bound = ", ".join(f"{self._place(each)}: 0" for each in self.bindings)
        bindings = f", bindings={{{bound}}}" if bound else ""
        where = " with the number that you mean" if bound else ""
        return (
            f"store it: `ctx, routine = ctx.compile([{self._place(node)}]{bindings})`{where}, then "
            f"`ctx = ctx.run(routine{', rows=...' if self.asks_rows else ''})`"
        )

    def _place(self, node: Tensor) -> str:
        return self.places.get(node, "t")

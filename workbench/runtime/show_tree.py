"""A graph as a tree of values: the root on top, what it is computed from below it.

In: a tensor, a context that can read, gradients. Out: text. Invariant: each node is drawn once, at
its first place from the left; elsewhere a reference stands for it. All values come from one read,
so that whatever must be recomputed is recomputed by one routine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from workbench.graph.gradient_leaf import gradients_among
from workbench.graph.tensor import Tensor
from workbench.runtime.collection import collection_paused
from workbench.runtime.node_title import is_literal, title, where
from workbench.runtime.observe import Observability
from workbench.runtime.show_value import Reader, brief_grid
from workbench.runtime.text_block import Block, above, beside, block
from workbench.runtime.tree_places import Place, grow, numbered


@collection_paused()
def tree_text(
    context: Reader,
    root: Tensor,
    depth: int = 9,
    *,
    with_value: bool = True,
    with_grad: bool = True,
    grads: Mapping[Tensor, Tensor] | None = None,
) -> str:
    """Return the graph of ``root`` as a tree.

    Each node shows ``#<id> <name>`` and its value. Numbers of nodes count from what is computed
    first. A parameter is marked ``non-emb``: its value is state, not computed here. ``[#0 x]``
    refers to a node drawn elsewhere. Without a value a node shows its memory mode and the code of
    the rule that decided (``Local/39``), and the reason as a placeholder; a number that a person
    wrote is its own value.

    Parameters
    ----------
    context
        Where to read.
    root
        Any tensor.
    depth
        So many levels are drawn side by side; what is deeper is an indented list.
    with_value
        Whether to show values; without, every node shows its mode.
    with_grad
        Whether to show gradients, where there are any in ``grads``.
    grads
        Gradients by node, as ``wb.backward`` returns them; by default those that lie in the
        context, see `gradient_of`.
    """
    places = grow(root)
    drawn = [place.node for place in places if not place.is_reference]
    if grads is None:
        grads = gradients_among(drawn, context.placements)
    gradients = {n: grads[n] for n in drawn if n in grads} if with_grad else {}
    names = numbered(drawn, gradients)
    captions = _Captions(context, names, gradients, drawn if with_value else [])
    return str(_layout(places, depth, captions))


class _Captions:
    """What is written at each node: its header, its value, its gradient's."""

    def __init__(
        self,
        context: Reader,
        numbers: Mapping[Tensor, int],
        gradients: Mapping[Tensor, Tensor],
        valued: list[Tensor],
    ) -> None:
        self.numbers = numbers
        self.gradients = gradients
        self.placements = context.placements
        self.precision = context.settings_in_force().print_precision
        wanted = [node for node in valued if not is_literal(node)]
        if valued:
            wanted.extend(gradients.values())
        self.verdicts: dict[Tensor, Observability] = {
            verdict.node: verdict for verdict in context.observabilities(dict.fromkeys(wanted))
        }
        readable = [node for node, verdict in self.verdicts.items() if verdict.is_readable]
        self.values: dict[Tensor, npt.NDArray[Any]] = dict(
            zip(readable, context.read(readable), strict=True)
        )

    def lines(self, place: Place) -> list[str]:
        """Return the lines of one place."""
        node = place.node
        if place.is_reference:
            return [f"[{self._name(node)}]"]
        state = " non-emb" if node.op == "parameter" else ""
        lines = self._entry(node, f"{self._name(node)}{state}")
        gradient = self.gradients.get(node)
        if gradient is not None:
            lines += self._entry(gradient, f"#{self.numbers[node] + 1} grad_{title(node)}")
        return lines

    def _entry(self, node: Tensor, header: str) -> list[str]:
        value = self.values.get(node)
        if value is not None:
            return [header, *brief_grid(value, self.precision)]
        mode = where(self.placements.get(node))
        lines = [f"{header} {mode}" if mode else header]
        verdict = self.verdicts.get(node)
        if verdict is not None:
            lines.append(f" {verdict.placeholder_naming(self._name(verdict.path[-1]))}")
        return lines

    def _name(self, node: Tensor) -> str:
        number = self.numbers.get(node)
        return title(node) if number is None else f"#{number} {title(node)}"


def _layout(places: list[Place], depth: int, captions: _Captions) -> Block:
    blocks: dict[Place, Block] = {}
    for place in places:
        if place.level > depth:
            continue
        if place.level == depth:
            blocks[place] = block(_indented(place, captions))
            continue
        own = block(captions.lines(place))
        below = [blocks.pop(child) for child in place.below]
        blocks[place] = above(own, beside(below, "│")) if below else own
    return blocks[places[-1]]


def _indented(place: Place, captions: _Captions) -> list[str]:
    """Return a place and all below it as a list; only where it branches are lines indented."""
    lines: list[str] = []
    stack = [(place, "", "")]
    while stack:
        current, first, rest = stack.pop()
        head, *more = captions.lines(current)
        lines.append(first + head)
        lines.extend(rest + line for line in more)
        if len(current.below) == 1:
            stack.append((current.below[0], rest, rest))
            continue
        branches = [(child, f"{rest}├─", f"{rest}│ ") for child in current.below[:-1]]
        branches += [(child, f"{rest}└─", f"{rest}  ") for child in current.below[-1:]]
        stack.extend(reversed(branches))
    return lines

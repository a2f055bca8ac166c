"""A fingerprint of what a traced function computes, the same in every process.

In: a graph, and names for its leaves. Out: 64 hexadecimal digits. Invariant: two functions that
make the same graph over the same leaves have one fingerprint, however they are written; labels,
the number of rows of the data and the values of what is trained are no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.graph.tensor import Tensor
from workbench.train.fingerprint import Fingerprint, Sums

__all__ = ["graph_fingerprint"]


def graph_fingerprint(outputs: Mapping[str, Tensor], leaves: Mapping[Tensor, str]) -> str:
    """Return the fingerprint of the graph that computes ``outputs``.

    Parameters
    ----------
    outputs
        What is computed, by name.
    leaves
        Names of the tensors that it is computed from: what lies below them does not count.
    """
    numbers: dict[Tensor, int] = {}
    lines: list[str] = []
    arrays: list[Tensor] = []
    waiting = list(outputs.values())[::-1]
    while waiting:
        node = waiting[-1]
        known = node in numbers
        missing = [] if known or node in leaves else [o for o in node.operands if o not in numbers]
        if missing:
            waiting.extend(reversed(missing))
            continue
        waiting.pop()
        if known:
            continue
        numbers[node] = len(numbers)
        lines.append(_line(node, numbers, leaves.get(node)))
        if node not in leaves and node.value is not None:
            arrays.append(node)
    lines += [f"{name} = {numbers[node]}" for name, node in outputs.items()]
    made = Fingerprint("\n".join(lines))
    for node in arrays:
        assert node.value is not None
        sums = Sums()
        sums.add(node.value.tobytes())
        made.add(str(numbers[node]), f"{node.dtype} {node.shape}", sums)
    return made.text()


def _line(node: Tensor, numbers: Mapping[Tensor, int], name: str | None) -> str:
    kind = f"{node.dtype} {node.shape}"
    if name is not None:
        return f"{name}: {kind}"
    if node.op == "input":
        return f"input {node.label}: {kind}"
    operands = [numbers[operand] for operand in node.operands]
    return f"{node.op} {operands} {node.attributes}: {kind}"

"""What printers call a node: a name, and where it lives in a word.

In: a node, its placement. Out: short text, control characters of labels escaped. Invariant: a name
depends on the node's own operation, label and value only.
"""

from __future__ import annotations

from typing import Final

from workbench.assign.show import INFIX
from workbench.graph.leaf import scalar_value
from workbench.graph.tensor import Tensor, printable
from workbench.loops.placement import Mode, Placement

_WORDS: Final = {
    Mode.EFFECTIVELY_CONSTANT: "Const",
    Mode.VIRTUAL: "Virt",
    Mode.NEVER_VIRTUAL: "Never_virt",
    Mode.LOCAL: "Local",
    Mode.ON_DEVICE: "Dev",
}


def title(node: Tensor) -> str:
    """Return the name of ``node``: a leaf's label, an operation with its label, a number itself."""
    if is_literal(node):
        return _literal(node)
    label = printable(node.label)
    if not node.operands:
        return label or node.op
    operation = INFIX.get(node.op, node.op)
    return f"{operation}_{label}" if label else operation


def name_of(node: Tensor) -> str:
    """Return what a person called ``node``, or its `title` if nobody called it anything."""
    return printable(node.label) or title(node)


def is_literal(node: Tensor) -> bool:
    """Return whether ``node`` is a number that a person wrote, without a label of its own."""
    return node.op == "constant" and not node.label


def _literal(node: Tensor) -> str:
    # Through numpy, for the fewest digits that give this number in its type.
    text = str(node.dtype.numpy.type(scalar_value(node)))
    return text.removesuffix(".0")


def where(placement: Placement | None) -> str:
    """Return mode and code as ``Virt/40``, empty if nothing was decided."""
    return "" if placement is None else f"{_WORDS[placement.mode]}/{placement.code}"

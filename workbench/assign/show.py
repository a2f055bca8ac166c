"""Computations as short readable text.

In: a computation. Out: one line for each statement. Invariant: the text depends on structure,
labels and order only, never on identities, so that it can be compared between runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.assign.assignment import Assignment, Computation, View
from workbench.assign.expression import (
    Apply,
    ExtentNumber,
    Number,
    Position,
    Read,
    Reduce,
    Value,
)
from workbench.assign.index import Affine, Axis, Index
from workbench.graph.extent import show_shape
from workbench.graph.tensor import Tensor

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "logical_and": "and",
    "logical_or": "or",
}
COMBINE = {"add": "+=", "maximum": "max=", "minimum": "min="}
LETTERS = "ijklmnpqrstuvwxyz"


def node_names(computation: Computation) -> dict[Tensor, str]:
    """Return a short unique name for every node: its label or operation, numbered where needed."""
    names: dict[Tensor, str] = {}
    taken: set[str] = set()
    last: dict[str, int] = {}  # of each base, so that many nodes of one operation take linear time
    nodes = [*computation.inputs, *(s.target for s in computation.statements)]
    for node in dict.fromkeys(nodes):
        base = _base_name(node)
        number = last.get(base, 0) + 1
        name = base if number == 1 else f"{base}{number}"
        while name in taken:
            number += 1
            name = f"{base}{number}"
        last[base] = number
        taken.add(name)
        names[node] = name
    return names


_PLAIN = re.compile(r"[^\W\d][\w.]*(/[\w.]+)*")


def _base_name(node: Tensor) -> str:
    """Return the label, quoted where it would not read as a name, or the operation."""
    if not node.label:
        return node.op
    return node.label if _PLAIN.fullmatch(node.label) else repr(node.label)


def axis_name(position: int) -> str:
    """Return the letter for the axis at ``position``."""
    return LETTERS[position] if position < len(LETTERS) else f"i{position}"


def show_computation(computation: Computation) -> str:
    """Return one line for each statement.

    ``h[i, j] = relu(a[i, j])   for i < batch, j < 32`` is a plain assignment. ``:+=`` combines by
    addition starting from 0, ``+=`` adds to what the target holds, ``:max=`` and ``:min=`` start
    from the infinities.
    """
    names = node_names(computation)
    return "\n".join(show_statement(statement, names) for statement in computation.statements)


def show_statement(statement: Assignment | View, names: Mapping[Tensor, str]) -> str:
    """Return the text of one statement, even of a faulty one; nodes without a name show as such."""
    letters = {axis: axis_name(i) for i, axis in enumerate(_axes(statement))}
    text = _Text(letters, names)
    target = text.name(statement.target)
    if isinstance(statement, View):
        return (
            f"{target} views {text.name(statement.source)} as {show_shape(statement.target.shape)}"
        )
    sign = "="
    if statement.combine:
        # A colon marks the accumulation that starts from the neutral element.
        sign = COMBINE.get(statement.combine, f"{statement.combine}=")
        sign = f":{sign}" if statement.fresh else sign
    right = text.value(statement.value)
    over = ", ".join(f"{letters[axis]} < {axis.extent}" for axis in statement.axes)
    left = f"{target}{text.index(statement.index)}"
    return f"{left} {sign} {right}" + (f"   for {over}" if over else "")


def _axes(statement: Assignment | View) -> tuple[Axis, ...]:
    return () if isinstance(statement, View) else statement.axes


def _number(number: Number) -> str:
    """Return the shortest digits that mean this number in its own type."""
    if number.dtype.is_float:
        return str(number.dtype.numpy.type(number.value))
    return repr(number.value)


class _Text:
    """Writes one statement; axes of reductions inside it get letters as they come."""

    def __init__(self, letters: dict[Axis, str], names: Mapping[Tensor, str]) -> None:
        self.letters = letters
        self.names = names

    def name(self, node: Tensor) -> str:
        return self.names.get(node) or repr(node)

    def index(self, indices: tuple[Index, ...]) -> str:
        return "[" + ", ".join(self.one(index) for index in indices) + "]" if indices else ""

    def one(self, index: Index) -> str:
        if not isinstance(index, Affine):
            return self.value(index.value)
        parts = [self.term(axis, coefficient) for axis, coefficient in index.terms]
        if index.offset or not parts:
            # `5 - i` reads better than `-i + 5`.
            front = bool(parts) and parts[0].startswith("-") and index.offset > 0
            parts.insert(0 if front else len(parts), str(index.offset))
        return " + ".join(parts).replace("+ -", "- ")

    def term(self, axis: Axis, coefficient: int) -> str:
        letter = self.letters.get(axis, "?")
        if coefficient in (1, -1):
            return letter if coefficient == 1 else f"-{letter}"
        return f"{coefficient}*{letter}"

    def value(self, value: Value) -> str:
        match value:
            case Number():
                return _number(value)
            case Position():
                return self.one(value.index)
            case ExtentNumber():
                return f"extent({value.extent})"
            case Read():
                return f"{self.name(value.node)}{self.index(value.index)}"
            case Apply():
                args = [self.value(a) for a in value.args]
                if value.op in INFIX:
                    return f"({args[0]} {INFIX[value.op]} {args[1]})"
                if value.op == "cast":
                    return f"{value.dtype}({args[0]})"
                return f"{value.op}({', '.join(args)})"
            case Reduce():
                for axis in value.axes:
                    self.letters[axis] = axis_name(len(self.letters))
                over = ", ".join(f"{self.letters[a]} < {a.extent}" for a in value.axes)
                return f"{value.op}[{over}]({self.value(value.body)})"

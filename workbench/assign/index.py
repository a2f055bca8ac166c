"""Index maps: which cell of a tensor an assignment touches, as affine functions of its axes.

Invariant: axes are compared by identity, so that two assignments never share one by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from workbench.graph.extent import Extent

if TYPE_CHECKING:
    from workbench.assign.expression import Value


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One axis of an iteration space: it runs from 0 to ``extent`` - 1."""

    extent: Extent


@dataclass(frozen=True, slots=True)
class Affine:
    """``offset + sum(coefficient * axis)``."""

    terms: tuple[tuple[Axis, int], ...] = ()
    offset: int = 0

    @property
    def axis(self) -> Axis | None:
        """The one axis that this index is equal to, if it is that simple."""
        if self.offset == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def axes(self) -> frozenset[Axis]:
        """Return the axes that the index depends on."""
        return frozenset(axis for axis, _ in self.terms)

    def substitute(self, mapping: Mapping[Axis, Affine]) -> Affine:
        """Return the index with axes replaced by the indices that ``mapping`` gives them."""
        total: dict[Axis, int] = {}
        offset = self.offset
        for axis, coefficient in self.terms:
            replacement = mapping.get(axis)
            if replacement is None:
                total[axis] = total.get(axis, 0) + coefficient
                continue
            offset += coefficient * replacement.offset
            for inner, inner_coefficient in replacement.terms:
                total[inner] = total.get(inner, 0) + coefficient * inner_coefficient
        return Affine(tuple((a, c) for a, c in total.items() if c), offset)


@dataclass(frozen=True, slots=True)
class Lookup:
    """An index that is read from another tensor.

    One below 0 counts from the end; what is outside then is clamped to ``0..extent-1``.
    """

    value: Value
    extent: Extent


Index: TypeAlias = "Affine | Lookup"


def at(axis: Axis) -> Affine:
    """Return the index that is ``axis`` itself."""
    return Affine(((axis, 1),))

"""Extents of axes: whole numbers, or a multiple of the one symbolic axis, the batch.

In: what a person writes in a shape. Out: ``int`` or ``Batch``. Invariant: a shape holds at most one
``Batch``, so its number of elements is again an ``int`` or a ``Batch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from workbench.errors import ShapeError


@dataclass(frozen=True, slots=True)
class Batch:
    """``factor`` times the number of rows of the batch, which is known only when a routine runs.

    Examples
    --------
    >>> Batch() * 4
    batch*4
    """

    factor: int = 1

    def __post_init__(self) -> None:
        if self.factor < 1:
            raise ShapeError(
                f"{self.factor} times the batch is not an extent",
                remedy="multiply the batch by 1 or more; an axis without elements has extent 0",
            )

    def __mul__(self, other: int) -> Batch:
        return Batch(self.factor * other)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return "batch" if self.factor == 1 else f"batch*{self.factor}"


Extent: TypeAlias = "int | Batch"
Shape: TypeAlias = "tuple[Extent, ...]"

batch = Batch()
"""The symbolic axis, to be written in a shape: ``wb.input("x", (wb.batch, 64))``."""


def multiply(left: Extent, right: Extent) -> Extent:
    """Return the product of two extents, of which at most one is symbolic."""
    if isinstance(left, Batch):
        if isinstance(right, Batch):
            raise ShapeError(
                "a shape holds the batch axis twice",
                remedy="give all axes but one a whole number as extent",
            )
        return left * right if right else 0
    if isinstance(right, Batch):
        return right * left if left else 0
    return left * right


def count(shape: Iterable[Extent]) -> Extent:
    """Return the number of elements of ``shape``.

    >>> count((2, Batch(), 3))
    batch*6
    """
    total: Extent = 1
    for extent in shape:
        total = multiply(total, extent)
    return total


def divide(size: Extent, by: Extent) -> Extent | None:
    """Return the extent that times ``by`` is ``size``, or None if no whole one or no one is.

    >>> divide(Batch(6), 3), divide(Batch(6), Batch(2)), divide(7, 2)
    (batch*2, 3, None)
    """
    if isinstance(by, Batch):
        if isinstance(size, Batch) and size.factor % by.factor == 0:
            return size.factor // by.factor
        return None
    if by == 0:
        return None
    if isinstance(size, Batch):
        return Batch(size.factor // by) if size.factor % by == 0 else None
    return size // by if size % by == 0 else None


def resolve(extent: Extent, rows: int | None) -> int:
    """Return the whole number that ``extent`` is when the batch has ``rows`` rows."""
    if isinstance(extent, Batch):
        if rows is None:
            raise ShapeError(
                f"the extent `{extent}` depends on the batch, and no batch size was given",
                remedy="pass the number of rows, or use inputs of fixed shape",
            )
        return extent.factor * rows
    return extent


def resolve_shape(shape: Sequence[Extent], rows: int | None) -> tuple[int, ...]:
    """Return ``shape`` with the batch replaced by ``rows``."""
    return tuple(resolve(extent, rows) for extent in shape)


def show_shape(shape: Sequence[Extent]) -> str:
    """Return the shape as a person reads it: ``(batch, 64)``."""
    inner = ", ".join(repr(extent) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def whole_number(value: object) -> int | None:
    """Return ``value`` as an ``int`` if it is a whole number to Python, else None.

    Truth values, texts and fractions are not; numpy's integers and arrays of one integer are.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return cast("int", value).__index__()
    except TypeError:  # numpy arrays have the method, most of them to no avail
        return None


def as_shape(shape: object) -> Shape:
    """Return ``shape`` (an extent or a sequence of extents) as a tuple, checked.

    Raises
    ------
    ShapeError
        If an extent is negative or not a whole number, or the batch is named twice.
    """
    checked = extents(shape)
    for extent in checked:
        if not isinstance(extent, Batch) and extent < 0:
            raise ShapeError(
                f"the shape {show_shape(checked)} has the negative extent {extent}",
                remedy="use extents of 0 or more; only `reshape` takes -1",
            )
    count(checked)
    return checked


def extents(shape: object) -> Shape:
    """Return ``shape`` (an extent or a sequence of extents) as a tuple; -1 is not judged here."""
    entries: tuple[object, ...]
    if isinstance(shape, (tuple, list)):
        entries = tuple(cast("Sequence[object]", shape))
    else:
        entries = (shape,)
    checked: list[Extent] = []
    for entry in entries:
        value = entry if isinstance(entry, Batch) else whole_number(entry)
        if value is None:
            raise ShapeError(
                f"`{entry!r}` is not an extent",
                remedy="use whole numbers, or `wb.batch` for the batch axis",
            )
        checked.append(value)
    return tuple(checked)

"""A value in a few numbers and a small picture, for a page that cannot show all of it.

In: an array. Out: a `Summary`. Invariant: what is not finite is counted and kept out of every other
figure, and a picture has at most `MOST_CELLS` rows and columns whatever the size of the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from workbench.runtime.number_format import format_number

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Floating = npt.NDArray[np.float32 | np.float64]

_GREATEST: Final = float(np.finfo(np.float32).max)

BINS: Final = 32
MOST_CELLS: Final = 64
LEAST_IMAGE_SIDE: Final = 4
"""A last axis of 3 means colours only behind two axes that are at least so long."""
SMALL_PLANE: Final = 49
"""Planes of at most so many elements, as kernels of convolutions have, say little one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """How many finite elements lie in each of equally wide bins.

    Attributes
    ----------
    counts
        Elements by bin.
    low, high
        Lower edge of the first bin, upper edge of the last; equal if all elements are.
    """

    counts: npt.NDArray[np.int64]
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Cells of a value, averaged where there are too many.

    Attributes
    ----------
    cells
        Of shape (rows, columns), or (rows, columns, 3) for colours from 0 to 1. A cell that stands
        for an element that is not finite is NaN.
    of
        What it shows, as a person says it.
    """

    cells: Floats
    of: str

    @property
    def is_image(self) -> bool:
        """Whether the cells are colours."""
        return self.cells.ndim == 3


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a value is like.

    Attributes
    ----------
    shape
        Extents.
    size
        Number of elements.
    minimum, mean, maximum
        Of the finite elements; None if there are none. The mean is summed in float64.
    nans, positive_infinities, negative_infinities
        Numbers of elements.
    histogram
        None where there are fewer than two finite elements.
    picture
        None where there is nothing to compare: a single element, or none.
    """

    shape: tuple[int, ...]
    size: int
    minimum: float | None
    mean: float | None
    maximum: float | None
    nans: int
    positive_infinities: int
    negative_infinities: int
    histogram: Histogram | None
    picture: Picture | None

    @property
    def infinities(self) -> int:
        """Number of elements that are infinite, of either sign."""
        return self.positive_infinities + self.negative_infinities

    def figures(self) -> list[tuple[str, str]]:
        """Return names and figures as text, in the order in which they are read.

        >>> summarize(np.array([1.0, 2.0, np.nan])).figures()
        [('min', '1.00'), ('mean', '1.50'), ('max', '2.00'), ('NaN', '1'), ('inf', '0')]
        """
        known = [("min", self.minimum), ("mean", self.mean), ("max", self.maximum)]
        shown = [(name, format_number(value)) for name, value in known if value is not None]
        return [*shown, ("NaN", f"{self.nans:,}"), ("inf", f"{self.infinities:,}")]


def summarize(value: Array) -> Summary:
    """Return the summary of ``value``, of any shape and element type that a tensor can have."""
    # A 16-bit type of the engine is none of numpy's own; a truth value is 0 or 1.
    is_wide = value.dtype == np.float64 or value.dtype.kind in "iu"
    numbers: Floating = value.astype(np.float64 if is_wide else np.float32)
    is_finite = np.isfinite(numbers)
    finite = numbers[is_finite]
    extremes = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return Summary(
        shape=tuple(value.shape),
        size=value.size,
        minimum=extremes[0],
        mean=_mean(finite),
        maximum=extremes[1],
        nans=int(np.isnan(numbers).sum()),
        positive_infinities=int(np.isposinf(numbers).sum()),
        negative_infinities=int(np.isneginf(numbers).sum()),
        histogram=_histogram(finite),
        picture=_picture(numbers),
    )


def _mean(finite: Array) -> float | None:
    if not finite.size:
        return None
    with np.errstate(over="ignore"):
        mean = float(finite.mean(dtype=np.float64))
    # The sum of huge numbers may overflow where their mean does not.
    return mean if np.isfinite(mean) else float((finite / finite.size).sum(dtype=np.float64))


def _histogram(finite: Array) -> Histogram | None:
    if finite.size < 2:
        return None
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return Histogram(np.array([finite.size], np.int64), low, high)
    # Halves, so that the width of float64's whole range is still a number.
    half_width = high / 2 - low / 2
    if half_width == 0.0:  # neighbours among the smallest numbers
        return Histogram(np.array([finite.size], np.int64), low, high)
    position = (finite.astype(np.float64) / 2 - low / 2) / half_width
    bins = np.minimum((position * BINS).astype(np.int64), BINS - 1)
    return Histogram(np.bincount(bins, minlength=BINS).astype(np.int64), low, high)


def _picture(numbers: Array) -> Picture | None:
    if numbers.size < 2:
        return None
    shape = numbers.shape
    if _is_image(numbers):
        leading = numbers.ndim - 3
        return Picture(
            np.stack([_reduced(numbers[(0,) * leading][..., c]) for c in range(3)], axis=-1),
            _said("image", leading),
        )
    if numbers.ndim == 1:
        return Picture(_reduced(numbers[np.newaxis]), "heat map")
    if numbers.ndim == 4 and shape[2] * shape[3] <= SMALL_PLANE:
        return Picture(_reduced(numbers.reshape(shape[0], -1)), "heat map, axes 1 to 3 in a row")
    leading = numbers.ndim - 2
    return Picture(_reduced(numbers[(0,) * leading]), _said("heat map", leading))


def _is_image(numbers: Array) -> bool:
    if numbers.ndim < 3 or numbers.shape[-1] != 3:
        return False
    if min(numbers.shape[-3:-1]) < LEAST_IMAGE_SIDE:
        return False
    return bool(np.all((numbers >= 0) & (numbers <= 1)))  # False for NaN


def _said(what: str, leading: int) -> str:
    if not leading:
        return what
    axes = "axis 0" if leading == 1 else f"axes 0 to {leading - 1}"
    return f"{what} of index 0 of {axes}"


def _reduced(plane: Array) -> Floats:
    """Return ``plane`` in at most `MOST_CELLS` rows and columns, each the mean of what it covers.

    NaN, where anything that a cell covers is not finite: one bad element must be seen.
    """
    cells = np.where(np.isfinite(plane), plane, np.nan).astype(np.float64)
    for axis in (0, 1):
        extent = cells.shape[axis]
        if extent > MOST_CELLS:
            edges = [number * extent // MOST_CELLS for number in range(MOST_CELLS + 1)]
            parts = [
                cells.take(range(start, stop), axis).mean(axis, dtype=np.float64)
                for start, stop in pairwise(edges)
            ]
            cells = np.stack(parts, axis)
    # Numbers of float64 that float32 lacks are shown as its greatest.
    return np.clip(cells, -_GREATEST, _GREATEST).astype(np.float32)

"""A series of numbers without end in bounded memory: exact where it is new, coarser with its age.

In: values, in order. Out: any stretch of them in as many points as wanted. Invariant: a point that
stands for many values holds the least, the greatest and the mean of them, so that no spike is lost;
one thread writes, any number read, and nobody waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

EXACT: Final = 1 << 16
"""So many of the latest values are kept one by one."""

KEPT: Final = 1 << 12
"""So many of the latest points are kept on each coarser level."""

FOLD: Final = 4
"""A point stands for so many points of the level below."""

_BATCH: Final = 1 << 12
"""So many values are folded at once: seldom, and before they are overwritten."""

_ROWS: Final = 1 << 8
"""So many points of a level are folded at once."""

_DEPTH: Final = 2
"""A stretch is read over so many levels at once."""

_FIRST_ROOM: Final = 1 << 8


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A part of a series in points of one width.

    Attributes
    ----------
    first
        The place of the first value that the first point stands for, counted from 0.
    width
        How many values a point stands for; the last point may stand for fewer.
    least, greatest, mean
        Of the finite values of each point, float32 or float64; NaN where there are none.
    """

    first: int
    width: int
    least: Array
    greatest: Array
    mean: Array

    def __len__(self) -> int:
        return len(self.mean)


@final
class _Ring:
    """The latest rows of an endless table; ``made`` is written last: what it counts is there.

    Parameters
    ----------
    most
        How many rows are held.
    at_once
        How many are added at once, at most: so many of the oldest may be overwritten already.
    """

    __slots__ = ("at_once", "made", "most", "rows")

    def __init__(self, most: int, at_once: int, row: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self.most = most
        self.at_once = at_once
        self.made = 0
        self.rows: Array = np.empty((_FIRST_ROOM, *row), dtype)

    def append(self, new: Array) -> None:
        """Add rows, ``at_once`` at most."""
        if new.dtype != self.rows.dtype:
            with np.errstate(over="ignore"):  # a loss that exploded is infinite here
                new = new.astype(self.rows.dtype)
        made, stop = self.made, self.made + len(new)
        if stop > len(self.rows) < self.most:
            room = len(self.rows)
            while room < min(stop, self.most):
                room *= 2
            grown = np.empty((room, *self.rows.shape[1:]), self.rows.dtype)
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        room = len(self.rows)
        at = made % room
        if at + len(new) <= room:
            self.rows[at : at + len(new)] = new
        else:
            head = room - at
            self.rows[at:] = new[:head]
            self.rows[: len(new) - head] = new[head:]
        self.made = stop

    def read(self, first: int, stop: int) -> Array:
        """Copy rows ``first`` .. ``stop - 1``, which the ring must still hold."""
        rows = self.rows
        room = len(rows)
        at, wanted = first % room, stop - first
        if at + wanted <= room:
            return rows[at : at + wanted].copy()
        return np.concatenate([rows[at:], rows[: at + wanted - room]])

    @property
    def oldest(self) -> int:
        """The first row that nobody is about to overwrite."""
        return max(0, self.made + self.at_once - self.most)


@final
class Series:
    """One value for each step, evaluation or epoch, for ever.

    Parameters
    ----------
    dtype
        What values are kept in.

    """

    __slots__ = ("_bad", "_exact", "_folded", "_levels")

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self._exact = _Ring(EXACT, _BATCH, (), dtype)
        self._levels: list[_Ring] = []
        self._bad = 0
        self._folded = 0

    @property
    def count(self) -> int:
        """How many values there were."""
        return self._exact.made

    @property
    def last(self) -> float:
        """The latest value; NaN if there is none."""
        made = self._exact.made
        return float(self._exact.read(made - 1, made)[0]) if made else float("nan")

    @property
    def nbytes(self) -> int:
        """The memory that it takes, in bytes; does not grow beyond about 1 MB."""
        return sum(ring.rows.nbytes for ring in (self._exact, *self._levels))

    @property
    def bad(self) -> int:
        """How many values were not finite."""
        exact = self._exact
        made, folded = exact.made, self._folded
        tail = exact.read(max(folded, exact.oldest), made)
        return self._bad + int(len(tail) - np.isfinite(tail).sum())

    def extend(self, values: Array) -> None:
        """Add values at the end; only ever from one thread.

        Parameters
        ----------
        values
            Shape ``(n,)``.
        """
        exact = self._exact
        for start in range(0, len(values), _BATCH):
            exact.append(values[start : start + _BATCH])
            if exact.made - self._folded >= _BATCH:
                self._fold()

    def append(self, value: float) -> None:
        """Add one value at the end; only ever from one thread."""
        exact = self._exact
        made, rows = exact.made, exact.rows
        if made == len(rows) < exact.most:
            self.extend(np.array([value], np.float64).astype(rows.dtype))
            return
        rows[made % len(rows)] = value
        exact.made = made + 1
        if exact.made - self._folded >= _BATCH:
            self._fold()

    def _fold(self) -> None:
        """Give to each level what has gathered on the one below."""
        below, enough = self._exact, _BATCH
        for level in range(64):
            if level == len(self._levels):
                self._levels.append(_Ring(KEPT, 2 * _BATCH // FOLD, (3,), below.rows.dtype))
            ring = self._levels[level]
            stop = below.made // FOLD
            if below.made - FOLD * ring.made < enough:
                return
            rows = below.read(FOLD * ring.made, FOLD * stop)
            if level == 0:
                finite = np.isfinite(rows)
                if not finite.all():
                    self._bad += len(rows) - int(finite.sum())
                    rows = np.where(finite, rows, np.nan)
                self._folded = FOLD * stop
            ring.append(_folded(rows))
            below, enough = ring, _ROWS

    def read(self, first: int = 0, stop: int | None = None, *, most: int = 1024) -> Stretch:
        """Return the values from ``first`` to before ``stop`` in at most about ``most`` points.

        The points are as fine as that allows, and as what is kept of so long ago allows.  May be
        called from any thread.

        Parameters
        ----------
        first, stop
            Places of values; what lies outside the series is left out.
        most
            Points at most, but for two at the ends.
        """
        while True:
            stretch = self._read(first, stop, most)
            if stretch is not None:
                return stretch

    def _read(self, first: int, stop: int | None, most: int) -> Stretch | None:
        count = self.count
        stop = count if stop is None else min(stop, count)
        first = min(max(first, 0), stop)
        level = 0
        # A level that was not begun yet is made of those below.
        while stop - first > most * FOLD**level or first < self._ring(level).oldest * FOLD**level:
            level += 1
        width = FOLD**level
        begin, end = first // width, -(-stop // width)
        rows = self._points(level, begin, end, count)
        if rows is None:
            return None
        return Stretch(begin * width, width, rows[:, 0], rows[:, 1], rows[:, 2])

    def _ring(self, level: int) -> _Ring:
        if level == 0:
            return self._exact
        return self._levels[level - 1] if level <= len(self._levels) else _NOTHING

    def _points(self, level: int, begin: int, end: int, count: int) -> Array | None:
        """Return the points ``begin`` .. ``end - 1`` of a level, the unfinished one included."""
        ring = self._ring(level)
        made = min(ring.made, end)
        begin = min(begin, end)
        rows = ring.read(begin, max(begin, made))
        if level == 0:
            rows = np.where(np.isfinite(rows), rows, np.nan)[:, np.newaxis].repeat(3, axis=1)
        if begin < ring.oldest:
            return None  # overwritten meanwhile
        if made >= end or level == 0:
            return rows
        start = max(begin, made)
        # What has gathered since is taken from two levels below, where there are two: fewer calls.
        depth = min(level, _DEPTH)
        each = FOLD**depth
        lower_end = min(each * end, -(-count // FOLD ** (level - depth)))
        lower = self._points(level - depth, each * start, lower_end, count)
        if lower is None:
            return None
        missing = -len(lower) % each
        padded = np.concatenate([lower, np.full((missing, 3), np.nan, lower.dtype)])
        return np.concatenate([rows, _folded(padded, each)])


_NOTHING: Final = _Ring(KEPT, 0, (3,), np.float32)
_ONES: Final = np.ones(FOLD**_DEPTH, np.float64)


def _combined(function: np.ufunc, values: Array, by: int) -> Array:
    if by != FOLD:
        reduced: Array = function.reduce(values.reshape(-1, by), axis=1)
        return reduced
    # Four long operands are many times faster than a reduction over short rows.
    a, b, c, d = (values[start::FOLD] for start in range(FOLD))
    combined: Array = function(function(a, b), function(c, d))
    return combined


def _folded(rows: Array, by: int = FOLD) -> Array:
    """Return least, greatest and mean of each ``by`` values or points; NaN does not count."""
    least, greatest, means = rows.T if rows.ndim == 2 else (rows,) * 3
    made = np.empty((len(rows) // by, 3), rows.dtype)
    made[:, 0] = _combined(np.fmin, least, by)
    made[:, 1] = _combined(np.fmax, greatest, by)
    ones = _ONES[:by]
    sums = means.reshape(-1, by) @ ones
    if np.isnan(sums).any():
        known = ~np.isnan(means)
        counts = known.reshape(-1, by) @ ones
        sums = np.where(known, means, 0.0).reshape(-1, by) @ ones
        unknown = np.full(len(sums), np.nan)
        made[:, 2] = np.divide(sums, counts, out=unknown, where=counts > 0)
    else:
        made[:, 2] = sums / by
    return made

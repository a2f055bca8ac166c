"""Rows of epochs in a few arrays: 44 bytes an epoch, and 8 for each metric.

In: rows.  Out: the same rows, columns, and arrays for a checkpoint.  Invariant: the rows that come
out are the rows that went in, bit by bit, NaN included; what was read stays as it was when more
rows come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final, overload

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError
from workbench.train.epoch_row import EpochRow

__all__ = ["EpochLog", "EpochRows"]

Array = npt.NDArray[Any]
Names: TypeAlias = tuple[str | None, ...]
"""Of a row: those of its evaluation, and after a None, where there are any, those of its step."""

# Room for so many rows to begin with; it doubles when it is full.
_ROOM: Final = 64
NUMBERS: Final = ("train_loss", "lr", "seconds")


@final
class EpochLog:
    """Rows of epochs, packed.

    Attributes
    ----------
    signatures
        Each list of metric names that any row has, in the order in which they first came.
    """

    __slots__ = ("_epochs", "_numbers", "_rows", "_starts", "_values", "_which", "signatures")

    def __init__(self) -> None:
        self.signatures: list[Names] = []
        self._rows = 0
        self._epochs = np.zeros(_ROOM, np.int64)
        self._numbers = np.zeros((_ROOM, len(NUMBERS)), np.float64)
        self._which = np.zeros(_ROOM, np.int32)
        # Where the metrics of a row begin; one more than there are rows.
        self._starts = np.zeros(_ROOM + 1, np.int64)
        self._values = np.zeros(_ROOM, np.float64)

    def append(self, row: EpochRow) -> None:
        """Add a row."""
        names: Names = tuple(name for name, _ in row.val)
        values = [value for _, value in row.val]
        if row.train:
            names += (None, *(name for name, _ in row.train))
            values += [0.0, *(value for _, value in row.train)]
        if names not in self.signatures:
            self.signatures.append(names)
        at = self._rows
        start = int(self._starts[at])
        stop = start + len(names)
        if at == len(self._epochs):
            self._epochs, self._numbers = _doubled(self._epochs), _doubled(self._numbers)
            self._which, self._starts = _doubled(self._which), _doubled(self._starts)
        while stop > len(self._values):
            self._values = _doubled(self._values)
        self._epochs[at] = row.epoch
        self._numbers[at] = row.train_loss, row.lr, row.seconds
        self._which[at] = self.signatures.index(names)
        self._values[start:stop] = values
        self._starts[at + 1] = stop
        self._rows = at + 1

    def __len__(self) -> int:
        return self._rows

    @property
    def rows(self) -> EpochRows:
        """The rows that there are now; more may come without changing these."""
        return EpochRows(self, self._rows)

    def row(self, place: int) -> EpochRow:
        """Return the row at ``place``, counted from 0."""
        names = self.signatures[int(self._which[place])]
        start, stop = (int(each) for each in self._starts[place : place + 2])
        values: list[float] = self._values[start:stop].tolist()
        cut = names.index(None) if None in names else len(names)
        val = _named(names[:cut], values[:cut])
        train = _named(names[cut + 1 :], values[cut + 1 :])
        loss, lr, seconds = self._numbers[place].tolist()
        return EpochRow(int(self._epochs[place]), loss, lr, val, seconds, train)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last row; 0 without one."""
        return int(self._epochs[self._rows - 1]) if self._rows else 0

    def names(self, *, of_step: bool) -> tuple[str, ...]:
        """Return the names of all metrics of evaluations or of the step, first ones first."""
        found = (name for names in self.signatures for name in _part(names, of_step=of_step))
        return tuple(dict.fromkeys(found))

    def epochs(self) -> npt.NDArray[np.int64]:
        """Return the epochs, of shape ``(rows,)``."""
        return self._epochs[: self._rows].copy()

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return the column ``train_loss``, ``lr`` or ``seconds``, of shape ``(rows,)``."""
        return self._numbers[: self._rows, NUMBERS.index(name)].copy()

    def metric(self, name: str, *, of_step: bool) -> npt.NDArray[np.float64]:
        """Return a metric, of shape ``(rows,)``; NaN where a row has none."""
        count = self._rows  # another thread may add rows meanwhile
        column = np.full(count, np.nan)
        for number, names in enumerate(self.signatures):
            part = _part(names, of_step=of_step)
            if name in part:
                place = part.index(name) + (names.index(None) + 1 if of_step else 0)
                rows = np.flatnonzero(self._which[:count] == number)
                column[rows] = self._values[self._starts[rows] + place]
        return column

    def arrays(self) -> dict[str, Array]:
        """Return the rows as arrays, copied.

        ``epoch`` and ``signature`` of shape ``(rows,)``, ``numbers`` of shape ``(rows, 3)`` (loss,
        learning rate, seconds) and ``values``, all metrics one after another.
        """
        return {
            "epoch": self._epochs[: self._rows].copy(),
            "numbers": self._numbers[: self._rows].copy(),
            "signature": self._which[: self._rows].copy(),
            "values": self._values[: int(self._starts[self._rows])].copy(),
        }

    @staticmethod
    def of_arrays(
        arrays: Mapping[str, Array], signatures: Sequence[Sequence[str | None]]
    ) -> EpochLog:
        """Return the log that `arrays` and ``signatures`` were made of.

        Raises
        ------
        DataError
            If they do not fit together.
        """
        made = EpochLog()
        made.signatures = [tuple(names) for names in signatures]
        try:
            epochs = _column(arrays["epoch"], np.int64, 1)
            numbers = _column(arrays["numbers"], np.float64, 2)
            which = _column(arrays["signature"], np.int32, 1)
            values = _column(arrays["values"], np.float64, 1)
            sizes = np.array([len(names) for names in signatures], np.int64)
            count = len(epochs)
            if (numbers.shape, which.shape) != ((count, len(NUMBERS)), (count,)):
                raise ValueError(f"{count} epochs, {numbers.shape} numbers, {which.shape} kinds")
            if count and not 0 <= int(which.min()) <= int(which.max()) < len(sizes):
                raise ValueError("a kind of row that there is not")
            starts = np.concatenate(([0], np.cumsum(sizes[which]))).astype(np.int64)
            if int(starts[-1]) != len(values) or np.any(np.diff(epochs) <= 0):
                raise ValueError(f"{len(values)} values, {int(starts[-1])} wanted")
        except (KeyError, IndexError, ValueError, TypeError) as fault:
            raise DataError(
                f"the history in the checkpoint does not fit together: {fault!r}",
                remedy="use another checkpoint",
            ) from fault
        made._rows = count
        made._epochs, made._numbers, made._which = epochs, numbers, which
        made._starts, made._values = starts, values
        return made


@final
class EpochRows(Sequence[EpochRow]):
    """The first rows of a log, made when they are looked at."""

    __slots__ = ("_count", "_log")

    def __init__(self, log: EpochLog, count: int) -> None:
        self._log, self._count = log, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> EpochRow: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[EpochRow, ...]: ...
    def __getitem__(self, place: int | slice) -> EpochRow | tuple[EpochRow, ...]:
        places = range(self._count)[place]
        if isinstance(places, range):
            return tuple(self._log.row(each) for each in places)
        return self._log.row(places)

    def __iter__(self) -> Iterator[EpochRow]:
        return (self._log.row(place) for place in range(self._count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Sequence[object]", other))

    # Equal to any sequence of the same rows, so it could not agree with the hashes of all of them.
    __hash__ = None  # type: ignore[assignment]  # `object` declares a method

    def __repr__(self) -> str:
        return repr(tuple(self))


def _part(names: Names, *, of_step: bool) -> tuple[str, ...]:
    cut = names.index(None) if None in names else len(names)
    return tuple(
        name for name in (names[cut + 1 :] if of_step else names[:cut]) if name is not None
    )


def _named(names: Names, values: Sequence[float]) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, value) for name, value in zip(names, values, strict=True) if name is not None
    )


def _column(array: Array, dtype: type[np.generic], axes: int) -> Array:
    if array.dtype != dtype or array.ndim != axes:
        raise ValueError(f"{array.dtype} {array.shape} where {dtype.__name__} is wanted")
    return array.copy()


def _doubled(array: Array) -> Array:
    room = np.zeros((max(len(array), _ROOM), *array.shape[1:]), array.dtype)
    return np.concatenate((array, room))

"""A history as a few arrays, so that a checkpoint of a long run stays small and is quickly made.

In: a `History`.  Out: arrays, and the names that go with them; and back.  Invariant: the rows that
come back are the rows that went in, bit by bit, NaN included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from workbench.errors import DataError
from workbench.train.history import EpochRow, History

__all__ = ["PackedHistory", "unpack_history"]

Array = npt.NDArray[Any]

# Room for so many rows to begin with; it doubles when it is full.
_ROOM: Final = 64


@final
class PackedHistory:
    """The rows of a history in arrays that grow with it: an epoch is packed once.

    Attributes
    ----------
    signatures
        Each list of metric names that any row has: those of its evaluation, and after a None, where
        there are any, those of its step.
    """

    __slots__ = (
        "_epochs",
        "_last",
        "_numbers",
        "_rows",
        "_used",
        "_values",
        "_which",
        "signatures",
    )

    def __init__(self) -> None:
        self.signatures: list[tuple[str | None, ...]] = []
        self._clear()

    def _clear(self) -> None:
        self._rows = self._used = 0
        self._last: EpochRow | None = None
        self._epochs = np.zeros(_ROOM, np.int64)
        self._numbers = np.zeros((_ROOM, 3), np.float64)
        self._which = np.zeros(_ROOM, np.int32)
        self._values = np.zeros(_ROOM, np.float64)

    def extend(self, history: History) -> None:
        """Take in the rows that came since the last call."""
        rows = history.rows
        if self._rows > len(rows) or (self._rows and rows[self._rows - 1] is not self._last):
            self._clear()  # it is the history of a run that was restored in between
        for row in rows[self._rows :]:
            self._add(row)
        self._last = rows[-1] if rows else None

    def _add(self, row: EpochRow) -> None:
        named: list[tuple[str | None, float]] = [*row.val]
        if row.train:
            named += [(None, 0.0), *row.train]
        names = tuple(name for name, _ in named)
        if names not in self.signatures:
            self.signatures.append(names)
        at, start, stop = self._rows, self._used, self._used + len(names)
        if at == len(self._epochs):
            self._epochs = _doubled(self._epochs)
            self._numbers = _doubled(self._numbers)
            self._which = _doubled(self._which)
        while stop > len(self._values):
            self._values = _doubled(self._values)
        self._epochs[at] = row.epoch
        self._numbers[at] = row.train_loss, row.lr, row.seconds
        self._which[at] = self.signatures.index(names)
        self._values[start:stop] = [value for _, value in named]
        self._rows, self._used = at + 1, stop

    def arrays(self) -> dict[str, Array]:
        """Return the rows as arrays, copied.

        ``epoch`` and ``signature`` of shape ``(rows,)``, ``numbers`` of shape ``(rows, 3)`` (loss,
        learning rate, seconds) and ``values``, all metrics one after another.
        """
        return {
            "epoch": self._epochs[: self._rows].copy(),
            "numbers": self._numbers[: self._rows].copy(),
            "signature": self._which[: self._rows].copy(),
            "values": self._values[: self._used].copy(),
        }


def unpack_history(
    arrays: Mapping[str, Array], signatures: Sequence[Sequence[str | None]]
) -> History:
    """Return the history that was packed.

    Raises
    ------
    DataError
        If the arrays do not fit together.
    """
    rows: list[EpochRow] = []
    used = 0
    try:
        columns = [arrays[name].tolist() for name in ("epoch", "numbers", "signature")]
        for epoch, (loss, lr, seconds), which in zip(*columns, strict=True):
            names = signatures[int(which)]
            values: list[float] = arrays["values"][used : used + len(names)].tolist()
            used += len(names)
            named = list(zip(names, values, strict=True))
            cut = names.index(None) if None in names else len(names)
            val, train = _named(named[:cut]), _named(named[cut + 1 :])
            rows.append(EpochRow(epoch, loss, lr, val, seconds, train))
        return History(rows)
    except (KeyError, IndexError, ValueError, TypeError) as fault:
        raise DataError(
            f"the history in the checkpoint does not fit together: {fault!r}",
            remedy="use another checkpoint",
        ) from fault


def _named(pairs: Sequence[tuple[str | None, float]]) -> tuple[tuple[str, float], ...]:
    return tuple((name, value) for name, value in pairs if name is not None)


def _doubled(array: Array) -> Array:
    return np.concatenate((array, np.zeros_like(array)))

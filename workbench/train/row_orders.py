"""In which order each epoch visits the rows, made while the epoch before is learned.

In: how many rows there are, and the run's seed or a person's function.  Out: row numbers.
Invariant: an order depends on the seed and the number of its pass alone, whoever made it and when.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from workbench.data.batch import row_order
from workbench.errors import DataError

__all__ = ["RowOrder", "RowOrders"]

RowOrder: TypeAlias = Callable[[int], npt.ArrayLike]
Rows: TypeAlias = npt.NDArray[np.int64]

# An order of fewer rows is made in about the time that it takes to wake a thread.
_WORTH_A_THREAD: Final = 10_000


@final
class RowOrders:
    """The orders of one run's passes over its rows.

    Parameters
    ----------
    rows
        How many there are.
    seed
        The run's.
    shuffle
        Whether passes are permutations.
    given
        ``given(number)`` returns the order of a pass, in place of one by the seed.
    """

    def __init__(self, rows: int, *, seed: int, shuffle: bool, given: RowOrder | None) -> None:
        self.rows, self.seed, self.shuffle, self.given = rows, seed, shuffle, given
        self._known: tuple[int, Rows] | None = None
        self._ahead: _Ahead | None = None

    def write_pass(self, number: int, into: Rows, *, go_on: bool) -> None:
        """Write the order of pass ``number``; with ``go_on`` the next one is made meanwhile."""
        into[...] = self._pass(number, go_on=go_on)

    def write_part(self, first: int, into: Rows) -> None:
        """Write rows ``first`` and following of the endless sequence of one pass after another."""
        at = 0
        while at < len(into):
            number, place = divmod(first + at, self.rows)
            part = self._pass(number, go_on=True)[place : place + len(into) - at]
            into[at : at + len(part)] = part
            at += len(part)

    def close(self) -> None:
        """End the thread, if there is one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.close()

    def _pass(self, number: int, *, go_on: bool) -> Rows:
        if self._known is not None and self._known[0] == number:
            return self._known[1]
        order = None if self._ahead is None else self._ahead.take(number)
        if order is None:
            order = self._made(number)
        self._known = number, order
        if go_on and self.given is None and self.shuffle and self.rows >= _WORTH_A_THREAD:
            if self._ahead is None:
                self._ahead = _Ahead(self._made)
            self._ahead.ask(number + 1)
        return order

    def _made(self, number: int) -> Rows:
        if self.given is not None:
            return _checked(self.given(number), number, self.rows)
        return row_order(self.rows, seed=self.seed, epoch=number, shuffle=self.shuffle)


@final
class _Ahead:
    """A thread that makes the order of one pass at a time."""

    def __init__(self, make: Callable[[int], Rows]) -> None:
        self._make = make
        self._wanted: int | None = None
        self._found: Rows | None = None
        self._is_asked = False
        # Locks that one thread takes and the other gives: waking by them costs least.
        self._asked, self._done = threading.Lock(), threading.Lock()
        self._asked.acquire()
        self._done.acquire()
        threading.Thread(target=self._work, name="wb-order", daemon=True).start()

    def ask(self, number: int) -> None:
        """Have the order of a pass made; what was asked for before was taken."""
        self._wanted, self._is_asked = number, True
        self._asked.release()

    def take(self, number: int) -> Rows | None:
        """Return the order that was asked for, once it is there; None if that was another."""
        if not self._is_asked:
            return None
        self._done.acquire()
        self._is_asked = False
        found, self._found = self._found, None
        return found if self._wanted == number else None

    def close(self) -> None:
        """End the thread; an order that it is making is made first."""
        self.take(-1)
        self._wanted = None
        self._asked.release()

    def _work(self) -> None:
        while True:
            self._asked.acquire()
            if self._wanted is None:
                return
            try:
                self._found = self._make(self._wanted)
            finally:
                self._done.release()


def _checked(order: npt.ArrayLike, number: int, rows: int) -> Rows:
    """Return the row numbers that a person gave for a pass, one for each row of the data."""
    numbers = np.asarray(order)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise DataError(
            f"row_order({number}) gave {numbers.dtype} of shape {numbers.shape} for {rows} rows",
            remedy="return one row number for each row of the training set",
        )
    wrong = (numbers < 0) | (numbers >= rows)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"row_order({number})[{place}] is {numbers[place]}; the rows are 0 to {rows - 1}",
            remedy="return a permutation of the row numbers",
        )
    return numbers.astype(np.int64)

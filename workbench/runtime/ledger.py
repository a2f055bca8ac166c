"""The execution ledger of a root: what ran, who wrote each buffer, whether values can be trusted.

In: runs and writes as they happen. Out: answers for the checks before a run. Invariant: every
context of one root shares the ledger; it holds routines and buffers by weak reference only, so that
being known here keeps nothing alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final
from weakref import WeakSet, WeakValueDictionary

from workbench.errors import ExecutionError

if TYPE_CHECKING:
    from workbench.runtime.routine import Routine


@final
class Record:
    """What is known of the bytes of one buffer.

    Attributes
    ----------
    written
        Whether anything was ever written: by a run, from outside, or as initial value.
    writer
        Number of the routine that wrote last, None if that was a write from outside a run.
    sole_writer
        Number of the routine that alone has ever written, None if another write came before or
        after.
    runs
        How often each routine has accumulated into it since it was last reset, by number.
    """

    __slots__ = ("__weakref__", "runs", "sole_writer", "writer", "written")

    def __init__(self) -> None:
        self.written = False
        self.writer: int | None = None
        self.sole_writer: int | None = None
        self.runs: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class Poison:
    """The failure after which the values of a lineage cannot be trusted."""

    routine: str
    failure: BaseException


@final
class Ledger:
    """What happened in the lineage of one root.

    Attributes
    ----------
    executed
        Numbers of the routines that have run.
    routines
        Those that still exist, by number. One that is gone cannot run any more, so that nothing has
        to wait for it.
    poison
        The first failure that may have left values half written.
    has_withdrawn
        Whether a claim that something was written was ever taken back: what a context thinks is
        initialized then has to be looked up.
    """

    __slots__ = (
        "__weakref__",
        "_records",
        "_stamped",
        "executed",
        "has_withdrawn",
        "poison",
        "routines",
    )

    def __init__(self) -> None:
        self.executed: set[int] = set()
        self.routines: WeakValueDictionary[int, Routine] = WeakValueDictionary()
        self.poison: Poison | None = None
        self.has_withdrawn = False
        self._records: WeakSet[Record] = WeakSet()
        # Which dispatch wrote last: if it was this one, its buffers carry its number already.
        self._stamped: object = None

    def write(self, record: Record) -> None:
        """Note a write from outside a run, which supersedes whatever a routine left there."""
        if not record.written:
            record.written = True
            self._records.add(record)
        record.writer = record.sole_writer = None
        record.runs.clear()
        self._stamped = None

    def ran(self, routine: int, written: Iterable[Record], dispatch: object = None) -> None:
        """Note a run and who it wrote.

        Parameters
        ----------
        routine
            Its number.
        written
            Records of the buffers that it writes.
        dispatch
            Stands for these buffers: if the run before this one was over the same, nothing but the
            order of runs has changed.
        """
        self.executed.add(routine)
        if dispatch is not None and self._stamped is dispatch:
            return
        for record in written:
            if not record.written:
                record.written = True
                record.sole_writer = routine
                self._records.add(record)
            elif record.sole_writer != routine:
                record.sole_writer = None
            record.writer = routine
        self._stamped = dispatch

    def rollback(self, routine: int) -> None:
        """Take back that a routine ran; only if it is known to have written nothing."""
        self.executed.discard(routine)
        self.has_withdrawn = True
        self._stamped = None
        for record in list(self._records):
            if record.writer != routine:
                continue
            record.writer = None
            if record.sole_writer == routine:
                self.retire(record)
            if routine in record.runs:
                record.runs[routine] -= 1

    def retire(self, record: Record) -> None:
        """Take back that a buffer was ever written: it holds nothing that anyone may read."""
        self.has_withdrawn = True
        self._stamped = None
        record.written = False
        record.writer = record.sole_writer = None
        self._records.discard(record)

    def condemn(self, routine: str, failure: BaseException) -> None:
        """Refuse everything from now on; the first failure is the one that is told."""
        if self.poison is None:
            self.poison = Poison(routine, failure)

    def refuse_poisoned(self, what: str) -> None:
        """Refuse ``what`` if a failure may have left values half written.

        Raises
        ------
        ExecutionError
            Naming the routine and the failure, which is its cause.
        """
        if self.poison is None:
            return
        failure = self.poison.failure
        raise ExecutionError(
            f"{what} is refused: `{self.poison.routine}` failed in this lineage with "
            f"{type(failure).__name__}: {failure}, and may have left buffers half written",
            remedy="start again from a new root, such as `wb.Context.cpu()`: compile there and set "
            "all values",
        ) from failure

    def record_count(self) -> int:
        """Return how many entries the ledger holds: routines, runs and written buffers."""
        return len(self.routines) + len(self.executed) + len(self._records)

    def accumulation_history(self) -> Callable[[], None]:
        """Return a function that makes the counts of accumulation what they are now."""
        saved = {record: dict(record.runs) for record in self._records}

        def restore() -> None:
            for record in self._records:
                record.runs = dict(saved.get(record, {}))

        return restore

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
from workbench.runtime.accumulation import Accumulation, Key, Tally

if TYPE_CHECKING:
    from workbench.runtime.routine import Routine


@final
class Record:
    """What is known of the bytes of one buffer.

    Attributes
    ----------
    written
        Whether anything was ever written: by a run, from outside, or as initial value.
    set_at
        When it was last written from outside a run, by the ledger's clock; 0 if never.
    writers
        Numbers of the routines whose runs write it.
    tally
        How often each routine has accumulated into it since it was last reset; None if none ever.
    """

    __slots__ = ("__weakref__", "set_at", "tally", "writers", "written")

    def __init__(self) -> None:
        self.written = False
        self.set_at = 0
        self.writers: set[int] = set()
        self.tally: Tally | None = None


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
    generation
        How often a claim that something was written was taken back: whoever was noted as a writer
        before has to be noted again, and what a context thinks is initialized to be looked up.
    accumulation
        Counts of the routines that accumulate from run to run.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_ran_at",
        "_records",
        "accumulation",
        "executed",
        "generation",
        "poison",
        "routines",
    )

    def __init__(self) -> None:
        self.executed: set[int] = set()
        self.routines: WeakValueDictionary[int, Routine] = WeakValueDictionary()
        self.poison: Poison | None = None
        self.generation = 0
        self.accumulation = Accumulation()
        self._records: WeakSet[Record] = WeakSet()
        self._clock = 0
        # When each routine ran last. Buffers do not say who wrote them last, so that a run is noted
        # in one place, however many buffers it writes.
        self._ran_at: dict[int, int] = {}

    @property
    def has_withdrawn(self) -> bool:
        """Whether a claim that something was written was ever taken back."""
        return self.generation > 0

    @property
    def turn(self) -> int:
        """Number that changes whenever what a context knows to be initialized may be otherwise.

        It is 0 as long as no claim was ever taken back: until then what a context knows stays so.
        """
        return self.generation + self._clock if self.generation else 0

    def write(self, record: Record) -> None:
        """Note a write from outside a run, which supersedes whatever a routine left there."""
        self._clock += 1
        self._hold(record)
        record.set_at = self._clock
        if record.tally is not None:
            self.accumulation.reset([record])

    def enlist(self, routine: int, written: Iterable[Record]) -> None:
        """Note which buffers the runs of a routine write, before `ran` notes the first of them."""
        for record in written:
            self._hold(record)
            record.writers.add(routine)

    def ran(self, routine: int) -> None:
        """Note a run."""
        self._clock += 1
        self._ran_at[routine] = self._clock
        self.executed.add(routine)

    def writer(self, record: Record) -> int | None:
        """Return the number of the routine that wrote a buffer last, None if none did."""
        at, found = record.set_at, None
        for routine in record.writers:
            ran_at = self._ran_at.get(routine, 0)
            if ran_at > at:
                at, found = ran_at, routine
        return found

    def rollback(self, routine: int, counted_as: Key) -> None:
        """Take back that a routine ran; only if it is known to have written nothing."""
        self.executed.discard(routine)
        self._ran_at.pop(routine, None)
        self.generation += 1
        touched = [record for record in self._records if routine in record.writers]
        self.accumulation.take_back(counted_as, touched)
        for record in touched:
            record.writers.discard(routine)
            if not record.writers and not record.set_at:
                self.retire(record)

    def retire(self, record: Record) -> None:
        """Take back that a buffer was ever written: it holds nothing that anyone may read."""
        self.generation += 1
        record.written = False
        record.set_at = 0
        record.writers.clear()
        self._records.discard(record)

    def _hold(self, record: Record) -> None:
        if not record.written:
            record.written = True
            self._records.add(record)

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
        restore = self.accumulation.saved(self._records)
        return lambda: restore(self._records)

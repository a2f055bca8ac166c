"""How often each routine has added to a gradient since that was reset.

In: runs that add and runs or writes that reset. Out: counts, for each routine and buffer.
Invariant: buffers that share a tally were added to and reset together, always; so the gradients of
a model, which are, cost one count a run, and not one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, final

Key: TypeAlias = int | frozenset[int]
"""`Link.counted_as` of a routine."""


@final
class Tally:
    """Counts by the key of a routine, shared by ``size`` buffers."""

    __slots__ = ("runs", "size")

    def __init__(self, runs: dict[Key, int], size: int) -> None:
        self.runs = runs
        self.size = size


class Counted(Protocol):
    """What is asked of the record of a buffer."""

    tally: Tally | None


@final
class Accumulation:
    """The tallies of one ledger.

    Attributes
    ----------
    version
        Changes whenever buffers come to share a tally, or cease to; 0 as long as nothing was ever
        counted. What `common` said stays true as long as this does.
    """

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0

    @staticmethod
    def common(records: Sequence[Counted]) -> Tally | None:
        """Return the tally that exactly these buffers share, None if they share none."""
        if not records:
            return None
        tally = records[0].tally
        if tally is None or tally.size != len(records):
            return None
        return tally if all(record.tally is tally for record in records) else None

    def add(self, routine: Key, records: Sequence[Counted]) -> None:
        """Count a run that adds to these buffers."""
        tally = self.common(records)
        if tally is None:
            groups: dict[int, tuple[Tally | None, list[Counted]]] = {}
            for record in records:
                groups.setdefault(id(record.tally), (record.tally, []))[1].append(record)
            for old, members in groups.values():
                runs = {} if old is None else dict(old.runs)
                runs[routine] = runs.get(routine, 0) + 1
                self._share(members, runs)
        else:
            tally.runs[routine] = tally.runs.get(routine, 0) + 1

    def reset(self, records: Sequence[Counted]) -> None:
        """Begin to count anew in these buffers."""
        if not self.version:
            return
        tally = self.common(records)
        if tally is None:
            self._share(records, {})
        else:
            tally.runs.clear()

    @staticmethod
    def runs(record: Counted, routine: Key) -> int:
        """Return how often a routine has added to a buffer since its last reset."""
        return 0 if record.tally is None else record.tally.runs.get(routine, 0)

    def take_back(self, routine: Key, records: Iterable[Counted]) -> None:
        """Count a run less, in those of the buffers where it was counted."""
        tallies = {id(each.tally): each.tally for each in records if each.tally is not None}
        for tally in tallies.values():
            if tally.runs.get(routine):
                tally.runs[routine] -= 1

    def saved(self, records: Iterable[Counted]) -> Callable[[Iterable[Counted]], None]:
        """Return a function that sets the counts to what they are now.

        It takes all buffers of then: those that had no count now get none.
        """
        groups: dict[int, tuple[dict[Key, int], list[Counted]]] = {}
        for record in records:
            if record.tally is not None:
                runs = dict(record.tally.runs)
                groups.setdefault(id(record.tally), (runs, []))[1].append(record)

        def restore(now: Iterable[Counted]) -> None:
            for record in now:
                record.tally = None
            for runs, members in groups.values():
                self._share(members, dict(runs))
            self.version += 1

        return restore

    def _share(self, records: Sequence[Counted], runs: dict[Key, int]) -> None:
        made = Tally(runs, len(records))
        for record in records:
            if record.tally is not None:
                record.tally.size -= 1
            record.tally = made
        self.version += 1

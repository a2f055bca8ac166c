"""Release units: which contexts own memory together, and what giving it up does.

In: contexts as they are made. Out: whether they may still be used. Invariant: a unit holds no
context and no memory, so that dropping the last reference to a context frees what only it held,
whether or not anyone called ``release``.

A context that was compiled or decided from another begins a unit of its own, one level below. What
``run``, ``set_values`` and ``copy`` return belongs to the unit of the context they were called on.
One exception: if two calls on the *same* context each need new memory, the second begins a fork, a
unit beside the first that shares the older memory with it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Protocol, final

from workbench.errors import ExecutionError

_stages = itertools.count(1)


class Owner(Protocol):
    """What a unit asks of a context: its number, and to let go of its memory."""

    @property
    def id(self) -> int:
        """Number of the context."""
        ...

    def forget_memory(self) -> None:
        """Hold no buffers any more."""
        ...


class Linked(Protocol):
    """What a unit asks of a routine: its number, and to let go of its memory."""

    @property
    def id(self) -> int:
        """Number, never used again."""
        ...

    def forget_memory(self) -> None:
        """Keep no pairing with memory ready any more."""
        ...


@final
class Unit:
    """Contexts that are released together.

    Parameters
    ----------
    above
        The unit of the context that this one was compiled or decided from; None for a root.
    forked_from
        The unit that this one shares older memory with; None unless it is a fork.

    Attributes
    ----------
    root
        The unit that the whole lineage began with; a fork of it has the same.
    depth
        How many lifecycle ancestors it has.
    is_released
        Whether its memory was given up.
    name
        How errors call it: the first context that belonged to it.
    """

    def __init__(self, above: Unit | None = None, forked_from: Unit | None = None) -> None:
        self.above = above
        self.forked_from = forked_from
        origin = above or forked_from
        self.root: Unit = self if origin is None else origin.root
        self.depth: int = 0 if above is None else above.depth + 1
        self.is_released = self._is_freed = False
        self.name = ""
        self.newest = 0
        self._contexts: weakref.WeakSet[Owner] = weakref.WeakSet()
        self._routines: weakref.WeakSet[Linked] = weakref.WeakSet()
        self._shown: weakref.WeakSet[Linked] = weakref.WeakSet()
        self._below: weakref.WeakSet[Unit] = weakref.WeakSet()
        self._adopted: list[Unit] = []
        self._holders: weakref.WeakSet[Unit] = weakref.WeakSet()
        if above is not None:
            above._below.add(self)
        if forked_from is not None:
            for ancestor in forked_from._adopted:
                self._hold(ancestor)
        # No context of this unit or below exists any more once the unit itself is gone, yet someone
        # may still hold a routine, which keeps pairings with their memory ready.
        weakref.finalize(self, _forget_all, self._routines).atexit = False

    def add_context(self, context: Owner) -> None:
        """Let ``context`` belong to the unit."""
        if not self.name:
            self.name = f"context {context.id}"
        self._contexts.add(context)

    def add_routine(self, routine: Linked) -> None:
        """Let ``routine`` give up its memory when the unit does."""
        self._routines.add(routine)

    def show_routine(self, routine: Linked) -> None:
        """List ``routine`` among those of the unit, though it keeps the memory of another one."""
        self._shown.add(routine)

    def extended(self, stage: int) -> tuple[Unit, int]:
        """Return the unit and the stage of a context that needs new memory.

        Parameters
        ----------
        stage
            That of the context it is made of. Where a later one exists already, the two cannot
            supersede each other, so the new one is a fork.
        """
        unit = self
        if stage != self.newest:
            unit = Unit(self.above, forked_from=self)
        unit.newest = next(_stages)
        return unit, unit.newest

    # -- being released

    def release(self) -> None:
        """Give up the memory of this unit, and the ancestors that it alone still holds.

        Once is enough; again does nothing, except to go on where an earlier call failed.
        """
        self.is_released = True
        if not self._is_freed:
            for unit in self._and_below():
                for holder in [*unit._contexts, *unit._routines]:
                    holder.forget_memory()
            self._is_freed = True
        while self._adopted:
            ancestor = max(self._adopted, key=lambda unit: unit.depth)
            if not any(holder is not self for holder in ancestor._holders):
                ancestor.release()
            ancestor._holders.discard(self)
            self._adopted.remove(ancestor)

    def adopt(self, ancestor: Unit) -> None:
        """Release ``ancestor`` after this unit, which is below it.

        Raises
        ------
        ExecutionError
            If it is not on the way from this unit to its root.
        """
        if not any(unit is ancestor for unit in self.ancestors()):
            raise ExecutionError(
                f"{ancestor.name} is no lifecycle ancestor of {self.name}",
                remedy="adopt a context that this one was compiled or decided from",
            )
        if not any(unit is ancestor for unit in self._adopted):
            self._hold(ancestor)

    def _hold(self, ancestor: Unit) -> None:
        self._adopted.append(ancestor)
        ancestor._holders.add(self)

    def _and_below(self) -> Iterator[Unit]:
        waiting: list[Unit] = [self]
        while waiting:
            unit = waiting.pop()
            yield unit
            waiting.extend(unit._below)

    # -- being asked

    def ancestors(self) -> Iterator[Unit]:
        """Yield the units above this one, the nearest first."""
        unit = self.above
        while unit is not None:
            yield unit
            unit = unit.above

    def routines(self) -> list[Linked]:
        """Return the routines of this unit and of those above that still exist, nearest first."""
        found: dict[int, Linked] = {}
        for unit in (self, *self.ancestors()):
            for routine in sorted({*unit._routines, *unit._shown}, key=lambda each: -each.id):
                found.setdefault(routine.id, routine)
        return [*found.values()]

    def check_live(self) -> None:
        """Check that neither this unit nor one above it was released.

        Raises
        ------
        ExecutionError
            Naming the context that was, and how many levels up it is.
        """
        if self.is_released:
            raise ExecutionError(
                f"{self.name} was released: its memory is gone, and so is that of all contexts "
                "that `run`, `set_values` or `copy` made of it",
                remedy="compile again in a context that still lives",
            )
        for levels, unit in enumerate(self.ancestors(), 1):
            if unit.is_released:
                far = "1 level" if levels == 1 else f"{levels} levels"
                raise ExecutionError(
                    f"{self.name} was made of {unit.name}, {far} up, which was released",
                    remedy="compile again in a context that still lives; release the last contexts "
                    "first, those they were made of afterwards",
                )

    def holds_memory_of(self, other: Unit) -> bool:
        """Whether memory of ``other`` is kept by this unit or one above, as a fork of ``other``."""
        for unit in (self, *self.ancestors()):
            origin = unit.forked_from
            while origin is not None:
                if origin is other:
                    return True
                origin = origin.forked_from
        return False


def _forget_all(routines: weakref.WeakSet[Linked]) -> None:
    for routine in list(routines):
        routine.forget_memory()

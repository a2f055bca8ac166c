"""What a callback remembers of one run, as values that can be kept beside it.

In: a callback.  Out: its memory, as plain values and arrays by name.  Invariant: a callback that
takes back what it gave is as it was.
"""

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["Memory", "Packable"]

Memory: TypeAlias = Mapping[str, Any]
"""Plain values and numpy arrays by name; lists and dicts of them too."""


@runtime_checkable
class Packable(Protocol):
    """A callback that remembers something of the run that it serves.

    The memory is the run's: it goes into its checkpoints, and a callback that serves one run after
    another takes up what it remembered of each, and nothing of the others.
    """

    def pack(self) -> Memory:
        """Return what it remembers."""
        ...

    def unpack(self, packed: Any) -> None:
        """Remember what `pack` returned, and nothing else."""
        ...

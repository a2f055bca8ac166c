"""What a callback remembers of one run, as values that can be kept beside it.

In: a callback.  Out: its memory, as plain values and arrays by name.  Invariant: a callback that
takes back what it gave is as it was.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["Memory", "Packable", "require_kinds"]

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


def require_kinds(memory: Memory, **kinds: type | tuple[type, ...]) -> None:
    """Refuse a memory in which a value is of another type, not finite or below 0.

    Parameters
    ----------
    memory
        What a file holds.
    kinds
        The types of each value, by its name.

    Raises
    ------
    ValueError
        Naming the value.

    Examples
    --------
    >>> require_kinds({"epoch": 3, "seen": True}, epoch=int, seen=bool)
    """
    for name, kind in kinds.items():
        value = memory[name]
        allowed = kind if isinstance(kind, tuple) else (kind,)
        # A truth value is an int to Python, and no count.
        fits = isinstance(value, kind) and (not isinstance(value, bool) or bool in allowed)
        if not fits or (isinstance(value, (int, float)) and not (isfinite(value) and value >= 0)):
            raise ValueError(f"`{name}` cannot be {value!r}")

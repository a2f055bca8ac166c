"""What a callback remembers, as five plain numbers for a checkpoint.

In: a callback.  Out: its state.  Invariant: the numbers of the kinds never change, because files
hold them.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["Kind", "Packable", "Packed"]


class Kind(IntEnum):
    """What a callback is; the numbers are stable and go to files."""

    OTHER = 0
    SCHEDULE = 1
    EARLY_STOP = 2
    CHECKPOINT = 3
    LOG = 4
    PROGRESS = 5


class Packed(NamedTuple):
    """The state of one callback.

    Attributes
    ----------
    kind
        What it is.
    wait
        Evaluations since the best one.
    best
        The best value.
    best_epoch
        Completed epochs when it was measured.
    seen
        Whether anything was measured, 1 or 0.
    """

    kind: Kind = Kind.OTHER
    wait: float = 0.0
    best: float = 0.0
    best_epoch: float = 0.0
    seen: float = 0.0


@runtime_checkable
class Packable(Protocol):
    """A callback whose state goes to checkpoints; one without these methods has none."""

    def pack(self) -> Packed:
        """Return its state."""
        ...

    def unpack(self, packed: Packed) -> None:
        """Take a state back."""
        ...

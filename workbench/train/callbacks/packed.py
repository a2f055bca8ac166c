"""What callbacks remember, as plain numbers for a checkpoint: five for each callback.

In: the callbacks of a run, in any order.  Out: their states by ascending band.  Invariant: either
every callback takes its state back, or none does.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from workbench.errors import DataError
from workbench.train.callback import band_of, name_of

__all__ = ["Kind", "Packable", "Packed", "pack", "unpack"]


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


_FIELDS: Final = len(Packed._fields)


@runtime_checkable
class Packable(Protocol):
    """A callback whose state goes to checkpoints; one without these methods has none."""

    def pack(self) -> Packed:
        """Return its state."""
        ...

    def unpack(self, packed: Packed) -> None:
        """Take a state back."""
        ...


def pack(callbacks: Sequence[object]) -> list[float]:
    """Return the states of ``callbacks``: five numbers for each, by ascending band.

    Callbacks of one band keep their order, so that a list packs alike however its bands are mixed.
    """
    return [float(value) for _, state in _states(callbacks) for value in state]


def unpack(callbacks: Sequence[object], packed: Sequence[float]) -> None:
    """Give ``callbacks`` the states that `pack` returned.

    Raises
    ------
    DataError
        If they were another number of callbacks, or callbacks of other kinds; nothing is changed
        then.
    """
    states = _states(callbacks)
    if len(packed) != _FIELDS * len(states):
        raise DataError(
            f"the checkpoint holds the state of {len(packed) / _FIELDS:g} callbacks, and this run "
            f"has {len(states)}",
            remedy="resume with the callbacks that the run was checkpointed with",
        )
    given = [packed[at : at + _FIELDS] for at in range(0, len(packed), _FIELDS)]
    for position, ((callback, state), (kind, *_)) in enumerate(zip(states, given, strict=True)):
        if kind != state.kind:
            raise DataError(
                f"callback {position} of the checkpoint is {_kind_text(kind)}, and callback "
                f"{position} of this run is {_kind_text(state.kind)}: `{name_of(callback)}`",
                remedy="resume with the callbacks that the run was checkpointed with",
            )
    for (callback, state), (_, *values) in zip(states, given, strict=True):
        if isinstance(callback, Packable):
            callback.unpack(Packed(state.kind, *values))


def _states(callbacks: Sequence[object]) -> list[tuple[object, Packed]]:
    ascending = sorted(callbacks, key=band_of)
    return [(c, c.pack() if isinstance(c, Packable) else Packed()) for c in ascending]


def _kind_text(kind: float) -> str:
    try:
        return f"of kind {kind:g} ({Kind(int(kind)).name.lower().replace('_', ' ')})"
    except ValueError:
        return f"of the unknown kind {kind:g}"

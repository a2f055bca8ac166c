"""Where a node may live, and a decision about it with its provenance.

In: nothing. Out: the vocabulary of the decisions that ``policy`` makes. Invariant: a decision says
who made it, by a code and a sentence.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

WIDE = "wide"
"""The operation of a leaf that holds a 16-bit node in float32, for one matrix product."""

BOX = "box"
"""The operation of a leaf that holds those cells of a virtual node that one reader reads."""


class Mode(enum.Enum):
    """Where a node's value lives."""

    EFFECTIVELY_CONSTANT = "constant"
    VIRTUAL = "virtual"
    NEVER_VIRTUAL = "never virtual"
    LOCAL = "local"
    ON_DEVICE = "on device"


@dataclass(frozen=True, slots=True)
class Placement:
    """A mode with its provenance.

    Attributes
    ----------
    mode
        Where the value lives.
    code
        Number of the rule, as people cite it.
    reason
        The rule as a sentence.
    is_aliased
        Whether it is stored in bytes that other nodes of its routine use as well, at other times.
    """

    mode: Mode
    code: str
    reason: str
    is_aliased: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether the node has memory of its own."""
        return self.mode in (Mode.LOCAL, Mode.ON_DEVICE)

    def __str__(self) -> str:
        shared = ", in bytes shared by liveness" if self.is_aliased else ""
        return f"{self.mode.value} ({self.code}: {self.reason}){shared}"

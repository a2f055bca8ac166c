"""What a person did to a run while it went on, as the line of code that does it again.

Invariant: the code of an action, typed in a cell, is the same action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["Action"]


@final
@dataclass(frozen=True, slots=True)
class Action:
    """One action.

    Attributes
    ----------
    code
        Such as ``"run.lr = 0.003"``.
    step
        ``state.global_step`` when it was asked for.
    epoch
        Completed epochs then.
    detail
        More about it, such as the difference between two versions of a step.
    """

    code: str
    step: int
    epoch: int
    detail: str = ""

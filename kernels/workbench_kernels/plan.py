"""What native code is to run: a table of launches, their order, and what changes from step to step.

A plan is made once from compiled kernels and argument blocks and run any number of times by a
:class:`~workbench_kernels.runner.Runner`. It refers to memory by address; whoever makes it keeps
the argument blocks and buffers alive.

Invariant: every stage lies within the rows, and the tables never change.
"""

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]

ROW_WORDS: Final = 4
STAGE_WORDS: Final = 2
MOVE_WORDS: Final = 3


def _no_moves() -> Table:
    return np.zeros((0, MOVE_WORDS), np.int64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LaunchPlan:
    """The launches of one step.

    Parameters
    ----------
    rows
        int64, shape ``(n, 4)``: function address, address of its argument block, ``lo``, ``hi``.
    stages
        int64, shape ``(s, 2)``: first row and number of rows, at least 1. Stages run in order; the
        rows of one stage must not depend on each other and may run at the same time.
    moves
        int64, shape ``(m, 3)``: before step ``s`` (counted from the run's ``first``), the int64 at
        the first word's address becomes ``base + s * stride``, the second and third word. This is
        how a step finds its batch.

    Attributes
    ----------
    is_parallel
        Whether any stage has more than one row, so that a second thread can help.
    words
        Where native code finds the tables: addresses and lengths.

    Raises
    ------
    ValueError
        If a table has another shape or dtype, a stage leaves the rows, or an address is null or, of
        a moved word, not a multiple of 8.
    """

    rows: Table
    stages: Table
    moves: Table = field(default_factory=_no_moves)
    is_parallel: bool = field(init=False)
    words: tuple[int, int, int, int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, words in (("rows", ROW_WORDS), ("stages", STAGE_WORDS), ("moves", MOVE_WORDS)):
            object.__setattr__(self, name, _table(name, getattr(self, name), words))
        if not self.rows[:, :2].all():
            raise ValueError("rows: a function or argument address is null")
        first, count = self.stages[:, 0], self.stages[:, 1]
        wrong = np.flatnonzero((first < 0) | (count < 1) | (first > len(self.rows) - count))
        if wrong.size:
            stage = int(wrong[0])
            raise ValueError(
                f"stage {stage} takes {count[stage]} rows from row {first[stage]} on, of "
                f"{len(self.rows)} rows"
            )
        slots = self.moves[:, 0]
        if ((slots == 0) | (slots % 8 != 0)).any():
            raise ValueError("moves: the address of a moved word is null or not a multiple of 8")
        object.__setattr__(self, "is_parallel", bool((count > 1).any()))
        object.__setattr__(self, "words", self._addresses())

    def _addresses(self) -> tuple[int, int, int, int, int]:
        rows, stages, moves = (t.ctypes.data for t in (self.rows, self.stages, self.moves))
        return rows, stages, len(self.stages), moves, len(self.moves)


def _table(name: str, value: Table, words: int) -> Table:
    if value.dtype != np.int64 or value.ndim != 2 or value.shape[1] != words:
        raise ValueError(
            f"{name}: int64 of shape (n, {words}) is wanted, not {value.dtype} of {value.shape}"
        )
    copy = np.array(value, order="C")
    copy.flags.writeable = False
    return copy

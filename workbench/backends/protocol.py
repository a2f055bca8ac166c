"""What every backend offers to the runtime.

A backend turns a `Program` into an `Executable`; binding that to memory gives something that runs.
Memory on all backends so far is host memory: numpy arrays. Peers know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workbench.backends.device import Device
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Moving:
    """An operand that lies elsewhere at each step: at ``address + step * stride``, in bytes."""

    node: Tensor
    address: int
    stride: int


class Bound(Protocol):
    """A program with its memory: what a step loop runs."""

    def run(self, steps: int, control: npt.NDArray[np.int64], first: int = 0) -> int:
        """Run steps from ``first`` on, until ``control[0]`` is set; return how many ran."""
        ...

    def describe(self) -> list[Launch]:
        """Return one entry for each launch."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """What one launch is, for people.

    Attributes
    ----------
    label
        The nodes computed.
    chunks
        Into how many parts it is cut.
    kernel
        Number of its kernel among the different ones of the program.
    work
        Rough multiplications.
    """

    label: str
    chunks: int
    kernel: int
    work: float


class Executable(Protocol):
    """A compiled program."""

    def bind(
        self, rows: int | None, memory: Mapping[Tensor, Array], moving: tuple[Moving, ...] = ()
    ) -> Bound:
        """Return the program over the given memory: a flat array for each node of the program.

        Parameters
        ----------
        rows
            The batch size.
        memory
            Flat arrays by node, views excepted.
        moving
            Operands that advance with the step; on backends that support them.
        """
        ...


class Backend(Protocol):
    """A way to compile and run programs."""

    name: str
    threads: int
    device: Device

    def compile(self, program: Program) -> Executable:
        """Return the compiled program."""
        ...

"""Compiled routines: a program, its executable, and its memory for each batch size.

In: a computation compiled against a context. Out: something that a context runs. Invariant: running
changes the buffers of the context and nothing else.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.assign.assignment import Computation
from workbench.assign.show import node_names
from workbench.backends.protocol import Array, Backend, Bound, Executable, Launch, Moving
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Program
from workbench.loops.placement import Placement
from workbench.loops.show import show_program
from workbench.runtime.memory import families, local_memory

_ids = itertools.count(1)

KEPT = 16
"""So many pairings of a routine with memory are kept ready."""


@final
class Routine:
    """A computation that is compiled and linked to a context's memory.

    Attributes
    ----------
    name
        For people.
    computation
        What it computes.
    program
        Its kernels.
    placements
        Where each of its nodes lives, and why.
    backend
        What it was compiled by.
    """

    def __init__(
        self,
        name: str,
        computation: Computation,
        program: Program,
        executable: Executable,
        placements: Mapping[Tensor, Placement],
        backend: Backend,
    ) -> None:
        self.name = name
        self.id = next(_ids)
        self.computation = computation
        self.program = program
        self.placements = dict(placements)
        self.backend = backend
        self._executable = executable
        self._families = families(program.kernels)
        self._local: dict[int | None, tuple[dict[Tensor, Array], int]] = {}
        self._bound: dict[tuple[object, ...], Bound] = {}

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that can be read after a run."""
        return self.computation.outputs

    @property
    def groups(self) -> list[list[Tensor]]:
        """Nodes that want to lie side by side."""
        return self._families

    def bind(
        self, rows: int | None, memory: Mapping[Tensor, Array], moving: tuple[Moving, ...] = ()
    ) -> Bound:
        """Return the routine over ``memory`` for a batch of ``rows`` rows; kept for the next call.

        Parameters
        ----------
        rows
            The batch size, None if nothing depends on it.
        memory
            Flat arrays of the nodes on the device.
        moving
            Operands that advance from step to step.
        """
        if rows not in self._local:
            self._local[rows] = local_memory(self.program, rows, self._families)
        local, _ = self._local[rows]
        needed = {node: memory[node] for node in self.program.device}
        key = (rows, moving, tuple((n.uid, a.ctypes.data) for n, a in needed.items()))
        # The one asked for last comes last; it keeps its memory alive, so addresses stay its own.
        bound = self._bound.pop(key, None)
        if bound is None:
            bound = self._executable.bind(rows, {**needed, **local}, moving)
        self._bound[key] = bound
        while len(self._bound) > KEPT:
            del self._bound[next(iter(self._bound))]
        return bound

    def run_once(self, rows: int | None, memory: Mapping[Tensor, Array]) -> None:
        """Run one step over ``memory``."""
        self.bind(rows, memory).run(1, np.zeros(8, np.int64))

    def launches(self, rows: int | None, memory: Mapping[Tensor, npt.NDArray[Any]]) -> list[Launch]:
        """Return what each launch is."""
        return self.bind(rows, memory).describe()

    def local_bytes(self, rows: int | None) -> int:
        """Return the bytes of routine-local memory for a batch of ``rows`` rows."""
        if rows not in self._local:
            self._local[rows] = local_memory(self.program, rows, self._families)
        return self._local[rows][1]

    def text(self) -> str:
        """Return the kernels as text."""
        return show_program(self.program, node_names(self.computation))

    def __repr__(self) -> str:
        kernels = len(self.program.kernels)
        return (
            f"<Routine {self.name!r}: {kernels} kernels, {len(self.program.local)} local tensors>"
        )

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(k.label)}</li>" for k in self.program.kernels)
        return (
            f"<details><summary>Routine <b>{html.escape(self.name)}</b>: "
            f"{len(self.program.kernels)} kernels</summary><ol>{items}</ol></details>"
        )

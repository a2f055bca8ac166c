"""The reference interpreter as a backend."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.backends.device import device
from workbench.backends.interpreter.run import run_kernel
from workbench.backends.protocol import Array, Launch, Moving
from workbench.graph.extent import count, resolve
from workbench.graph.tensor import Tensor
from workbench.loops.kernel import Kernel, Program, Scratch
from workbench.loops.work import work_per_unit


@final
class Interpreter:
    """Runs programs in numpy: slow, simple, and the oracle for the others."""

    name = "interpreter"
    threads = 1

    def __init__(self) -> None:
        self.device = device("interpreter")

    def compile(self, program: Program) -> InterpretedProgram:
        """Return the program itself: there is nothing to compile."""
        return InterpretedProgram(program)


@final
class InterpretedProgram:
    """A program that the interpreter runs."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def bind(
        self, rows: int | None, memory: Mapping[Tensor, Array], moving: tuple[Moving, ...] = ()
    ) -> InterpretedRoutine:
        """Return the program over ``memory``; what moves is found anew at each step."""
        return InterpretedRoutine(self.program, rows, memory, moving)


@final
class InterpretedRoutine:
    """A program with its memory."""

    def __init__(
        self,
        program: Program,
        rows: int | None,
        memory: Mapping[Tensor, Array],
        moving: tuple[Moving, ...],
    ) -> None:
        self.program = program
        self.rows = rows
        self.memory = dict(memory)
        self.moving = moving

    def run(self, steps: int, control: npt.NDArray[np.int64], first: int = 0) -> int:
        """Run the kernels in order, ``steps`` times or until ``control[0]`` is set."""
        for step in range(steps):
            if control[0]:
                return step
            for operand in self.moving:
                self.memory[operand.node] = self._at(operand, first + step)
            for kernel in self.program.kernels:
                self._launch(kernel)
            control[1] = first + step + 1
        return steps

    def _at(self, operand: Moving, step: int) -> Array:
        """Return the memory of an operand at a step: whoever bound it keeps that memory alive."""
        dtype = operand.node.dtype.numpy
        size = resolve(count(operand.node.shape), self.rows) * dtype.itemsize
        address = operand.address + step * operand.stride
        return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype)

    def _launch(self, kernel: Kernel) -> None:
        extents = [resolve(extent, self.rows) for extent in kernel.extents]
        buffers: list[npt.NDArray[Any]] = [
            np.empty(resolve(b.size, self.rows), d.numpy)
            if isinstance(b, Scratch)
            else self.memory[b]
            for b, d in zip(kernel.buffers, kernel.dtypes, strict=True)
        ]
        run_kernel(kernel, buffers, extents, 0, resolve(kernel.range, self.rows))

    def describe(self) -> list[Launch]:
        """Return one entry for each kernel."""
        return [
            Launch(k.label, 1, i, work_per_unit(k, tuple(resolve(e, self.rows) for e in k.extents)))
            for i, k in enumerate(self.program.kernels)
        ]

"""Programs as native launch plans: kernels compiled, bound to memory, cut into chunks.

In: a program. Out: rows, stages and moves for the plan runner. Invariant: how a launch is cut
depends on shapes alone, so that every number of threads gives the same bits.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.backends.device import LINE, Device, aligned, device
from workbench.backends.numba_cpu.render import constant_word, render, uses_blas
from workbench.backends.protocol import Array, Launch, Moving
from workbench.errors import CacheWarning, ConfigurationError
from workbench.graph.extent import resolve
from workbench.graph.tensor import Tensor
from workbench.loops.flatness import walking_buffers
from workbench.loops.kernel import For, Kernel, Product, Program, Scratch, Stmt
from workbench.loops.work import evaluate, work_per_unit
from workbench_kernels import (
    KernelStore,
    KernelText,
    LaunchPlan,
    LoadedKernel,
    ObjectCache,
    Runner,
    blas_addresses,
)

CHUNK_WORK = 100_000
"""Rough multiplications in a chunk below which another thread does not pay: 2 to 4 us."""

MAX_CHUNKS = 16

PRODUCT_STEPS = ((256e6, 16), (100e6, 8), (12e6, 4), (0.6e6, 2))
"""Multiply-adds from which a matrix product is cut into so many chunks.

Each chunk packs the whole of the other operand, so products are cut more coarsely than loops: at
128x128x784, two chunks of 64 columns cost 6 % in all, four of 32 cost 30 %. For the same reason
they are never cut finer than the machine has processors; that is the machine's number, not the
context's, so that every number of threads gives the same bits.
"""

PROCESSORS = os.cpu_count() or 1

PRODUCT_WIDTH = 64
"""Rows or columns of a product that a chunk has at least."""

PADDING = 64
"""Elements: neighbours in an arena are at most this far apart."""

OVERTAKEN = 64
"""A launch may overtake so many others to be made one with its neighbour in memory."""


@cache
def kernel_store() -> KernelStore:
    """Return the store that all contexts of the process share, over the user's cache."""
    return KernelStore(ObjectCache(report=_warn))


def _warn(problem: str) -> None:
    warnings.warn(problem, CacheWarning, stacklevel=2)


@final
class NumbaCpu:
    """Compiles for this machine's processor and runs on ``threads`` threads.

    Parameters
    ----------
    threads
        How many threads run a plan; by default as many as the process may use.
    """

    name = "numba_cpu"

    def __init__(self, threads: int | None = None) -> None:
        available = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        self.threads = available if threads is None else threads
        if self.threads < 1:
            raise ConfigurationError(
                f"threads={threads}: a context needs at least one thread",
                remedy="use threads=1 or more",
            )
        self.device = device("cpu")
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """The plan runner, made at first use."""
        if self._runner is None:
            self._runner = Runner(self.threads, store=kernel_store())
        return self._runner

    def compile(self, program: Program) -> NativeProgram:
        """Return the program with all its kernels; equal ones are compiled once."""
        texts = [KernelText(render(k), tuple(d.value for d in k.dtypes)) for k in program.kernels]
        different = list(dict.fromkeys(texts))
        kernels = dict(zip(different, kernel_store().kernels(different), strict=True))
        numbers = {text: number for number, text in enumerate(different)}
        return NativeProgram(
            self, program, [kernels[text] for text in texts], [numbers[text] for text in texts]
        )


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch before it is cut: which kernel, its argument words, and what memory it touches."""

    number: int
    words: tuple[int, ...]
    total: int
    unit: float
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    owners: tuple[int, ...]
    label: str


@dataclass(slots=True)
class _Task:
    """A launch cut into parts: (argument words, lo, hi) of each."""

    launch: _Launch
    parts: list[tuple[npt.NDArray[np.int64], int, int]]

    @property
    def work(self) -> float:
        return self.launch.unit * self.launch.total


@final
class NativeProgram:
    """A compiled program."""

    def __init__(
        self,
        backend: NumbaCpu,
        program: Program,
        kernels: Sequence[LoadedKernel],
        numbers: Sequence[int],
    ) -> None:
        self.backend = backend
        self.program = program
        self.kernels = kernels
        self.numbers = numbers

    def bind(
        self, rows: int | None, memory: Mapping[Tensor, Array], moving: tuple[Moving, ...] = ()
    ) -> NativeRoutine:
        """Return the program over ``memory`` as a launch plan."""
        movable = frozenset(m.node for m in moving)
        launches = [self._launch(n, rows, memory) for n in range(len(self.program.kernels))]
        scratch: list[Array] = []
        tasks = [self._cut(launch, rows, scratch) for launch in self._merged(launches, movable)]
        moves = [(slot, m.address, m.stride) for m in moving for slot in self._slots(tasks, m.node)]
        rows_table, stages = self._tables(tasks)
        plan = LaunchPlan(rows_table, stages, np.array(moves, np.int64).reshape(-1, 3))
        described = [
            Launch(t.launch.label, len(t.parts), self.numbers[t.launch.number], t.work)
            for t in tasks
        ]
        return NativeRoutine(self.backend, plan, described, [memory, scratch, tasks, self.kernels])

    def _launch(self, number: int, rows: int | None, memory: Mapping[Tensor, Array]) -> _Launch:
        kernel = self.program.kernels[number]
        extents = [resolve(extent, rows) for extent in kernel.extents]
        kind = uses_blas(kernel.body)
        words: list[int] = []
        owners: list[int] = []
        reads: list[tuple[int, int]] = []
        writes: list[tuple[int, int]] = []
        for position, buffer in enumerate(kernel.buffers):
            if isinstance(buffer, Scratch):
                words.append(0)
                owners.append(0)
                continue
            array = memory[buffer]
            start = array.ctypes.data
            words.append(start)
            owners.append(id(array if array.base is None else array.base))
            (writes if position in kernel.writes else reads).append((start, start + array.nbytes))
        constants = [constant_word(constant) for constant in kernel.constants]
        tail = [blas_addresses()[kind.value]] if kind is not None else []
        return _Launch(
            number,
            (*words, *extents, *constants, *tail),
            resolve(kernel.range, rows),
            work_per_unit(kernel, tuple(extents)),
            tuple(reads),
            tuple(writes),
            tuple(owners),
            kernel.label,
        )

    def _merged(self, launches: Sequence[_Launch], movable: frozenset[Tensor]) -> list[_Launch]:
        """Return the launches with equal flat kernels over neighbouring memory made one.

        The optimizer's kernels of all parameters are such: parameters, gradients and moments each
        lie in one arena, in the same order and at the same pitch. Others that lie between them in
        the order of launch, such as those of the biases, do not matter if they touch other memory.
        """
        done: list[_Launch] = []
        for launch in launches:
            found = None if self._moves(launch, movable) else self._neighbour(done, launch)
            if found is None:
                done.append(launch)
            else:
                position, joined = found
                done[position] = joined
        return done

    def _moves(self, launch: _Launch, movable: frozenset[Tensor]) -> bool:
        return any(buffer in movable for buffer in self.program.kernels[launch.number].buffers)

    def _neighbour(self, done: Sequence[_Launch], launch: _Launch) -> tuple[int, _Launch] | None:
        """Return which launch ``launch`` can be made one with, overtaking others, and the one."""
        for position in range(len(done) - 1, max(-1, len(done) - 1 - OVERTAKEN), -1):
            joined = self._joined(done[position], launch)
            if joined is not None:
                return position, joined
            if _conflict(done[position], launch):
                return None
        return None

    def _joined(self, first: _Launch, second: _Launch) -> _Launch | None:
        """Return the two launches as one, if the second walks on where the first ends."""
        if self.kernels[first.number] is not self.kernels[second.number]:
            return None
        kernel = self.program.kernels[first.number]
        walking = walking_buffers(kernel)
        count = len(kernel.buffers)
        if walking is None or first.words[count:] != second.words[count:]:
            return None
        if _conflict(first, second):
            return None  # as one launch they would be cut where the order matters
        pitches: set[int] = set()
        for position, dtype in enumerate(kernel.dtypes):
            moved = second.words[position] - first.words[position]
            if position not in walking:
                if moved:
                    return None
                continue
            if first.owners[position] != second.owners[position] or moved % dtype.itemsize:
                return None
            pitches.add(moved // dtype.itemsize)
        if len(pitches) != 1:
            return None
        (pitch,) = pitches
        # Between two neighbours lies padding only: computing over it is harmless, nobody reads it.
        if not 0 <= pitch - first.total < PADDING:
            return None
        return replace(
            first,
            total=pitch + second.total,
            reads=first.reads + second.reads,
            writes=first.writes + second.writes,
            label=f"{first.label}, {second.label}",
        )

    def _cut(self, launch: _Launch, rows: int | None, scratch: list[Array]) -> _Task:
        kernel = self.program.kernels[launch.number]
        first = len(kernel.buffers)
        extents = launch.words[first : first + len(kernel.extents)]
        count = _chunks(kernel, extents, launch.total, launch.unit)
        cuts = _cuts(launch.total, count, kernel.align)
        has_scratch = any(isinstance(b, Scratch) for b in kernel.buffers)
        shared = np.array(launch.words, np.int64)
        parts: list[tuple[npt.NDArray[np.int64], int, int]] = []
        for lo, hi in pairwise(cuts):
            words = shared.copy() if has_scratch else shared
            for position, buffer in enumerate(kernel.buffers):
                if isinstance(buffer, Scratch):
                    size = max(1, resolve(buffer.size, rows))
                    own = chunk_scratch(self.backend.device, size, buffer.dtype.numpy)
                    scratch.append(own)
                    words[position] = own.ctypes.data
            parts.append((words, lo, hi))
        return _Task(launch, parts)

    def _slots(self, tasks: Sequence[_Task], node: Tensor) -> list[int]:
        """Return the addresses of the argument words that hold the address of ``node``."""
        found: dict[int, None] = {}
        for task in tasks:
            for position, buffer in enumerate(self.program.kernels[task.launch.number].buffers):
                if buffer is node:
                    for words, _, _ in task.parts:
                        found[words.ctypes.data + 8 * position] = None
        return list(found)

    def _tables(
        self, tasks: Sequence[_Task]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return rows and stages; independent launches that are worth a thread share a stage."""
        rows: list[tuple[int, int, int, int]] = []
        stages: list[list[int]] = []
        together: list[_Launch] = []
        for task in tasks:
            heavy = task.work >= CHUNK_WORK or len(task.parts) > 1
            joins = heavy and together and not any(_conflict(task.launch, o) for o in together)
            if not joins:
                stages.append([len(rows), 0])
                together = []
            function = self.kernels[task.launch.number].address
            for words, lo, hi in task.parts:
                rows.append((function, words.ctypes.data, lo, hi))
                stages[-1][1] += 1
            together = [*together, task.launch] if heavy else []
        return (
            np.array(rows, np.int64).reshape(-1, 4),
            np.array(stages, np.int64).reshape(-1, 2),
        )


def chunk_scratch(device: Device, size: int, dtype: np.dtype[Any]) -> Array:
    """Return ``size`` zero elements that start on a cache line."""
    raw = aligned(device.allocate(size * dtype.itemsize + LINE))
    return raw[: size * dtype.itemsize].view(dtype)


def _product_of(body: Sequence[Stmt]) -> Product | None:
    for stmt in body:
        if isinstance(stmt, Product):
            return stmt
        if isinstance(stmt, For):
            return _product_of(stmt.body)
    return None


def _chunks(kernel: Kernel, extents: Sequence[int], total: int, unit: float) -> int:
    """Return into how many parts a launch is cut."""
    product = _product_of(kernel.body)
    if product is None:
        return max(1, min(MAX_CHUNKS, int(unit * total / CHUNK_WORK), total))
    values = {f"n{i}": extent for i, extent in enumerate(extents)} | {"lo": 0, "hi": 1}
    m, n, k = (evaluate(e, values) for e in (product.m, product.n, product.k))
    multiply_adds = float(m * n * k * total)
    for least, count in PRODUCT_STEPS:
        if multiply_adds >= least:
            # A batched product is cut between its matrices.
            batched = not isinstance(kernel.body[0], Product)
            most = total if batched else total // PRODUCT_WIDTH
            return max(1, min(count, most, max(2, PROCESSORS)))
    return 1


def _cuts(total: int, count: int, align: int) -> list[int]:
    """Return the bounds of ``count`` near-equal parts of ``0..total`` at multiples of ``align``."""
    if count > 1 and align == 1 and total >= 64 * count:
        align = 16
    bounds = {0, total}
    for number in range(1, count):
        bounds.add(min(total, -(-(total * number // count) // align) * align))
    return sorted(bounds) if total else [0, 0]


def _overlap(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in left for c, d in right)


def _conflict(left: _Launch, right: _Launch) -> bool:
    return _overlap(left.writes, right.writes + right.reads) or _overlap(right.writes, left.reads)


@final
class NativeRoutine:
    """A launch plan with its memory."""

    def __init__(
        self, backend: NumbaCpu, plan: LaunchPlan, described: list[Launch], keep: object
    ) -> None:
        self.backend = backend
        self.plan = plan
        self._described = described
        self._keep = keep  # the plan holds addresses only

    def run(self, steps: int, control: npt.NDArray[np.int64], first: int = 0) -> int:
        """Run the plan natively; the interpreter lock is released meanwhile."""
        return self.backend.runner.run(self.plan, steps, control, first)

    def describe(self) -> list[Launch]:
        """Return one entry for each launch."""
        return list(self._described)

"""Compiled routines: a program, its executable, and its memory for each batch size.

In: a computation compiled against a context. Out: something that a context runs. Invariant: running
changes the buffers of the context and nothing else.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy.typing as npt

from workbench.assign.assignment import Computation
from workbench.assign.show import node_names
from workbench.backends.protocol import Array, Backend, Bound, Executable, Launch, Moving
from workbench.graph.bounds import Span, index_bounds
from workbench.graph.dtype import DType
from workbench.graph.extent import Batch, Extent
from workbench.graph.markup import element, table
from workbench.graph.tensor import Tensor, printable
from workbench.loops.kernel import Program
from workbench.loops.placement import Mode, Placement
from workbench.loops.settings import Settings
from workbench.loops.show import show_program
from workbench.runtime.constants import is_shared
from workbench.runtime.frontier import Frontier, Link
from workbench.runtime.ledger import Record
from workbench.runtime.lifecycle import Unit
from workbench.runtime.memory import families, local_layout, local_memory
from workbench.runtime.seams import Transform
from workbench.runtime.text_block import columns, counted

if TYPE_CHECKING:
    from workbench.runtime.running import Dispatch

_Binding: TypeAlias = "tuple[int | None, tuple[Moving, ...], tuple[tuple[int, int], ...]]"

KEPT = 16
"""So many pairings of a routine with memory are kept ready."""


def _is_batched(extents: Iterable[Extent]) -> bool:
    return any(isinstance(extent, Batch) for extent in extents)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a routine was compiled under, so that it can be compiled once more in the same way.

    Attributes
    ----------
    settings
        Caps and what else was set.
    rows
        The batch size that was reckoned with.
    frontier
        What the routines before it had left in the lineage.
    transform
        What rewrote the lowered program, if anything did.
    prelowered
        What was compiled instead of what would have been lowered, if anything was.
    """

    settings: Settings
    rows: int
    frontier: Frontier = field(default_factory=Frontier)
    transform: Transform | None = None
    prelowered: Program | None = None


def _spans(computation: Computation) -> dict[Tensor, Span]:
    """Return the indices among the inputs that are not written by the computation itself."""
    if computation.source is None:
        return {}
    given = {n for n in computation.inputs if n.dtype in (DType.I32, DType.I64)}
    given -= set(computation.updates)
    roots = (*computation.outputs, *computation.source.stores.values())
    return index_bounds(roots, given) if given else {}


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
    unit
        The release unit of the context that has its memory; gone when its contexts are.
    link
        How it stands in its lineage.
    conditions
        What it was compiled under.
    stored
        Nodes that it computes into memory of the context, whether or not anybody asked for them.
    batched_inputs
        Inputs that tell the batch size.
    constants
        Array constants that it reads, whose memory is the device's.
    depends_on_batch
        Whether anything in it does.
    spans
        Leaves that it reads as row or class numbers, and the values that they may have.
    checked
        For each of these the buffer's record and the time of the last write that was found inside.
    transfer
        Number of the fill of the merge buffer that it reads; 0 if it reads none.
    dispatch
        What the latest run left for the next one over the same memory.
    """

    def __init__(
        self,
        name: str,
        computation: Computation,
        program: Program,
        executable: Executable,
        placements: Mapping[Tensor, Placement],
        backend: Backend,
        unit: Unit,
        link: Link,
        conditions: Conditions,
    ) -> None:
        self.name = name
        self.id = link.id
        self.made_by = f"run {name}"
        self.computation = computation
        self.program = program
        self.placements = dict(placements)
        self.backend = backend
        # Only weakly: a routine that outlives its contexts keeps none of their memory.
        self.unit = weakref.ref(unit)
        unit.add_routine(self)
        self.link = link
        self.conditions = conditions
        self.stored = tuple(
            node
            for node, placement in self.placements.items()
            if placement.mode is Mode.ON_DEVICE and program.views.get(node, node) in link.writes
        )
        self.batched_inputs = tuple(n for n in computation.inputs if _is_batched(n.shape))
        self.constants = tuple(node for node in program.device if is_shared(node))
        self.depends_on_batch = any(
            _is_batched(extents)
            for kernel in program.kernels
            for extents in (kernel.extents, (kernel.range,))
        )
        self.spans = _spans(computation)
        self.checked: dict[Tensor, tuple[Record, int]] = {}
        self.transfer = 0
        self.dispatch: Dispatch | None = None
        link.ledger.routines[link.id] = self
        self._executable = executable
        self._families = families(program.kernels)
        self._local: dict[int | None, tuple[dict[Tensor, Array], int]] = {}
        self._bound: dict[_Binding, Bound] = {}

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
            self._local[rows] = local_memory(
                self.program, rows, self._families, self.backend.device
            )
        local, _ = self._local[rows]
        needed = {node: memory[node] for node in self.program.device}
        key: _Binding = (rows, moving, tuple((n.uid, a.ctypes.data) for n, a in needed.items()))
        # The one asked for last comes last; it keeps its memory alive, so addresses stay its own.
        bound = self._bound.pop(key, None)
        if bound is None:
            bound = self._executable.bind(rows, {**needed, **local}, moving)
        self._bound[key] = bound
        while len(self._bound) > KEPT:
            del self._bound[next(iter(self._bound))]
        return bound

    def forget_memory(self) -> None:
        """Keep no pairing with memory ready any more; the next run makes one anew."""
        self._bound.clear()
        self._local.clear()
        self.dispatch = None

    def launches(self, rows: int | None, memory: Mapping[Tensor, npt.NDArray[Any]]) -> list[Launch]:
        """Return what each launch is."""
        return self.bind(rows, memory).describe()

    def local_bytes(self, rows: int | None) -> int:
        """Return the bytes of routine-local memory for a batch of ``rows`` rows."""
        return local_layout(self.program, rows, self._families)[2]

    def text(self) -> str:
        """Return the kernels as text."""
        return show_program(self.program, node_names(self.computation))

    def __repr__(self) -> str:
        kernels = len(self.program.kernels)
        return (
            f"<Routine {self.name!r}: {kernels} kernels, {len(self.program.local)} local tensors>"
        )

    def summary(self) -> str:
        """Return the launches of the latest run, or the kernels if there was none, as a table."""
        title, lines = self._lines()
        return "\n".join([printable(title), *columns(lines)])

    def _repr_html_(self) -> str:
        title, (header, *lines) = self._lines()
        kernels = [element("li", kernel.label) for kernel in self.program.kernels]
        listed = element("details", element("summary", "kernels"), element("ol", *kernels))
        return table(header, lines, title).text + listed.text

    def _lines(self) -> tuple[str, list[tuple[str, ...]]]:
        """Return a title, headings and a line for each launch; nothing is bound or allocated."""
        latest = next(reversed(self._bound), None)
        name, kernels = f"Routine {self.name!r}", counted(len(self.program.kernels), "kernel")
        buffers = counted(len(self.program.device), "buffer")
        nodes = f"{buffers}, {counted(len(self.program.local), 'local node')}"
        if latest is None:
            lines = [(f"{i}", printable(k.label)) for i, k in enumerate(self.program.kernels)]
            return f"{name}: {kernels}, {nodes}, not run yet", [("kernel", "computes"), *lines]
        rows = latest[0]
        launches = self._bound[latest].describe()
        size = counted(self.local_bytes(rows), "local byte")
        batch = "" if rows is None else f", a batch of {counted(rows, 'row')}"
        done = counted(len(launches), "launch", "launches")
        title = f"{name}: {done} of {kernels}, {nodes}, {size}{batch}"
        header = ("launch", "kernel", "chunks", "multiplications", "computes")
        return title, [
            header,
            *(
                (
                    f"{i}",
                    f"{each.kernel}",
                    f"{each.chunks}",
                    f"{each.work:,.0f}",
                    printable(each.label),
                )
                for i, each in enumerate(launches)
            ),
        ]

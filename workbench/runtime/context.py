"""Contexts: memory and decisions as values that a person passes on.

In: a backend. Out: contexts, each made from the one before by ``compile``, ``run`` or
``set_values``. Invariant: a context is never changed; what is shared along a lineage is the memory
of its buffers, which running overwrites.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module, util
from typing import Any, final

import numpy as np
import numpy.typing as npt

from workbench.assign.assignment import Computation
from workbench.assign.from_graph import computation as computation_from
from workbench.backends.interpreter.backend import Interpreter
from workbench.backends.numba_cpu.backend import NumbaCpu
from workbench.backends.protocol import Array, Backend
from workbench.errors import (
    BackendUnavailable,
    DTypeError,
    ExecutionError,
    NotReadableError,
    ShapeError,
)
from workbench.graph.elementwise import describe
from workbench.graph.extent import Batch, count, resolve_shape, show_shape
from workbench.graph.markup import Content, card
from workbench.graph.tensor import Tensor, printable
from workbench.loops.lower import lower
from workbench.loops.placement import Mode, Placement, decide_placements
from workbench.loops.settings import Settings, current_settings
from workbench.loops.verify import verify
from workbench.runtime.lineage import Lineage, register
from workbench.runtime.memory import arena, device_order
from workbench.runtime.observe import Observability, Reading, host_data, observe_all
from workbench.runtime.placement_table import Order, PlacementTable, placement_table
from workbench.runtime.routine import Routine
from workbench.runtime.show_tree import tree_text
from workbench.runtime.show_value import value_text

_ids = itertools.count(1)

DEFAULT_ROWS = 32
"""Batch size to reckon with where nobody said one."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one node in a context.

    Attributes
    ----------
    array
        Flat, padded.
    shape
        The node's shape with the batch as it was when the value was set.
    """

    array: Array
    shape: tuple[int, ...]

    def view(self) -> Array:
        """Return the value in its shape, without copying."""
        size = math.prod(self.shape)
        return self.array[:size].reshape(self.shape)


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Context:
    """Buffers on a device, which of them hold values, and the placements decided so far.

    Make one with `Context.cpu`, `Context.auto` or `Context.interpreter`.

    Examples
    --------
    >>> import numpy as np
    >>> import workbench as wb
    >>> x = wb.input("x", (3,))
    >>> ctx = wb.Context.interpreter()
    >>> ctx, double = ctx.compile([x * 2.0], name="double")
    >>> ctx = ctx.set_values({x: np.array([1.0, 2.0, 3.0], np.float32)}).run(double)
    >>> ctx.get_values(double.outputs[0])
    array([2., 4., 6.], dtype=float32)
    """

    backend: Backend
    buffers: Mapping[Tensor, Buffer] = field(default_factory=dict[Tensor, Buffer])
    initialized: frozenset[Tensor] = frozenset()
    placements: Mapping[Tensor, Placement] = field(default_factory=dict[Tensor, Placement])
    settings: Settings | None = None
    parent: Context | None = None
    made_by: str = "root"
    id: int = field(default_factory=lambda: next(_ids))

    def __post_init__(self) -> None:
        register(self)

    # -- making one

    @staticmethod
    def cpu(threads: int | None = None) -> Context:
        """Return an empty context that compiles for this processor.

        Parameters
        ----------
        threads
            How many threads run a routine; by default as many as the process may use. Results do
            not depend on it.
        """
        return Context(NumbaCpu(threads))

    @staticmethod
    def interpreter() -> Context:
        """Return an empty context that runs in plain numpy: slow, the reference for the others."""
        return Context(Interpreter())

    @staticmethod
    def cuda(ordinal: int = 0) -> Context:
        """Return an empty context on a CUDA device.

        Raises
        ------
        BackendUnavailable
            Saying what is missing.
        """
        if util.find_spec("cupy") is None:
            raise BackendUnavailable(
                "the CUDA backend needs the package `cupy`, which is not installed",
                remedy="install `training-workbench[gpu]` (NVIDIA), or use `Context.cpu()`",
            )
        try:
            devices = import_module("cupy").cuda.runtime.getDeviceCount()
        except Exception as fault:  # the driver's own errors have no common base
            raise BackendUnavailable(
                f"the CUDA driver does not answer: {fault}",
                remedy="check the driver with `nvidia-smi`, or use `Context.cpu()`",
            ) from fault
        raise BackendUnavailable(
            f"CUDA device {ordinal} of {devices}: this version has no CUDA renderer yet",
            remedy="use `Context.cpu()`",
        )

    @staticmethod
    def auto(threads: int | None = None) -> Context:
        """Return a context on the first backend that is available: CUDA, then this processor."""
        try:
            return Context.cuda()
        except BackendUnavailable:
            return Context.cpu(threads)

    # -- compiling

    def compile(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        name: str = "",
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
    ) -> tuple[Context, Routine]:
        """Return a context in which the routine's memory exists, and the routine.

        Parameters
        ----------
        wanted
            A computation, or the tensors to compute.
        name
            For people.
        updates
            State to store new values into, if ``wanted`` are tensors.
        rows
            The batch size to reckon with; the routine runs with any.
        """
        made = (
            wanted
            if isinstance(wanted, Computation)
            else computation_from(wanted, updates, name=name)
        )
        expected = DEFAULT_ROWS if rows is None else max(1, rows)
        caps = self.settings_in_force()
        chosen = decide_placements(made, expected, decided=self._stored_decisions(), settings=caps)
        program, final_placements = lower(made, chosen, expected, settings=caps)
        verify(program)
        title = name or made.name or "routine"
        routine = Routine(
            title, made, program, self.backend.compile(program), final_placements, self.backend
        )
        return self._linked(routine), routine

    def settings_in_force(self) -> Settings:
        """Return the settings of this context, or those of `workbench.settings` if it has none."""
        return current_settings() if self.settings is None else self.settings

    def _stored_decisions(self) -> dict[Tensor, Placement]:
        """Return decisions that bind later routines: what lies on the device stays there."""
        return {n: p for n, p in self.placements.items() if p.mode is Mode.ON_DEVICE}

    def _linked(self, routine: Routine) -> Context:
        """Return the context with memory for what the routine needs on the device."""
        missing = [
            n
            for n in routine.program.device
            if n not in self.buffers and not isinstance(count(n.shape), Batch)
        ]
        memory = arena(device_order(missing, routine.groups), None)
        buffers = dict(self.buffers)
        initialized = set(self.initialized)
        for node, array in memory.items():
            shape = resolve_shape(node.shape, None)
            buffers[node] = Buffer(array, shape)
            if node.value is not None:
                buffers[node].view()[...] = node.value
                initialized.add(node)
        return replace(
            self,
            buffers=buffers,
            initialized=frozenset(initialized),
            placements={**self.placements, **routine.placements},
            parent=self,
            made_by=f"compile {routine.name}",
            id=next(_ids),
        )

    # -- running

    def rows_of(self, routine: Routine) -> int | None:
        """Return the batch size that the routine's inputs have in this context.

        Raises
        ------
        ExecutionError
            If two inputs disagree.
        """
        found: dict[int, Tensor] = {}
        for node in routine.computation.inputs:
            for extent, actual in zip(
                node.shape, self.buffers[node].shape if node in self.buffers else (), strict=False
            ):
                if isinstance(extent, Batch):
                    found.setdefault(actual // max(1, extent.factor), node)
        if len(found) > 1:
            (a, first), (b, second) = list(found.items())[:2]
            raise ExecutionError(
                f"{routine.name}: {describe(first)} has {a} rows and {describe(second)} has {b}",
                remedy="set both to the same number of rows",
            )
        return next(iter(found), None)

    def run(self, routine: Routine, *, rows: int | None = None) -> Context:
        """Run the routine once and return the context in which its outputs hold values.

        Parameters
        ----------
        routine
            Compiled in this lineage.
        rows
            The batch size, for a routine that depends on it and has no input that tells it.

        Raises
        ------
        ExecutionError
            If an input holds no value, or the routine was compiled for another backend.
        """
        if routine.backend is not self.backend:
            raise ExecutionError(
                f"{routine.name} was compiled for {routine.backend.name} in another lineage",
                remedy="compile it in this context, or run it in one made from where it was",
            )
        ready, rows = self.prepared(routine, rows)
        routine.run_once(rows, ready.arrays())
        return ready._after(routine, rows)

    def prepared(self, routine: Routine, rows: int | None = None) -> tuple[Context, int | None]:
        """Return a context with memory for the routine at the inputs' batch size, and that size."""
        # As sets: in a tuple, `in` would compare tensors, and that builds a graph.
        unwritten = set(routine.program.device) - self.initialized
        empty = [describe(n) for n in routine.computation.inputs if n in unwritten]
        if empty:
            raise ExecutionError(
                f"{routine.name}: no value was ever written to {', '.join(empty)}",
                remedy="call `ctx.set_values({tensor: array})`, or run what computes it",
            )
        told = self.rows_of(routine)
        rows = rows if told is None else told
        buffers = dict(self.buffers)
        grown: list[Tensor] = []
        for node in routine.program.device:
            if isinstance(count(node.shape), Batch):
                shape = resolve_shape(node.shape, rows)
                if node not in buffers or buffers[node].shape != shape:
                    grown.append(node)
            elif node not in buffers:
                raise ExecutionError(
                    f"{routine.name}: {describe(node)} has no memory in this context",
                    remedy="run it in the context that `compile` returned, or a later one",
                )
        for node, array in arena(grown, rows).items():
            buffers[node] = Buffer(array, resolve_shape(node.shape, rows))
        return (replace(self, buffers=buffers) if grown else self), rows

    def _after(self, routine: Routine, rows: int | None) -> Context:
        written = {*routine.computation.outputs, *routine.computation.updates}
        roots = {routine.program.views.get(node, node) for node in written}
        # A view that can be read since an earlier routine is up to date after this one as well.
        views = {
            node: Buffer(self.buffers[root].array, resolve_shape(node.shape, rows))
            for node, root in routine.program.views.items()
            if node in written or (node in self.initialized and root in self.buffers)
        }
        return replace(
            self,
            buffers={**self.buffers, **views},
            initialized=self.initialized | written | roots,
            parent=self,
            made_by=f"run {routine.name}",
            id=next(_ids),
        )

    def arrays(self) -> dict[Tensor, Array]:
        """Return the memory of every buffer, flat; for native loops over ``Routine.bind``."""
        return {node: buffer.array for node, buffer in self.buffers.items()}

    # -- values

    def set_values(self, values: Mapping[Tensor, npt.ArrayLike]) -> Context:
        """Return a context in which the given nodes hold the given values (copied).

        Parameters
        ----------
        values
            Arrays by node. Non-contiguous, read-only and big-endian arrays are fine.

        Raises
        ------
        ShapeError, DTypeError
            If an array does not fit its node.
        """
        buffers = dict(self.buffers)
        for node, value in values.items():
            array = np.asarray(value)
            _check_fits(node, array)
            buffer = buffers.get(node)
            if buffer is None or buffer.shape != array.shape:
                rows = _rows_for(node, array.shape)
                memory = arena([node], rows)[node]
                buffer = buffers[node] = Buffer(memory, array.shape)
            buffer.view()[...] = array
        return replace(
            self,
            buffers=buffers,
            initialized=self.initialized | frozenset(values),
            parent=self,
            made_by="set_values",
            id=next(_ids),
        )

    def get_values(self, node: Tensor) -> npt.NDArray[Any]:
        """Return a copy of the value of ``node``.

        Raises
        ------
        NotReadableError
            If the node holds no value here, saying where it lives and why.
        """
        return self.read([node])[0]

    def read(self, nodes: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
        """Return copies of the values of several nodes; virtual ones are recomputed in one routine.

        What is recomputed has the value that its operands give now. The context, its placements and
        its memory stay as they were.

        Raises
        ------
        NotReadableError
            For the first node that cannot be read, with the path to what is at fault.
        """
        verdicts = self.observabilities(nodes)
        for verdict in verdicts:
            if not verdict.is_readable:
                raise NotReadableError(verdict.problem, remedy=verdict.remedy_text)
        lost = [v.node for v in verdicts if v.reading is Reading.RECOMPUTABLE]
        values: dict[Tensor, npt.NDArray[Any]] = {}
        if lost:
            made = computation_from(dict.fromkeys(lost), given=self._stored())
            rows = self._batch_rows()
            # A kernel for each node: many nodes share a few texts, each of which compiles once.
            single = replace(self.settings_in_force(), fuse=False)
            bare = replace(self, placements={}, settings=single)
            throwaway, routine = bare.compile(made, name="read", rows=rows)
            throwaway = throwaway.run(routine, rows=rows)
            values = {node: throwaway.buffers[node].view().copy() for node in lost}
        for verdict in verdicts:
            node = verdict.node
            if verdict.reading is Reading.STORED:
                values[node] = self.buffers[node].view().copy()
            elif verdict.reading is Reading.HOST_INIT:
                value = host_data(node)
                assert value is not None
                values[node] = value
        return [values[node] for node in nodes]

    def observability(self, node: Tensor) -> Observability:
        """Return whether and how the value of ``node`` can be read here; nothing is compiled."""
        return self.observabilities([node])[0]

    def observabilities(self, nodes: Iterable[Tensor]) -> list[Observability]:
        """Return the `observability` of each of ``nodes``; what they share is looked at once."""
        return observe_all(nodes, self._stored(), self.placements, self._batch_rows)

    def _batch_rows(self) -> int | None:
        """Return the batch size that all values here have, None if there is no such size."""
        sizes = {
            actual // extent.factor
            for node, buffer in self.buffers.items()
            for extent, actual in zip(node.shape, buffer.shape, strict=True)
            if isinstance(extent, Batch)
        }
        return sizes.pop() if len(sizes) == 1 else None

    def _stored(self) -> frozenset[Tensor]:
        return self.initialized & self.buffers.keys()

    # -- for people

    def printf(
        self,
        node: Tensor,
        *,
        with_grad: bool = True,
        grads: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        """Print the value of ``node``, and its gradient if there is one in ``grads``.

        Parameters are those of `workbench.runtime.show_value.value_text`, which returns the text.
        """
        print(value_text(self, node, with_grad=with_grad, grads=grads))  # noqa: T201 (its purpose)

    def printf_tree(
        self,
        node: Tensor,
        depth: int = 9,
        *,
        with_value: bool = True,
        with_grad: bool = True,
        grads: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        """Print the graph of ``node`` as a tree of values.

        Parameters are those of `workbench.runtime.show_tree.tree_text`, which returns the text.
        """
        print(  # noqa: T201 (its purpose)
            tree_text(self, node, depth, with_value=with_value, with_grad=with_grad, grads=grads)
        )

    def placement_table(self, order: Order = "decided") -> PlacementTable:
        """Return where every node lives, who decided so, and whether it can be read.

        Parameters
        ----------
        order
            ``"decided"``, ``"node"``, ``"mode"``, ``"code"``, ``"bytes"`` or ``"readable"``.
        """
        return placement_table(self, order)

    def lineage(self) -> Lineage:
        """Return which call made which context, for all that still exist of this lineage."""
        return Lineage(self)

    def _repr_html_(self) -> str:
        what: list[tuple[str, Content]] = [
            ("backend", self.backend.name),
            ("buffers", f"{len(self.buffers)}, {len(self._stored())} with values"),
            ("memory", f"{self.used_memory():,} bytes"),
            ("lineage", self.lineage().markup()),
        ]
        return card(f"Context {self.id}", what).text

    def sync(self) -> Context:
        """Wait until everything that was started is done; at once on a CPU."""
        return self

    def used_memory(self) -> int:
        """Return the bytes of all buffers of this context, shared arenas counted once."""
        owners = {
            id(b.array.base): b.array.base
            for b in self.buffers.values()
            if b.array.base is not None
        }
        return sum(int(getattr(owner, "nbytes", 0)) for owner in owners.values())

    def __repr__(self) -> str:
        return (
            f"<Context {self.id} on {self.backend.name}: {len(self.buffers)} buffers, "
            f"{len(self.initialized)} with values, made by {printable(self.made_by)}>"
        )


def _rows_for(node: Tensor, shape: tuple[int, ...]) -> int | None:
    for extent, actual in zip(node.shape, shape, strict=True):
        if isinstance(extent, Batch):
            return actual // extent.factor
    return None


def _check_fits(node: Tensor, array: npt.NDArray[Any]) -> None:
    fits = len(array.shape) == len(node.shape) and all(
        actual % extent.factor == 0 if isinstance(extent, Batch) else actual == extent
        for extent, actual in zip(node.shape, array.shape, strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{describe(node)} was given an array of shape {show_shape(array.shape)}",
            remedy=f"give an array of shape {show_shape(node.shape)}",
        )
    if not np.can_cast(array.dtype, node.dtype.numpy, "same_kind"):
        raise DTypeError(
            f"{describe(node)} was given an array of type {array.dtype}",
            remedy=f"convert it: `array.astype('{node.dtype}')`",
        )

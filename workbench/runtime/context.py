"""Contexts: memory and decisions as values that a person passes on.

In: a backend. Out: contexts, each made from the one before by ``compile``, ``run`` or
``set_values``. Invariant: a context is never changed; what is shared along a lineage is the memory
of its buffers, which running overwrites.

The file is long because it is the list of all that a context can be asked: what each does is in a
file of its own, and here are its name, its arguments and what it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy.typing as npt

from workbench.assign.assignment import Computation
from workbench.backends.facts import BackendFacts, DeviceProperties, HardwareLimits, Identity
from workbench.backends.interpreter.backend import Interpreter
from workbench.backends.numba_cpu.backend import NumbaCpu
from workbench.backends.protocol import Array, Backend
from workbench.backends.registry import driver, first_available
from workbench.graph.markup import Content, card
from workbench.graph.nodes import node_from
from workbench.graph.tensor import Tensor, printable
from workbench.loops.kernel import Program
from workbench.loops.placement import Placement
from workbench.loops.preference import NO_PREFERENCES, Choice, Preferences, as_choice
from workbench.loops.settings import Settings, current_settings
from workbench.runtime.attempt import compile_outcome, relink_outcome, run_outcome
from workbench.runtime.buffer import Buffer
from workbench.runtime.compiling import Wanted, compile_routine, link_request, relink
from workbench.runtime.copying import copy
from workbench.runtime.decision_surface import DecisionSurface, decision_surface
from workbench.runtime.decisions import (
    Lowered,
    Nodes,
    Vector,
    decide_reading,
    decide_vector,
    lowered_for_decisions,
    stored_components,
)
from workbench.runtime.elements import Position, points, value_at, with_value_at
from workbench.runtime.frontier import Frontier
from workbench.runtime.ledger import Ledger
from workbench.runtime.lifecycle import Unit
from workbench.runtime.lineage import Lineage, Origin
from workbench.runtime.observe import Observability
from workbench.runtime.outcome import Outcome, Phase, blames, classify
from workbench.runtime.placement_table import Order, PlacementTable, placement_table
from workbench.runtime.reading import forget_verdicts, node_named, read, stored, verdicts
from workbench.runtime.routine import Routine
from workbench.runtime.runnable import (
    can_run,
    check_launch_bindings,
    check_lineage_runnable,
    check_runnable,
)
from workbench.runtime.running import lend, prepared, run_routine
from workbench.runtime.seams import LoweringReuse, RetainedCode, Seams, Transform
from workbench.runtime.shared_memory import own_constants
from workbench.runtime.show_tree import tree_text
from workbench.runtime.show_value import value_text
from workbench.runtime.transfer import upload


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
    preferences: Preferences = NO_PREFERENCES
    ledger: Ledger = field(default_factory=Ledger)
    frontier: Frontier = field(default_factory=Frontier)
    origin: Origin = field(default_factory=Origin)
    unit: Unit = field(default_factory=Unit)
    stage: int = 0

    def __post_init__(self) -> None:
        self.unit.add_context(self)

    def derived(self, made_by: str, **changes: Any) -> Context:
        """Return a context made of this one by the call ``made_by``, with the changes given."""
        return replace(self, origin=Origin(made_by, self.origin), **changes)

    def child(self, made_by: str, **changes: Any) -> Context:
        """Return a context as `derived` does, one lifecycle level below: it is released alone."""
        self.unit.check_live()
        return self.derived(made_by, unit=Unit(self.unit), stage=0, **changes)

    @property
    def id(self) -> int:
        """Number of the context, never used again."""
        return self.origin.id

    @property
    def made_by(self) -> str:
        """The call that made it."""
        return self.origin.made_by

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
        return Context(driver("cuda").open(ordinal, None))

    @staticmethod
    def hip(ordinal: int = 0) -> Context:
        """Return an empty context on an AMD device, through CuPy's ROCm build.

        Raises
        ------
        BackendUnavailable
            Saying what is missing.
        """
        return Context(driver("hip").open(ordinal, None))

    @staticmethod
    def metal(ordinal: int = 0) -> Context:
        """Return an empty context on an Apple device.

        Raises
        ------
        BackendUnavailable
            Always: there are no kernels for it.
        """
        return Context(driver("metal").open(ordinal, None))

    @staticmethod
    def auto(threads: int | None = None) -> Context:
        """Return a context on the backend that the settings name, or the first that is available.

        The order is Metal, CUDA, HIP, then this processor. Only `BackendUnavailable` moves on to
        the next: a driver that is there and fails is reported, not passed over.

        Raises
        ------
        BackendUnavailable
            If the configured backend, or every one, is not available; the text says what is
            missing.
        """
        return Context(first_available(threads, configured=current_settings().backend))

    # -- what it is on

    @property
    def backend_name(self) -> str:
        """What the backend calls itself."""
        return self.backend.name

    @property
    def device_ordinal(self) -> int:
        """Number of the device among those of its kind."""
        return self.backend.device.ordinal

    @property
    def backend_facts(self) -> BackendFacts:
        """Capabilities of the backend, to be asked for by what one needs."""
        return driver(self.backend.device.kind).facts

    @property
    def hardware_limits(self) -> HardwareLimits:
        """The most a workgroup may have; all None where no hardware axes are bound."""
        return driver(self.backend.device.kind).limits(self.device_ordinal)

    def same_backend(self, other: Context) -> bool:
        """Whether both are on the same backend; equal facts do not make two backends one."""
        return type(self.backend) is type(other.backend)

    def static_properties(self) -> tuple[DeviceProperties, ...]:
        """Return what the driver says of each of the backend's devices."""
        return driver(self.backend.device.kind).properties()

    def device_identity(self) -> Identity | None:
        """Return who the device is, the same in every process; None if that cannot be told.

        Measurements that are kept for a device are kept under this.
        """
        return driver(self.backend.device.kind).identity(self.device_ordinal)

    def debug_information(self) -> dict[str, int]:
        """Return counts of what the backend has done in this process, and of its device's memory.

        They are for people who look for a fault; their names may change.
        """
        device = self.backend.device
        return {
            **driver(device.kind).counts(),
            "allocations": device.allocations(),
            "bytes in use": device.used(),
            "most bytes in use": device.peak(),
        }

    # -- compiling

    def compile(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        name: str = "",
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
        bindings: Mapping[Tensor, int] | None = None,
        lowered_transform: Transform | None = None,
        prelowered: Program | None = None,
        reuse: LoweringReuse | None = None,
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
        bindings
            What the static indices are bound to. The mapping is read at each run, and may be
            changed between two.
        lowered_transform
            Takes the program as lowered and returns a list of programs that run one after another
            instead of it.
        prelowered
            A program to compile instead of what would be lowered; with ``wanted`` empty, its
            kernels alone say what the routine reads and writes. For tests: a hand-made program
            answers for its own placements.
        reuse
            A cell that several compiles of the same share: the first lowers, the others take the
            result.

        Raises
        ------
        CompileError
            If this lineage cannot keep its gradients correct, naming them and the routines; if it
            reads a computed node that is not here; if what is bound is no static index; or if a
            program given or transformed is not well formed.
        ConfigurationError
            If a reuse cell is used for another compile, or together with ``prelowered``.
        """
        return compile_routine(
            self,
            wanted,
            name=name,
            updates=updates,
            rows=rows,
            bindings=bindings,
            seams=Seams(lowered_transform, prelowered, reuse),
        )

    def compile_outcome(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        name: str = "",
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
        bindings: Mapping[Tensor, int] | None = None,
        lowered_transform: Transform | None = None,
        prelowered: Program | None = None,
        reuse: LoweringReuse | None = None,
        retain: Callable[[RetainedCode], None] | None = None,
    ) -> Outcome[tuple[Context, Routine]]:
        """Compile as `compile` does, and return a failure that is this candidate's own.

        What failed in the transform, the backend's code generator or the link comes back as a
        `Failure` with its phase. What would fail for any candidate is raised: a released context,
        a shape, an owner of gradients; an interrupt or a fault of this engine as well.

        Parameters
        ----------
        wanted, name, updates, rows, bindings, lowered_transform, prelowered, reuse
            As for `compile`.
        retain
            Is given the compiled code, once, for a later `relink`. If it raises, the routine just
            linked is released and the exception passes.
        """
        return compile_outcome(
            self,
            wanted,
            name=name,
            updates=updates,
            rows=rows,
            bindings=bindings,
            seams=Seams(lowered_transform, prelowered, reuse),
            retain=retain,
        )

    def relink(self, retained: RetainedCode) -> tuple[Context, Routine]:
        """Return retained code linked again: memory and a routine of its own, nothing compiled.

        Parameters
        ----------
        retained
            What `compile_outcome` of this very context handed to its ``retain``.

        Raises
        ------
        ConfigurationError
            If it was linked again before, or comes from another context.
        """
        return relink(self, retained)

    def relink_outcome(self, retained: RetainedCode) -> Outcome[tuple[Context, Routine]]:
        """Link as `relink` does, and return a failure of the link itself."""
        return relink_outcome(self, retained)

    def settings_in_force(self) -> Settings:
        """Return the settings of this context, or those of `workbench.settings` if it has none."""
        return current_settings() if self.settings is None else self.settings

    # -- deciding

    def decide_materialized(self, nodes: Nodes) -> Context:
        """Return a child context in which routines store ``nodes`` on the device.

        It binds the routines that are compiled from then on, also where one that was compiled
        before keeps a node local or virtual: compile again, and the new one stores it. Until then
        everything can be read that could be. Nodes that are declared virtual, and scalars of
        constants, are left as they are. What is declared of the nodes, this context and its other
        children do not change.

        Parameters
        ----------
        nodes
            One tensor, or several.
        """
        return decide_reading(self, "materialize", nodes)

    def decide_inline(self, nodes: Nodes) -> Context:
        """Return a child context in which the caps do not apply to ``nodes``.

        Readers compute them anew, unless that is impossible: then they are stored as usual, and
        their placement says why. Nodes that a routine of this lineage stores stay stored, so decide
        before that routine is compiled.

        Parameters
        ----------
        nodes
            One tensor, or several.
        """
        return decide_reading(self, "inline", nodes)

    def decide_footprint(self, nodes: Nodes) -> Context:
        """Return a child context in which each reader of ``nodes`` gets a box of what it reads.

        The box is computed where the node would have been. A read that no box can serve (under a
        ``where``, with rows looked up) computes the node anew. It replaces `decide_inline`, and is
        replaced by it. Where the setting ``footprint_scratch`` is off, it asks for nothing.

        Parameters
        ----------
        nodes
            One tensor, or several.
        """
        return decide_reading(self, "footprint", nodes)

    def decide_reading(self, reading: Choice, nodes: Nodes) -> Context:
        """Return a child context with a reading of ``nodes`` decided.

        Parameters
        ----------
        reading
            ``"materialize"``, ``"inline"`` or ``"footprint"``.
        nodes
            One tensor, or several.

        Raises
        ------
        ConfigurationError
            If there is no such reading.
        """
        return decide_reading(self, as_choice(reading), nodes)

    def decide(
        self,
        *,
        materialized: Nodes = (),
        inline: Nodes = (),
        footprint: Nodes = (),
        skip_empty: bool = True,
    ) -> Context:
        """Return a context with a whole vector decided: one child after another, in this order.

        Parameters
        ----------
        materialized, inline, footprint
            Nodes for `decide_materialized`, `decide_inline` and `decide_footprint`.
        skip_empty
            Whether a reading of no nodes makes no context.
        """
        vector = Vector(materialized, inline, footprint)
        return decide_vector(self, vector, skip_empty=skip_empty)

    def lowered_for_decisions(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        materialized: Nodes = (),
        inline: Nodes = (),
        footprint: Nodes = (),
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
    ) -> Lowered:
        """Return what `compile` would make of ``wanted`` after `decide`; nothing is compiled.

        Parameters
        ----------
        wanted, updates, rows
            As in `compile`.
        materialized, inline, footprint
            As in `decide`.
        """
        vector = Vector(materialized, inline, footprint)
        return lowered_for_decisions(self, wanted, vector, updates=updates, rows=rows)

    def decision_surface(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
    ) -> DecisionSurface:
        """Return what could be decided about ``wanted``, and at what cost; nothing is compiled.

        Parameters
        ----------
        wanted, updates, rows
            As in `compile`.
        """
        return decision_surface(self, wanted, updates=updates, rows=rows)

    def stored_components(self, node: Tensor | None = None) -> int:
        """Return how many statements readers replay for ``node``, or for all virtual nodes.

        A virtual node is one statement; others, and those unknown here, are none.
        """
        return stored_components(self, node)

    # -- running

    def run(self, routine: Routine, *, rows: int | None = None, timing: bool = False) -> Context:
        """Run the routine once and return the context in which its outputs hold values.

        Parameters
        ----------
        routine
            Compiled in this lineage.
        rows
            The batch size, for a routine that depends on it and has no input that tells it.
        timing
            Whether the run is only to be timed: gradients may then add up without a reset.

        Raises
        ------
        ExecutionError
            If the lineage is poisoned or another one; a gradient has no owner; an input holds no
            value; a routine has to run first; what the launch binds is missing or out of range; or
            a gradient would be added to once too often since its reset. The first of these, and
            nothing was written. A failure in the midst of a run passes as it is and poisons the
            lineage.
        """
        return run_routine(self, routine, rows, timing=timing)

    def run_outcome(self, routine: Routine, *, rows: int | None = None) -> Outcome[Context]:
        """Run as `run` does, and return a failure of the bindings, the launch or the wait for it.

        What any other form of the routine would fail for as well is raised. A failed launch that
        the backend does not blame on the routine poisons the lineage.
        """
        return run_outcome(self, routine, rows)

    def failure_classifier(self) -> Callable[[Phase, BaseException], bool]:
        """Return what tells whether a failure in a phase is the fault of one candidate alone."""
        blamed = blames(self.backend.device.kind)
        return lambda phase, error: classify(phase, error, blamed)

    def prepared(self, routine: Routine, rows: int | None = None) -> tuple[Context, int | None]:
        """Return a context with memory for the routine at the inputs' batch size, and that size."""
        return prepared(self, routine, rows)

    def check_runnable(self, routine: Routine, *, rows: int | None = None) -> None:
        """Raise what `run` would raise before it starts, but for gradients without a reset."""
        check_runnable(self, routine, rows)

    def check_lineage_runnable(self, routine: Routine) -> None:
        """Raise what `run` would for reasons of the lineage: poison, owners, inputs, order."""
        check_lineage_runnable(self, routine)

    def check_launch_bindings(self, routine: Routine, *, rows: int | None = None) -> None:
        """Raise what `run` would for what this launch binds: static indices and the batch."""
        check_launch_bindings(self, routine, rows)

    def can_run(self, routine: Routine) -> bool:
        """Return whether everything that has to run before the routine has run."""
        return can_run(self, routine)

    def sync(self) -> Context:
        """Wait until everything that was started is done; at once on a CPU.

        Raises
        ------
        ExecutionError
            If the lineage is poisoned.
        """
        self.unit.check_live()
        self.ledger.refuse_poisoned("waiting for the device")
        return self

    def rollback_execution(self, routine: Routine) -> None:
        """Take back that the routine ran; only if its failure is known to have written nothing."""
        self.ledger.rollback(routine.id, routine.link.counted_as)

    def poison_lineage(self, routine: Routine, failure: BaseException) -> None:
        """Refuse every run, read and write of this root's contexts from now on.

        For a failure that may have left buffers half written. The first one sticks, and there is no
        way back but a new root.
        """
        self.ledger.condemn(routine.name, failure)

    def poisoned_failure(self) -> BaseException | None:
        """Return the failure that poisoned this lineage, None if it is sound."""
        return None if self.ledger.poison is None else self.ledger.poison.failure

    def is_initialized(self, node: Tensor) -> bool:
        """Return whether this context holds a value of ``node``."""
        return node_from("node", node) in stored(self)

    def buffer_written(self, node: Tensor) -> bool:
        """Return whether the memory of ``node`` here was ever written, whoever wrote it."""
        buffer = self.buffers.get(node_from("node", node))
        return buffer is not None and buffer.record.written

    def record_count(self) -> int:
        """Return how many entries the ledger holds: routines, runs and written buffers."""
        return self.ledger.record_count()

    def save_accumulation_history(self) -> Callable[[], None]:
        """Return a function that makes the history of accumulation what it is now.

        For whoever puts saved values back after runs that are not to count: neither these runs nor
        the writes that undo them are then taken for steps or resets.
        """
        return self.ledger.accumulation_history()

    def lend(self, routine: Routine) -> dict[Tensor, Array]:
        """Return the memory of every buffer, flat, for a native loop over `Routine.bind`.

        For the ledger the routine has run from now on: whoever loops answers for the order.
        """
        return lend(self, routine)

    def arrays(self) -> dict[Tensor, Array]:
        """Return the memory of every buffer, flat."""
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
        return upload(self, values)

    @staticmethod
    def copy(
        source: Context, target: Context, node: Tensor, *, into_merge: bool = False
    ) -> Context:
        """Return ``target`` with the value that ``node`` has in ``source``.

        Between contexts of one backend bytes are copied as they lie; otherwise, and where the
        source has no memory for the node, its value is read first. Where both bind the same bytes
        nothing moves, and the target's lineage has the value as its own.

        Parameters
        ----------
        source, target
            Contexts of any backends, of one lineage or of two.
        node
            What to copy.
        into_merge
            Whether to fill the target's merge buffer instead of the memory of ``node``. What reads
            ``wb.merge_buffer(node)`` is compiled in the context that this returns.

        Raises
        ------
        NotReadableError
            If the source has no value of it.
        ExecutionError
            If a context was released or its lineage cannot be trusted, if another root has written
            into a shared constant; and for a merge buffer, if what writes the node has not run, or
            what was compiled to read the value before has not.
        """
        return copy(source, target, node, into_merge=into_merge)

    def own_constants(self, nodes: Iterable[Tensor]) -> Context:
        """Return a context that holds the given array constants in memory of its own.

        Constants are in a device's memory once, for all contexts there. Where someone wrote into
        one, a context of another root that reads it is refused; this gives it the constant back.

        Raises
        ------
        PlacementError
            If a node is no array constant.
        """
        return own_constants(self, nodes)

    def get_values(self, node: Tensor) -> npt.NDArray[Any]:
        """Return a copy of the value of ``node``.

        Raises
        ------
        NotReadableError
            If the node holds no value here, saying where it lives and why.
        """
        return self.read([node])[0]

    def get_value(self, node: Tensor, position: Position = ()) -> Any:
        """Return one element of ``node``, at a number or a sequence with one for each axis.

        Raises
        ------
        NotReadableError, ShapeError
            If the node holds no value here, or none at that position.
        """
        return value_at(self, node, position)

    def set_value(self, node: Tensor, position: Position, number: float) -> Context:
        """Return a context in which one element of ``node`` is changed and the others are kept.

        The whole value is read, changed and written: a write from outside like `set_values`.
        """
        return with_value_at(self, node, position, number)

    def points_1d(self, node: Tensor, component: int, *, axis: int = -1) -> npt.NDArray[Any]:
        """Return one coordinate of all points of ``node``, for a plot.

        Parameters
        ----------
        node
            A value in which ``axis`` holds the coordinates of a point.
        component
            Which coordinate.
        axis
            Every position along all other axes is a point, in row-major order.
        """
        return points(self, node, [component], axis)[:, 0]

    def points_2d(
        self, node: Tensor, first: int, second: int, *, axis: int = -1
    ) -> npt.NDArray[Any]:
        """Return two coordinates of all points of ``node``, of shape ``(points, 2)``."""
        return points(self, node, [first, second], axis)

    def read(self, nodes: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
        """Return copies of the values of several nodes; virtual ones are recomputed in one routine.

        What is recomputed has the value that its operands give now. The context, its placements and
        its memory stay as they were.

        Raises
        ------
        NotReadableError
            For the first node that cannot be read, with the path to what is at fault.
        """
        return read(self, nodes)

    def node(self, name: str) -> Tensor:
        """Return a node of this context's routines by its name, as remedies write it.

        Parameters
        ----------
        name
            Its label; where several nodes have the label, or it has none, the label or the
            operation with a number in the order of the placements: ``"einsum#2"``.

        Raises
        ------
        GraphError
            If there is none of that name, naming some that are like it.
        """
        return node_named(self, name)

    def observability(self, node: Tensor) -> Observability:
        """Return whether and how the value of ``node`` can be read here; nothing is compiled."""
        return self.observabilities([node])[0]

    def observabilities(self, nodes: Iterable[Tensor]) -> list[Observability]:
        """Return the `observability` of each of ``nodes``; what they share is looked at once."""
        self.unit.check_live()
        return self.verdicts(nodes)

    def verdicts(self, nodes: Iterable[Tensor]) -> list[Observability]:
        """Return the `observabilities`, of a released context too: there, nothing can be read."""
        return verdicts(self, nodes)

    # -- for people

    def printf(
        self,
        node: Tensor,
        *,
        with_grad: bool = True,
        grads: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        """Print the value of ``node``, and its gradient if there is one.

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
        return Lineage(self.origin)

    def _repr_html_(self) -> str:
        what: list[tuple[str, Content]] = [
            ("backend", self.backend.name),
            ("buffers", f"{len(self.buffers)}, {len(stored(self))} with values"),
            ("memory", f"{self.held_memory():,} bytes"),
            ("lineage", self.lineage().markup()),
        ]
        return card(f"Context {self.id}", what).text

    # -- memory and lifecycle

    def held_memory(self) -> int:
        """Return the bytes of all buffers of this context, shared arenas counted once."""
        owners = {
            id(b.array.base): b.array.base
            for b in self.buffers.values()
            if b.array.base is not None
        }
        return sum(int(getattr(owner, "nbytes", 0)) for owner in owners.values())

    def used_memory(self) -> int:
        """Return the bytes in use on the device, by all contexts and routines together."""
        return self.backend.device.used()

    def free_and_total_memory(self) -> tuple[int, int] | None:
        """Return the driver's free and total bytes of the device; None if it does not tell.

        Other processes count as well, and what the driver keeps for itself.
        """
        return driver(self.backend.device.kind).memory(self.device_ordinal)

    def link_delta(
        self,
        wanted: Wanted,
        *,
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
    ) -> int:
        """Return the bytes that `compile` of the same would request from the device, exactly.

        What the context holds and what the device has of constants is not requested again. Nothing
        is compiled or allocated. Memory that depends on the batch, and what lives within a run
        (`Routine.local_bytes`), is requested by the first run.

        Parameters
        ----------
        wanted
            As for `compile`, or a program as lowered.
        updates, rows
            As for `compile`.
        """
        return link_request(self, wanted, updates, rows).total()

    def link_trial(
        self,
        wanted: Wanted,
        *,
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
        floor: bool = False,
    ) -> int:
        """Request what `link_delta`, or `link_floor`, says, give it back, and return how much.

        Raises
        ------
        DeviceMemoryError
            If the device refuses, as it would refuse the real link.
        """
        plan = link_request(self, wanted, updates, rows, floor=floor)
        return self.backend.device.trial(plan.sizes())

    def link_floor(
        self,
        wanted: Computation | Iterable[Tensor],
        *,
        updates: Mapping[Tensor, Tensor] | None = None,
        rows: int | None = None,
    ) -> int:
        """Return the bytes that `compile` requests at least, whatever is decided and scheduled.

        Only what is read from outside, asked for or updated counts.
        """
        return link_request(self, wanted, updates, rows, floor=True).total()

    def peak_memory(self) -> int:
        """Return the most bytes in use on the device at once since `reset_peak_memory`."""
        return self.backend.device.peak()

    def reset_peak_memory(self) -> int:
        """Let the peak start again from what is in use now, and return that."""
        return self.backend.device.reset_peak()

    def release(self) -> None:
        """Free the memory of this context and of those that share its release unit.

        Again does nothing. Dropping the last reference to a context frees its memory as well; call
        this where the moment matters. Release last what was made first: what was compiled in a
        released context can be used no more.
        """
        self.unit.release()

    def adopt_ancestor(self, ancestor: Context) -> None:
        """Release ``ancestor`` when this context's unit is, after it.

        For a function that makes contexts on its caller's behalf and returns only the last.

        Raises
        ------
        ExecutionError
            If this context was not made of it by ``compile`` or a decision, or was released.
        """
        self.unit.check_live()
        self.unit.adopt(ancestor.unit)

    def same_release_unit(self, other: Context) -> bool:
        """Whether releasing the one releases the other."""
        return self.unit is other.unit

    @property
    def lifecycle_depth(self) -> int:
        """How many contexts up the line were compiled or decided from; 0 for a root."""
        return self.unit.depth

    def forget_memory(self) -> None:
        """Hold no buffers any more; the end of `release`, which refuses every use afterwards."""
        object.__setattr__(self, "buffers", {})
        forget_verdicts(self)

    def __repr__(self) -> str:
        return (
            f"<Context {self.id} on {self.backend.name}: {len(self.buffers)} buffers, "
            f"{len(stored(self))} with values, made by {printable(self.made_by)}>"
        )

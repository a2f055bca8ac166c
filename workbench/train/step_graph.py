"""The graph that a run's batches compute, and its values after one of them, to look into.

In: a run. Out: tensors, gradients, names, and a context that can read them. Invariant: all values
belong to one moment between two batches and lie in memory of their own, so that nothing done with
them reaches the run.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from workbench.errors import ConfigurationError, GraphError
from workbench.graph.extent import Batch, count, resolve_shape
from workbench.graph.tensor import Tensor, printable
from workbench.runtime.buffer import Buffer, rows_for
from workbench.runtime.constants import is_shared
from workbench.runtime.context import Context
from workbench.runtime.frontier import Frontier
from workbench.runtime.ledger import Ledger
from workbench.runtime.lifecycle import Unit
from workbench.runtime.routine import Routine
from workbench.train.program import StepProgram
from workbench.train.tree import paths

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["StepGraph", "step_graph"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class StepGraph:
    """The step that a run has in force, after a batch.

    Attributes
    ----------
    loss
        What the step reports as its loss, shape ``()``.
    context
        Has copies of the parameters, the optimizer's state, and what the batch that was run last
        was given and left; before the first batch, of the parameters and the state alone. Rows of
        data sets are not copied.
    routine
        The step compiled. It belongs to the run; to run it, compile its ``computation`` anew.
    gradients
        Those that the step makes, by what they are by: of the scaled loss where it is scaled.
    params, opt
        Parameters and parts of the optimizer's state, by their path.
    name
        What the step is called.
    version
        Number in ``run.step_history`` of the latest version of step, loss or optimizer that it was
        made of.
    global_step
        Updates since the run began.
    number
        How many steps the run has had in force, this one included: another number, another graph.
    """

    loss: Tensor
    context: Context
    routine: Routine
    gradients: Mapping[Tensor, Tensor]
    params: Mapping[str, Tensor]
    opt: Mapping[str, Tensor]
    name: str
    version: int
    global_step: int
    number: int
    _labels: dict[str, Tensor] = field(default_factory=dict[str, Tensor], init=False, repr=False)

    @property
    def caption(self) -> str:
        """Which step it is, and after how many updates its values are."""
        step = f"`{printable(self.name)}`, version {self.version}"
        return f"{step}, values after update {self.global_step}"

    def node(self, path: str) -> Tensor:
        """Return a node by its name.

        Parameters
        ----------
        path
            The path of a parameter, that of a part of the optimizer's state after ``opt.``, or the
            label of a node of the step; of two, the one decided first.

        Raises
        ------
        GraphError
            If there is none of that name, naming some that are like it.
        """
        if not self._labels:
            for node in self.routine.placements:
                if node.label:
                    self._labels.setdefault(node.label, node)
            self._labels.update({f"opt.{name}": leaf for name, leaf in self.opt.items()})
            self._labels.update(self.params)
        found = self._labels.get(path)
        if found is None:
            like = difflib.get_close_matches(path, self._labels, 3) or list(self._labels)[:5]
            raise GraphError(
                f"the step has no node called `{printable(path)}`",
                remedy=f"there is {', '.join(f'`{printable(name)}`' for name in like)}",
            )
        return found

    def __repr__(self) -> str:
        return f"<StepGraph {self.caption}: {len(self.routine.placements)} nodes>"


def step_graph(run: Run) -> StepGraph:
    """Return the graph of the step in force; see `Run.step_graph`."""
    edits = run.edits
    with run.gate.visiting():
        program = edits.in_force
        if program is None:
            raise ConfigurationError(
                "the run has compiled no step yet, so there is no graph to look into",
                remedy="begin it with `run.start(...)` or `wb.fit(run, ...)`, which compile the "
                "step before the first batch, and look again",
            )
        return StepGraph(
            loss=program.traced.loss,
            context=_copied(program),
            routine=program.routine,
            gradients={
                node: gradient
                for node, gradient in program.traced.gradients.items()
                if gradient in program.routine.placements
            },
            params=dict(zip(paths(run.leaves.structure), run.leaves.tensors, strict=True)),
            opt=dict(zip(paths(run.opt_leaves.structure), run.opt_leaves.tensors, strict=True)),
            name=program.routine.name,
            version=edits.version_in_force,
            global_step=run.state.global_step,
            number=edits.graphs,
        )


def _copied(program: StepProgram) -> Context:
    """Return a context with copies of the program's values, outside the run's lineage."""
    context, routine = program.context, program.routine
    context.unit.check_live()
    context.ledger.refuse_poisoned("looking into the run")
    buffers: dict[Tensor, Buffer] = {}
    for node in routine.program.device:
        held = context.buffers.get(node)
        if held is not None and is_shared(node):
            buffers[node] = Buffer(held.array, held.shape, lent=True)
        elif held is not None and node not in program.data:
            buffers[node] = Buffer(held.array.copy(), held.shape)
    last = program.last.values()
    for given, is_lent in ((program.data, True), (last, False)):
        for node, array in given.items():
            flat = np.ascontiguousarray(array).reshape(-1)
            buffers[node] = Buffer(flat, array.shape, lent=is_lent)
    known = context.initialized | program.data.keys() | last.keys()
    rows = next(filter(None, (rows_for(node, each.shape) for node, each in last.items())), None)
    for node, root in routine.program.views.items():
        if root in buffers and (rows is not None or not isinstance(count(node.shape), Batch)):
            shape = resolve_shape(node.shape, rows)
            buffers[node] = Buffer(buffers[root].array, shape, lent=buffers[root].lent)
            known |= {node} if root in known else frozenset[Tensor]()
    unit = Unit()
    unit.show_routine(routine)
    return context.derived(
        "look",
        buffers=buffers,
        initialized=known & buffers.keys(),
        placements=routine.placements,
        # Nothing that is done there is told to the run, neither writes nor that it was released.
        ledger=Ledger(),
        frontier=Frontier(),
        unit=unit,
        stage=0,
    )

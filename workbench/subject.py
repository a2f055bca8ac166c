"""What a view is about: a graph, and where its values are read.

In: a context, or a run in its place. Out: a node, a context that can read it, and what is known
besides. Invariant: views do not know which of the two they were given; of a run they have the
values of one moment, and ask for those of another.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast, final

from workbench.errors import ConfigurationError, GraphError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.routine import Routine
from workbench.train.run import Run
from workbench.train.step_graph import StepGraph

__all__ = ["Place", "Standing", "Subject", "subject_of"]

Place: TypeAlias = "Context | Run"
"""Where values are read."""


@final
@dataclass(frozen=True, slots=True)
class Standing:
    """How far a run has gone since a view of it was made.

    Attributes
    ----------
    step
        Updates since the run began.
    since
        Updates since it was read; less than 0 if an earlier state was restored.
    is_other
        Whether it has another step in force, so that its graph is another one.
    """

    step: int
    since: int
    is_other: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Live:
    """The run that a subject was read from.

    Attributes
    ----------
    run
        Only weakly: a view that stays on a page holds no training data.
    graph
        What the run told.
    asked
        What was asked about: a node, the name of one, or None for the loss.
    """

    run: weakref.ref[Run]
    graph: StepGraph
    asked: Tensor | str | None

    def present(self) -> Run:
        """Return the run.

        Raises
        ------
        ConfigurationError
            If nobody holds it any more.
        """
        run = self.run()
        if run is None:
            raise ConfigurationError(
                "the run of this view is gone; what is shown is the last that was read of it",
                remedy="keep the run in a variable for as long as its graph is looked at",
            )
        return run


@final
@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A node, and where it is read.

    Attributes
    ----------
    context
        Where values are read.
    node
        What a view is about; None if it is about all of the context.
    routine
        What computes the node, None if the context knows.
    grads
        Gradients by node, None if the context knows.
    """

    context: Context
    node: Tensor | None = None
    routine: Routine | None = None
    grads: Mapping[Tensor, Tensor] | None = None
    _live: _Live | None = None

    @property
    def root(self) -> Tensor:
        """The node, of a subject that has one."""
        assert self.node is not None
        return self.node

    @property
    def is_live(self) -> bool:
        """Whether it was read from a run, and can be read again."""
        return self._live is not None

    @property
    def caption(self) -> str:
        """What was read, and when in its run; empty for a context, which does not change."""
        return "" if self._live is None else self._live.graph.caption

    def routine_for(self, node: Tensor) -> Routine | None:
        """Return the routine if it is that of a node."""
        known = self.routine
        return known if known is not None and node in known.placements else None

    def standing(self) -> Standing | None:
        """Return how far the run is by now; None for a context.

        Raises
        ------
        ConfigurationError
            If the run is gone.
        """
        if self._live is None:
            return None
        run = self._live.present()
        is_other = run.edits.graphs != self._live.graph.number
        step = run.state.global_step
        return Standing(step, step - self._live.graph.global_step, is_other)

    def again(self) -> Subject:
        """Return the subject with the values, and the graph, that its run has now.

        Raises
        ------
        ConfigurationError
            If the run is gone.
        GraphError
            If its step has no node any more of the name that was asked for.
        """
        if self._live is None:
            return self
        return _of_run(self._live.present(), self._live.asked)


def subject_of(
    place: Place,
    node: Tensor | str | Run | None = None,
    *,
    routine: Routine | None = None,
    grads: Mapping[Tensor, Tensor] | None = None,
) -> Subject:
    """Return what a view is about.

    Parameters
    ----------
    place
        A context, or a run.
    node
        A node; in a run also the name of one, as `StepGraph.node` knows it, or the run itself for
        its loss. None for all of the place.
    routine
        What computes the node.
    grads
        Gradients by node.

    Raises
    ------
    GraphError
        If ``node`` is no node, or the run has none of that name.
    ConfigurationError
        If ``place`` is neither, or a run that has compiled no step yet.
    """
    if isinstance(place, Run):
        return _of_run(place, None if isinstance(node, Run) else node, routine, grads)
    if node is not None and not isinstance(node, Tensor):
        raise GraphError(
            f"a `{type(node).__name__}` is no node of a graph",
            remedy="pass a tensor, such as the loss that was compiled; only in a run nodes have "
            "names",
        )
    if not isinstance(cast("object", place), Context):  # it comes from a person
        raise ConfigurationError(
            f"a `{type(place).__name__}` is no context",
            remedy="pass what `compile` or `run` returned, or `wb.Context.cpu()`; or a run",
        )
    return Subject(place, node, routine, grads)


def _of_run(
    run: Run,
    asked: Tensor | str | None,
    routine: Routine | None = None,
    grads: Mapping[Tensor, Tensor] | None = None,
) -> Subject:
    graph = run.step_graph()
    node = graph.loss
    if isinstance(asked, str):
        node = graph.node(asked)
    elif asked is not None:
        node = asked
    return Subject(
        graph.context,
        node,
        graph.routine if routine is None else routine,
        graph.gradients if grads is None else grads,
        _Live(weakref.ref(run), graph, asked),
    )

"""Views into a graph: the tree, the card of one node, the table of placements.

In: a node and a context, or a run. Out: a view of a notebook, or text and plain HTML where notebook
libraries are not installed. Invariant: opening a view, and looking around in it, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.graph.tensor import Tensor
from workbench.runtime.graph_view import GraphView
from workbench.runtime.placement_changes import placement_changes
from workbench.runtime.routine import Routine
from workbench.runtime.why_card import WhyCard
from workbench.subject import Place, subject_of
from workbench.train.run import Run
from workbench.views import open_view


def tree(
    loss: Tensor | str | Run,
    ctx: Place | None = None,
    *,
    grads: Mapping[Tensor, Tensor] | None = None,
) -> Any:
    """Show the graph of ``loss`` as a tree that opens, with the details of the chosen node.

    Parameters
    ----------
    loss
        The root: any tensor. Or a run, for the loss of its step in force: ``wb.tree(run)``.
    ctx
        Where values are read. A run is one too: ``wb.tree("hidden", run)``. Of a run the values
        are those of one moment between two batches, until the view reads again.
    grads
        Gradients by node, as ``wb.backward`` returns them; of a run by default those that its step
        makes.

    Returns
    -------
    object
        A widget; without notebook libraries a `workbench.runtime.graph_view.GraphView`, whose text
        is that of ``ctx.printf_tree``.

    Raises
    ------
    GraphError
        If ``loss`` is no tensor, or no name of one.
    ConfigurationError
        If ``ctx`` is no context, or the run has compiled no step yet.
    """
    place: Any = loss if ctx is None else ctx
    subject = subject_of(place, loss, grads=grads)
    return open_view(
        "tree",
        subject,
        otherwise=lambda: GraphView(subject.root, subject.context, subject.grads),
    )


def why(node: Tensor | str, ctx: Place, *, routine: Routine | None = None) -> Any:
    """Say where ``node`` lives, who decided so, whether it can be read, and what to do about it.

    Parameters
    ----------
    node
        Any tensor. In a run also a name: the path of a parameter, that of a part of the optimizer's
        state after ``opt.``, or a label.
    ctx
        Where it is asked about: a context, or a run.
    routine
        What computes the node; by default the latest routine of the lineage that does and that
        somebody still holds.

    Returns
    -------
    object
        A widget; without notebook libraries a `workbench.runtime.why_card.WhyCard`. Both have
        ``apply(name)``, which does what a button does and returns the context that it gave. In a
        run that is a context beside it, with copies of its values: the run goes on as it is.

    Raises
    ------
    GraphError
        If ``node`` is no tensor, or no name of one.
    ConfigurationError
        If ``ctx`` is no context, or the run has compiled no step yet.
    """
    subject = subject_of(ctx, node, routine=routine)
    return open_view(
        "why",
        subject,
        otherwise=lambda: WhyCard(
            subject.root, subject.context, subject.routine_for(subject.root) or routine
        ),
    )


def placements(ctx: Place, after: Place | None = None) -> Any:
    """Show where every node lives, who decided so, and whether it can be read.

    Parameters
    ----------
    ctx
        A context, or a run: the nodes of its step in force.
    after
        Another one, to be compared with the first.

    Returns
    -------
    object
        A widget; without notebook libraries a table that shows itself as text and HTML.

    Raises
    ------
    ConfigurationError
        If either is no context, or a run that has compiled no step yet.
    """
    subject = subject_of(ctx)
    other = None if after is None else subject_of(after)
    return open_view(
        "placements",
        subject,
        other,
        otherwise=lambda: (
            subject.context.placement_table()
            if other is None
            else placement_changes(subject.context, other.context)
        ),
    )

"""Views into a graph: the tree, the card of one node, the table of placements.

In: a node and a context. Out: a view of a notebook, or text and plain HTML where notebook libraries
are not installed. Invariant: opening a view, and looking around in it, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import ConfigurationError, GraphError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.runtime.graph_view import GraphView
from workbench.runtime.placement_changes import placement_changes
from workbench.runtime.routine import Routine
from workbench.runtime.why_card import WhyCard
from workbench.views import open_view


def tree(loss: Tensor, ctx: Context, *, grads: Mapping[Tensor, Tensor] | None = None) -> Any:
    """Show the graph of ``loss`` as a tree that opens, with the details of the chosen node.

    Parameters
    ----------
    loss
        The root: any tensor.
    ctx
        Where values are read.
    grads
        Gradients by node, as ``wb.backward`` returns them.

    Returns
    -------
    object
        A widget; without notebook libraries a `workbench.runtime.graph_view.GraphView`, whose text
        is that of ``ctx.printf_tree``.

    Raises
    ------
    GraphError, ConfigurationError
        If ``loss`` is no tensor, or ``ctx`` no context.
    """
    _check(loss, ctx)
    return open_view("tree", loss, ctx, grads=grads, otherwise=lambda: GraphView(loss, ctx, grads))


def why(node: Tensor, ctx: Context, *, routine: Routine | None = None) -> Any:
    """Say where ``node`` lives, who decided so, whether it can be read, and what to do about it.

    Parameters
    ----------
    node
        Any tensor.
    ctx
        Where it is asked about.
    routine
        What computes the node; by default the latest routine of the lineage that does and that
        somebody still holds.

    Returns
    -------
    object
        A widget; without notebook libraries a `workbench.runtime.why_card.WhyCard`. Both have
        ``apply(name)``, which does what a button does and returns the context that it gave.

    Raises
    ------
    GraphError, ConfigurationError
        If ``node`` is no tensor, or ``ctx`` no context.
    """
    _check(node, ctx)
    return open_view(
        "why", node, ctx, routine=routine, otherwise=lambda: WhyCard(node, ctx, routine)
    )


def placements(ctx: Context, after: Context | None = None) -> Any:
    """Show where every node lives, who decided so, and whether it can be read.

    Parameters
    ----------
    ctx
        The context.
    after
        Another one, to be compared with the first.

    Returns
    -------
    object
        A widget; without notebook libraries a table that shows itself as text and HTML.

    Raises
    ------
    ConfigurationError
        If either is no context.
    """
    for each in (ctx, *([] if after is None else [after])):
        _check_context(each)
    return open_view(
        "placements",
        ctx,
        after,
        otherwise=lambda: ctx.placement_table() if after is None else placement_changes(ctx, after),
    )


def _check(node: object, ctx: object) -> None:
    if not isinstance(node, Tensor):
        raise GraphError(
            f"a `{type(node).__name__}` is no node of a graph",
            remedy="pass a tensor, such as the loss that was compiled",
        )
    _check_context(ctx)


def _check_context(ctx: object) -> None:
    if not isinstance(ctx, Context):
        raise ConfigurationError(
            f"a `{type(ctx).__name__}` is no context",
            remedy="pass what `compile` or `run` returned, or `wb.Context.cpu()`",
        )

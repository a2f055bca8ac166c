"""Run a computation of one tensor once, with its parameters initialised.

In: a context and a tensor. Out: the context after the run. Invariant: parameters that have a value
keep it, unless somebody asks for the first ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.assign.assignment import Computation
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.update.grad_update import forward, grad_update
from workbench.train.update.gradient import loss_params

__all__ = ["forward_once", "init_params", "run_once", "update_once"]


def init_params(ctx: Context, node: Tensor, *, reinit_all: bool = False) -> Context:
    """Return ``ctx`` with a value for each parameter that ``node`` reads, frozen ones included.

    Parameters
    ----------
    ctx
        Where to.
    node
        Such as a loss.
    reinit_all
        Whether parameters that have a value get their first one again.
    """
    params = loss_params(node)
    again = {p: p.value for p in params if reinit_all and p in ctx.initialized}
    ready = ctx.set_values({p: v for p, v in again.items() if v is not None}) if again else ctx
    if any(p not in ready.initialized for p in params):
        # Linking gives them memory side by side, so that an optimizer can walk over all at once.
        linked, _ = ready.compile(params, name="init_params")
        if not ready.same_release_unit(ctx):
            linked.adopt_ancestor(ready)
        return linked
    return ready


def run_once(
    ctx: Context,
    build: Callable[[Tensor], Computation],
    node: Tensor,
    *,
    skip_init: bool = False,
    reinit_all: bool = False,
    bindings: Mapping[Tensor, int] | None = None,
    rows: int | None = None,
) -> Context:
    """Return ``ctx`` after one run of ``build(node)``.

    The compiled routine is released with the returned context.

    Parameters
    ----------
    ctx
        Where to run.
    build
        From a tensor to a computation, such as `forward` and `grad_update`.
    node
        What to build from.
    skip_init
        Whether to leave parameters as they are, initialised or not.
    reinit_all
        Whether all parameters get their first value again.
    bindings
        What static indices are bound to.
    rows
        The batch size, if no input tells it.
    """
    made = build(node)
    ready = ctx if skip_init else init_params(ctx, node, reinit_all=reinit_all)
    compiled, routine = ready.compile(made, rows=rows, bindings=bindings)
    if not ready.same_release_unit(ctx):
        compiled.adopt_ancestor(ready)
    return compiled.run(routine, rows=rows)


def forward_once(
    ctx: Context,
    node: Tensor,
    *,
    skip_init: bool = False,
    reinit_all: bool = False,
    bindings: Mapping[Tensor, int] | None = None,
    rows: int | None = None,
) -> Context:
    """Return ``ctx`` in which ``node`` was computed once; parameters are those of `run_once`."""
    return run_once(
        ctx,
        forward,
        node,
        skip_init=skip_init,
        reinit_all=reinit_all,
        bindings=bindings,
        rows=rows,
    )


def update_once(
    ctx: Context,
    node: Tensor,
    *,
    skip_init: bool = False,
    reinit_all: bool = False,
    bindings: Mapping[Tensor, int] | None = None,
    rows: int | None = None,
) -> Context:
    """Return ``ctx`` in which a loss and its gradients were computed once; see `run_once`."""
    return run_once(
        ctx,
        grad_update,
        node,
        skip_init=skip_init,
        reinit_all=reinit_all,
        bindings=bindings,
        rows=rows,
    )

"""Gradient accumulation: several small batches, one update, as if they had been one batch.

In: an optimizer state. Out: an `AccumulatedState` around it, which `default_step` understands.
Invariant: an update divides by the rows that its window saw, so that a window cut short by the end
of an epoch is weighted right; a step without an update changes neither parameters nor moments.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, final
from typing import cast as typing_cast

import numpy as np

from workbench.arguments import whole_from
from workbench.errors import ConfigurationError
from workbench.graph.elementwise import cast, logical_and, logical_or, where
from workbench.graph.extent import batch
from workbench.graph.leaf import extent_value
from workbench.graph.leaf import input as input_leaf
from workbench.graph.tensor import Tensor
from workbench.train.optimizer import OptState, apply
from workbench.train.precision import MixedState, choose, mixed_apply
from workbench.train.tree import flatten, map_tree, static, unflatten

__all__ = ["EPOCH_ENDS", "AccumulatedState", "accumulate", "accumulated_apply"]

P = TypeVar("P")

EPOCH_ENDS: Final = input_leaf("epoch ends", (), "bool")
"""Whether the batch at hand is the last of its epoch; fed by the training loop."""


# Compared by identity: element-wise equality of two arrays has no truth value.
@final
@dataclass(frozen=True, slots=True, eq=False)
class AccumulatedState:
    """An optimizer state with the gradients of a window that is not complete; itself a tree.

    Attributes
    ----------
    inner
        The state that an update changes.
    sums
        Gradients times rows, added over the window; a tree like the parameters.
    rows
        Rows that the window saw, or the sum of their weights, float64 of shape ``()``.
    count
        Batches that the window saw, int64 of shape ``()``.
    steps
        Batches of a whole window.
    """

    inner: OptState | MixedState
    sums: Any = None
    rows: Any = 0.0
    count: Any = 0
    steps: int = static(1)


def accumulate(opt: OptState | MixedState, params: object, steps: int) -> AccumulatedState:
    """Return ``opt`` for updates after every ``steps`` batches, and at the end of an epoch.

    Parameters
    ----------
    opt
        The state to change at an update.
    params
        The parameter tree that it was made for.
    steps
        Batches in a window, 1 or more.

    Raises
    ------
    ConfigurationError
        If ``steps`` is less than 1, or ``opt`` accumulates already.
    """
    given = typing_cast("object", opt)  # checked all the same: it comes from a person
    if not isinstance(given, (OptState, MixedState)):
        raise ConfigurationError(
            f"accumulation goes around an optimizer state, not a `{type(given).__name__}`",
            remedy="wrap what `adam`, `mixed_f16` and the like returned, once",
        )
    steps = whole_from("steps", steps, 1)
    zeros = map_tree(_zeros_like, params)
    return AccumulatedState(opt, zeros, np.float64(0.0), np.int64(0), steps)


def _zeros_like(leaf: object) -> object:
    value = leaf.value if isinstance(leaf, Tensor) else np.asarray(leaf)
    assert value is not None
    return np.zeros(value.shape, value.dtype if value.dtype.kind == "f" else np.float32)


def accumulated_apply(
    params: P,
    grads: P,
    opt: AccumulatedState,
    lr: Tensor | float,
    loss: Tensor,
    *,
    portion: Tensor | None = None,
    trained: Container[Tensor] | None = None,
) -> tuple[Tensor, P, AccumulatedState]:
    """Return loss, parameters and state after a batch: an update if its window is complete.

    Parameters
    ----------
    params
        Tree of tensors.
    grads
        Gradients of the batch's mean loss, scaled as ``opt.inner`` asks.
    opt
        The state.
    lr
        The learning rate.
    loss
        The batch's mean loss.
    portion
        What it is a mean over: by default the rows of the batch, else the sum of their weights.
    trained
        A set of the parameters to step; by default all.
    """
    leaves, structure = flatten(grads)
    now = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    before = [leaf for leaf in flatten(opt.sums)[0] if isinstance(leaf, Tensor)]
    seen = extent_value(batch, opt.rows.dtype) if portion is None else portion
    added = [g * cast(seen, g.dtype) for g in now]
    if portion is not None:
        # Rows that weigh nothing have no mean: what was divided by 0 stays out of the sums.
        counts = seen > 0.0
        added, loss = [where(counts, a, 0.0) for a in added], where(counts, loss, 0.0)
    sums = [s + a for s, a in zip(before, added, strict=True)]
    rows = opt.rows + cast(seen, opt.rows.dtype)
    due = ends = logical_or(opt.count + 1 >= opt.steps, EPOCH_ENDS)
    if portion is not None:
        due = logical_and(ends, rows > 0.0)
    means = unflatten(structure, [s * cast(1.0 / rows, s.dtype) for s in sums])
    inner = opt.inner
    changed: OptState | MixedState
    if isinstance(inner, MixedState):
        reported, moved, changed = mixed_apply(params, means, inner, lr, loss, trained=trained)
        loss = where(due, reported, loss)
    else:
        moved, changed = apply(params, means, inner, lr, trained=trained)
    after = replace(
        opt,
        inner=choose(due, changed, inner),
        sums=unflatten(structure, [where(ends, 0.0, s) for s in sums]),
        rows=where(ends, 0.0, rows),
        count=where(ends, 0, opt.count + 1),
    )
    return loss, choose(due, moved, params), after

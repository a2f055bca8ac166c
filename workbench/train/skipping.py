"""Steps that are skipped because a gradient is not finite, and runs in which nothing else happens.

In: the optimizer state of a run in mixed precision.  Out: what an epoch without any update means,
as a report.  Invariant: the counts are the optimizer state's own; what is said depends on them
alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from workbench.graph.tensor import Tensor
from workbench.train.accumulate import AccumulatedState
from workbench.train.precision import MixedState
from workbench.train.reports import Report
from workbench.train.trace import Leaves

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["SkippedSteps", "mixed_state"]


def mixed_state(leaves: Leaves) -> MixedState | None:
    """Return the state of the loss scale, its leaves tensors; None if steps are never skipped."""
    tree: object = leaves.tree
    state: object = tree.inner if isinstance(tree, AccumulatedState) else tree
    return state if isinstance(state, MixedState) else None


@final
@dataclass(slots=True)
class SkippedSteps:
    """Whether the steps of an epoch were all skipped.

    Parameters
    ----------
    run
        Whose steps they are.

    Attributes
    ----------
    happen
        Whether the run's optimizer skips steps at all.
    """

    run: Run
    happen: bool = False
    _skipped: int = 0
    _updates: int = 0
    _scale: float = 0.0
    _known: bool = False

    def begin(self) -> None:
        """Take note of the counts where an epoch begins, or is gone on with."""
        state = mixed_state(self.run.opt_leaves)
        self.happen = self._known = state is not None
        if state is not None:
            self._skipped, self._scale = self._counts(state)
            self._updates = self.run.state.global_step

    def forget(self) -> None:
        """Judge nothing before the next epoch: the optimizer may have been another so far."""
        self.happen, self._known = mixed_state(self.run.opt_leaves) is not None, False

    def judge(self) -> Report | None:
        """Return what to say of the steps since then, if all were skipped; stop a run for that.

        At the least loss scale nothing is left to try: the run is asked to stop if its scale was
        the least one for the whole epoch.
        """
        state = mixed_state(self.run.opt_leaves)
        steps = self.run.state.global_step - self._updates
        if state is None or not self._known or not steps:
            return None
        skipped, scale = self._counts(state)
        if skipped - self._skipped < steps:
            return None
        text = (
            f"all {steps} steps of epoch {self.run.state.epoch} were skipped, since their "
            f"gradients were not finite; the loss scale is {scale:g}"
        )
        if self._scale <= state.least:
            reason = f"{text}, its least value: nothing can be learned"
            self.run.state.request_stop(reason)
            advice = "look for NaN in parameters and data, scale the inputs, or train in float32"
            return Report(f"{reason}; {advice}", severity="error")
        at_end = self.run.state.epoch >= self.run.config.epochs
        if not at_end or math.isfinite(self.run.state.train_loss):
            return None
        return Report(f"{text}: the run ends without one update", severity="error")

    def _counts(self, state: MixedState) -> tuple[int, float]:
        with self.run.gate.visiting():
            get = self.run.context.get_values
            return int(get(_leaf(state.skipped))), float(get(_leaf(state.scale)))


def _leaf(value: object) -> Tensor:
    assert isinstance(value, Tensor)
    return value

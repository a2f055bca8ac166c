"""What callbacks that end a run early have in common.

In: callbacks, or the run that one of them sees.  Out: whether a run may end early, or its end.
Invariant: a run that is told to stop ends with a reason.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from workbench.train.controls import After
from workbench.train.events import RunView

__all__ = ["Stoppable", "may_stop_early", "stop_now"]


@runtime_checkable
class Stoppable(Protocol):
    """A run that can be ended after the batch at hand."""

    def stop(self, *, after: After = ..., reason: str = ...) -> None:
        """Ask for the end."""
        ...


def stop_now(run: RunView, reason: str) -> None:
    """End ``run`` after this batch, or after this epoch if it can do no better."""
    if isinstance(run, Stoppable):
        run.stop(after="batch", reason=reason)
    else:
        run.state.request_stop(reason)


def may_stop_early(callbacks: Sequence[object]) -> bool:
    """Return whether one of ``callbacks`` says, with ``may_stop``, that it may end the run.

    An estimate of the time left is an upper bound then.
    """
    return any(getattr(callback, "may_stop", False) for callback in callbacks)

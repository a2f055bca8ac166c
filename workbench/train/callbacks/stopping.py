"""What callbacks that end a run early have in common.

In: callbacks.  Out: whether a run may end before its last epoch.
"""

from collections.abc import Sequence

__all__ = ["may_stop_early"]


def may_stop_early(callbacks: Sequence[object]) -> bool:
    """Return whether one of ``callbacks`` says, with ``may_stop``, that it may end the run.

    An estimate of the time left is an upper bound then.
    """
    return any(getattr(callback, "may_stop", False) for callback in callbacks)

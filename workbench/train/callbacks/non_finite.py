"""The end of a run whose loss is no longer a finite number.

In: losses.  Out: ``state.stop`` with a reason.  Invariant: one loss of NaN or infinity is enough;
an epoch's mean cannot hide it.
"""

import math
from typing import final

from workbench.train.callback import EARLY_STOP_BAND, Callback
from workbench.train.events import BatchEnd, EpochEnd

__all__ = ["TerminateOnNonFinite"]


@final
class TerminateOnNonFinite(Callback):
    """Stop when the training loss is NaN or infinite.

    A run in mixed precision skips the steps whose gradients are not finite, and has no loss before
    the first that is not skipped: it is left alone, and ends by itself where every step is skipped
    at the least loss scale.

    Parameters
    ----------
    every_batch
        Whether to look at each batch and stop there, rather than at the end of the epoch.  This
        brings Python back into the loop, which matters where a step takes microseconds.
    """

    band = EARLY_STOP_BAND

    def __init__(self, *, every_batch: bool = False) -> None:
        if every_batch:
            # A hook of the instance: without it, batches stay in native code.
            self.on_batch_end = self._after_batch

    def on_epoch_end(self, event: EpochEnd) -> None:
        """Look at the mean loss of the epoch; a loss that is not finite makes it so too."""
        if not math.isfinite(event.loss) and not event.run.skips_steps:
            event.state.request_stop(f"the training loss is {event.loss} in epoch {event.epoch}")

    def _after_batch(self, event: BatchEnd) -> None:
        if not math.isfinite(event.loss) and not event.run.skips_steps:
            step = event.state.global_step
            reason = f"the training loss is {event.loss} at step {step}"
            event.state.request_stop(reason, after="batch")

"""A record of the loss scale and of the steps that were skipped because of it.

In: ends of epochs of a run in mixed precision.  Out: a line where something changed, and columns of
numbers.  Invariant: the counts are the optimizer state's own, so a resumed run goes on with them.
"""

from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from workbench.errors import ConfigurationError
from workbench.train.accumulate import AccumulatedState
from workbench.train.callback import LOG_BAND, Callback
from workbench.train.callbacks.packed import Memory
from workbench.train.events import EpochEnd, RunBegin
from workbench.train.precision import MixedState

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ScaleMonitor"]


@final
class ScaleMonitor(Callback):
    """Report after an epoch if its loss scale changed or steps of it were skipped.

    The optimizer state is copied out of the engine once an epoch.

    Examples
    --------
    >>> monitor = ScaleMonitor()
    >>> monitor.scales
    array([], dtype=float64)
    """

    band = LOG_BAND

    def __init__(self) -> None:
        self._before = (1.0, 0)
        self._epochs: list[int] = []
        self._scales: list[float] = []
        self._skipped: list[int] = []

    def on_run_begin(self, event: RunBegin) -> None:
        """Take what is there as known.

        Raises
        ------
        ConfigurationError
            If the run is not one of mixed precision.
        """
        self._before = _scale_and_skipped(event.run.opt)

    def on_epoch_end(self, event: EpochEnd) -> str | None:
        """Record scale and skipped steps; say what changed."""
        scale_before, skipped_before = self._before
        scale, skipped = self._before = _scale_and_skipped(event.run.opt)
        self._epochs.append(event.epoch)
        self._scales.append(scale)
        self._skipped.append(skipped)
        said: list[str] = []
        if skipped != skipped_before:
            added = skipped - skipped_before
            said.append(f"skipped {added} step{'s' * (added != 1)} ({skipped} in all)")
        if scale != scale_before:
            said.append(f"loss scale {scale_before:.0f} -> {scale:.0f}")
        return f"epoch {event.epoch}: {', '.join(said)}" if said else None

    def pack(self) -> Memory:
        """Return the record."""
        return {"epochs": self.epochs, "scales": self.scales, "skipped": self.skipped}

    def unpack(self, packed: Memory) -> None:
        """Go on with a record."""
        self._epochs, self._scales = packed["epochs"].tolist(), packed["scales"].tolist()
        self._skipped = packed["skipped"].tolist()

    @property
    def epochs(self) -> npt.NDArray[np.int64]:
        """Completed epochs at each record."""
        return np.array(self._epochs, np.int64)

    @property
    def scales(self) -> npt.NDArray[np.float64]:
        """The loss scale after each epoch."""
        return np.array(self._scales, np.float64)

    @property
    def skipped(self) -> npt.NDArray[np.int64]:
        """Steps skipped since the beginning of the training, after each epoch."""
        return np.array(self._skipped, np.int64)

    def frame(self) -> "pd.DataFrame":
        """Return the record as a DataFrame with the columns ``epoch``, ``scale``, ``skipped``."""
        import pandas as pd  # slow to import, and only needed here

        columns = {"epoch": self.epochs, "scale": self.scales, "skipped": self.skipped}
        return pd.DataFrame(columns)


def _scale_and_skipped(opt: object) -> tuple[float, int]:
    state: object = opt.inner if isinstance(opt, AccumulatedState) else opt
    if not isinstance(state, MixedState):
        raise ConfigurationError(
            f"the optimizer state is a `{type(state).__name__}`, which has no loss scale",
            remedy="make it with `wb.mixed_f16(...)` or `wb.mixed_bf16(...)`, or leave the monitor "
            "out",
        )
    return float(state.scale), int(state.skipped)

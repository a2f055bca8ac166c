"""A record of the learning rate, as it was used.

In: epochs or updates.  Out: two columns of numbers.  Invariant: a rate is recorded after every
schedule has written it.
"""

from typing import TYPE_CHECKING, Literal, final

import numpy as np
import numpy.typing as npt

from workbench.errors import ConfigurationError
from workbench.train.callback import LOG_BAND, Callback
from workbench.train.callbacks.packed import Memory
from workbench.train.events import BatchBegin, EpochBegin

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RateMonitor"]


@final
class RateMonitor(Callback):
    """Record the learning rate at the beginning of each epoch, or of each update.

    Parameters
    ----------
    per
        ``"epoch"``, or ``"step"``, which brings Python back into the loop at every batch.

    Raises
    ------
    ConfigurationError
        If ``per`` is anything else.
    """

    band = LOG_BAND
    reads = ("lr",)

    def __init__(self, per: Literal["epoch", "step"] = "epoch") -> None:
        self.per = per
        self._steps: list[int] = []
        self._rates: list[float] = []
        if per == "step":
            self.on_batch_begin = self._before_batch
        elif per == "epoch":
            self.on_epoch_begin = self._before_epoch
        else:
            raise ConfigurationError(f"per is {per!r}", remedy="use 'epoch' or 'step'")

    def _before_epoch(self, event: EpochBegin) -> None:
        self._record(event)

    def _before_batch(self, event: BatchBegin) -> None:
        self._record(event)

    def _record(self, event: EpochBegin | BatchBegin) -> None:
        self._steps.append(event.state.global_step)
        self._rates.append(event.state.lr)

    def pack(self) -> Memory:
        """Return the record."""
        return {"steps": self.steps, "rates": self.rates}

    def unpack(self, packed: Memory) -> None:
        """Go on with a record."""
        self._steps, self._rates = packed["steps"].tolist(), packed["rates"].tolist()

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """Updates that had been made when each rate was recorded."""
        return np.array(self._steps, np.int64)

    @property
    def rates(self) -> npt.NDArray[np.float64]:
        """The rates."""
        return np.array(self._rates, np.float64)

    def frame(self) -> "pd.DataFrame":
        """Return the record as a DataFrame with the columns ``step`` and ``lr``."""
        import pandas as pd  # slow to import, and only needed here

        return pd.DataFrame({"step": self.steps, "lr": self.rates})

"""A record of how long the gradients were, step by step.

In: a metric of the step.  Out: two columns of numbers.  Invariant: it costs no call of Python in a
step: the step computes the number, native code keeps it, and it is read once an epoch.
"""

from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt

from workbench.train.callback import LOG_BAND, Callback
from workbench.train.callbacks.packed import Memory, require_kinds
from workbench.train.events import EpochEnd, RunBegin

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GradientNorm"]


@final
class GradientNorm(Callback):
    """Record a metric of the step, by default the norm of its gradients, for each batch.

    The step reports it::

        def step(params, opt, x, y, lr):
            loss, grads = wb.loss_and_gradients(loss_fn, params, x, y)
            norm = wb.global_norm(grads)
            return wb.apply_gradients(params, grads, opt, lr, loss).with_metrics(gradient_norm=norm)

    Epochs are recorded when they are complete.

    Parameters
    ----------
    metric
        The metric's name.
    """

    band = LOG_BAND

    def __init__(self, metric: str = "gradient_norm") -> None:
        self.metric = metric
        self.name = f"{type(self).__name__}({metric})"
        self._epochs: list[npt.NDArray[Any]] = []
        self._first: list[int] = []
        self._told = False

    def on_run_begin(self, event: RunBegin) -> None:
        """Begin to look whether the step reports the metric."""
        self._told = False

    def on_epoch_end(self, event: EpochEnd) -> str | None:
        """Take the numbers of an epoch."""
        series = event.run.series.get(self.metric)
        if series is not None:
            self._epochs.append(series.copy())
            self._first.append(event.epoch - 1)
            return None
        if self._told:
            return None
        self._told = True
        names = ", ".join(f"`{name}`" for name in event.run.series) or "none"
        return (
            f"`{self.metric}` is not a metric of the step, which has {names}; return "
            f"`result.with_metrics({self.metric}=...)`"
        )

    def pack(self) -> Memory:
        """Return the record."""
        return {"first": self._first, "epochs": self._epochs}

    def unpack(self, packed: Memory) -> None:
        """Go on with a record."""
        require_kinds(packed, first=list, epochs=list)
        self._first, self._epochs = list(packed["first"]), list(packed["epochs"])

    @property
    def norms(self) -> npt.NDArray[np.float32]:
        """The numbers, one for each batch of the recorded epochs."""
        return np.concatenate([np.zeros(0, np.float32), *self._epochs])

    @property
    def epochs(self) -> npt.NDArray[np.int64]:
        """The epoch of each number, counted from 0."""
        return np.repeat(np.array(self._first, np.int64), [len(part) for part in self._epochs])

    def frame(self) -> "pd.DataFrame":
        """Return the record as a DataFrame with the columns ``epoch``, ``batch`` and the metric."""
        import pandas as pd  # slow to import, and only needed here

        batch = [np.zeros(0, np.int64), *(np.arange(len(part)) for part in self._epochs)]
        columns = {"epoch": self.epochs, "batch": np.concatenate(batch), self.metric: self.norms}
        return pd.DataFrame(columns)

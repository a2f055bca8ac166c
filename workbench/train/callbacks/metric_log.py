"""A line for each epoch, as text or as JSON, on the screen, on a stream or in a file.

In: ends of epochs.  Out: lines.  Invariant: a line in a file is whole, even if the run is killed;
JSON has ``null`` where there is no finite number.
"""

import json
import os
import sys
from typing import TextIO, final

from workbench.errors import DataError
from workbench.files import as_path
from workbench.train.callback import LOG_BAND, Callback
from workbench.train.events import EpochEnd, RunBegin, RunEnd
from workbench.train.growing_file import GrowingLines
from workbench.train.report import colours, epoch_label, json_line, text_line
from workbench.train.reports import Report

__all__ = ["MetricLog"]


@final
class MetricLog(Callback):
    """Write a line after each epoch, and one at the end of a run that was stopped.

    A line of text shows the metrics of the last evaluation, which may be some epochs old.  A line
    of JSON has ``null`` for them in an epoch that was not evaluated.

    Parameters
    ----------
    to
        A stream, or a file that lines are added to, whose folder is made.  By default the lines
        are reports of the run, which shows them where it was started.
    as_json
        Whether to write JSON, one object to a line.
    colour
        Whether to colour text; by default if it goes to a terminal that shows colours.
    """

    band = LOG_BAND
    reads = ("lr", "stop")

    def __init__(
        self,
        to: TextIO | str | os.PathLike[str] | None = None,
        *,
        as_json: bool = False,
        colour: bool | None = None,
    ) -> None:
        is_path = isinstance(to, (str, os.PathLike))
        self._file = GrowingLines(as_path(to)) if is_path else None
        self._stream = None if isinstance(to, (str, os.PathLike)) else to
        self.as_json = as_json
        self.colour = colour
        self._colours = False
        # Whether lines could not be written, which was told.
        self._is_behind = False

    def on_run_begin(self, event: RunBegin) -> Report | None:
        """Open the file."""
        self._is_behind = False
        wanted = self._file is None and colours(self._stream or sys.stdout)
        self._colours = wanted if self.colour is None else self.colour
        return self._written()

    def on_epoch_end(self, event: EpochEnd) -> Report | str | None:
        """Write the line of an epoch."""
        state, epochs = event.state, event.run.config.epochs
        if not self.as_json:
            return self._put(
                text_line(
                    epoch_label(event.epoch, epochs),
                    loss=event.loss,
                    lr=state.lr,
                    val=state.val.items(),
                    colour=self._colours,
                )
            )
        val = state.val.items()
        return self._put(
            json_line(
                epoch=event.epoch,
                epochs=epochs,
                global_step=state.global_step,
                lr=state.lr,
                train_loss=event.loss,
                val=val if event.evaluated else [(name, float("nan")) for name, _ in val],
            )
        )

    def on_run_end(self, event: RunEnd) -> Report | str | None:
        """Say why the run was stopped, and close the file."""
        reason = event.state.stop_reason
        said = None
        if reason:
            said = self._put(json.dumps({"stopped": reason}) if self.as_json else _stopped(reason))
        if self._file is not None:
            self._file.close()
        return said

    def _put(self, line: str) -> Report | str | None:
        """Write ``line``, or return it for the run to show."""
        if self._file is not None:
            self._file.add(f"{line}\n")
            return self._written()
        if self._stream is None:
            return line
        self._stream.write(line + "\n")
        self._stream.flush()
        return None

    def _written(self) -> Report | None:
        """Write what waits for the file; say so the first time that it cannot be done."""
        if self._file is None:
            return None
        try:
            self._file.flush()
        except (OSError, DataError) as fault:
            if self.fatal:
                raise
            if self._is_behind:
                return None
            self._is_behind = True
            return Report(
                f"the log `{self._file.path}` cannot be written: {fault}. The run continues, and "
                "the lines are written when that can be done",
                severity="error",
            )
        self._is_behind = False
        return None


def _stopped(reason: str) -> str:
    return f"stopped: {reason}"

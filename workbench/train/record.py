"""A run's record: a folder that tells, during the run and after it, what was done and how it went.

In: ends of epochs.  Out: files that any tool reads; see ``record_format``.  Invariant: a run that
goes on from a checkpoint leaves the record that an uninterrupted one would have left.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, cast, final

import numpy as np

from workbench.errors import ConfigurationError
from workbench.files import as_path
from workbench.train.atomic_file import replace_file
from workbench.train.callback import LOG_BAND, Callback, name_of
from workbench.train.environment import environment
from workbench.train.epoch_row import EpochRow
from workbench.train.events import EpochEnd, RunBegin, RunEnd
from workbench.train.packed_statics import kind_of, pack_statics
from workbench.train.process import this_process
from workbench.train.record_format import (
    ACTIONS,
    CONFIG,
    ENVIRONMENT,
    HISTORY,
    REPORTS,
    STATUS,
    STEP_TYPE,
    STEPS,
    Record,
    action_line,
    history_line,
    is_record,
    plain_json,
    read_record,
)
from workbench.train.record_reports import ReportFile
from workbench.train.run import Run
from workbench.train.tree import paths

__all__ = ["RunRecord"]

# After so many epochs so many batches were run; goes into checkpoints.
_BATCHES: Final = "recorded batches"
# Short epochs are written down together: opening the file's buffers costs more than an epoch.
_FLUSH_S: Final = 0.2
_NAME: Final = re.compile(r"[^/\\\x00-\x1f]+")


@final
class RunRecord(Callback):
    """Write down a run in a folder of its own: configuration, history, losses, environment.

    A run that goes on from a checkpoint goes on with its record, which is first taken back to where
    the run stands.

    Parameters
    ----------
    folder
        Where records are kept, such as ``"runs"``.
    name
        The name of the run, which is that of its folder; by default the time, with four digits
        that tell apart what begins in one second.  A run that is resumed needs the name it had.
    note
        A text for people.

    Attributes
    ----------
    path
        The folder of the run.  Checkpoints are at home there too:
        ``Checkpointing(record.path / "last.safetensors")``.

    Raises
    ------
    ConfigurationError
        If the name cannot be that of a folder.

    Notes
    -----
    A new run does not take the name of one that was recorded: that ends the run before it begins.
    """

    band = LOG_BAND
    reads = ("lr", "stop", "best_path")

    def __init__(
        self, folder: str | os.PathLike[str] = "runs", *, name: str | None = None, note: str = ""
    ) -> None:
        if name is None:
            name = f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}-{os.urandom(2).hex()}"
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise ConfigurationError(
                f"the run's name is {name!r}, which cannot be the name of a folder",
                remedy="use letters, digits and dashes",
            )
        self.path = as_path(folder).absolute() / name
        self.note = note
        self._started = ""
        self._rows: list[EpochRow] = []
        self._history: BinaryIO | None = None
        self._steps: BinaryIO | None = None
        self._acted = 0
        self._reports = ReportFile(self.path / REPORTS)
        self._blocks: list[tuple[int, bytes]] = []
        self._flushed = 0.0
        self._batches = 0

    # -- hooks

    def on_run_begin(self, event: RunBegin) -> None:
        """Begin the record, or take it back to where the run stands."""
        run = cast("Run", event.run)
        may_end_the_run, self.fatal = self.fatal, True
        # Nothing was trained yet, and somebody else's record is at stake.
        before = read_record(self.path) if is_record(self.path) else None
        self._refuse_another(run, before)
        self.fatal = may_end_the_run
        self._started = before.status["started"] if before is not None else _now()
        self._write(CONFIG, self._described(run))
        self._write(ENVIRONMENT, environment())
        self._open(run)
        self._reports.begin(run.store.reports, run.state.global_step)
        run.hearers.append(self._reports.hear)
        self._write_status("running", run)

    def on_epoch_end(self, event: EpochEnd) -> None:
        """Write down an epoch."""
        run = cast("Run", event.run)
        if run.history.last is not None:
            self._rows.append(run.history.last)
        self._add_steps(run)
        self._batches += run.batches_done
        run.extras[_BATCHES] = [event.epoch, self._batches]
        if time.monotonic() - self._flushed >= _FLUSH_S:
            self._flush(run)

    def on_run_end(self, event: RunEnd) -> None:
        """Write down how the run ended."""
        if self._history is None:
            return
        run = cast("Run", event.run)
        if run.in_epoch:
            self._add_steps(run)
        self._flush(run)
        self._close()
        self._write_status(event.outcome, run)

    # -- what was there before

    def _refuse_another(self, run: Run, before: Record | None) -> None:
        if before is None:
            return
        process = before.status["process"]
        me = asdict(this_process())
        if before.status["status"] == "running" and process != me:
            raise ConfigurationError(
                f"`{self.path}` is being written by process {process['pid']}",
                remedy="wait for that run to end, or choose another name",
            )
        known = {int(row["epoch"]): row["train_loss"] for row in before.epochs}
        mine = {row.epoch: row.train_loss for row in run.history}
        begun_anew = bool(known) and not (mine or run.in_epoch)
        shared = known.keys() & mine.keys()
        if begun_anew or any(not _is_same(known[epoch], mine[epoch]) for epoch in shared):
            raise ConfigurationError(
                f"`{self.path}` is the record of another run, of {len(known)} epochs",
                remedy="choose another name, restore that run's checkpoint to go on with it, or "
                "remove the folder",
            )

    # -- writing

    def _open(self, run: Run) -> None:
        """Open history and losses for writing on, with what the run knows and nothing after it."""
        self._close()
        lines = "".join(history_line(row) for row in run.history)
        file = replace_file(
            self.path / HISTORY,
            lambda partial: _put(partial, lines),
            durable=False,
        )
        self._history = file.open("ab")
        self._rows, self._blocks = [], []
        state = run.state
        epoch, batches = run.extras.get(_BATCHES, (0, 0))
        # A checkpoint may be written before this is told of the epoch's end.
        self._batches = batches + (state.epoch - epoch) * state.batches
        known = self._batches + (run.batches_done if run.in_epoch else 0)
        with (self.path / STEPS).open("ab") as steps:
            whole = steps.tell() // STEP_TYPE.itemsize
            steps.truncate(min(whole, known) * STEP_TYPE.itemsize)
        self._steps = (self.path / STEPS).open("r+b")
        if run.in_epoch:
            self._add_steps(run)
        self._acted = 0
        (self.path / ACTIONS).unlink(missing_ok=True)
        self._flush(run)

    def _add_steps(self, run: Run) -> None:
        """Take the losses of the epoch at hand, each at the place of its batch."""
        losses = run.losses[: run.batches_done].astype(STEP_TYPE)
        self._blocks.append((self._batches, losses.tobytes()))

    def _add_actions(self, run: Run) -> None:
        """Write down what was done by hand since the last time."""
        count = run.history.action_count
        new = run.history.actions[-(count - self._acted) :] if count > self._acted else ()
        self._acted = count
        if new:
            with (self.path / ACTIONS).open("a", encoding="utf-8", newline="\n") as file:
                file.write("".join(action_line(action) for action in new))

    def _flush(self, run: Run) -> None:
        self._flushed = time.monotonic()
        self._add_actions(run)
        self._reports.flush()
        if self._history is None or self._steps is None:
            return
        rows, self._rows = self._rows, []
        self._history.write("".join(history_line(row) for row in rows).encode())
        blocks, self._blocks = self._blocks, []
        for first, octets in blocks:
            place = first * STEP_TYPE.itemsize
            missing = (place - self._steps.seek(0, os.SEEK_END)) // STEP_TYPE.itemsize
            # What another process did and did not write down is not known.
            self._steps.write(np.full(max(0, missing), np.nan, STEP_TYPE).tobytes())
            self._steps.seek(place)
            self._steps.write(octets)
        self._history.flush()
        self._steps.flush()

    def _close(self) -> None:
        for file in (self._history, self._steps):
            if file is not None:
                with suppress(OSError):
                    file.close()
        self._history = self._steps = None

    def _write(self, name: str, content: object) -> None:
        text = plain_json(content, indent=2) + "\n"
        replace_file(self.path / name, lambda partial: _put(partial, text), durable=False)

    def _described(self, run: Run) -> dict[str, Any]:
        statics = pack_statics(run.opt_leaves.structure)
        leaves = run.leaves
        named = zip(paths(leaves.structure), leaves.tensors, strict=True)
        return {
            "name": self.path.name,
            "note": self.note,
            **asdict(run.config),
            "rows": run.state.rows,
            "optimizer": kind_of(statics),
            "hyper_parameters": statics,
            "parameters": {
                path or "params": [str(tensor.dtype), list(tensor.shape)] for path, tensor in named
            },
            "callbacks": [name_of(callback) for callback in run.callbacks],
        }

    def _write_status(self, status: str, run: Run) -> None:
        state = run.state
        self._write(
            STATUS,
            {
                "status": status,
                "reason": state.stop_reason,
                "epoch": state.epoch,
                "global_step": state.global_step,
                "best_path": state.best_path,
                "started": self._started,
                "written": _now(),
                "process": asdict(this_process()),
            },
        )


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _is_same(left: float, right: float) -> bool:
    # What is not finite was written as null and came back as NaN.
    return left == right or (left != left and not np.isfinite(right))

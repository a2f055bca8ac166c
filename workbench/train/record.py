"""A run's record: a folder that tells, during the run and after it, what was done and how it went.

In: ends of epochs.  Out: files that any tool reads; see ``record_format``.  Invariant: a run that
goes on from a checkpoint leaves the record that an uninterrupted one would have left.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast, final

import numpy as np

from workbench.errors import ConfigurationError, DataError
from workbench.files import as_path
from workbench.train.atomic_file import replace_file
from workbench.train.callback import LOG_BAND, Callback, name_of
from workbench.train.environment import environment
from workbench.train.events import EpochEnd, RunBegin, RunEnd
from workbench.train.growing_file import GrowingLines, GrowingNumbers
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
from workbench.train.reports import Report
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
    What cannot be written, because the disk is full or the folder was removed, is told once and
    written as soon as that can be done.
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
        self._is_begun = False
        self._started = ""
        self._status = ""
        self._history = GrowingLines(self.path / HISTORY)
        self._actions = GrowingLines(self.path / ACTIONS)
        self._steps = GrowingNumbers(self.path / STEPS)
        self._reports = ReportFile(self.path / REPORTS)
        self._acted = 0
        self._flushed = 0.0
        self._batches = 0
        # Whether something could not be written, which was told.
        self._is_behind = False

    # -- hooks

    def on_run_begin(self, event: RunBegin) -> list[Report]:
        """Begin the record, or take it back to where the run is."""
        run = cast("Run", event.run)
        self._is_begun = False
        may_end_the_run, self.fatal = self.fatal, True
        # Nothing was trained yet, and somebody else's record is at stake.
        before = read_record(self.path) if is_record(self.path) else None
        self._refuse_another(run, before)
        self.fatal = may_end_the_run
        self._started = before.status["started"] if before is not None else _now()
        self._is_begun = True
        self._status, self._is_behind, self._acted = "", False, 0
        self._open(run)
        try:
            self._write(CONFIG, self._described(run))
            self._write(ENVIRONMENT, environment())
            if run.history.action_count == 0:
                (self.path / ACTIONS).unlink(missing_ok=True)
            self._reports.begin(run.store.reports, run.state.global_step)
        except (OSError, DataError):
            if self.fatal:
                raise
        run.hearers.append(self._reports.hear)
        run.before_saving.append(self._before_saving)
        return self._flush(run)

    def on_epoch_end(self, event: EpochEnd) -> list[Report]:
        """Write down an epoch."""
        run = cast("Run", event.run)
        if run.history.last is not None:
            self._history.add(history_line(run.history.last))
        self._add_steps(run, self._batches)
        self._batches += run.batches_done
        run.extras[_BATCHES] = [event.epoch, self._batches]
        return self._flush(run) if time.monotonic() - self._flushed >= _FLUSH_S else []

    def on_run_end(self, event: RunEnd) -> list[Report]:
        """Write down how the run ended."""
        if not self._is_begun:  # the record is another run's
            return []
        run = cast("Run", event.run)
        if run.in_epoch:
            self._add_steps(run, self._batches)
        said = self._flush(run, event.outcome)
        if self._is_behind:
            # The last chance for the truth about this run.
            atexit.register(self._flush, run, event.outcome)
        else:
            self._close()
        return said

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
        """Begin files with what the run knows and nothing after it."""
        self._history = GrowingLines(self.path / HISTORY, whole=lambda: _history_of(run))
        self._actions = GrowingLines(self.path / ACTIONS, whole=lambda: _actions_of(run))
        state = run.state
        epoch, batches = run.extras.get(_BATCHES, (0, 0))
        # A checkpoint may be written before this is told of the epoch's end.
        self._batches = batches + (state.epoch - epoch) * state.batches
        self._steps.begin(self._batches + (run.batches_done if run.in_epoch else 0))
        if run.in_epoch:
            self._add_steps(run, self._batches)
        elif _BATCHES in run.extras:
            # What a killed process did not write down of the last epoch is in the checkpoint.
            self._add_steps(run, max(0, self._batches - run.batches_done))

    def _add_steps(self, run: Run, first: int) -> None:
        """Take the losses of the epoch at hand, the first one with its place."""
        losses = run.losses[: run.batches_done].astype(STEP_TYPE)
        self._steps.put(first, losses.tobytes())

    def _before_saving(self) -> None:
        """Write down what a checkpoint is going to know."""
        with suppress(OSError, DataError):  # told of by the next flush
            self._history.flush(looks=False)
            self._steps.flush(looks=False)

    def _flush(self, run: Run, status: str = "running") -> list[Report]:
        """Write what waits and what is gone, and say so the first time that it cannot be done."""
        self._flushed = time.monotonic()
        try:
            if not (self.path / CONFIG).exists():
                self._write(CONFIG, self._described(run))
                self._write(ENVIRONMENT, environment())
            if self._status != status or not (self.path / STATUS).exists():
                self._status = ""
                self._write_status(status, run)
                self._status = status
            self._history.flush()
            self._steps.flush()
            if run.history.action_count > self._acted:
                for action in run.history.actions[self._acted - run.history.action_count :]:
                    self._actions.add(action_line(action))
                self._acted = run.history.action_count
                self._actions.flush()
            elif self._acted:
                self._actions.flush()
            self._reports.flush()
        except (OSError, DataError) as fault:
            if self.fatal:
                raise
            if self._is_behind:
                return []
            self._is_behind = True
            problem = fault.problem if isinstance(fault, DataError) else f"{fault}"
            return [
                Report(
                    f"`RunRecord`: {problem}. The run continues, and the record is completed when "
                    "it can be written again",
                    severity="error",
                )
            ]
        if not self._is_behind:
            return []
        self._is_behind = False
        return [Report(f"the record `{self.path}` is complete again")]

    def _close(self) -> None:
        for file in (self._history, self._actions, self._steps):
            file.close()

    def _write(self, name: str, content: object) -> None:
        text = plain_json(content, indent=2) + "\n"
        replace_file(
            self.path / name, lambda partial: _put(partial, text), durable=False, follow=False
        )

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


def _history_of(run: Run) -> str:
    return "".join(history_line(row) for row in run.history)


def _actions_of(run: Run) -> str:
    return "".join(action_line(action) for action in run.history.actions)


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _is_same(left: float, right: float) -> bool:
    # What is not finite was written as null and came back as NaN.
    return left == right or (left != left and not np.isfinite(right))

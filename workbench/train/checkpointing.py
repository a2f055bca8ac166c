"""Checkpoints that a run writes as it goes: the latest, and the best.

In: ends of epochs, of batches and of evaluations.  Out: files, and ``state.best_path``.  Invariant:
only an evaluation makes a file the best one; what was best survives a resumption; a file that
cannot be written ends neither the run nor the file that was there.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast, final

from workbench.arguments import whole_from
from workbench.errors import ConfigurationError, DataError
from workbench.train.atomic_file import as_target, give_second_name
from workbench.train.background_writer import BackgroundWriter
from workbench.train.callback import CHECKPOINT_BAND, Callback
from workbench.train.callbacks.best import Best, no_best
from workbench.train.callbacks.packed import Memory
from workbench.train.checkpoint import Snapshot, load_parameters, take_snapshot, write_snapshot
from workbench.train.checkpoint_format import open_checkpoint
from workbench.train.events import BatchEnd, EpochEnd, EvalEnd, RunBegin, RunEnd, RunView
from workbench.train.ownership import owned
from workbench.train.report import fixed
from workbench.train.reports import Report
from workbench.train.run import Run

__all__ = ["Checkpointing"]

_NUMBERED: Final = r"\.epoch-(\d+)\.step-(\d+)"


@final
@dataclass(frozen=True, slots=True)
class _Kept:
    """One of the best files."""

    rank: float
    epoch: int
    path: Path


@final
class Checkpointing(Callback):
    """Write checkpoints while the run goes on.

    The latest checkpoint is ``path``.  With a ``monitor``, that of the best evaluation is beside
    it, under the same name with ``.best`` before the suffix; its path is ``state.best_path``.  To
    go on from a file, call `restore` before `fit`.

    Parameters
    ----------
    path
        The file, such as ``"runs/digits.safetensors"``; its folder is made.
    every
        Write after each so many epochs; 0 for none.
    every_steps
        Write after each so many updates, in the middle of an epoch too; 0 for none.  Python is
        then asked after each batch.  Where an evaluation is due, the file is written after it.
    monitor
        The name of a metric of the evaluation, or ``"train_loss"``; None keeps no best file.
    higher_is_better
        Whether a greater value is better, as for an accuracy; needed with ``monitor``.
    min_delta
        By how much a value has to be better; exactly so much is not enough.
    keep_last
        How many of the latest checkpoints stay.  With more than one each has a name of its own,
        ``NAME.epoch-0010.step-00000130.SUFFIX``, and ``path`` is the latest of them.
    keep_best
        How many of the best checkpoints stay, named likewise.
    restore_best
        Whether to end with the parameters of the best evaluation, when the run was not interrupted.
    at_end
        Whether to write ``path`` at the end of the run too, wherever that is.
    in_background
        Whether to write while the training goes on.  A file is then written ten times a second at
        most: a checkpoint that is overwritten sooner is left out, and the file at hand may be a
        moment old until the run ends; `wait` waits for it.

    Raises
    ------
    ConfigurationError
        If a value is out of range, or ``monitor`` and ``higher_is_better`` do not come together.

    Notes
    -----
    At the end of an epoch this runs before callbacks of lower bands: what those change then is not
    in the file.  A file of the best holds no memory of the callbacks.  What cannot be written is
    reported, and tried again the next time; with ``fatal = True`` it ends the run.
    """

    band = CHECKPOINT_BAND

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: int = 1,
        every_steps: int = 0,
        monitor: str | None = None,
        higher_is_better: bool | None = None,
        min_delta: float = 0.0,
        keep_last: int = 1,
        keep_best: int = 1,
        restore_best: bool = False,
        at_end: bool = False,
        in_background: bool = True,
    ) -> None:
        if (monitor is None) != (higher_is_better is None):
            raise ConfigurationError(
                f"monitor is {monitor!r} and higher_is_better is {higher_is_better}",
                remedy="give both, such as `monitor='accuracy', higher_is_better=True`, or neither",
            )
        if restore_best and monitor is None:
            raise ConfigurationError(
                "restore_best has no monitor to tell what is best",
                remedy="pass `monitor` and `higher_is_better`",
            )
        self.path = as_target(path)
        self.best_path = self.path.with_name(f"{self.path.stem}.best{self.path.suffix}")
        self.every = whole_from("every", every, 0)
        self.every_steps = whole_from("every_steps", every_steps, 0)
        self.keep_last = whole_from("keep_last", keep_last, 1)
        self.keep_best = whole_from("keep_best", keep_best, 1)
        self.restore_best = restore_best
        self.at_end = at_end
        self.best: Best | None = None
        self.name = type(self).__name__
        self.reads = ()
        # Files are things that callbacks write: two that write one file are refused.
        self.writes = (f"the file {self.path}",)
        if monitor is not None:
            higher = bool(higher_is_better)
            self.best = Best(monitor, higher_is_better=higher, min_delta=min_delta)
            self.name += f"({monitor})"
            self.reads = (monitor,)
            self.writes = (*self.writes, "best_path", f"the file {self.best_path}")
        if self.every_steps:
            self.on_batch_end = self._after_batch
        self._writer = BackgroundWriter(in_background=in_background)
        self._kept: list[_Kept] = []
        self._improved = False
        self._measured: float | None = None
        self._failed: dict[str, DataError] = {}
        # Files whose failure was told, and the absence of the monitored metric.
        self._told: set[str] = set()
        self._last_step = 0
        # What could not be written and will not be made a second time: the best so far.
        self._owed: Callable[[], None] | None = None
        self._owner: object = None
        self._is_due = False  # a file, which waits for the evaluation of its parameters

    # -- hooks

    def on_run_begin(self, event: RunBegin) -> list[Report]:
        """Take up what an earlier process left, if the run goes on.

        Raises
        ------
        ConfigurationError
            If another process writes the same file.
        """
        may_end_the_run, self.fatal = self.fatal, True
        self._owner = owned(self.path)  # somebody else's files are at stake
        self.fatal = may_end_the_run
        self._improved, self._measured, self._kept = False, None, []
        self._failed, self._told = {}, set()
        self._last_step, self._is_due = event.state.global_step, False
        self._owed = None
        if self.best is None or not event.state.global_step:
            return []
        return self._adopt(self.best, event.state.epoch)

    def on_eval_end(self, event: EvalEnd) -> Report | None:
        """Judge an evaluation; its file is written when the epoch is complete."""
        said = self._judge(event)
        if self._is_due and _run(event.run).in_epoch:
            self._save_latest(event.run)
        return said

    def _judge(self, event: EvalEnd) -> Report | None:
        best = self.best
        if best is None:
            return None
        value = best.measured(event.state)
        if value is None:
            if best.monitor in self._told:
                return None
            self._told.add(best.monitor)
            absence = best.explain_absence(event.state)
            return Report(f"no best file is kept: {absence}", severity="error")
        self._improved = best.observe(event.state)
        self._measured = math.nan if event.state.unsound else value
        if _run(event.run).in_epoch:  # there is no end of an epoch to wait for
            self._save_best(event.run)
        return None

    def on_epoch_end(self, event: EpochEnd) -> list[Report]:
        """Write the files that are due, the best one first."""
        self._save_owed()
        self._save_best(event.run)
        if self._is_due or (self.every and event.epoch % self.every == 0):
            self._save_latest(event.run)
        return self._failures()

    def _after_batch(self, event: BatchEnd) -> list[Report]:
        before, self._last_step = self._last_step, event.state.global_step
        # Under gradient accumulation several batches make one update.
        if self._last_step == before or self._last_step % self.every_steps:
            return []
        loop = _run(event.run).loop
        # The file is to hold what is measured of its own parameters.
        self._is_due = loop is not None and loop.evaluates_next
        if self._is_due:
            return []
        self._save_latest(event.run)
        return self._failures()

    def on_run_end(self, event: RunEnd) -> list[Report]:
        """Write the last file if asked to, wait for all, and give the best parameters back."""
        self._save_owed()
        if (self.at_end or self._is_due) and event.outcome != "failed":
            self._save_latest(event.run)
        self._writer.wait()
        self._owner = None
        return [*self._failures(), *self._restored(event)]

    # -- for others

    def wait(self) -> None:
        """Wait until every checkpoint that was due is written."""
        self._writer.wait()

    def save_now(self, run: RunView) -> Path:
        """Write the latest checkpoint of a run, which stands between two batches.

        Raises
        ------
        DataError
            If it cannot be written.
        """
        self._save_latest(run)
        self._writer.wait()
        self._failed |= self._writer.take_faults()
        fault = self._failed.pop(str(self.path), None)
        if fault is not None:
            raise fault
        return self.path

    @property
    def keeps_best(self) -> bool:
        """Whether it keeps the best checkpoint."""
        return self.best is not None

    def give_best(self, run: RunView) -> Report:
        """Give a run, which stands between two batches, its best parameters; say which."""
        best = self.best
        self._writer.wait()
        if best is None or not best.seen:
            return no_best(run, "no evaluation was the best yet")
        try:
            found = open_checkpoint(self.best_path).document["best"]
            if not found or (found["value"], found["epoch"]) != (best.value, best.epoch):
                return Report(
                    f"the parameters stay as they are: `{self.best_path}` was written by another "
                    f"run since, and is not that of epoch {best.epoch} "
                    f"({best.monitor} {fixed(best.value, 4)})",
                    severity="error",
                )
            file = load_parameters(_run(run), self.best_path)
        except DataError as fault:
            return Report(f"the parameters stay as they are: {fault.problem}", severity="error")
        return Report(
            f"the parameters are those of epoch {file.epoch}, the best "
            f"({best.monitor} {fixed(best.value, 4)})"
        )

    def pack(self) -> Memory:
        """Return what was best so far."""
        return {} if self.best is None else self.best.pack()

    def unpack(self, packed: Memory) -> None:
        """Go on from there."""
        if self.best is not None and packed:
            self.best.unpack(packed)

    # -- writing

    def _save_latest(self, view: RunView) -> None:
        run = _run(view)
        at, text = run.store.done, f"checkpoint {self.path.name}"
        self._is_due = False

        def mark() -> None:
            run.store.mark("checkpoint", text, at=at)

        snapshot = self._snapshot(run, "periodic", of_best=False)
        if self.keep_last == 1:
            self._submit(snapshot, self.path, self.path, written=mark)
            return
        numbered = _numbered(self.path, run)
        self._submit(snapshot, numbered, self.path, keep=self.keep_last, written=mark)

    def _save_best(self, view: RunView) -> None:
        """Write the last evaluation's file if it is the best, or one of the best."""
        best, value, improved = self.best, self._measured, self._improved
        # Only an evaluation makes a best file: what it decided is used up here.
        self._measured, self._improved = None, False
        if best is None or value is None or not math.isfinite(value):
            return
        run, removed = _run(view), list[Path]()
        target = self.best_path if self.keep_best == 1 else _numbered(self.best_path, run)
        if self.keep_best > 1:
            kept = _Kept(-value if best.higher_is_better else value, run.state.epoch, target)
            ranked = sorted([*self._kept, kept], key=lambda each: (each.rank, each.epoch))
            chosen = ranked[: self.keep_best]
            if improved and kept not in chosen:
                chosen[-1] = kept
            removed = [each.path for each in ranked if each not in chosen]
            self._kept = chosen
        if target in removed or not (improved or self.keep_best > 1):
            return
        snapshot = self._snapshot(run, f"best {best.monitor}", of_best=True)
        self._submit(snapshot, target, self.best_path if improved else target, removed=removed)
        if improved:
            run.state.best_path = str(self.best_path)

    def _snapshot(self, run: Run, note: str, *, of_best: bool) -> Snapshot:
        best = None
        if of_best and self.best is not None:
            value = self.best.measured(run.state)
            best = {"monitor": self.best.monitor, "value": value, "epoch": run.state.epoch}
        return take_snapshot(
            run,
            None if of_best else run.callbacks,
            note=note,
            best=best,
            # A best that cannot be written now is kept until it can be.
            copied=self._writer.in_background or of_best,
        )

    def _submit(
        self,
        snapshot: Snapshot,
        target: Path,
        alias: Path,
        *,
        keep: int = 0,
        removed: list[Path] | None = None,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """Have a snapshot written to ``target``, which then is ``alias`` as well.

        ``written`` is called once that is done, by the thread that writes.
        """
        file = str(alias)

        def write() -> None:
            write_snapshot(snapshot, target)
            if alias != target:
                give_second_name(target, alias)
            written()
            self._told.discard(file)
            for path in [*(removed or ()), *(_older(target, alias, keep) if keep else ())]:
                with suppress(OSError):
                    path.unlink()

        def write_best() -> None:
            self._owed = None
            try:
                write()
            except DataError:
                self._owed = submit_best
                raise

        def submit_best() -> None:
            self._writer.submit(write_best, name=name, file=file)

        # Files with names of their own are all written; of one that is overwritten, the last is.
        name = file if target == alias and not removed else ""
        if alias == self.best_path:
            submit_best()
        else:
            self._writer.submit(write, name=name, file=file)

    def _save_owed(self) -> None:
        """Try again to write the best file, if that failed and no better one came since."""
        owed, self._owed = self._owed, None
        if owed is not None:
            owed()

    def _failures(self) -> list[Report]:
        """Return what could not be written, for each file once until it can be written again."""
        failed, self._failed = self._failed | self._writer.take_faults(), {}
        if self.fatal and failed:
            raise next(iter(failed.values()))
        new = {file: fault for file, fault in failed.items() if file not in self._told}
        self._told.update(new)
        return [
            Report(f"{fault.problem}. The run goes on; {fault.remedy}", severity="error")
            for fault in new.values()
        ]

    # -- taking up

    def _adopt(self, best: Best, epoch: int) -> list[Report]:
        """Learn from the files what is best, where the run was resumed without this memory."""
        told: list[Report] = []
        try:
            found = _best_of(self.best_path, best.monitor, epoch)
        except DataError as fault:
            # What is not in a file any more is not the best: the next evaluation makes a new one.
            found = None
            best.value, best.epoch, best.wait, best.seen = 0.0, 0, 0, False
            told.append(_unreadable(fault, "the next evaluation makes a new one"))
        if found is not None and not best.seen:
            best.value, best.epoch = found
            best.wait, best.seen = 0, True
        if self.keep_best > 1:
            for path, _ in _numbered_files(self.best_path):
                try:
                    entry = _best_of(path, best.monitor, epoch)
                except DataError as fault:
                    told.append(_unreadable(fault, "it is not among the best"))
                    continue
                if entry is not None:
                    rank = -entry[0] if best.higher_is_better else entry[0]
                    self._kept.append(_Kept(rank, entry[1], path))
        return told

    def _restored(self, event: RunEnd) -> list[Report]:
        """Give the run its best parameters, if asked to, and say so."""
        best, run = self.best, _run(event.run)
        ended = event.outcome in ("completed", "stopped") and not run.in_epoch
        if not (self.restore_best and ended and best is not None):
            return []
        if not (best.seen or run.state.unsound):
            return []
        return [self.give_best(run)]


def _run(view: RunView) -> Run:
    return cast("Run", view)


def _numbered(path: Path, run: Run) -> Path:
    """Return the name that a checkpoint of ``path`` has for itself."""
    state = run.state
    number = f".epoch-{state.epoch:04d}.step-{state.global_step:08d}"
    return path.with_name(f"{path.stem}{number}{path.suffix}")


def _numbered_files(path: Path) -> list[tuple[Path, int]]:
    """Return the checkpoints of ``path`` that have names of their own, by step."""
    pattern = re.compile(re.escape(path.stem) + _NUMBERED + re.escape(path.suffix))
    found: list[tuple[Path, int]] = []
    with suppress(OSError):
        for entry in path.parent.iterdir():
            match = pattern.fullmatch(entry.name)
            if match is not None:
                found.append((entry, int(match[2])))
    return sorted(found, key=lambda each: each[1])


def _older(newest: Path, path: Path, keep: int) -> list[Path]:
    """Return the checkpoints of ``path`` that came before the last ``keep``, by their steps.

    Those of steps after ``newest`` are of another run, or of this one before it was taken back:
    they are not counted, and stay.
    """
    files = [file for file, _ in _numbered_files(path)]
    if newest not in files:
        return []
    return files[: files.index(newest) + 1][:-keep]


def _best_of(path: Path, monitor: str, epoch: int) -> tuple[float, int] | None:
    """Return value and epoch of a best file, if it is there and of this run's past.

    Raises
    ------
    DataError
        If any bit of it is not what was written.
    """
    if not os.path.lexists(path):
        return None
    file = open_checkpoint(path)
    file.arrays()
    found = file.document["best"]
    if not found or found["monitor"] != monitor or found["epoch"] > epoch:
        return None
    return float(found["value"]), found["epoch"]


def _unreadable(fault: DataError, outcome: str) -> Report:
    return Report(f"{fault.problem}; {outcome}", severity="warning")

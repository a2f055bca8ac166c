"""Checkpoints: all that a run needs to go on as if it had never ended, in one file.

In: a run between two batches, with its callbacks.  Out: a safetensors file; and the run again, in
this process or another.  Invariant: a run that goes on from a checkpoint computes the bits that it
would have computed without one, at an epoch's end or in its middle; a file that does not fit is
refused before anything is changed.

Not in a file: the data, the functions, the run's own `Config` (more epochs may be asked for).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import numpy.typing as npt

from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.errors import DataError, ExecutionError
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.asked import Asked
from workbench.train.atomic_file import replace_file
from workbench.train.belonging import claim, memory_in
from workbench.train.checkpoint_arrays import below, fitting, leaf_paths, names_of
from workbench.train.checkpoint_document import check_losses, check_statics
from workbench.train.checkpoint_format import (
    EPOCH_LOSSES,
    EPOCH_SERIES,
    FORMAT,
    HISTORY,
    OPT,
    PARAMS,
    open_checkpoint,
)
from workbench.train.container import Document, write_container, write_tensors
from workbench.train.environment import environment
from workbench.train.epoch_log import EpochLog
from workbench.train.history import History
from workbench.train.inspection import Inspection, inspection_of
from workbench.train.metric import Meter, MeterSet
from workbench.train.other_run import refuse_other_run
from workbench.train.packed_callbacks import pack_callbacks, unpack_callbacks
from workbench.train.packed_statics import pack_statics, unpack_statics
from workbench.train.run import Run
from workbench.train.screen import Screen
from workbench.train.state import RunState
from workbench.train.trace import Leaves, as_leaves
from workbench.train.tree import unflatten

__all__ = [
    "Snapshot",
    "export_parameters",
    "load_parameters",
    "restore",
    "save_checkpoint",
    "take_snapshot",
    "write_snapshot",
]

Array = npt.NDArray[Any]
Path_ = str | os.PathLike[str]

_STATE_FIELDS: Final = (
    "epoch",
    "epochs",
    "batch",
    "batches",
    "rows",
    "global_step",
    "lr",
    "train_loss",
    "val_loss",
    "seed",
    "best_path",
    "stop",
    "stop_reason",
    "stop_after",
    "stopped_by",
)
# Of a stop that a person asked for: the next training goes on.
_NO_STOP: Final = {"stop": False, "stop_reason": "", "stop_after": "epoch"}
# The run's own: `epochs` follows its config, which may ask for more of them.
_RESTORED_FIELDS: Final = tuple(name for name in _STATE_FIELDS if name not in {"epochs", "seed"})
_HOLD_POLL_S: Final = 0.002
# The run's own among the extras: the step's fingerprint, and what was done by hand.
_OWN: Final = "run"


@final
@dataclass(frozen=True, slots=True)
class Snapshot:
    """What goes into a checkpoint.

    Attributes
    ----------
    document
        Everything that is no array.
    arrays
        By name: ``params.<path>``, ``opt.<path>``, ``history.<column>``, ``epoch.losses``,
        ``epoch.series.<name>``, ``memory.<callback>.<number>``.
    """

    document: Document
    arrays: Mapping[str, Array]


def save_checkpoint(
    run: Run, path: Path_, *, callbacks: Sequence[object] | None = None, note: str = ""
) -> Path:
    """Write all that ``run`` needs to go on into a file.

    The file is replaced at once when it is complete and on the disk: whatever happens, it is the
    old one or the new one.  A run that trains in the background is held for the time of writing.

    Parameters
    ----------
    run
        The run, new, paused, ended or training.
    path
        The file, such as ``"runs/digits.safetensors"``; folders are made.
    callbacks
        Whose memory (patience, the best value) goes into the file too; by default those that the
        run trains with, or trained with last.
    note
        A text for people, which `inspect` shows.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        If it cannot be written; the file that was there is as it was.
    """
    with _held(run):
        chosen = run.callbacks if callbacks is None else callbacks
        snapshot = take_snapshot(run, chosen, note=note, copied=False)
        return write_snapshot(snapshot, path)


def take_snapshot(
    run: Run,
    callbacks: Sequence[object] | None,
    *,
    note: str = "",
    best: Mapping[str, object] | None = None,
    copied: bool,
) -> Snapshot:
    """Return what a checkpoint of ``run`` holds at this moment, between two batches.

    Parameters
    ----------
    run
        The run.
    callbacks
        Whose states to keep; None keeps none, and then a reader leaves its own as they are.
    note
        A text for people.
    best
        What made this one the best: ``monitor``, ``value`` and ``epoch``.
    copied
        Whether to copy parameters and optimizer state, so that the run may go on before the
        snapshot is written.
    """
    for prepare in run.before_saving:
        prepare()
    state = run.state
    log = run.history.log
    arrays = {f"{HISTORY}.{name}": array for name, array in log.arrays().items()}
    for prefix, leaves in ((PARAMS, run.leaves), (OPT, run.opt_leaves)):
        for name, tensor in zip(names_of(prefix, leaves), leaves.tensors, strict=True):
            arrays[name] = _value(run.context, tensor, copied=copied)
    arrays[EPOCH_LOSSES] = run.losses[: run.batches_done].copy()
    for name, series in run.series.items():
        arrays[f"{EPOCH_SERIES}.{name}"] = series[: run.batches_done].copy()
    entries, held = pack_callbacks(callbacks or (), lambda each: memory_in(run, each))
    arrays |= held
    spent = run.epoch_clock() if run.epoch_clock is not None and run.in_epoch else 0.0
    document = {
        "format": FORMAT,
        "note": note,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": {each.name: getattr(run.config, each.name) for each in fields(run.config)},
        "state": {name: getattr(state, name) for name in _STATE_FIELDS}
        | ({} if state.stopped_by else _NO_STOP),
        "val": [[name, value, state.val.count(name)] for name, value in state.val.items()],
        "position": {
            "in_epoch": run.in_epoch,
            "batches_done": run.batches_done,
            "evaluated_step": run.evaluated_step,
            "measured_step": run.measured_step,
            "pending_stop": _pending_stop(run),
            "meter": [run.meter.total, run.meter.count],
            "carried_s": run.carried_s + spent,
        },
        "optimizer": pack_statics(run.opt_leaves.structure),
        "signatures": [list(names) for names in log.signatures],
        "callbacks": None if callbacks is None else entries,
        "best": best,
        # Copied to the ground: the run may go on before this is written.
        "extras": {**deepcopy(run.extras), **_own_extras(run)},
        "environment": environment(),
    }
    return Snapshot(document, arrays)


def _pending_stop(run: Run) -> str | None:
    """Return why the run will be left after this epoch, if somebody asked for that."""
    controls = run.controls
    if not run.is_training:
        return run.pending_stop
    waits = run.in_epoch and controls.stops_after_epoch and not controls.stops_now
    return controls.reason if waits else None


def _own_extras(run: Run) -> dict[str, Any]:
    if not run.edits.fingerprint:
        return {}
    return {_OWN: {"step": run.edits.fingerprint, **run.pack_steering()}}


def write_snapshot(snapshot: Snapshot, path: Path_) -> Path:
    """Put a snapshot in the place of ``path``, whole and durably, and return where it is."""
    return replace_file(
        path, lambda partial: write_container(partial, snapshot.arrays, snapshot.document)
    )


def export_parameters(source: Run | object, path: Path_) -> Path:
    """Write parameters alone, named by their paths in the tree, for other tools to read.

    Parameters
    ----------
    source
        A run, or a tree of arrays.
    path
        The file; any reader of the safetensors format opens it.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DataError
        If the file cannot be written, or an array is of a type that the format lacks.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from safetensors.numpy import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = export_parameters([{"w": np.ones((2, 3))}], f"{folder}/model.safetensors")
    ...     {name: array.shape for name, array in load_file(made).items()}
    {'0.w': (2, 3)}
    """
    if isinstance(source, Run):
        with _held(source):
            return _export(source.leaves, source.context, path)
    return _export(as_leaves(source), None, path)


def _export(leaves: Leaves, context: Context | None, path: Path_) -> Path:
    names = [name or PARAMS for name in leaf_paths(leaves.structure)]
    arrays = {
        name: _value(context, tensor, copied=False)
        for name, tensor in zip(names, leaves.tensors, strict=True)
    }
    producer = {"producer": f"training-workbench {environment()['training-workbench']}"}
    return replace_file(path, lambda partial: write_tensors(partial, arrays, producer))


def _value(context: Context | None, tensor: Tensor, *, copied: bool) -> Array:
    """Return the value of a leaf; without copying it is valid until the next batch."""
    if context is not None and tensor in context.initialized:
        array = context.buffers[tensor].view()
        return array.copy() if copied else array
    assert tensor.value is not None, "a parameter has a value"
    return tensor.value


@contextmanager
def _held(run: Run) -> Generator[None]:
    """Hold a run that trains in another thread between two batches, and let it go on after."""
    if run.trainer == threading.get_ident():
        yield
        return
    was_paused = run.controls.is_paused
    while _is_moving(run):
        run.controls.pause()
        time.sleep(_HOLD_POLL_S)
    try:
        # A paused run may still obey requests, such as one for another step.
        with run.gate.visiting():
            yield
    finally:
        if not was_paused:
            run.controls.resume()


def _is_moving(run: Run) -> bool:
    return run.is_training and run.status != "paused"


# -- restoring


def restore(
    run: Run,
    path: Path_,
    *,
    callbacks: Sequence[object] | None = (),
    train: Dataset | Stream | None = None,
    keep: Collection[str] = (),
) -> Inspection:
    """Put ``run`` where a checkpoint was written; the next `fit` goes on from there.

    Parameters, optimizer state with its hyper-parameters, learning rate, history, position and
    what callbacks remember are those of the file; callbacks are told apart by their names, so that
    their order does not matter.  The configuration stays the run's own: a larger ``epochs`` trains
    further.  A run that a callback stopped is restored as such: ``run.resume()`` lets it go on.

    Parameters
    ----------
    run
        A run made as the one that was saved: parameters of the same names, shapes and types, the
        same kind of optimizer, seed and batch size.
    path
        A file from `save_checkpoint` or `Checkpointing`.
    callbacks
        Those that the run goes on with.  One that the file does not know keeps its state; one
        that remembered something there and is not among them is missed.  None forgets what
        callbacks remembered.
    train
        The training rows, to be checked at once; otherwise `fit` checks their number.
    keep
        Names of settings that stay as this run asks for them, such as ``("lr", "weight_decay")``:
        the rate, a hyper-parameter of the optimizer, or the ``patience`` of early stopping. For all
        others the file's hold, and a report names those that differ.

    Returns
    -------
    Inspection
        What the file holds.

    Raises
    ------
    DataError
        If the file is missing, damaged, or of another run, naming both values; nothing is changed.
    ExecutionError
        If the run is training.
    ConfigurationError
        If ``keep`` names something else.

    Examples
    --------
    >>> import tempfile
    >>> import workbench as wb
    >>> def make(epochs):
    ...     params = {"w": wb.zeros(2)}
    ...     return wb.Run(params, wb.adam(params), wb.Config(epochs, 4, 0.1, 7, verbose=False))
    >>> def step(params, opt, x, y, lr):
    ...     return wb.default_step(params, opt, x, y, lr, lambda p, x, y: wb.mse(x @ p["w"], y))
    >>> rows = wb.data.Dataset([[1.0, 2.0], [3.0, 1.0]], [5.0, 5.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = make(2)
    ...     _ = wb.fit(run, [], rows, None, step)
    ...     file = save_checkpoint(run, f"{folder}/run.safetensors")
    ...     run = make(3)
    ...     _ = restore(run, file)
    >>> [row.epoch for row in wb.fit(run, [], rows, None, step)]
    [1, 2, 3]
    """
    if run.is_training:
        raise ExecutionError(
            "the run is training, and a checkpoint would be loaded between two of its steps",
            remedy="call `run.stop()` and `run.wait()` first",
        )
    file = open_checkpoint(path)
    document = file.document
    arrays = file.arrays()
    refuse_other_run(run, document, train)
    params = fitting(run.leaves, arrays, PARAMS, "parameter")
    opt = fitting(run.opt_leaves, arrays, OPT, "part of the optimizer's state")
    check_statics(pack_statics(run.opt_leaves.structure), document["optimizer"], file.path)
    asked = Asked(run, callbacks or (), keep)
    structure = unpack_statics(run.opt_leaves.structure, document["optimizer"])
    structure = asked.kept_in(structure)
    columns = below(arrays, f"{HISTORY}.")
    history = History(log=EpochLog.of_arrays(columns, document["signatures"]))
    losses = {n: array for n, array in arrays.items() if n.startswith((EPOCH_LOSSES, EPOCH_SERIES))}
    if EPOCH_LOSSES not in losses:
        raise DataError(
            f"`{file.path}` is damaged: it has no array `{EPOCH_LOSSES}`",
            remedy="use another checkpoint",
        )
    check_losses(losses, history.log.epochs(), document, file.path)
    said = claim(run, callbacks or ())
    if callbacks is not None:
        try:
            unpack_callbacks(callbacks, document["callbacks"], arrays)
        except (LookupError, TypeError, AttributeError) as fault:  # before a callback was asked
            raise DataError(
                f"`{file.path}` is damaged: what callbacks remember is no such thing: {fault!r}",
                remedy="use another checkpoint, or pass `callbacks=None` to forget it",
            ) from fault
    run.load(unflatten(run.leaves.structure, params), unflatten(structure, opt))
    _take_position(run, document, arrays, history)
    asked.put_back(run)
    replaced = asked.report(run, document)
    for report in [*said, *([replaced] if replaced else ())]:
        run.say(report)
        if run.config.verbose:
            Screen(sys.stdout).show(report)
    return inspection_of(file)


def load_parameters(run: Run, path: Path_) -> Inspection:
    """Give ``run`` the parameters of a checkpoint and nothing else of it.

    Raises
    ------
    DataError
        If the file is damaged or its parameters are others; nothing is changed then.
    """
    file = open_checkpoint(path)
    found = fitting(run.leaves, file.arrays(), PARAMS, "parameter")
    run.params = unflatten(run.leaves.structure, found)
    return inspection_of(file)


def _take_position(
    run: Run, document: Document, arrays: Mapping[str, Array], history: History
) -> None:
    state, position = RunState.at_start(run.config), document["position"]
    for name in _RESTORED_FIELDS:
        setattr(state, name, document["state"][name])
    state.val = MeterSet()
    for name, value, count in document["val"]:
        state.val.update(name, value, count)
    run.state = state
    run.history = history
    run.in_epoch = position["in_epoch"]
    run.batches_done = position["batches_done"]
    run.meter = Meter(*position["meter"])
    run.carried_s = position["carried_s"]
    run.losses = arrays[EPOCH_LOSSES]
    run.series = below(arrays, f"{EPOCH_SERIES}.")
    run.evaluated_step = position["evaluated_step"]
    run.measured_step = position["measured_step"]
    run.pending_stop = position["pending_stop"]
    run.extras = dict(document["extras"])
    own = run.extras.pop(_OWN, {})
    run.unpack_steering(own)
    run.edits.expect(own.get("step", ""))
    run.restored_rows = state.rows or None
    run.interrupted = False
    run.status = "stopped" if state.stop else "ready"

"""The files of a run's record, and reading them.

``config.json`` what was decided, ``environment.json`` what it was made with, ``history.jsonl`` a
line for each epoch, ``steps.f32`` the loss of each batch as little-endian float32,
``actions.jsonl`` a line for each thing that was done by hand on the way, if there was any,
``reports.jsonl`` a line for each report, if there was any, with its severity, ``status.json`` how
it stands.

In: a folder.  Out: plain values.  Invariant: a record of a run that was killed is read like any
other: a line that was being written does not count, and its status says so.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, cast, final

import numpy as np
import numpy.typing as npt

from workbench.files import as_path, read_regular
from workbench.train.action import Action
from workbench.train.epoch_row import EpochRow
from workbench.train.process import Process
from workbench.train.record_values import read_config, read_history, read_status
from workbench.train.reports import Said

__all__ = [
    "Record",
    "action_line",
    "history_line",
    "is_record",
    "plain_json",
    "read_record",
    "report_line",
    "step_losses",
]

ACTIONS: Final = "actions.jsonl"
CONFIG: Final = "config.json"
ENVIRONMENT: Final = "environment.json"
HISTORY: Final = "history.jsonl"
REPORTS: Final = "reports.jsonl"
STATUS: Final = "status.json"
STEPS: Final = "steps.f32"

_LARGEST_STEPS_BYTES: Final = 1 << 32

STEP_TYPE: Final = np.dtype("<f4")


@final
@dataclass(frozen=True, slots=True)
class Record:
    """What a run wrote down.

    Attributes
    ----------
    path
        Its folder.
    config
        What was decided, with the optimizer and the parameters' shapes.
    status
        How it stands: ``status`` is that of the run, ``"killed"`` if its process is gone without a
        word, or ``"unknown"`` if it runs, or ran, on another machine.
    epochs
        A dict for each epoch; a number that was not finite is NaN.
    fault
        Why it cannot be read; empty if it can.
    """

    path: Path
    config: dict[str, Any]
    status: dict[str, Any]
    epochs: list[dict[str, float]]
    fault: str = ""

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.path.name


def is_record(path: Path) -> bool:
    """Return whether a folder holds a run's record, be it damaged."""
    return os.path.lexists(path / STATUS)


def read_record(path: Path) -> Record:
    """Return what a run wrote into its folder.

    Raises
    ------
    DataError
        If a file is missing or damaged, naming it; links in the folder are not followed.
    """
    status = read_status(path / STATUS)
    if status["status"] == "running":
        presence = Process(**status["process"]).presence()
        status["status"] = {"alive": "running", "gone": "killed"}.get(presence, presence)
    return Record(path, read_config(path / CONFIG), status, read_history(path / HISTORY))


def step_losses(path: str | Path) -> npt.NDArray[np.float32]:
    """Return the loss of each batch of a recorded run, from its first; NaN where it is not known.

    Parameters
    ----------
    path
        The folder of the run.

    Raises
    ------
    DataError
        If the folder holds no such file.
    """
    octets = read_regular(as_path(path) / STEPS, most=_LARGEST_STEPS_BYTES, follow=False)
    # A killed run may have left a part of a number.
    whole = len(octets) // STEP_TYPE.itemsize * STEP_TYPE.itemsize
    return np.frombuffer(octets[:whole], STEP_TYPE).astype(np.float32)


def history_line(row: EpochRow) -> str:
    """Return an epoch as a line of JSON with its line end; ``null`` where a number is not finite.

    Examples
    --------
    >>> print(history_line(EpochRow(3, float("nan"), 0.1, (("accuracy", 0.5),), 0.25)), end="")
    {"epoch": 3, "train_loss": null, "lr": 0.1, "val_accuracy": 0.5, "seconds": 0.25}
    """
    named = {"epoch": row.epoch, "train_loss": row.train_loss}
    named |= {f"train_{name}": value for name, value in row.train}
    named["lr"] = row.lr
    named |= {f"val_{name}": value for name, value in row.val}
    return plain_json(named | {"seconds": row.seconds}) + "\n"


def action_line(action: Action) -> str:
    """Return something done by hand as a line of JSON with its line end.

    Examples
    --------
    >>> print(action_line(Action("run.lr = 0.003", 120, 2)), end="")
    {"code": "run.lr = 0.003", "step": 120, "epoch": 2, "detail": ""}
    """
    return plain_json(asdict(action)) + "\n"


def report_line(said: Said) -> str:
    """Return a report as a line of JSON with its line end.

    Examples
    --------
    >>> from workbench.train.reports import Report
    >>> print(report_line(Said(Report("3 NaN", severity="warning"), 240, 120, 2)), end="")
    {"step": 120, "epoch": 2, "severity": "warning", "text": "3 NaN"}
    """
    told = {"severity": said.report.severity, "text": said.report.text}
    return plain_json({"step": said.step, "epoch": said.epoch} | told) + "\n"


def plain_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON that every reader takes: numbers that are not finite are ``null``."""
    return json.dumps(_without_nan(value), allow_nan=False, indent=indent)


def _without_nan(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        return {str(key): _without_nan(each) for key, each in items.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in cast("list[object]", value)]
    return value

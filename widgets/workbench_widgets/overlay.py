"""Recorded runs over each other: pick some, choose a metric, compare.

In: a folder of records. Out: a table and curves for a page. Invariant: records are only read, anew
each time that a page asks, so that runs which go on elsewhere are seen to go on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from workbench.graph.markup import table
from workbench.train.comparison import STEP_LOSS, compare, runs
from workbench.train.report import printable
from workbench.train.store_picture import short
from workbench.train.store_series import Series
from workbench_widgets.assets import script, style
from workbench_widgets.frame import Frame, Message
from workbench_widgets.panel_frame import POINTS, joined

if TYPE_CHECKING:
    import os

    import pandas as pd

__all__ = ["Overlay", "overlay"]

_RUNS: Final = 500
_CURVES: Final = 24
_NAME: Final = 120
_SETTINGS: Final = ("lr", "batch_size", "optimizer", "seed", "note")


@final
class Overlay(Frame):
    """Recorded runs as curves over each other, beside the settings in which they differ.

    Parameters
    ----------
    folder
        Where `RunRecord` writes.
    """

    _esm = script("overlay")
    _css = style("chart", "overlay")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__()
        self.folder = folder
        self.answer("sync", self._sync)
        self.answer("curves", self._curves)

    def _sync(self, _: Message) -> None:
        found = runs(self.folder).tail(_RUNS)
        metrics = _metrics(found)
        self.post(
            {
                "t": "runs",
                "metrics": metrics,
                "columns": _columns(found),
                "rows": [
                    [_cell(row.get(name)) for name in _columns(found)]
                    for row in cast("list[dict[str, Any]]", found.to_dict("records"))
                ],
                "names": [str(name) for name in found["name"]],
            }
        )

    def _curves(self, message: Message) -> None:
        metric, wanted = message["metric"], message["names"]
        if not (isinstance(metric, str) and isinstance(wanted, list)):
            raise TypeError("a metric and a list of names are needed")
        names = [str(name) for name in cast("list[object]", wanted)[:_CURVES]]
        lines: list[dict[str, Any]] = []
        floats: list[Any] = []
        if names:
            curves = compare(self.folder, metric, names=names).curves
            for number, name in enumerate(names):
                count = _add(curves[name].dropna(), floats)
                label = printable(name)[:_NAME]
                lines.append(
                    {"kind": "points", "label": label, "short": label, "colour": number, "n": count}
                )
        unit = "batch" if metric == STEP_LOSS else "epoch"
        chart = {"name": metric, "lines": lines}
        answer = {"t": "curves", "metric": metric, "names": names, "unit": unit, "chart": chart}
        self.post(answer, [joined(floats)])

    def text(self) -> str:
        """Return the table of runs."""
        found = runs(self.folder)
        if found.empty:
            return f"no runs in {self.folder}"
        return found[_columns(found)].to_string(index=False)

    def html(self) -> str:
        """Return the table of runs, as HTML."""
        found = runs(self.folder)
        columns = _columns(found)
        rows = [
            [_cell(row.get(name)) for name in columns]
            for row in cast("list[dict[str, Any]]", found.to_dict("records"))
        ]
        return table(columns, rows).text


def _metrics(found: pd.DataFrame) -> list[str]:
    named = [str(name) for name in found.columns]
    metrics = [name for name in named if name.startswith(("train_", "val_"))]
    return [*metrics, "lr", "seconds", STEP_LOSS] if len(found) else []


def _columns(found: pd.DataFrame) -> list[str]:
    """Return what is told of each run: how it stands, its metrics, and the settings that differ."""
    named = [str(name) for name in found.columns]
    metrics = [name for name in named if name.startswith(("train_", "val_"))]
    settings = [name for name in _SETTINGS if name in named and found[name].nunique() > 1]
    return ["name", "status", "epoch", *metrics, *settings]


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    shown = short(value) if isinstance(value, float) else printable(str(value))
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"


def _add(curve: pd.Series[float], floats: list[Any]) -> int:
    """Add a curve in few points; return how many."""
    at, values = Series(np.float64), Series()
    at.extend(curve.index.to_numpy(np.float64))
    with np.errstate(over="ignore"):
        values.extend(curve.to_numpy(np.float64).astype(np.float32))
    read = values.read(most=POINTS)
    floats += [at.read(most=POINTS).greatest, read.least, read.greatest, read.mean]
    return len(read)


def overlay(folder: str | os.PathLike[str]) -> Overlay:
    """Return a view of recorded runs."""
    return Overlay(folder)

"""What a panel's page is told of a run: numbers, curves, marks, and what people did.

In: a run, at any time. Out: a message of plain values, and one block of float32. Invariant: a
message is as large however long the run is, and holds everything: a page that was just opened, or
missed some, needs no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from workbench.train.report import printable
from workbench.train.step_version import PARTS
from workbench.train.store import Mark
from workbench.train.store_series import Stretch
from workbench.train.store_status import BestSoFar, RunStatus, early_stopping

if TYPE_CHECKING:
    from workbench.train.run import Run

Array = npt.NDArray[Any]

POINTS: Final = 512
"""Points of a curve that a page gets at most, which is about one for two pixels."""

_CHARTS: Final = 24
_NAME: Final = 80
_ACTIONS: Final = 30
_VERSIONS: Final = 20
_DIFF: Final = 4000
_MARKS: Final = 100


def describe_status(run: Run, status: RunStatus) -> dict[str, Any]:
    """Return where a run stands, as plain values for a page."""
    stopping = early_stopping(run)
    return {
        "status": status.status,
        "training": run.is_training,
        "reason": status.reason,
        "epoch": status.epoch,
        "epochs": status.epochs,
        "batch": status.batch,
        "batches": status.batches,
        "origin": run.store.origin,
        "done": status.done,
        "total": status.total,
        "step": status.step,
        "rate": _number(status.rate),
        "left": _left(status),
        "lr": _number(status.lr),
        "loss": _number(status.loss),
        "metrics": [[_name(name), _number(value)] for name, value in status.metrics[:_CHARTS]],
        "best": _best(status),
        "memory": status.memory,
        "patience": None if stopping is None else stopping.patience,
        "waited": None if stopping is None else stopping.best.wait,
        "held": run.rate_held is not None,
    }


def _left(status: RunStatus) -> str | None:
    return None if status.left is None else f"{status.left} left"


def _best(status: RunStatus) -> list[Any] | None:
    best = status.best
    return None if best is None else [_name(best.metric), _number(best.value), best.epoch]


def describe_charts(run: Run) -> tuple[list[dict[str, Any]], list[Array]]:
    """Return the charts of a run, and the floats of their lines in the same order."""
    store = run.store
    names = list(dict.fromkeys((*store.batches, *store.evaluations.columns)))[:_CHARTS]
    charts: list[dict[str, Any]] = []
    floats: list[Array] = []
    for name in names:
        lines: list[dict[str, Any]] = []
        if name in store.batches:
            lines.append(_batches(name, store.curve(name, most=POINTS), floats))
        if name in store.evaluations.columns:
            points = store.evaluations.points(name, most=POINTS)
            floats += [points.at, points.values.least, points.values.greatest, points.values.mean]
            lines.append(
                {
                    "kind": "points",
                    "label": f"{_name(name)}, evaluated",
                    "short": "evaluated",
                    "colour": 1,
                    "n": len(points.at),
                }
            )
        charts.append({"name": _name(name), "lines": lines})
    return charts, floats


def _batches(name: str, curve: Stretch, floats: list[Array]) -> dict[str, Any]:
    floats += [curve.least, curve.greatest, curve.mean]
    return {
        "kind": "batches",
        "label": f"{_name(name)}, each batch",
        "short": "training",
        "colour": 0,
        "n": len(curve),
        "first": curve.first,
        "width": curve.width,
    }


def describe_stretch(
    run: Run, chart: int, first: float, last: float
) -> tuple[dict[str, Any] | None, list[Array]]:
    """Return the batches of a chart from ``first`` to ``last``, as fine as they are kept."""
    store = run.store
    names = list(dict.fromkeys((*store.batches, *store.evaluations.columns)))[:_CHARTS]
    name = names[chart] if 0 <= chart < len(names) else ""
    if name not in store.batches or not (math.isfinite(first) and math.isfinite(last)):
        return None, []
    floats: list[Array] = []
    begin, end = max(0, int(first) - 1), max(0, math.ceil(last) + 1)
    return _batches(name, store.curve(name, begin, end, most=2 * POINTS), floats), floats


def describe_marks(run: Run, best: BestSoFar | None) -> list[dict[str, Any]]:
    """Return what happened when, for the charts."""
    marks: list[dict[str, Any]] = [
        {"kind": mark.kind, "at": mark.at, "short": _short(mark)}
        for mark in run.store.marks[-_MARKS:]
        # The first version is no change.
        if mark.kind not in PARTS or mark.at > run.store.origin
    ]
    for version in run.step_history[-_VERSIONS:]:
        if version.error is not None:
            at = version.asked_step * run.accum_steps
            short = f"✗ {version.part} {version.number}"
            marks.append({"kind": "error", "at": at, "short": short})
    if best is not None:
        marks.append({"kind": "best", "at": best.at, "short": "★ best"})
    return marks


def _short(mark: Mark) -> str:
    if mark.kind in PARTS:
        # Of a version the text begins with its number.
        return f"↻ {mark.kind} {mark.text.split(' ')[0]}"
    return _name(mark.text)


def describe_people(run: Run) -> dict[str, Any]:
    """Return what people did: actions as code, and versions of what they edited."""
    history = run.history
    return {
        "count": history.action_count,
        "actions": [
            {"code": action.code[:_DIFF], "step": action.step}
            for action in history.actions[-_ACTIONS:]
        ],
        "versions": [
            {
                "number": version.number,
                "title": printable(version.line_of_text())[:_DIFF],
                "state": version.state,
                "error": version.error,
                "line": version.line,
                "diff": (version.diff or version.source)[:_DIFF],
            }
            for version in run.step_history[-_VERSIONS:]
        ],
    }


def joined(floats: Sequence[Array]) -> memoryview:
    """Return arrays one after another, as the octets of float32."""
    if not floats:
        return memoryview(b"")
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.concatenate([each.astype(np.float32, copy=False) for each in floats])
    return memoryview(whole.tobytes())


def _number(value: float) -> float | str:
    """Return a number that JSON has, or the name of one that it has not."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _name(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= _NAME else f"{shown[: _NAME - 1]}…"

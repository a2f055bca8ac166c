"""Recorded runs side by side, as tables and as curves.

In: a folder of records.  Out: pandas tables and a figure.  Invariant: nothing is drawn on a screen,
no global state of a plotting library is touched, and names are text wherever they are shown.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from workbench.errors import BackendUnavailable, DataError
from workbench.files import as_path
from workbench.train.curves import drawn, picture
from workbench.train.record_format import Record, is_record, read_record, step_losses

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["STEP_LOSS", "Comparison", "compare", "runs"]

STEP_LOSS: Final = "step_loss"
"""The name by which the losses of single batches are asked for."""

_SETTINGS: Final = ("epochs", "batch_size", "lr", "seed", "optimizer", "rows", "shuffle", "note")


def runs(folder: str | os.PathLike[str] = "runs") -> pd.DataFrame:
    """Return a table of the runs that were recorded in a folder.

    Parameters
    ----------
    folder
        Where `RunRecord` writes.  A folder without runs gives an empty table.

    Returns
    -------
    pandas.DataFrame
        A row for each run, those that began first above: its name, ``status`` (``"killed"`` if its
        process is gone without a word), completed ``epoch`` of ``epochs``, the last ``train_loss``,
        ``train_*`` and ``val_*``, ``lr``, ``seconds``, settings, the number of parameters, when it
        ``started``, and its ``path``.  What was not evaluated is NaN.  A record that cannot be read
        has the status ``"damaged"``, and ``fault`` says why.
    """
    import pandas as pd

    rows = [_row(record) for record in _records(folder)]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or list(_EMPTY_COLUMNS)
    # Metrics stand together, whichever run had them first.
    metrics = sorted(filter(_is_metric, columns), key=lambda name: name.startswith("val_"))
    others = [name for name in columns if not _is_metric(name)]
    at = others.index("train_loss") + 1
    return pd.DataFrame(rows, columns=[*others[:at], *metrics, *others[at:]])


def compare(
    folder: str | os.PathLike[str] = "runs",
    metric: str = "train_loss",
    *,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Return recorded runs side by side.

    Parameters
    ----------
    folder
        Where `RunRecord` writes.
    metric
        ``"train_loss"``, ``"lr"``, ``"seconds"``, a metric of the evaluation such as
        ``"val_accuracy"``, or ``"step_loss"`` for the loss of each batch.
    names
        Which runs, in this order; by default all.

    Raises
    ------
    DataError
        If a run or the metric does not exist, with those that do.
    """
    import pandas as pd

    found = {record.name: record for record in _records(folder)}
    missing = [name for name in names or () if name not in found]
    if missing or not found:
        raise DataError(
            f"`{folder}` has no run `{missing[0]}`" if missing else f"`{folder}` has no runs",
            remedy=f"the runs are {', '.join(found)}" if found else "record one with `RunRecord`",
        )
    read = [_with_series(found[name], metric) for name in names or found]
    chosen = [record for record, _ in read]
    series = {record.name: values for record, values in read}
    if not any(len(each) for each in series.values()):
        known = dict.fromkeys(n for record in chosen for row in record.epochs for n in row)
        there = [name for name in known if name != "epoch"]
        raise DataError(
            f"no run in `{folder}` has a `{metric}`",
            remedy=f"they have {', '.join([*there, STEP_LOSS])}",
        )
    curves = pd.DataFrame(series).sort_index()
    curves.index.name = "batch" if metric == STEP_LOSS else "epoch"
    return Comparison(metric, _summary(chosen, series, metric), curves)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Recorded runs side by side.

    Attributes
    ----------
    metric
        What is compared.
    table
        A row for each run: its status, the settings in which the runs differ, and the ``last``,
        ``least`` and ``greatest`` value with the epochs of the latter two: finite ones, of epochs
        whose training loss was finite.
    curves
        A column for each run, a row for each epoch (or batch, for ``"step_loss"``).
    """

    metric: str
    table: pd.DataFrame
    curves: pd.DataFrame

    def figure(self) -> Figure:
        """Return the curves as a figure, to be shown by a notebook or saved by ``savefig``.

        Raises
        ------
        BackendUnavailable
            If matplotlib is not installed.
        """
        return drawn(self.curves, self.metric)

    def __repr__(self) -> str:
        return f"{self.metric}\n{self.table.to_string(index=False)}"

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, escape=True)
        try:
            figure = self.figure()
        except BackendUnavailable:
            return table
        told = escape(f"{self.metric} of {', '.join(map(str, self.curves))}", quote=True)
        return f'{table}<img alt="{told}" src="{picture(figure)}">'


_EMPTY_COLUMNS: Final = ("name", "status", "epoch", "train_loss", "path")


def _records(folder: str | os.PathLike[str]) -> list[Record]:
    place = as_path(folder)
    if not os.path.isdir(place):  # noqa: PTH112 - `Path.is_dir` raises for long names
        return []
    try:
        folders = sorted(place.iterdir())
    except OSError as fault:
        raise DataError(
            f"`{place}` cannot be read: {fault.strerror or fault}",
            remedy="check the path and who may read it",
        ) from fault
    records = [_read(each) for each in folders if is_record(each)]
    return sorted(records, key=lambda record: (record.status["started"], record.name))


def _read(path: Path) -> Record:
    try:
        return read_record(path)
    except DataError as fault:  # one bad folder does not hide the others
        return _damaged(path, fault)


def _damaged(path: Path, fault: DataError) -> Record:
    return Record(path, {}, {"status": "damaged", "started": ""}, [], fault.problem)


def _row(record: Record) -> dict[str, Any]:
    last: dict[str, Any] = dict(record.epochs[-1]) if record.epochs else {}
    evaluated = [row for row in record.epochs if any(name.startswith("val_") for name in row)]
    if evaluated:
        last |= {name: value for name, value in evaluated[-1].items() if name.startswith("val_")}
    config = record.config
    return {
        "name": record.name,
        "status": record.status["status"],
        "epoch": last.pop("epoch", 0),
        "epochs": config.get("epochs", 0),
        "train_loss": last.pop("train_loss", np.nan),
        **{name: value for name, value in last.items() if _is_metric(name)},
        "lr": last.get("lr", np.nan),
        "seconds": sum(row["seconds"] for row in record.epochs),
        **{name: config.get(name) for name in ("seed", "batch_size", "optimizer")},
        "parameters": _count(config.get("parameters", {})),
        "note": config.get("note", ""),
        "fault": record.fault,
        "started": record.status["started"],
        "path": str(record.path),
    }


def _is_metric(name: str) -> bool:
    return name.startswith(("train_", "val_")) and name != "train_loss"


def _count(parameters: Mapping[str, tuple[str, Sequence[int]]]) -> int:
    return sum(math.prod(shape) for _, shape in parameters.values())


def _with_series(record: Record, metric: str) -> tuple[Record, pd.Series[float]]:
    """Return a record and its values; a damaged one and none if those cannot be read."""
    try:
        return record, _series(record, metric)
    except DataError as fault:
        import pandas as pd

        return _damaged(record.path, fault), pd.Series(np.zeros(0))


def _series(record: Record, metric: str) -> pd.Series[float]:
    import pandas as pd

    if metric == STEP_LOSS:
        if record.fault:
            return pd.Series(np.zeros(0))
        losses = step_losses(record.path)
        return pd.Series(losses.astype(np.float64), index=np.arange(1, len(losses) + 1))
    rows = [(row["epoch"], row[metric]) for row in record.epochs if metric in row]
    return pd.Series([value for _, value in rows], index=[epoch for epoch, _ in rows], dtype=float)


def _sound(record: Record, values: pd.Series[float], metric: str) -> pd.Series[float]:
    """Return the values that may be a run's least or greatest.

    They are finite, and so is the training loss of their epoch: what a model measures that was
    trained to NaN is no result.
    """
    lost = [row["epoch"] for row in record.epochs if not math.isfinite(row["train_loss"])]
    kept = values[np.isfinite(values)]
    return kept if metric == STEP_LOSS else kept[~kept.index.isin(lost)]


def _summary(
    records: Sequence[Record], series: dict[str, pd.Series[float]], metric: str
) -> pd.DataFrame:
    import pandas as pd

    told = [name for name in _SETTINGS if len({repr(r.config.get(name)) for r in records}) > 1]
    rows: list[dict[str, Any]] = []
    for record in records:
        values = series[record.name].dropna()
        sound = _sound(record, values, metric)
        row: dict[str, Any] = {"name": record.name, "status": record.status["status"]}
        if any(each.fault for each in records):
            row["fault"] = record.fault
        row |= {name: record.config.get(name) for name in told}
        row["last"] = values.iloc[-1] if len(values) else np.nan
        for word, position in (("least", sound.argmin), ("greatest", sound.argmax)):
            at = int(position()) if len(sound) else None
            row[word] = np.nan if at is None else sound.iloc[at]
            row[f"at_{word}"] = np.nan if at is None else sound.index[at]
        rows.append(row)
    return pd.DataFrame(rows)

"""What a run learned, epoch by epoch.

In: one row after each epoch.  Out: a table for people and for pandas.  Invariant: epochs only grow,
and the text of a history holds no times, so that it is the same whenever the run is repeated.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Final, final

import numpy as np
from numpy.typing import NDArray

from workbench.errors import DataError
from workbench.train.action import Action
from workbench.train.epoch_log import NUMBERS, EpochLog, EpochRows
from workbench.train.epoch_row import EpochRow
from workbench.train.report import fixed, printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["History"]

# A text shows so many rows whole; of more, the first and the last of them.
_SHOWN_WHOLE: Final = 20
_SHOWN_ENDS: Final = 5
# A slider makes many in a second: the oldest are forgotten.
_ACTIONS_KEPT: Final = 10_000


@final
class History:
    """The epochs of a run, one row each.

    Parameters
    ----------
    rows
        Epochs that are already known.
    log
        The same packed, as when a run is resumed; it is gone on with.

    Attributes
    ----------
    log
        The rows, packed.
    action_count
        How many actions there were; the first of them may be forgotten.

    Examples
    --------
    >>> history = History([EpochRow(1, 1.0444, 0.0025, (("loss", 0.9346),))])
    >>> history.append(EpochRow(2, 0.6686, 0.005, (("loss", 0.5529),)))
    >>> history
    epoch  train_loss        lr  val_loss
        1      1.0444  0.002500    0.9346
        2      0.6686  0.005000    0.5529
    """

    __slots__ = ("_actions", "action_count", "log")

    def __init__(self, rows: Iterable[EpochRow] = (), *, log: EpochLog | None = None) -> None:
        self.log = EpochLog() if log is None else log
        self._actions: deque[Action] = deque(maxlen=_ACTIONS_KEPT)
        self.action_count = 0
        for row in rows:
            self.append(row)

    def append(self, row: EpochRow) -> None:
        """Add the row of the next epoch.

        Raises
        ------
        DataError
            If its epoch does not come after the last one.
        """
        if len(self.log) and row.epoch <= self.log.last_epoch:
            raise DataError(
                f"the row of epoch {row.epoch} comes after that of epoch {self.log.last_epoch}",
                remedy="begin a new History with the rows up to the epoch that is continued",
            )
        self.log.append(row)

    @property
    def rows(self) -> EpochRows:
        """The rows that there are now, first epoch first."""
        return self.log.rows

    @property
    def last(self) -> EpochRow | None:
        """The row of the last epoch; None before the first."""
        return self.rows[-1] if len(self.log) else None

    @property
    def actions(self) -> tuple[Action, ...]:
        """What people did to the run while it went on, the latest 10,000, first ones first."""
        return tuple(self._actions)

    def record(self, action: Action) -> None:
        """Add an action; any thread may."""
        self._actions.append(action)
        self.action_count += 1

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all metrics that were evaluated, in the order in which they first came."""
        return self.log.names(of_step=False)

    @property
    def train_names(self) -> tuple[str, ...]:
        """The names of the step's own metrics, in the order in which they first came."""
        return self.log.names(of_step=True)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one column, a value for each epoch; NaN where an epoch has none.

        Parameters
        ----------
        name
            ``"epoch"``, ``"train_loss"``, ``"lr"``, ``"seconds"``, ``"val_"`` with a metric of the
            evaluation, or ``"train_"`` with one of the step.

        Raises
        ------
        DataError
            If there is no such column.
        """
        if name == "epoch":
            return self.log.epochs().astype(np.float64)
        if name in NUMBERS:
            return self.log.numbers(name)
        metric = name.removeprefix("train_")
        if metric != name and metric in self.train_names:
            return self.log.metric(metric, of_step=True)
        metric = name.removeprefix("val_")
        if metric == name or metric not in self.metric_names:
            known = ["epoch", "train_loss", *self._train_columns(), "lr"]
            known += [*self._val_columns(), "seconds"]
            raise DataError(
                f"the history has no column `{name}`", remedy=f"it has {', '.join(known)}"
            )
        return self.log.metric(metric, of_step=False)

    def frame(self) -> "pd.DataFrame":
        """Return the history as a DataFrame.

        The columns are epoch, train_loss, ``train_`` columns, lr, ``val_`` columns, seconds.
        """
        import pandas as pd  # slow to import, and only needed here

        names = ["train_loss", *self._train_columns(), "lr", *self._val_columns(), "seconds"]
        return pd.DataFrame(
            {"epoch": self.log.epochs()} | {name: self.column(name) for name in names}
        )

    def __len__(self) -> int:
        return len(self.log)

    def __iter__(self) -> Iterator[EpochRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        if not len(self.log):
            return "History: no epoch yet"
        head, *body = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in (head, *body)
        ]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the history as an HTML table, without times; every text in it is escaped."""
        if not len(self.log):
            return "<p>History: no epoch yet</p>"
        head, *body = self._cells()
        titles = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
        lines = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body
        )
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"

    def _repr_html_(self) -> str:
        return self.html()

    def _train_columns(self) -> list[str]:
        return [f"train_{name}" for name in self.train_names]

    def _val_columns(self) -> list[str]:
        return [f"val_{name}" for name in self.metric_names]

    def _cells(self) -> list[list[str]]:
        """Return the titles and then the shown rows, as text."""
        rows, names, train_names = self.rows, self.metric_names, self.train_names
        # Of a long history only the ends are worked out.
        is_long = len(rows) > _SHOWN_WHOLE
        shown = (*rows[:_SHOWN_ENDS], *rows[-_SHOWN_ENDS:]) if is_long else rows
        body = [_row_cells(row, names, train_names) for row in shown]
        if is_long:
            body.insert(_SHOWN_ENDS, ["..."] * len(body[0]))
        titles = ["epoch", "train_loss", *(printable(name) for name in self._train_columns())]
        titles += ["lr", *(printable(name) for name in self._val_columns())]
        return [titles, *body]


def _row_cells(row: EpochRow, names: Iterable[str], train_names: Iterable[str]) -> list[str]:
    val, train = dict(row.val), dict(row.train)
    shown = [fixed(val[name], 4) if name in val else "-" for name in names]
    own = [fixed(train[name], 4) if name in train else "-" for name in train_names]
    return [str(row.epoch), fixed(row.train_loss, 4), *own, fixed(row.lr, 6), *shown]

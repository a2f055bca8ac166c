"""A run as text and as a page without scripts: for terminals, files, and readers without a kernel.

In: a run. Out: lines, or HTML. Invariant: what is said of a run that is over holds no time and no
address, so that it is the same whenever the run is repeated.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Final, final

from workbench.graph.markup import Markup, element, table
from workbench.train.report import bar, printable
from workbench.train.reports import troubles
from workbench.train.store_picture import chart, charts, sentence, short
from workbench.train.store_status import RunStatus, read_status

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["RunText", "live_lines", "record_html", "record_text"]

_BAR: Final = 24
_CHARTS: Final = 4
_METRICS: Final = 8
_TOLD: Final = 5
_END: Final = "\n"


def record_text(run: Run) -> str:
    """Return how a run stands, without times: a line, and what went wrong below it."""
    return "\n".join([_line(run), *_wrong(run)])


def _line(run: Run) -> str:
    status = read_status(run)
    parts = [f"Run {status.status}: epoch {status.epoch} of {status.epochs}, step {status.step}"]
    if not math.isnan(status.loss):
        parts.append(f"loss {short(status.loss)}")
    parts += [f"val_{printable(name)} {short(value)}" for name, value in status.metrics[:_METRICS]]
    if status.best is not None:
        best = status.best
        name = printable(best.metric)
        parts.append(f"best {name} {short(best.value)} at epoch {best.epoch}")
    if status.reason:
        parts.append(status.reason)
    wrong = troubles(run.reports)
    if wrong:
        parts.append(wrong)
    return "; ".join(parts)


def live_lines(run: Run) -> str:
    """Return how a run stands now: a bar, the rate and the time left, the numbers, the curves."""
    status = read_status(run)
    lines = [f"{bar(status.done, status.total, _BAR)}  {_line(run)}"]
    if status.status == "running":
        lines.append(_speed(status))
    lines += _wrong(run)
    lines += [sentence(name, lines) for name, lines in charts(run.store).items()]
    return "\n".join(lines)


def _wrong(run: Run) -> list[str]:
    """Return the latest warnings and errors, a line each."""
    told = [said.report for said in run.store.reports if said.report.severity != "info"]
    lines = [f"{each.severity}: {printable(each.text.partition(_END)[0])}" for each in told]
    latest = list(dict.fromkeys(lines))[-_TOLD:]
    left = len(told) - len(latest)
    return ([f"{left} more, in `run.reports`"] if left > 0 else []) + latest


def _speed(status: RunStatus) -> str:
    rate = "" if math.isnan(status.rate) else f"{status.rate:,.0f} steps/s, "
    left = "the time left is not known yet" if status.left is None else f"{status.left} left"
    return f"{rate}{left}, lr {short(status.lr)}"


def record_html(run: Run) -> str:
    """Return a page of a run that needs no script, no style sheet and no kernel.

    It is made of what sanitisers of notebooks let through: text, ``<img>`` and tables.
    """
    store = run.store
    drawn = charts(store)
    pictures = [
        f"<div>{chart(name, lines, store.done)}</div>"
        for name, lines in list(drawn.items())[:_CHARTS]
    ]
    parts = [f"<p>{escape(_line(run))}</p>", *pictures]
    rows = run.history.rows
    if rows:
        parts.append("<details><summary>Epochs</summary>" + run.history.html() + "</details>")
    parts += _said(run)
    return f"<div>{''.join(parts)}</div>"


def _said(run: Run) -> list[str]:
    """Return what was reported, the actions of people, and the versions of what they edited."""
    actions = run.history.actions[-100:]
    parts = [f"<p>{escape(line)}</p>" for line in _wrong(run)]
    if actions:
        rows = [(str(a.step), element("code", a.code)) for a in actions]
        shown = table(("step", "action"), rows)
        parts.append(f"<details><summary>Actions</summary>{shown.text}</details>")
    if len(run.step_history) > 1:
        versions = [
            element(
                "details",
                element("summary", version.line_of_text()),
                Markup(f"<pre>{escape(version.diff or version.source)}</pre>"),
            )
            for version in run.step_history
        ]
        parts.append(element("details", element("summary", "Versions"), *versions).text)
    return parts


@final
class RunText:
    """A run as text, for where no widget can be shown: looks anew each time it is shown."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __repr__(self) -> str:
        return live_lines(self.run)

    def _repr_html_(self) -> str:
        return record_html(self.run)

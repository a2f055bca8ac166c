"""What a checkpoint is, told without loading its arrays.

In: a path.  Out: an `Inspection`, with a text and an HTML form.  Invariant: every text from the
file is escaped in HTML and shown on one line in text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final, final

from workbench.train.checkpoint_format import PARAMS, open_checkpoint
from workbench.train.container import ArraySpec, Container
from workbench.train.packed_statics import kind_of
from workbench.train.report import fixed, printable

__all__ = ["Inspection", "inspect"]

_SHOWN_PARAMETERS: Final = 12


@final
@dataclass(frozen=True, slots=True, repr=False)
class Inspection:
    """What a checkpoint holds.

    Attributes
    ----------
    path
        The file.
    size_bytes
        Its length.
    document
        Everything in it that is no array, as it was saved: ``format``, ``note``, ``created``,
        ``config``, ``state``, ``val``, ``position``, ``optimizer``, ``callbacks``, ``best``,
        ``extras``, ``environment``.
    parameters
        Type and shape of each parameter, by its path.
    """

    path: str
    size_bytes: int
    document: Mapping[str, Any]
    parameters: Mapping[str, ArraySpec]

    @property
    def epoch(self) -> int:
        """Completed epochs."""
        return int(self.document["state"]["epoch"])

    @property
    def global_step(self) -> int:
        """Updates since the run began."""
        return int(self.document["state"]["global_step"])

    @property
    def metrics(self) -> dict[str, float]:
        """The means of the last evaluation, by name; `measured_step` tells of which parameters."""
        return {name: value for name, value, _ in self.document["val"]}

    @property
    def measured_step(self) -> int | None:
        """The update after which they were measured; None if not for parameters of this run."""
        step = self.document["position"]["measured_step"]
        return None if step is None else int(step)

    @property
    def parameter_count(self) -> int:
        """The number of elements of all parameters."""
        return sum(math.prod(spec.shape) for spec in self.parameters.values())

    def lines(self) -> list[tuple[str, str]]:
        """Return titles and texts, in the order in which they are shown."""
        document = self.document
        state, config, position = document["state"], document["config"], document["position"]
        where = f"epoch {state['epoch']} of {state['epochs']}, step {state['global_step']}"
        if position["in_epoch"]:
            where += f", {position['batches_done']} of {state['batches']} batches into the next one"
        val = "".join(f", val_{name} {fixed(v, 4)}" for name, v in self.metrics.items())
        measured = self.measured_step
        if val and measured != self.global_step:
            when = "for other parameters" if measured is None else f"at step {measured}"
            val += f" (val measured {when})"
        batches = f"{state['rows']} rows, batch size {config['batch_size']}"
        best = document["best"]
        callbacks = document["callbacks"]
        found = [
            ("checkpoint", f"{self.path} ({_size(self.size_bytes)})"),
            ("note", document["note"]),
            ("written", f"{document['created']}, format {document['format']}"),
            ("position", where),
            ("metrics", f"loss {fixed(state['train_loss'], 4)}{val}"),
            (
                "best",
                f"{best['monitor']} {fixed(best['value'], 4)} at epoch {best['epoch']}"
                if best
                else "",
            ),
            ("stopped", _stopped(state, position)),
            ("training", f"{batches}, seed {config['seed']}, lr {state['lr']:.6g}"),
            ("optimizer", _optimizer(document["optimizer"])),
            ("parameters", f"{len(self.parameters)} arrays, {self.parameter_count} elements"),
            ("callbacks", ", ".join(each["name"] for each in callbacks or ())),
            ("made with", _made_with(document["environment"])),
        ]
        return [(title, printable(text)) for title, text in found if text]

    def __repr__(self) -> str:
        lines = [f"{title:<10}  {text}" for title, text in self.lines()]
        shown = list(self.parameters.items())[:_SHOWN_PARAMETERS]
        lines += [f"  {printable(path) or '(root)'}  {spec}" for path, spec in shown]
        if len(self.parameters) > len(shown):
            lines.append(f"  ... and {len(self.parameters) - len(shown)} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = "".join(
            f'<tr><th scope="row">{escape(title)}</th><td>{escape(text)}</td></tr>'
            for title, text in self.lines()
        )
        arrays = "".join(
            f"<tr><td>{escape(printable(path) or '(root)')}</td><td>{escape(spec.dtype)}</td>"
            f"<td>{escape(str(spec.shape))}</td></tr>"
            for path, spec in self.parameters.items()
        )
        head = "".join(f'<th scope="col">{t}</th>' for t in ("parameter", "type", "shape"))
        return (
            f"<table>{facts}</table>"
            f"<details><summary>{len(self.parameters)} parameters</summary>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{arrays}</tbody></table></details>"
        )


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Return what a checkpoint holds, without loading its arrays.

    Only the header is read, so that this is quick whatever the size; damage in the arrays is found
    by `restore`.

    Raises
    ------
    DataError
        If there is no such file, or it is cut short or no checkpoint.
    """
    return inspection_of(open_checkpoint(path))


def inspection_of(file: Container) -> Inspection:
    """Return the inspection of a file whose header was read."""
    prefix = f"{PARAMS}."
    parameters = {
        name.removeprefix(prefix) if name.startswith(prefix) else "": spec
        for name, spec in file.specs.items()
        if name == PARAMS or name.startswith(prefix)
    }
    return Inspection(str(file.path), file.size_bytes, file.document, parameters)


def _stopped(state: Mapping[str, Any], position: Mapping[str, Any]) -> str:
    """Return who ended the run or will, and why; empty if nobody did."""
    pending = position["pending_stop"]
    if state["stop"]:
        waits = ", after this epoch" * (position["in_epoch"] and state["stop_after"] == "epoch")
        return f"by {state['stopped_by']}{waits}: {state['stop_reason']}"
    return "" if pending is None else f"after this epoch: {pending}"


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000.0:
            break
        size, unit = size / 1000.0, larger
    return f"{size:.3g} {unit}"


def _optimizer(statics: list[dict[str, Any]]) -> str:
    numbers = [
        f"{name} {value:.6g}"
        for entry in statics
        for name, value in entry["fields"].items()
        if isinstance(value, (int, float)) and value
    ]
    return ", ".join([kind_of(statics), *numbers])


def _made_with(environment: Mapping[str, str]) -> str:
    names = ("training-workbench", "python", "numpy")
    return ", ".join(f"{name} {environment[name]}" for name in names)

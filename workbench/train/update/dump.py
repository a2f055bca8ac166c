"""A computation as text in a file, to look at or to compare.

In: a computation. Out: a text file. Invariant: the text depends on structure and labels alone, so
that two dumps of one program are the same text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from workbench.assign.assignment import Computation
from workbench.graph.tensor import Tensor, printable
from workbench.runtime.explain import Stage, explain
from workbench.train.atomic_file import as_target, replace_file

__all__ = ["dump", "dumped"]


def dumped(part: Computation, *, stage: Stage = "assign", rows: int = 32) -> str:
    """Return a computation as text: what it declares, then one stage of the pipeline.

    Parameters
    ----------
    part
        What to show.
    stage
        See `explain`.
    rows
        The batch size to reckon with.
    """
    told = (
        ("outputs", part.outputs),
        ("updates", part.updates),
        ("owns the way back from", part.owned),
        ("accumulates into", part.accumulates),
        ("zeroes", part.zeroes),
        ("requires the way back from", part.requires),
    )
    lines = [f"# {printable(part.name) or 'a computation'}"]
    lines += [f"# {what}: {_names(nodes)}" for what, nodes in told if nodes]
    if part.accumulation_runs != 1:
        lines.append(f"# runs between two resets: {part.accumulation_runs}")
    return "\n".join([*lines, "", explain(part, stage=stage, rows=rows), ""])


def dump(
    part: Computation,
    path: str | os.PathLike[str],
    *,
    stage: Stage = "assign",
    rows: int = 32,
) -> Path:
    """Write what `dumped` returns into a text file, and return where it is.

    Parameters
    ----------
    part, stage, rows
        See `dumped`.
    path
        The file; folders that are missing are made.

    Raises
    ------
    DataError
        If the file cannot be written.
    """
    text = dumped(part, stage=stage, rows=rows)

    def write(file: Path) -> None:
        file.write_text(text, encoding="utf-8")

    return replace_file(as_target(path), write, durable=False)


def _names(nodes: Iterable[Tensor]) -> str:
    ordered = sorted(nodes, key=lambda node: node.uid)
    return ", ".join(f"`{printable(node.label or node.op)}`" for node in ordered)

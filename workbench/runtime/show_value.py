"""Values as text: a brief grid for trees, a framed one for a value by itself.

In: an array, or a node and a context that can read it. Out: text. Invariant: at most 5 axes and 5
entries of each are shown, whatever the size, and what is left out is marked by dots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from workbench.graph.extent import Batch, Extent
from workbench.graph.gradient_leaf import gradients_among
from workbench.graph.tensor import Tensor
from workbench.loops.placement import Placement
from workbench.loops.settings import Settings
from workbench.runtime.node_title import title, where
from workbench.runtime.number_format import format_elements, note_non_finite
from workbench.runtime.observe import Observability
from workbench.runtime.text_block import Block, block, framed, stacked

Array = npt.NDArray[Any]

SHOWN_AXES: Final = 5
SHOWN_ENTRIES: Final = 5
DOTS: Final = "..."


class Reader(Protocol):
    """What printers ask of a context; asking changes nothing."""

    @property
    def placements(self) -> Mapping[Tensor, Placement]:
        """Decisions of the lineage."""
        ...

    def observabilities(self, nodes: Iterable[Tensor]) -> list[Observability]:
        """Return how each node can be read."""
        ...

    def read(self, nodes: Sequence[Tensor]) -> list[Array]:
        """Return the values of nodes that can be read, recomputing them together if need be."""
        ...

    def settings_in_force(self) -> Settings:
        """Return the settings."""
        ...


def value_text(
    context: Reader,
    node: Tensor,
    *,
    with_grad: bool = True,
    grads: Mapping[Tensor, Tensor] | None = None,
) -> str:
    """Return a header and a framed grid for the value of ``node``, and for its gradient.

    Parameters
    ----------
    context
        Where to read. A value that cannot be read shows why, and what to do.
    node
        Any tensor.
    with_grad
        Whether to show the gradient, if there is one.
    grads
        Gradients by node, as ``wb.backward`` returns them; by default those that lie in the
        context, see `gradient_of`.
    """
    names, nodes = [title(node)], [node]
    if grads is None:
        grads = gradients_among([node], context.placements)
    if with_grad and node in grads:
        names.append(f"grad_{title(node)}")
        nodes.append(grads[node])
    verdicts = context.observabilities(nodes)
    readable = list(dict.fromkeys(verdict.node for verdict in verdicts if verdict.is_readable))
    values = dict(zip(readable, context.read(readable), strict=True))
    precision = context.settings_in_force().print_precision
    parts: list[str] = []
    for number, (name, verdict) in enumerate(zip(names, verdicts, strict=True)):
        value = values.get(verdict.node)
        if value is None:
            mode = where(context.placements.get(verdict.node))
            header = [f"[{number}]: {name} {show_axes(verdict.node.shape)}", mode]
            parts.append(" ".join(filter(None, header)))
            parts.append(f"{verdict.placeholder}\n{verdict}")
        else:
            header = [f"[{number}]: {name} {show_axes(verdict.node.shape, value.shape)}"]
            parts.append(" ".join(filter(None, [*header, note_non_finite(value)])))
            parts.append(str(framed_grid(value, precision)))
    return "\n".join(parts)


def show_axes(shape: Sequence[Extent], actual: Sequence[int] | None = None) -> str:
    """Return axes with their sizes; a batch axis stands before a bar.

    >>> show_axes((Batch(), 3), (32, 3)), show_axes((4,)), show_axes(())
    ('shape 0:32|1:3', 'shape 0:4', 'shape ()')
    """
    if not shape:
        return "shape ()"
    sizes = shape if actual is None else actual
    entries = [f"{axis}:{size}" for axis, size in enumerate(sizes)]
    batched = [isinstance(extent, Batch) for extent in shape]
    parts = [
        ",".join(
            entry for entry, is_batch in zip(entries, batched, strict=True) if is_batch is side
        )
        for side in (True, False)
    ]
    return f"shape {'|'.join(parts) if any(batched) else parts[1]}"


def brief_grid(array: Array, precision: int = 2) -> list[str]:
    """Return the last two axes as lines without frames; of the axes before, entry 0 is shown.

    >>> brief_grid(np.array([[[1.0, -2.0], [0.25, 4.0]]]))
    [' [0]', '    1.00  -2.00', ' 2.50e-1   4.00']
    """
    if array.size == 0:
        return [" (no elements)"]
    fixed = max(0, array.ndim - 2)
    note = [f" [{', '.join('0' * fixed)}]"] if fixed else []
    return [*note, *_cells(array[(0,) * fixed], precision)]


def framed_grid(array: Array, precision: int = 2) -> Block:
    """Return a grid with frames and the names of its axes.

    The last two axes are rows and columns of a table; the two before them rows and columns of
    tables, the one before those a list. Of the axes before these five, entry 0 is shown.
    """
    if array.size == 0:
        return framed([[block(["no elements"])]])
    shown, fixed = _shown(array)
    grid = _framed_list(shown, fixed, precision)
    if not fixed:
        return grid
    first = "axis 0" if fixed == 1 else f"axes 0 to {fixed - 1}"
    return stacked([block([f"{first} at index 0"]), grid])


def _shown(array: Array) -> tuple[Array, int]:
    fixed = max(0, array.ndim - SHOWN_AXES)
    return array[(0,) * fixed], fixed


def _framed_list(array: Array, axis: int, precision: int) -> Block:
    if array.ndim < SHOWN_AXES:
        return _framed_table(array, axis, precision)
    parts: list[Block] = []
    for position in _entries(array.shape[0]):
        if position is None:
            parts.append(block([DOTS]))
        else:
            parts.append(block([f"axis {axis}: {position}"]))
            parts.append(_framed_table(array[position], axis + 1, precision))
    return stacked(parts)


def _framed_table(array: Array, axis: int, precision: int) -> Block:
    """Return up to 4 axes as one table."""
    rank = array.ndim
    inner_row, inner_column = axis + rank - 2, axis + rank - 1
    across = _entries(array.shape[1]) if rank == 4 else [0]
    down = _entries(array.shape[0]) if rank >= 3 else [0]
    header = [block([""])] * min(2, max(0, rank - 1))
    for column in across:
        name = f"axis {inner_column}" if rank else ""
        if rank == 4:
            name = DOTS if column is None else f"axis {axis + 1}: {column}, {name}"
        header.append(block([name]))
    rows: list[list[Block]] = [header] if rank else []
    for row in down:
        cells: list[Block] = []
        if rank >= 3:
            cells.append(block([DOTS if row is None else f"axis {axis}: {row}"]))
        if rank >= 2:
            cells.append(block(["" if row is None else f"axis {inner_row}"]))
        for column in across:
            outer = (row, column)[: max(0, rank - 2)]
            if any(position is None for position in outer):
                cells.append(block([f" {DOTS} "]))
            else:
                cells.append(block(f"{line} " for line in _cells(array[outer], precision)))
        rows.append(cells)
    return framed(rows)


def _entries(size: int) -> list[int | None]:
    """Return the positions that are shown, None for the dots between them."""
    if size <= SHOWN_ENTRIES:
        return list(range(size))
    ends = SHOWN_ENTRIES // 2
    return [*range(ends), None, *range(size - ends, size)]


def _cells(array: Array, precision: int) -> list[str]:
    """Return an array of up to 2 axes as lines of aligned numbers, a blank before each line."""
    table = np.asarray(array).reshape((1,) * (2 - array.ndim) + array.shape)
    columns = _entries(table.shape[1])
    shown = [column for column in columns if column is not None]
    texts: list[list[str]] = []
    for row in _entries(table.shape[0]):
        if row is None:
            texts.append([DOTS] * len(columns))
            continue
        texts.append(format_elements(table[row, shown], precision))
        if len(shown) < len(columns):
            texts[-1].insert(columns.index(None), DOTS)
    widths = [max(len(line[column]) for line in texts) for column in range(len(columns))]
    return [
        " " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in texts
    ]

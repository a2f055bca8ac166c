"""Values of nodes in a file, by their labels.

In: a context and nodes. Out: a safetensors file that any reader opens, and contexts with what it
holds. Invariant: what does not fit is refused with both sides named; then nothing was changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from workbench.errors import DataError
from workbench.graph.elementwise import describe
from workbench.graph.extent import show_shape
from workbench.graph.leaf import parameter
from workbench.graph.nodes import nodes_from
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.atomic_file import as_target, replace_file
from workbench.train.container import open_container, write_container

__all__ = ["load_values", "restore_values", "save_values"]

_KIND: Final = "values of nodes"


def save_values(
    ctx: Context, nodes: Iterable[Tensor], path: str | os.PathLike[str], *, append: bool = False
) -> Path:
    """Write the values of ``nodes`` into a file, by their labels.

    Save ``wb.loss_params(loss)``, which holds frozen parameters as well, rather than only those
    that are trained.

    Parameters
    ----------
    ctx
        Where the values are read.
    nodes
        Any nodes with labels that differ.
    path
        The file; it is replaced whole or not at all.
    append
        Whether what the file holds stays: values of the same label are replaced.

    Returns
    -------
    Path
        Where the file really is.

    Raises
    ------
    DataError
        If a label is missing or there twice, or the file to append to holds something else.
    NotReadableError
        If a node has no value here.
    """
    named = _by_label(nodes)
    target = as_target(path)
    kept: dict[str, npt.NDArray[Any]] = {}
    if append and target.exists():
        kept = dict(_arrays(target))
    values = dict(zip(named, ctx.read(list(named.values())), strict=True))
    arrays = {**kept, **values}
    return replace_file(target, lambda file: write_container(file, arrays, {"kind": _KIND}))


def load_values(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return a new parameter for each value of a file, by its label.

    Raises
    ------
    DataError
        If the file is damaged or holds something else.
    """
    return {name: parameter(array, name) for name, array in _arrays(as_target(path)).items()}


def restore_values(ctx: Context, nodes: Iterable[Tensor], path: str | os.PathLike[str]) -> Context:
    """Return ``ctx`` in which ``nodes`` have the values of a file.

    Raises
    ------
    DataError
        If a label is missing in the file, or its value has another type or shape; or if the file
        is damaged or holds something else.
    """
    target = as_target(path)
    arrays = _arrays(target)
    found: dict[Tensor, npt.NDArray[Any]] = {}
    for label, node in _by_label(nodes).items():
        array = arrays.get(label)
        if array is None:
            held = ", ".join(f"`{name}`" for name in arrays) or "nothing"
            raise DataError(
                f"`{target}` holds no value of `{label}`; it holds {held}",
                remedy="restore nodes of the labels that were saved",
            )
        if array.shape != node.shape or array.dtype != node.dtype.numpy:
            raise DataError(
                f"`{target}` holds `{label}` of shape {show_shape(array.shape)} and type "
                f"{array.dtype}, and the node is {describe(node)}",
                remedy="make the node as it was when it was saved",
            )
        found[node] = array
    return ctx.set_values(found)


def _by_label(nodes: Iterable[Tensor]) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {}
    for node in nodes_from("nodes", nodes):
        if not node.label:
            raise DataError(
                f"{describe(node)} has no label to be found by",
                remedy="give it one where it is made, or with `.named(label)`",
            )
        if named.setdefault(node.label, node) is not node:
            raise DataError(
                f"two nodes are labelled `{node.label}`: {describe(named[node.label])} and "
                f"{describe(node)}",
                remedy="give each a label of its own",
            )
    return named


def _arrays(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    file = open_container(path)
    if file.document.get("kind") != _KIND:
        raise DataError(
            f"`{path}` was not written by `save_values`",
            remedy="read checkpoints with `wb.restore`, and parameters with `wb.load_parameters`",
        )
    return file.arrays()

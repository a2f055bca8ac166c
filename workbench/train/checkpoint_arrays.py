"""The arrays of a tree in a checkpoint, by the paths of its leaves.

In: a tree's leaves, and the arrays of a file.  Out: their names; and those of the tree, in its
order.  Invariant: an array that is missing, left over or of another shape or type is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy.typing as npt

from workbench.errors import DataError
from workbench.train.trace import Leaves
from workbench.train.tree import Structure, paths

__all__ = ["below", "fitting", "leaf_paths", "names_of"]

Array = npt.NDArray[Any]


def names_of(prefix: str, leaves: Leaves) -> list[str]:
    """Return the names of a tree's arrays in a checkpoint, in the order of its leaves."""
    return [f"{prefix}.{path}" if path else prefix for path in leaf_paths(leaves.structure)]


@lru_cache(maxsize=8)
def leaf_paths(structure: Structure) -> tuple[str, ...]:
    """Return the paths of a tree's leaves, of which no two are written alike."""
    found = tuple(paths(structure))
    if len(set(found)) < len(found):
        twice = next(path for path in found if found.count(path) > 1)
        raise DataError(
            f"two leaves of the tree are both written `{twice}`",
            remedy="use keys that differ as text",
        )
    return found


def fitting(leaves: Leaves, arrays: Mapping[str, Array], prefix: str, what: str) -> list[Array]:
    """Return the arrays of a tree in its order, or refuse the first that does not fit."""
    names = names_of(prefix, leaves)
    found: list[Array] = []
    for name, tensor in zip(names, leaves.tensors, strict=True):
        path = name.removeprefix(f"{prefix}.")
        if name not in arrays:
            raise DataError(
                f"the checkpoint has no {what} `{path}`, which this run has",
                remedy="make the run with the model and the optimizer that were saved",
            )
        array = arrays[name]
        held = f"{array.dtype} {array.shape}"
        wanted = f"{tensor.dtype.numpy} {tensor.shape}"
        if held != wanted:
            raise DataError(
                f"the {what} `{path}` is {held} in the checkpoint and {wanted} in this run",
                remedy="make the run with the model and the optimizer that were saved",
            )
        found.append(array)
    extra = [n for n in arrays if (n == prefix or n.startswith(f"{prefix}.")) and n not in names]
    if extra:
        raise DataError(
            f"the checkpoint has a {what} `{extra[0].removeprefix(f'{prefix}.')}` that this run "
            "lacks",
            remedy="make the run with the model and the optimizer that were saved",
        )
    return found


def below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with ``prefix``, by the rest of their names."""
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}

"""One node or several, wherever nodes are asked for.

In: whatever was given. Out: tensors. Invariant: one tensor is one node, never its slices, although
a tensor can be iterated over; a name is no node, and is refused rather than ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from workbench.arguments import refusal
from workbench.errors import GraphError, WorkbenchError
from workbench.graph.tensor import Tensor

__all__ = ["node_from", "node_keys_from", "nodes_from"]

Values = TypeVar("Values", bound=Mapping[Any, Any])


def node_from(what: str, given: object) -> Tensor:
    """Return the tensor that was given.

    Parameters
    ----------
    what
        What the argument is called.
    given
        Whatever was given.

    Raises
    ------
    GraphError
        If it is no tensor: a name, an array, a list.
    """
    if isinstance(given, Tensor):
        return given
    raise _refusal(what, "a tensor", given)


def nodes_from(what: str, given: object) -> tuple[Tensor, ...]:
    """Return the tensors that were given, in their order; one tensor is a tuple of one.

    Parameters
    ----------
    what
        What the argument is called.
    given
        One tensor, or an iterable of tensors.

    Raises
    ------
    GraphError
        If it is neither.

    Examples
    --------
    >>> import workbench as wb
    >>> x = wb.input("x", (3,))
    >>> nodes_from("nodes", x) == (x,)
    True
    """
    if isinstance(given, Tensor):
        return (given,)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise _refusal(what, "a tensor or several", given)
    listed = tuple(cast("Iterable[object]", given))
    for each in listed:
        if not isinstance(each, Tensor):
            raise _refusal(what, "a tensor or several", each)
    return cast("tuple[Tensor, ...]", listed)


def node_keys_from(what: str, given: Values) -> Values:
    """Return a mapping whose keys are tensors, as it is.

    Raises
    ------
    GraphError
        If it is no mapping, or a key is no tensor.
    """
    untyped = cast("object", given)
    if not isinstance(untyped, Mapping):
        raise _refusal(what, "a mapping from tensors", given)
    for each in cast("Mapping[object, object]", untyped):
        if not isinstance(each, Tensor):
            raise _refusal(what, "a mapping from tensors", each)
    return given


def _refusal(what: str, must: str, given: object) -> WorkbenchError:
    remedy = (
        "pass the tensor itself: a label is for people, and several nodes may have it"
        if isinstance(given, str)
        else "pass what `wb.parameter`, `wb.input` or an operation returned"
    )
    return refusal(what, must, given, remedy=remedy, kind=GraphError)

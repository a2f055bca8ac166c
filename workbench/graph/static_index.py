"""Static indices: whole numbers that a launch binds, each below an extent declared beforehand.

In: a label and an extent. Out: a scalar leaf. Invariant: it has no value outside a launch; what it
is bound to is read when a routine is run, not when it is compiled.
"""

from __future__ import annotations

from workbench.errors import ShapeError
from workbench.graph.dtype import DType
from workbench.graph.extent import whole_number
from workbench.graph.tensor import Tensor, make_leaf

_BELOW = "below"


def static_index(label: str, extent: int) -> Tensor:
    """Return an int64 scalar to which every run binds a number from 0 to ``extent`` - 1.

    Use it to choose rows with `take`, or in arithmetic. `Context.compile` takes the mapping that
    the number is read from at each run.

    Parameters
    ----------
    label
        Name for people.
    extent
        How many values it can have, 1 or more.

    Raises
    ------
    ShapeError
        If ``extent`` is no whole number of at least 1.

    Examples
    --------
    >>> import workbench as wb
    >>> number = wb.static_index("number", 3)
    >>> table = wb.parameter([10.0, 20.0, 30.0], "table")
    >>> chosen = wb.take(table, number)
    >>> bindings = {number: 0}
    >>> ctx, routine = wb.Context.interpreter().compile([chosen], bindings=bindings)
    >>> for bindings[number] in range(3):
    ...     print(ctx.run(routine).get_values(chosen))
    10.0
    20.0
    30.0
    """
    count = whole_number(extent)
    if count is None or count < 1:
        raise ShapeError(
            f"the static index `{label}` has the extent {extent!r}",
            remedy="give a whole number of at least 1: the index takes the values below it",
        )
    return make_leaf("input", (), DType.I64, label, attributes={_BELOW: count})


def declared_extent(node: Tensor) -> int | None:
    """Return the extent of a static index, None for any other node."""
    for key, value in node.attributes:
        if key == _BELOW and node.op == "input":
            assert isinstance(value, int)
            return value
    return None

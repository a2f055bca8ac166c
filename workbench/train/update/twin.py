"""Parameters in 16 bits for the forward pass, with float32 masters that the optimizer steps.

In: a parameter. Out: the same values narrowed. Invariant: gradients are added up in the type that
the master is computed in, whatever the twin's type is.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from workbench.errors import ConfigurationError, DTypeError
from workbench.graph.dtype import as_dtype
from workbench.graph.elementwise import cast, describe
from workbench.graph.tensor import Tensor
from workbench.loops.intent import set_materialized, set_virtual

__all__ = ["cast_twin"]


Kept: TypeAlias = Literal["auto", "virtual", "materialized"]


def cast_twin(
    master: Tensor, dtype: object, *, gradient: object = None, placement: Kept = "auto"
) -> Tensor:
    """Return ``master`` narrowed to ``dtype``, under its own label.

    Use it in the model in the place of the parameter: ``x @ cast_twin(w, "bfloat16")``. Gradients
    and optimizers go on with the parameter itself.

    Parameters
    ----------
    master
        A floating parameter.
    dtype
        The type of the twin, such as ``"bfloat16"`` or ``"float16"``.
    gradient
        The type that the twin's own gradient is rounded to before it reaches the master. By
        default it is not rounded: it is float32 for a 16-bit twin. ``"float16"`` is what other
        engines store; gradients beyond 65504 are infinite then, which a loss scale has to mind.
    placement
        Whether the twin is stored (``"materialized"``: narrowed once a run), narrowed wherever it
        is read (``"virtual"``), or as the compiler decides.

    Raises
    ------
    ConfigurationError
        If the placement has another name.
    DTypeError
        If the parameter or a type is not floating.
    """
    target = as_dtype(dtype)
    rounded = None if gradient is None else as_dtype(gradient)
    for what, found in (("master", master.dtype), ("twin", target), ("gradient", rounded)):
        if found is not None and not found.is_float:
            raise DTypeError(
                f"the {what} of {describe(master)} would be {found}",
                remedy="narrow floating parameters to floating types",
            )
    if placement not in get_args(Kept):
        raise ConfigurationError(
            f"the placement of the twin of {describe(master)} is {placement!r}",
            remedy=f"use one of {', '.join(get_args(Kept))}",
        )
    made = cast(master, target, gradient=rounded)
    if made is master:
        return made
    twin = made.named(master.label)
    if placement != "auto":
        (set_virtual if placement == "virtual" else set_materialized)(twin)
    return twin

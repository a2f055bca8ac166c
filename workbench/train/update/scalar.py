"""Numbers that live on the device and that the host may overwrite: rates, scales, sums of losses.

In: a label and a first value. Out: state leaves of shape ``()``. Invariant: such a number is state,
not a constant, so that no run of a routine puts back what it was made with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from workbench.arguments import function_from, instance_from, number_from
from workbench.errors import DTypeError, ShapeError
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.elementwise import cast, describe
from workbench.graph.leaf import constant, state
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context

__all__ = [
    "Schedule",
    "ScheduledRate",
    "as_gate",
    "host_scalar",
    "loss_accumulator",
    "rate_of",
    "scalar_of",
    "scheduled_learning_rate",
]

Schedule: TypeAlias = Callable[[int], float]
"""The learning rate at a step, counted from 0: a `BudgetRate` or any function of that form."""


def host_scalar(label: str, value: float, dtype: object = "float32") -> Tensor:
    """Return a number of shape ``()`` that the host may overwrite with ``ctx.set_values``.

    Parameters
    ----------
    label
        Name for people.
    value
        What it is until somebody overwrites it.
    dtype
        Element type, a floating one.

    Raises
    ------
    DTypeError
        If the type is not floating.
    """
    element = as_dtype(dtype)
    number_from("value", value)
    if not element.is_float:
        raise DTypeError(
            f"host_scalar: `{label}` would be {element}",
            remedy="use a floating type; for a count, `wb.state` takes any",
        )
    return state(label, (), element, value)


def loss_accumulator(label: str = "loss sum", dtype: object = "float64") -> Tensor:
    """Return a sum of losses on the device, for ``grad_update(loss, accum_loss=...)``.

    It is float64 whatever the losses are: a loss of 1 adds nothing to a float32 sum of 2**24.

    Read it with ``ctx.get_values`` and reset it with ``ctx.set_values({sum: 0.0})``, say once an
    epoch: a loss that is read after each step makes the host wait for each step.
    """
    return host_scalar(label, 0.0, dtype)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScheduledRate:
    """A learning rate on the device that follows a schedule of the host.

    Attributes
    ----------
    rate
        The leaf; pass it as ``learning_rate``.
    schedule
        The rate at a step counted from 0.
    """

    rate: Tensor
    schedule: Schedule

    def set_step(self, ctx: Context, step: int) -> Context:
        """Return ``ctx`` with the rate of ``step``; call it before the step is run."""
        return ctx.set_values({self.rate: self.schedule(step)})


def scheduled_learning_rate(
    schedule: Schedule, label: str = "learning rate", dtype: object = "float32"
) -> ScheduledRate:
    """Return a learning rate that follows ``schedule``, and what sets it for a step.

    Parameters
    ----------
    schedule
        From a step, counted from 0, to a rate: a `BudgetRate`, `CosineRate`, ... or a function.
    label
        Name for people.
    dtype
        Element type of the rate.

    Examples
    --------
    >>> import workbench as wb
    >>> scheduled = scheduled_learning_rate(wb.BudgetRate(1.0, 25, warmup=5, final_frac=0.1))
    >>> ctx = scheduled.set_step(wb.Context.interpreter(), 15)
    >>> round(float(ctx.get_values(scheduled.rate)), 6)
    0.55
    """
    function_from("schedule", schedule, "schedule(step)")
    return ScheduledRate(host_scalar(label, schedule(0), dtype), schedule)


def rate_of(lr: Tensor | float, name: str = "learning_rate") -> Tensor:
    """Return a learning rate as a float64 tensor of shape ``()``; ``name`` is that of the argument.

    Raises
    ------
    ConfigurationError
        If it is a number that is negative or not finite, or no number.
    ShapeError
        If it is a tensor of another shape, or not floating.
    """
    if not isinstance(lr, Tensor):
        return constant(number_from(name, lr, 0.0), dtype=DType.F64)
    if lr.shape != () or not lr.dtype.is_float:
        raise ShapeError(
            f"the learning rate is {describe(lr)}, not a floating scalar",
            remedy="pass a number, or a floating tensor of shape ()",
        )
    return lr.astype(DType.F64)


def scalar_of(value: Tensor | float, what: str) -> Tensor:
    """Return a factor as a tensor of shape ``()``; ``what`` is its name in an error.

    Raises
    ------
    ConfigurationError
        If it is no finite number.
    ShapeError
        If it is a tensor of another shape, or not floating.
    """
    if not isinstance(value, Tensor):
        return constant(number_from(what, value), dtype=DType.F64)
    if value.shape != () or not value.dtype.is_float:
        raise ShapeError(
            f"{what} is {describe(value)}, not a floating scalar",
            remedy="pass a floating tensor of shape (), such as `wb.host_scalar` makes",
        )
    return value


def as_gate(gate: Tensor) -> Tensor:
    """Return a gate as a bool of shape ``()``: open where it is true, or not 0.

    Raises
    ------
    ShapeError
        If it has another shape.
    """
    gate = instance_from(
        "update_gate", gate, Tensor, "a tensor of shape ()", remedy="pass a scalar of the graph"
    )
    if gate.shape != ():
        raise ShapeError(
            f"the gate is {describe(gate)}, not a scalar",
            remedy="open or close a step as a whole: reduce the gate to shape () first, as with "
            "`.min()`",
        )
    return gate if gate.dtype is DType.BOOL else cast(gate, DType.F32) != 0.0

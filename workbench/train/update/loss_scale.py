"""The scale of a loss in 16 bits: up after a run of finite gradients, down when they overflow.

In: whether the gradients of a step were finite. Out: the next scale. Invariant: host and device
follow one policy.

Scale gradients so that small ones survive 16 bits (Micikevicius et al., ICLR 2018): a scale that
overflows costs one skipped step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from workbench.arguments import number_from, whole_from
from workbench.errors import ConfigurationError
from workbench.graph.elementwise import logical_and, maximum, minimum, where
from workbench.graph.tensor import Tensor
from workbench.runtime.context import Context
from workbench.train.update.scalar import host_scalar

__all__ = ["LossScaler", "ScalePolicy"]


@final
@dataclass(frozen=True, slots=True)
class ScalePolicy:
    """How a loss scale moves.

    Attributes
    ----------
    growth
        What the scale is multiplied by after ``growth_interval`` finite steps, 1 or more.
    backoff
        What it is multiplied by after a step that is not finite, above 0 and at most 1.
    growth_interval
        Finite steps between two growths, 1 or more.
    least, greatest
        Bounds of the scale.

    Raises
    ------
    ConfigurationError
        If one of them is out of range.
    """

    growth: float = 2.0
    backoff: float = 0.5
    growth_interval: int = 200
    least: float = 0.0
    greatest: float = math.inf

    def __post_init__(self) -> None:
        number_from("growth", self.growth, 1.0)
        if number_from("backoff", self.backoff, 0.0, open_end=True) > 1.0:
            raise ConfigurationError(
                f"backoff is {self.backoff}; it is at most 1", remedy="use a number such as 0.5"
            )
        whole_from("growth_interval", self.growth_interval, 1)

    def advanced(self, scale: float, good: int, steps: int) -> tuple[float, int]:
        """Return scale and count after ``steps`` finite steps; what is over counts on."""
        good += steps
        while good >= self.growth_interval:
            good -= self.growth_interval
            scale = min(scale * self.growth, self.greatest)
        return scale, good

    def backed_off(self, scale: float) -> float:
        """Return the scale after a step that was not finite."""
        return max(scale * self.backoff, self.least)

    def advanced_on_device(
        self, scale: Tensor, good: Tensor, finite: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return scale and count after one step, as tensors of shape ``()``.

        Parameters
        ----------
        scale, good
            Before it; the count is an integer.
        finite
            Whether its gradients were finite, bool.
        """
        counted = good + 1
        grows = counted >= self.growth_interval
        up = where(grows, minimum(scale * self.growth, self.greatest), scale)
        down = maximum(scale * self.backoff, self.least)
        return where(finite, up, down), where(logical_and(finite, ~grows), counted, 0)


@final
class LossScaler:
    """A loss scale on the device, whose course the host decides.

    Parameters
    ----------
    scale
        The first scale, above 0; a power of two, so that no digit is lost.
    dynamic
        Whether the scale moves; a static one stays.
    growth, backoff, growth_interval
        See `ScalePolicy`.
    label
        Name of the scale for people.

    Attributes
    ----------
    scale, unscale
        Leaves with the scale and its reciprocal: ``grad_update(loss, loss_scale=s.scale)`` and
        ``sgd_update(loss, grad_unscale=s.unscale)``.
    value
        The scale.
    good
        Finite steps since it last grew or fell.

    Raises
    ------
    ConfigurationError
        If a number is out of range.

    Examples
    --------
    >>> import workbench as wb
    >>> scaler = LossScaler(8.0, growth_interval=2)
    >>> ctx = wb.Context.interpreter()
    >>> for finite in (True, True, False):
    ...     ctx = scaler.update(ctx, finite=finite)
    ...     print(scaler.value, float(ctx.get_values(scaler.unscale)))
    8.0 0.125
    16.0 0.0625
    8.0 0.125
    """

    def __init__(
        self,
        scale: float = 65536.0,
        *,
        dynamic: bool = True,
        growth: float = 2.0,
        backoff: float = 0.5,
        growth_interval: int = 200,
        label: str = "loss scale",
    ) -> None:
        self.value = number_from("scale", scale, 0.0, open_end=True)
        self.dynamic = dynamic
        self.policy = ScalePolicy(growth, backoff, growth_interval)
        self.good = 0
        self.scale = host_scalar(label, self.value)
        self.unscale = host_scalar(f"{label} reciprocal", 1.0 / self.value)

    def update(self, ctx: Context, *, finite: bool, steps: int = 1) -> Context:
        """Return ``ctx`` with the scale that follows.

        Parameters
        ----------
        ctx
            Where the scale lies.
        finite
            Whether the gradients of all ``steps`` steps were finite.
        steps
            How many steps were made since the last call, 1 or more.
        """
        steps = whole_from("steps", steps, 1)
        if not self.dynamic:
            return ctx
        before = self.value
        if finite:
            self.value, self.good = self.policy.advanced(self.value, self.good, steps)
        else:
            self.value, self.good = self.policy.backed_off(self.value), 0
        known = self.scale in ctx.initialized and self.unscale in ctx.initialized
        return ctx if known and self.value == before else self.write(ctx)

    def write(self, ctx: Context) -> Context:
        """Return ``ctx`` with the scale and its reciprocal as they are now."""
        return ctx.set_values({self.scale: self.value, self.unscale: 1.0 / self.value})

    def state(self) -> dict[str, float]:
        """Return what a checkpoint has to keep: plain numbers."""
        return {"scale": self.value, "good": self.good}

    def restore(self, ctx: Context, state: Mapping[str, float]) -> Context:
        """Take back what `state` returned, and return ``ctx`` with that scale."""
        self.value = number_from("scale", state["scale"], 0.0, open_end=True)
        self.good = whole_from("good", state["good"], 0)
        return self.write(ctx)

    def __repr__(self) -> str:
        kind = "dynamic" if self.dynamic else "static"
        return f"<LossScaler: {kind}, {self.value:g}, {self.good} finite steps>"

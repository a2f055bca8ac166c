"""What an optimizer does to one parameter: gradient descent, with a buffer or a velocity.

In: a parameter, its gradient, what the rule remembers, and the pace of the step. Out: their new
values, as tensors. Invariant: a rule is arithmetic alone; where memory lies and when a step is
skipped is the caller's affair, so that the loop and the code builders share every formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, TypeAlias, cast, final

from workbench.arguments import number_from, share_from, truth_from
from workbench.graph.elementwise import cast as convert
from workbench.graph.tensor import Tensor

__all__ = ["Pace", "Rule", "Sgd", "Slots", "Velocity", "check_rule", "decayed", "updated"]

_SHARES: Final = frozenset({"b1", "b2", "decay", "momentum", "mu"})
"""Hyper-parameters that say how much of the past is kept: from 0 to below 1."""

Slots: TypeAlias = Mapping[str, Tensor]
"""What a rule remembers of one parameter, by the name of the slot."""

Pace: TypeAlias = Mapping[str, Tensor]
"""What a step needs once for all parameters: float64 scalars, by name."""


class Rule(Protocol):
    """An optimizer's formula, with its hyper-parameters."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of what is remembered of each parameter; each begins at zero."""
        ...

    @property
    def counts(self) -> bool:
        """Whether updates are counted."""
        ...

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return what the step needs once.

        Parameters
        ----------
        lr
            The learning rate, float64 of shape ``()``.
        t
            The number of this update, from 1, int64; None if the rule does not count.
        """
        ...

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter and the new slots.

        Parameters
        ----------
        p, g
            Parameter and gradient, of one shape and type.
        slots
            One tensor like ``p`` for each of `slots`.
        pace
            From `pace`.
        """
        ...


def updated(
    rule: Rule, p: Tensor, g: Tensor, slots: Slots, pace: Pace, scale: Tensor | None = None
) -> tuple[Tensor, Slots]:
    """Return the new parameter and slots, for a parameter of any floating type.

    A parameter that is stored in 16 bits is stepped in float32 and rounded once.

    Parameters
    ----------
    rule
        What to do.
    p, g, slots, pace
        See `Rule.step`; ``g`` is of the type that ``p`` is computed in.
    scale
        What the gradient is multiplied by as it is read, shape ``()``.
    """
    gradient = g if scale is None else g * convert(scale, g.dtype)
    new, after = rule.step(convert(p, g.dtype), gradient, slots, pace)
    return convert(new, p.dtype), after


def decayed(p: Tensor, g: Tensor, weight_decay: float) -> Tensor:
    """Return the gradient of the loss and of half the squared parameter, ``g + weight_decay * p``.

    Weight decay of this form is coupled: a rule that divides by moments divides it as well.
    """
    return g + weight_decay * p if weight_decay else g


def check_rule(rule: object) -> None:
    """Refuse hyper-parameters out of range, whoever makes the rule of them.

    Raises
    ------
    ConfigurationError
        Naming the first one and its value.
    """
    for field in fields(cast("Any", rule)):
        value = getattr(rule, field.name)
        if field.name in _SHARES:
            value = share_from(field.name, value, below_one=True)
        elif field.name in ("eps", "weight_decay"):
            value = number_from(field.name, value, 0.0)
        else:
            value = truth_from(field.name, value)
        # A rule is frozen; numpy's numbers become Python's, which go into files.
        object.__setattr__(rule, field.name, value)


@final
@dataclass(frozen=True, slots=True)
class Sgd:
    """Gradient descent, with a buffer of past gradients if ``momentum`` is above 0.

    ``d = g + weight_decay * p``; with momentum ``m = momentum * m + d`` and then ``d = m``, or with
    ``nesterov`` ``d = d + momentum * m``; at last ``p = p - lr * d``. The buffer holds gradients,
    not steps: a change of the rate acts on all of it at once (Sutskever et al., ICML 2013, in the
    form of PyTorch, without dampening).
    """

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_rule(self)

    @property
    def slots(self) -> tuple[str, ...]:
        """The buffer, if there is one."""
        return ("m",) if self.momentum > 0.0 else ()

    @property
    def counts(self) -> bool:
        """It does not."""
        return False

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return the rate."""
        return {"lr": lr}

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter and buffer."""
        delta, after = decayed(p, g, self.weight_decay), dict(slots)
        if self.momentum > 0.0:
            after["m"] = self.momentum * slots["m"] + delta
            delta = delta + self.momentum * after["m"] if self.nesterov else after["m"]
        return p - convert(pace["lr"], p.dtype) * delta, after


@final
@dataclass(frozen=True, slots=True)
class Velocity:
    """Gradient descent that remembers its steps: ``m = mu * m - lr * g``, then ``p + m``.

    A change of the rate acts on later gradients only (Polyak's heavy ball).
    """

    mu: float = 0.9

    def __post_init__(self) -> None:
        check_rule(self)

    @property
    def slots(self) -> tuple[str, ...]:
        """The velocity."""
        return ("m",)

    @property
    def counts(self) -> bool:
        """It does."""
        return True

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return the rate."""
        return {"lr": lr}

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter and velocity."""
        velocity = self.mu * slots["m"] - convert(pace["lr"], g.dtype) * g
        return p + velocity, {"m": velocity}

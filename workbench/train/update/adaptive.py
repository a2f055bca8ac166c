"""Rules that give each element a pace of its own: Adam, AdamW, RMSprop and Lion.

In and out: as for ``rule``. Invariant: what a step needs once, such as Adam's bias corrections, is
a float64 scalar, and an element costs no division beyond the rule's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from workbench.graph.dtype import DType
from workbench.graph.elementwise import cast, sign, sqrt, square
from workbench.graph.tensor import Tensor
from workbench.train.update.rule import Pace, Slots, check_rule, decayed

__all__ = ["Adam", "Lion", "RmsProp"]


@final
@dataclass(frozen=True, slots=True)
class Adam:
    """Adam, and AdamW if ``decoupled``.

    With ``t`` counted from 1::

        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    ``weight_decay`` adds ``weight_decay * p`` to the gradient, or if ``decoupled`` shrinks the
    parameter by ``lr * weight_decay`` of itself. With ``nesterov`` the numerator is what the first
    moment will be after one more such gradient: ``b1 * m / (1 - b1**(t+1)) + (1 - b1) * g / (1 -
    b1**t)``.

    Sources: Kingma and Ba, ICLR 2015, algorithm 1 (epsilon outside the root, after the correction);
    Loshchilov and Hutter, ICLR 2019, algorithm 2; Dozat, ICLR 2016 workshop, with a constant b1.
    """

    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_rule(self)

    @property
    def slots(self) -> tuple[str, ...]:
        """First and second moments."""
        return ("m", "v")

    @property
    def counts(self) -> bool:
        """It does: the corrections depend on it."""
        return True

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return the rate with the corrections in it."""
        assert t is not None, "the rule counts"
        # In float64: 1 - 0.999**t keeps three digits of a float32 in the first steps.
        steps = t.astype(DType.F64)
        paces = {
            "lr": lr / (1.0 - self.b1**steps),
            "unbias": 1.0 / sqrt(1.0 - self.b2**steps),
        }
        if self.nesterov:
            paces["ahead"] = lr * self.b1 / (1.0 - self.b1 ** (steps + 1.0))
            paces["now"] = paces["lr"] * (1.0 - self.b1)
        if self.decoupled and self.weight_decay:
            paces["keep"] = 1.0 - lr * self.weight_decay
        return paces

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter and moments."""
        if not self.decoupled:
            g = decayed(p, g, self.weight_decay)
        elif self.weight_decay:
            p = p * cast(pace["keep"], p.dtype)
        m = self.b1 * slots["m"] + (1.0 - self.b1) * g
        v = self.b2 * slots["v"] + (1.0 - self.b2) * square(g)
        if self.nesterov:
            top = cast(pace["ahead"], p.dtype) * m + cast(pace["now"], p.dtype) * g
        else:
            top = cast(pace["lr"], p.dtype) * m
        # sqrt(v / c) = sqrt(v) * (1 / sqrt(c)): the corrections leave one division an element.
        new = p - top / (sqrt(v) * cast(pace["unbias"], p.dtype) + self.eps)
        return new, {"m": m, "v": v}


@final
@dataclass(frozen=True, slots=True)
class RmsProp:
    """RMSprop, with momentum if ``momentum`` is above 0.

    With ``d = g + weight_decay * p``: ``v = decay * v + (1 - decay) * d * d``, and then the step of
    `Sgd` for the gradient ``d / (sqrt(v) + eps)``. Source: Tieleman and Hinton, lecture 6.5 of
    "Neural networks for machine learning", 2012, with epsilon outside the root as in PyTorch.
    """

    decay: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_rule(self)

    @property
    def slots(self) -> tuple[str, ...]:
        """The mean square, and the buffer if there is one."""
        return ("m", "v") if self.momentum > 0.0 else ("v",)

    @property
    def counts(self) -> bool:
        """It does not."""
        return False

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return the rate."""
        return {"lr": lr}

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter, mean square and buffer."""
        g = decayed(p, g, self.weight_decay)
        v = self.decay * slots["v"] + (1.0 - self.decay) * square(g)
        delta, after = g / (sqrt(v) + self.eps), {"v": v}
        if self.momentum > 0.0:
            after["m"] = self.momentum * slots["m"] + delta
            delta = delta + self.momentum * after["m"] if self.nesterov else after["m"]
        return p - cast(pace["lr"], p.dtype) * delta, after


@final
@dataclass(frozen=True, slots=True)
class Lion:
    """Lion: the sign of a gradient that is averaged with its past.

    ``u = sign(b1 * m + (1 - b1) * g)``, ``p = p - lr * (u + weight_decay * p)``, and then ``m = b2
    * m + (1 - b2) * g``. Source: Chen et al., "Symbolic discovery of optimization algorithms",
    NeurIPS 2023, algorithm 2.
    """

    b1: float = 0.9
    b2: float = 0.99
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_rule(self)

    @property
    def slots(self) -> tuple[str, ...]:
        """The averaged gradient."""
        return ("m",)

    @property
    def counts(self) -> bool:
        """It does not."""
        return False

    def pace(self, lr: Tensor, t: Tensor | None) -> Pace:
        """Return the rate."""
        return {"lr": lr}

    def step(self, p: Tensor, g: Tensor, slots: Slots, pace: Pace) -> tuple[Tensor, Slots]:
        """Return the new parameter and average."""
        direction = sign(self.b1 * slots["m"] + (1.0 - self.b1) * g)
        new = p - cast(pace["lr"], p.dtype) * decayed(p, direction, self.weight_decay)
        return new, {"m": self.b2 * slots["m"] + (1.0 - self.b2) * g}

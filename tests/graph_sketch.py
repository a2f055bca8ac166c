"""A random graph while it is drawn: chance, the leaves, and what is known of every tensor so far.

In: a source of chance. Out: tensors with their bound and grid. Invariant: exactness is followed
through the graph. A value is known to be a multiple of ``2**-grid`` and at most ``bound``, and sums
and products of such values are exact while ``bound * 2**grid`` fits the mantissa of a float32.
"""

import itertools
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.graph.dtype import DType
from workbench.graph.extent import Batch, Extent, Shape, batch, resolve_shape
from workbench.graph.leaf import constant, input_, parameter
from workbench.graph.tensor import Tensor

Array = npt.NDArray[Any]

MANTISSA_BITS = 24  # of float32: integers up to 2**24 are exact
MAX_ELEMENTS = 300
MAX_BOUND = 8.0


@dataclass(frozen=True)
class Known:
    """A tensor, with the greatest magnitude it can have and the grid its values lie on (if any)."""

    tensor: Tensor
    bound: float
    grid: int | None = None

    @property
    def exact(self) -> bool:
        """Whether every order of evaluation gives the same bits."""
        return self.grid is not None and self.bound * 2.0**self.grid <= 2**MANTISSA_BITS


@dataclass
class Sketch:
    """A graph while it is drawn: its source of chance, and what was made so far."""

    chance: random.Random
    dtype: DType
    rows: int | None
    feeds: dict[Tensor, Array] = field(default_factory=dict[Tensor, Array])
    floats: list[Known] = field(default_factory=list[Known])
    integers: list[Tensor] = field(default_factory=list[Tensor])
    truths: list[Tensor] = field(default_factory=list[Tensor])

    def add(self, tensor: Tensor, bound: float, grid: int | None = None) -> Known:
        """Keep a floating tensor, scaled down if it could be large, or the gradients after it."""
        known = Known(tensor, bound, grid)
        if not known.exact:
            known = Known(tensor, bound)
        if bound > MAX_BOUND:
            power = math.ceil(math.log2(bound / MAX_BOUND)) + 1
            finer = known.grid + power if known.grid is not None else None
            known = Known(tensor * 2.0**-power, bound * 2.0**-power, finer)
        self.floats.append(known)
        return known

    def shape(self, rank: int | None = None, *, batched: bool | None = None) -> Shape:
        """Return a random shape, which may start with the batch."""
        rank = self.chance.choice((0, 1, 2, 2, 3, 3, 4)) if rank is None else rank
        extents: list[Extent] = [self.chance.randint(1, 7) for _ in range(rank)]
        if batched is None:
            batched = self.chance.random() < 0.7
        if self.rows is not None and rank and batched:
            extents[0] = batch
        while self.elements(extents) > MAX_ELEMENTS:
            place = max(range(rank), key=lambda i: self.elements(extents[i : i + 1]))
            extents[place] = 2
        return tuple(extents)

    def elements(self, shape: Iterable[Extent]) -> int:
        """Return the number of elements at this batch size."""
        return math.prod(resolve_shape(tuple(shape), self.rows))

    def array(self, shape: Shape, draw: Callable[[], float], dtype: DType) -> Array:
        """Return an array of this batch size, each element drawn by itself."""
        concrete = resolve_shape(shape, self.rows)
        flat = [draw() for _ in range(math.prod(concrete))]
        return np.array(flat, dtype.numpy).reshape(concrete)

    def leaf(self, shape: Shape) -> Known:
        """Return a new floating leaf: a parameter, an input or an array; its values on a grid."""
        value = self.array(shape, lambda: self.chance.randint(-16, 16) / 8, self.dtype)
        has_batch = any(isinstance(extent, Batch) for extent in shape)
        kind = "input" if has_batch else self.chance.choice(("parameter", "input", "array"))
        if kind == "array":
            return self.add(constant(value), 2.0, 3)
        name = f"{kind[0]}{len(self.feeds)}"
        made = parameter(value, name) if kind == "parameter" else input_(name, shape, self.dtype)
        self.feeds[made] = value
        return self.add(made, 2.0, 3)

    def indices(self, shape: Shape, below: int, *, outside: bool = False) -> Tensor:
        """Return a new integer input with values from 0 to ``below`` - 1, or one moved beyond."""
        dtype = self.chance.choice((DType.I32, DType.I64))
        value = self.array(shape, lambda: self.chance.randint(0, below - 1), dtype)
        made = input_(f"n{len(self.feeds)}", shape, dtype)
        self.feeds[made] = value
        self.integers.append(made)
        # What is fed is checked; what is computed may lie outside.
        return made + self.chance.randint(-2, 2) if outside else made

    def any(self, fits: Callable[[Known], bool] = lambda known: True) -> Known:
        """Return a floating tensor that fits, the younger the likelier; a new leaf if none does."""
        fitting = [known for known in self.floats if fits(known)]
        if not fitting or self.chance.random() < 0.1:
            known = self.leaf(self.shape())
            return known if fits(known) else self.leaf(self.shape(self.chance.randint(1, 3)))
        return fitting[-1 - min(int(self.chance.expovariate(0.4)), len(fitting) - 1)]

    def exact(self) -> Known:
        """Return a tensor whose values every backend agrees on."""
        return self.any(lambda known: known.exact)

    def rank(self, least: int, *, exact: bool = False) -> Known:
        """Return a tensor of at least ``least`` axes."""
        found = self.any(lambda k: k.tensor.ndim >= least and (k.exact or not exact))
        return found if found.tensor.ndim >= least else self.leaf(self.shape(max(least, 2)))

    def axis(self, x: Tensor) -> int:
        """Return one axis, counted from either end."""
        return self.chance.randint(-x.ndim, x.ndim - 1)

    def fixed_axis(self, x: Tensor) -> int | None:
        """Return an axis that is not the batch."""
        fixed = [i for i, extent in enumerate(x.shape) if isinstance(extent, int)]
        return self.chance.choice(fixed) if fixed else None

    def axes(self, x: Tensor) -> tuple[int, ...]:
        """Return some axes, at least one where there is one."""
        count = self.chance.randint(1, x.ndim) if x.ndim else 0
        return tuple(self.chance.sample(range(x.ndim), count))

    def beside(self, x: Known) -> Known:
        """Return a tensor that broadcasts together with ``x``: one there is, or a new leaf."""
        fitting = [k for k in self.floats if broadcasts(k.tensor.shape, x.tensor.shape)]
        if fitting and self.chance.random() < 0.7:
            return self.chance.choice(fitting)
        shape = [
            extent if isinstance(extent, Batch) or self.chance.random() < 0.6 else 1
            for extent in x.tensor.shape
        ]
        return self.leaf(tuple(shape[self.chance.randint(0, len(shape)) :]))

    def offset(self) -> float:
        """Return a number that chance keeps off every edge, however values were computed."""
        return self.chance.uniform(0.05, 0.95)

    def number(self, x: Known, value: float) -> float:
        """Return ``value`` as the element type of ``x`` rounds it."""
        return float(x.tensor.dtype.numpy.type(value))


def broadcasts(left: Shape, right: Shape) -> bool:
    """Return whether the shapes broadcast together, to one of moderate size with one batch."""
    paired = list(itertools.zip_longest(reversed(left), reversed(right), fillvalue=1))
    joined = [a if b == 1 else b for a, b in paired]
    fixed = [extent for extent in joined if isinstance(extent, int)]
    return (
        all(a == b or a == 1 or b == 1 for a, b in paired)
        and len(joined) - len(fixed) <= 1
        and math.prod(fixed) <= MAX_ELEMENTS
    )

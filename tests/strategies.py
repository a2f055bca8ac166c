"""Random graphs for differential tests, the same for a seed on every platform.

In: a seed and an element type. Out: tensors to compute and arrays to feed. Invariants: every
operation can be drawn; values and derivatives stay of moderate size; and what is discontinuous (a
comparison, the side of a kink, the place of a maximum) is asked only of numbers that every backend
computes exactly, or that chance keeps off the edge, so that two right backends always agree to
rounding.

Exactness is followed through the graph: a value is known to be a multiple of ``2**-grid`` and at
most ``bound``, and sums and products of such values are exact while ``bound * 2**grid`` fits a
float32.
"""

import itertools
import math
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from workbench.errors import UnreachedParameterWarning
from workbench.graph import composite, contraction, elementwise, indexing, movement, reduction
from workbench.graph import random as random_numbers
from workbench.graph.dtype import DType, as_dtype
from workbench.graph.extent import Batch, Extent, Shape, batch, resolve_shape
from workbench.graph.gradient import backward
from workbench.graph.leaf import constant, input_, iota, parameter
from workbench.graph.tensor import Tensor, topological_order

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
        """Return a new integer input with values from 0 to ``below`` - 1, or a little beyond."""
        dtype = self.chance.choice((DType.I32, DType.I64))
        slack = 2 if outside else 0
        value = self.array(shape, lambda: self.chance.randint(-slack, below - 1 + slack), dtype)
        made = input_(f"n{len(self.feeds)}", shape, dtype)
        self.feeds[made] = value
        self.integers.append(made)
        return made

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
        fitting = [k for k in self.floats if _broadcasts(k.tensor.shape, x.tensor.shape)]
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


def _broadcasts(left: Shape, right: Shape) -> bool:
    """Return whether the shapes broadcast together, to one of moderate size with one batch."""
    paired = list(itertools.zip_longest(reversed(left), reversed(right), fillvalue=1))
    joined = [a if b == 1 else b for a, b in paired]
    fixed = [extent for extent in joined if isinstance(extent, int)]
    return (
        all(a == b or a == 1 or b == 1 for a, b in paired)
        and len(joined) - len(fixed) <= 1
        and math.prod(fixed) <= MAX_ELEMENTS
    )


def _small(s: Sketch, x: Known, limit: float) -> Tensor:
    """Return ``x`` within ``limit``."""
    return x.tensor if x.bound <= limit else x.tensor * s.number(x, limit / x.bound)


def _positive(s: Sketch, x: Known) -> Known:
    """Return something smooth in ``x`` that stays away from 0: at least 1/2."""
    if s.chance.random() < 0.5:
        return Known(elementwise.square(_small(s, x, 1.5)) + 0.5, 2.75)
    return Known(_small(s, x, 0.5) + 1.0, 1.5)


def _off_kink(s: Sketch, x: Known) -> Known:
    """Return ``x`` as it is where it is exact, else moved by a random number."""
    return x if x.exact else Known(x.tensor + s.offset(), x.bound + 1)


# Moves: each adds something to the sketch. What is in their names is what they draw.


def smooth_function(s: Sketch) -> None:
    name = s.chance.choice(elementwise.UNARY_FLOAT)
    x = s.any()
    function = getattr(elementwise, name)
    if name in ("log", "sqrt", "rsqrt", "reciprocal"):
        inside = _positive(s, x)
        s.add(function(inside.tensor), 2.0)
    elif name == "log1p":
        s.add(function(_positive(s, x).tensor - 1.0), 1.5)
    elif name in ("exp", "expm1"):
        s.add(function(_small(s, x, 2.0)), 7.5)
    else:
        s.add(function(x.tensor), max(1.0, x.bound + 1.0))


def kinked_function(s: Sketch) -> None:
    x = s.any()
    match s.chance.choice(("neg", "abs", "relu", "square", "sign")):
        case "neg":
            s.add(-x.tensor, x.bound, x.grid)
        case "abs":
            moved = _off_kink(s, x)
            s.add(abs(moved.tensor), moved.bound, moved.grid)
        case "relu":
            moved = _off_kink(s, x)
            s.add(elementwise.relu(moved.tensor), moved.bound, moved.grid)
        case "square":
            grid = None if x.grid is None else 2 * x.grid
            s.add(elementwise.square(x.tensor), x.bound**2, grid)
        case _:
            s.add(elementwise.sign(s.exact().tensor), 1.0, 0)


def sum_or_product(s: Sketch) -> None:
    x = s.any()
    y = s.beside(x)
    both = x.grid is not None and y.grid is not None
    if s.chance.random() < 0.6:
        function = s.chance.choice((elementwise.add, elementwise.sub))
        grid = max(x.grid or 0, y.grid or 0) if both else None
        s.add(function(x.tensor, y.tensor), x.bound + y.bound, grid)
    else:
        grid = (x.grid or 0) + (y.grid or 0) if both else None
        s.add(elementwise.mul(x.tensor, y.tensor), x.bound * y.bound, grid)


def number_beside_tensor(s: Sketch) -> None:
    x = s.any()
    value = s.chance.randint(-12, 12) / 4
    grid = None if x.grid is None else x.grid + 2
    match s.chance.choice(("+", "-", "*")):
        case "+":
            s.add(x.tensor + value, x.bound + abs(value), grid)
        case "-":
            s.add(value - x.tensor, x.bound + abs(value), grid)
        case _:
            s.add(value * x.tensor, x.bound * max(1.0, abs(value)), grid)


def extreme_of_two(s: Sketch) -> None:
    x = s.any()
    y = s.beside(x)
    function = s.chance.choice((elementwise.maximum, elementwise.minimum))
    both = x.exact and y.exact
    grid = max(x.grid or 0, y.grid or 0) if both else None
    right = y.tensor if both else y.tensor + s.offset()
    s.add(function(x.tensor, right), max(x.bound, y.bound + 1.0), grid)


def quotient_or_power(s: Sketch) -> None:
    x = s.any()
    y = s.beside(x)
    if s.chance.random() < 0.5:
        s.add(x.tensor / _positive(s, y).tensor, 2.0 * x.bound)
    elif s.chance.random() < 0.5:
        s.add(_positive(s, x).tensor ** _small(s, y, 2.0), 7.6)
    else:
        power = s.chance.choice((2, 3, 0.5, -1, 1.5, -0.5))
        s.add(_positive(s, x).tensor ** power, 21.0)


def comparison(s: Sketch) -> None:
    x = s.exact()
    function = getattr(elementwise, s.chance.choice(elementwise.COMPARISONS))
    y = s.beside(x)
    # Not exact beside exact is safe too, away from the edge.
    s.truths.append(function(x.tensor, y.tensor if y.exact else y.tensor + s.offset()))


def truth_function(s: Sketch) -> None:
    if not s.truths:
        return comparison(s)
    first = s.chance.choice(s.truths)
    if s.chance.random() < 0.3:
        s.truths.append(~first)
        return None
    fitting = [t for t in s.truths if _broadcasts(t.shape, first.shape)]
    second = s.chance.choice(fitting)
    s.truths.append(first & second if s.chance.random() < 0.5 else first | second)
    return None


def choice_by_truth(s: Sketch) -> None:
    x = s.any()
    fitting = [t for t in s.truths if _broadcasts(t.shape, x.tensor.shape)]
    if not fitting:
        fitting = [elementwise.isfinite(x.tensor)]
    test = s.chance.choice(fitting)
    other = s.offset() if s.chance.random() < 0.4 else elementwise.sin(x.tensor)
    arms = (x.tensor, other) if s.chance.random() < 0.5 else (other, x.tensor)
    s.add(elementwise.where(test, *arms), max(1.0, x.bound))


def conversion(s: Sketch) -> None:
    match s.chance.choice(("truth", "integer", "to integer", "there and back")):
        case "truth" if s.truths:
            s.add(s.chance.choice(s.truths).astype(s.dtype), 1.0, 0)
        case "integer" if s.integers:
            s.add(s.chance.choice(s.integers).astype(s.dtype), 4096.0, 0)
        case "to integer":
            s.integers.append(s.exact().tensor.astype(s.chance.choice(("int32", "int64"))))
        case _:
            x = s.any()
            wide = elementwise.sin(x.tensor.astype("float64"))
            s.add(wide.astype(s.dtype), 1.0)


def integer_arithmetic(s: Sketch) -> None:
    x = s.chance.choice(s.integers) if s.integers else s.indices(s.shape(), 7)
    name = s.chance.choice(("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "sign"))
    function = getattr(elementwise, name)
    small = elementwise.maximum(elementwise.minimum(x, 7), -7)
    s.integers.append(function(small) if name in ("neg", "abs", "sign") else function(small, 3))


def sum_over_axes(s: Sketch) -> None:
    x = s.any()
    axes = s.axes(x.tensor)
    keep = s.chance.random() < 0.4
    count = s.elements(x.tensor.shape[a] for a in axes)
    if s.chance.random() < 0.5:
        s.add(reduction.sum_(x.tensor, axes, keepdims=keep), x.bound * count, x.grid)
    else:
        s.add(reduction.mean(x.tensor, axes, keepdims=keep), x.bound)


def extreme_over_axes(s: Sketch) -> None:
    x = s.exact()
    function = s.chance.choice((reduction.max_, reduction.min_))
    keep = s.chance.random() < 0.4
    s.add(function(x.tensor, s.axes(x.tensor), keepdims=keep), x.bound, x.grid)


def position_of_extreme(s: Sketch) -> None:
    x = s.rank(1, exact=True)
    axis = s.axis(x.tensor) if s.chance.random() < 0.8 else None
    s.integers.append(reduction.argmax(x.tensor, axis, keepdims=s.chance.random() < 0.3))


def log_sum_exp(s: Sketch) -> None:
    x = s.any()
    keep = s.chance.random() < 0.4
    s.add(reduction.logsumexp(x.tensor, s.axes(x.tensor), keepdims=keep), x.bound + 6.0)


def new_shape(s: Sketch) -> None:
    x = s.any()
    shape = list(x.tensor.shape)
    match s.chance.choice(("ones", "flat", "merge", "split")):
        case "ones":
            shape.insert(s.chance.randint(0, len(shape)), 1)
        case "flat":
            shape = [-1]
        case "merge" if len(shape) > 1:
            place = s.chance.randint(0, len(shape) - 2)
            shape[place : place + 2] = [-1]
        case _:
            place = s.fixed_axis(x.tensor)
            if place is not None:
                extent = shape[place]
                assert isinstance(extent, int)
                divisors = [d for d in range(1, extent + 1) if extent % d == 0]
                first = s.chance.choice(divisors)
                shape[place : place + 1] = [first, extent // first]
    s.add(x.tensor.reshape(shape), x.bound, x.grid)


def new_order(s: Sketch) -> None:
    x = s.any()
    if s.chance.random() < 0.6:
        order = list(range(x.tensor.ndim))
        s.chance.shuffle(order)
        moved = x.tensor.transpose(order) if s.chance.random() < 0.8 else x.tensor.T
    else:
        fixed = [i for i, extent in enumerate(x.tensor.shape) if isinstance(extent, int)]
        moved = movement.flip(x.tensor, tuple(i for i in fixed if s.chance.random() < 0.6))
    s.add(moved, x.bound, x.grid)


def part(s: Sketch) -> None:
    x = s.any()
    keys: list[object] = []
    for extent in x.tensor.shape:
        if isinstance(extent, Batch):
            keys.append(slice(None))
            continue
        start = s.chance.randint(0, extent - 1)
        stop = s.chance.randint(start + 1, extent)
        backwards = slice(stop - 1, start - 1 if start else None, -1)
        keys.append(s.chance.choice((slice(None), slice(start, stop), start, backwards)))
    if s.chance.random() < 0.2:
        keys.insert(s.chance.randint(0, len(keys)), None)
    s.add(x.tensor[tuple(keys)], x.bound, x.grid)


def padding(s: Sketch) -> None:
    x = s.any()
    before: list[int] = []
    shape: list[Extent] = []
    for extent in x.tensor.shape:
        fixed = isinstance(extent, int)
        left, right = (s.chance.randint(0, 2), s.chance.randint(0, 2)) if fixed else (0, 0)
        before.append(left)
        shape.append(extent + left + right if isinstance(extent, int) else extent)
    if s.elements(shape) <= MAX_ELEMENTS:
        s.add(movement.pad(x.tensor, before, tuple(shape)), x.bound, x.grid)


def joint(s: Sketch) -> None:
    x = s.rank(1)
    axis = s.fixed_axis(x.tensor)
    alike = [k for k in s.floats if k.tensor.shape == x.tensor.shape]
    parts = [x, s.chance.choice(alike), x][: s.chance.randint(2, 3)]
    bound, tensors = max(k.bound for k in parts), [k.tensor for k in parts]
    grids = [k.grid for k in parts if k.grid is not None]
    grid = max(grids) if len(grids) == len(parts) else None
    if s.elements(x.tensor.shape) * 3 > MAX_ELEMENTS:
        return
    if axis is not None and s.chance.random() < 0.6:
        s.add(movement.concat(tensors, axis), bound, grid)
    else:
        s.add(movement.stack(tensors, s.chance.randint(0, x.tensor.ndim)), bound, grid)


def repetition(s: Sketch) -> None:
    x = s.any()
    shape: list[Extent] = [s.chance.randint(2, 4) if e == 1 else e for e in x.tensor.shape]
    if s.chance.random() < 0.5:
        shape.insert(0, s.chance.randint(1, 3))
    if s.elements(shape) <= MAX_ELEMENTS:
        s.add(elementwise.broadcast_to(x.tensor, tuple(shape)), x.bound, x.grid)


def matrix_product(s: Sketch) -> None:
    x = s.rank(1)
    inner = x.tensor.shape[-1]
    if isinstance(inner, Batch):
        return
    outer = s.chance.choice(((), (s.chance.randint(1, 5),)))
    lead = s.chance.choice(((), (), (1,), tuple(x.tensor.shape[:-2])))
    if any(isinstance(extent, Batch) for extent in lead):
        lead = ()
    w = s.leaf((*lead, inner, *outer) if outer else (inner,))
    grid = None if x.grid is None or w.grid is None else x.grid + w.grid
    product = x.tensor @ w.tensor
    if s.elements(product.shape) <= MAX_ELEMENTS:
        s.add(product, x.bound * w.bound * inner, grid)


def einstein_sum(s: Sketch) -> None:
    x = s.rank(1)
    letters = "abcdefgh"[: x.tensor.ndim]
    extents: dict[str, Extent] = dict(zip(letters, x.tensor.shape, strict=True))
    shared = [c for c in letters if s.chance.random() < 0.6]
    if s.chance.random() < 0.6:
        shared.append("z")
        extents["z"] = s.chance.randint(1, 4)
    s.chance.shuffle(shared)
    y = s.leaf(tuple(extents[c] for c in shared))
    result = [c for c in extents if s.chance.random() < 0.6]
    s.chance.shuffle(result)
    summed = s.elements(extents[c] for c in extents if c not in result)
    spec = f"{letters},{''.join(shared)}->{''.join(result)}"
    grid = None if x.grid is None or y.grid is None else x.grid + y.grid
    if s.elements(extents[c] for c in result) <= MAX_ELEMENTS:
        s.add(contraction.einsum(spec, x.tensor, y.tensor), x.bound * y.bound * summed, grid)


def rows_by_number(s: Sketch) -> None:
    table = s.rank(1)
    rows = table.tensor.shape[0]
    if isinstance(rows, Batch):
        return
    free = not any(isinstance(extent, Batch) for extent in table.tensor.shape)
    shape = s.shape(s.chance.randint(0, 2), batched=free and s.chance.random() < 0.5)
    if s.elements((*shape, *table.tensor.shape[1:])) <= MAX_ELEMENTS:
        chosen = s.indices(shape, rows, outside=s.chance.random() < 0.3)
        s.add(indexing.take(table.tensor, chosen), table.bound, table.grid)


def sums_by_number(s: Sketch) -> None:
    updates = s.rank(1)
    depth = s.chance.randint(1, updates.tensor.ndim)
    shape = updates.tensor.shape[:depth]
    rows = s.chance.randint(1, 5)
    chosen = s.indices(shape, rows, outside=s.chance.random() < 0.3)
    total = indexing.scatter_add(rows, chosen, updates.tensor)
    s.add(total, updates.bound * s.elements(shape), updates.grid)


def labels_as_rows(s: Sketch) -> None:
    classes = s.chance.randint(1, 6)
    labels = s.indices(s.shape(s.chance.randint(0, 2)), classes, outside=s.chance.random() < 0.2)
    s.add(indexing.one_hot(labels, classes, s.dtype), 1.0, 0)


def distribution(s: Sketch) -> None:
    x = s.rank(1)
    axis = s.axis(x.tensor)
    if s.chance.random() < 0.5:
        s.add(composite.softmax(x.tensor, axis), 1.0)
    else:
        s.add(composite.log_softmax(x.tensor, axis), 2 * x.bound + 6.0)


def loss(s: Sketch) -> None:
    x = s.rank(1)
    classes = x.tensor.shape[-1]
    if isinstance(classes, Batch) or s.chance.random() < 0.3:
        target = s.leaf(x.tensor.shape)
        s.add(composite.mse(x.tensor, target.tensor), (x.bound + 2.0) ** 2)
        return
    labels = s.indices(x.tensor.shape[:-1], classes)
    function = s.chance.choice((composite.cross_entropy, composite.cross_entropy_rows))
    s.add(function(x.tensor, labels), 2 * x.bound + 2.0)


def blocked(s: Sketch) -> None:
    x = s.any()
    s.add(x.tensor * elementwise.stop_gradient(elementwise.cos(x.tensor)), x.bound)


def positions(s: Sketch) -> None:
    shape = s.shape(s.chance.randint(1, 3))
    s.add(iota(shape, s.chance.randrange(len(shape)), s.dtype), 8.0, 0)


def chance_numbers(s: Sketch) -> None:
    shape = s.shape(s.chance.randint(1, 3))
    seed: Any = s.chance.getrandbits(64)
    counter: Any = s.chance.randrange(5)
    if s.chance.random() < 0.3:
        counter = input_(f"c{len(s.feeds)}", (), "int64")
        s.feeds[counter] = np.array(s.chance.randrange(1 << 40), np.int64)
    if s.chance.random() < 0.5:
        s.add(random_numbers.uniform(shape, seed=seed, counter=counter, dtype=s.dtype), 1.0)
    else:
        s.add(random_numbers.normal(shape, seed=seed, counter=counter, dtype=s.dtype), 6.0)


MOVES: tuple[Callable[[Sketch], None], ...] = (
    smooth_function,
    smooth_function,
    kinked_function,
    sum_or_product,
    sum_or_product,
    number_beside_tensor,
    extreme_of_two,
    quotient_or_power,
    comparison,
    truth_function,
    choice_by_truth,
    conversion,
    integer_arithmetic,
    sum_over_axes,
    extreme_over_axes,
    position_of_extreme,
    log_sum_exp,
    new_shape,
    new_order,
    part,
    padding,
    joint,
    repetition,
    matrix_product,
    matrix_product,
    einstein_sum,
    rows_by_number,
    sums_by_number,
    labels_as_rows,
    distribution,
    loss,
    blocked,
    positions,
    chance_numbers,
)


def random_graph(seed: int, dtype: object = "float32") -> tuple[list[Tensor], dict[Tensor, Array]]:
    """Return tensors to compute and the arrays to feed.

    Parameters
    ----------
    seed
        Any whole number; it decides everything, the shapes and the numbers included.
    dtype
        float32 or float64, the type of all floating tensors. It does not change what is drawn.

    Returns
    -------
    outputs
        A few tensors of the graph (floating, whole numbers and truth values), a scalar of it, and
        the gradients of that scalar.
    feeds
        Arrays for all inputs and parameters. Some seeds have a batch axis; its size is in the
        arrays' shapes.
    """
    chance = random.Random(seed)
    rows = chance.randint(1, 5) if chance.random() < 0.5 else None
    sketch = Sketch(chance, as_dtype(dtype), rows)
    anchor = sketch.leaf(sketch.shape(chance.randint(1, 3), batched=True))
    sketch.leaf(sketch.shape(chance.randint(1, 3)))
    for _ in range(chance.randint(4, 20)):
        chance.choice(MOVES)(sketch)
    outputs = [known.tensor for known in sketch.floats[-3:]]
    outputs += [*sketch.integers[-1:], *sketch.truths[-1:]]
    scalar = _scalar(sketch, anchor)
    outputs.append(scalar)
    leaves = [leaf for leaf in sketch.feeds if leaf.dtype.is_float]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachedParameterWarning)
        outputs += backward(scalar, leaves).values()
    outputs = list(dict.fromkeys(outputs))
    read = set(topological_order(outputs))
    return outputs, {leaf: value for leaf, value in sketch.feeds.items() if leaf in read}


def _scalar(s: Sketch, anchor: Known) -> Tensor:
    # The first leaf, which has the batch if there is one, so that its arrays say how many rows.
    total = reduction.mean(anchor.tensor * s.offset())
    for known in s.chance.sample(s.floats, min(8, len(s.floats))):
        total = total + reduction.mean(elementwise.sin(known.tensor * s.offset()))
    return total


@st.composite
def graphs(draw: st.DrawFn, dtype: object = "float32") -> tuple[list[Tensor], dict[Tensor, Array]]:
    """Draw a graph of `random_graph`."""
    return random_graph(draw(st.integers(0, 2**32 - 1)), dtype)


def shapes(
    *, least_rank: int = 0, most_rank: int = 3, least: int = 1, most: int = 4
) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw small fixed shapes."""
    extents = st.integers(least, most)
    return st.lists(extents, min_size=least_rank, max_size=most_rank).map(tuple)

"""What can be drawn next in a random graph: one function for each kind of operation.

In: a sketch. Out: the same with something added. Invariants: values and derivatives stay of
moderate size; and what is discontinuous (a comparison, the side of a kink, the place of a maximum)
is asked only of numbers that every backend computes exactly, or that chance keeps off the edge.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.graph_sketch import MAX_ELEMENTS, Known, Sketch, broadcasts
from workbench.graph import composite, contraction, elementwise, indexing, movement, reduction
from workbench.graph import random as random_numbers
from workbench.graph.extent import Batch, Extent
from workbench.graph.leaf import input_, iota
from workbench.graph.tensor import Tensor


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
    fitting = [t for t in s.truths if broadcasts(t.shape, first.shape)]
    second = s.chance.choice(fitting)
    s.truths.append(first & second if s.chance.random() < 0.5 else first | second)
    return None


def choice_by_truth(s: Sketch) -> None:
    x = s.any()
    fitting = [t for t in s.truths if broadcasts(t.shape, x.tensor.shape)]
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

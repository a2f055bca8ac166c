"""Every gradient rule against central differences in float64, on random shapes and values."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.central_difference import STEP, check_gradients
from tests.oracle.numpy_graph import evaluate
from tests.strategies import shapes
from workbench.errors import UnreachedParameterWarning
from workbench.graph import composite, contraction, elementwise, indexing, movement, reduction
from workbench.graph import random as random_numbers
from workbench.graph.gradient import backward, operations_with_rules
from workbench.graph.leaf import constant, input_
from workbench.graph.tensor import Tensor, topological_order

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], np.ndarray]


def between(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def away_from_zero(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return numbers at least 1/8 apart, so that no step changes their order."""
    return rng.permutation(math.prod(shape)).reshape(shape) / 8.0


def eighths(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return rng.integers(-16, 17, shape) / 8.0


@dataclass(frozen=True)
class Case:
    """How to apply an operation to tensors of a drawn shape, and where it is smooth."""

    apply: Callable[..., Tensor]
    draws: tuple[Draw, ...]
    least_rank: int = 0
    step: float = STEP


def unary(name: str, draw: Draw) -> Case:
    return Case(lambda rng, x: getattr(elementwise, name)(x), (draw,))


def binary(name: str, left: Draw, right: Draw) -> Case:
    return Case(lambda rng, a, b: getattr(elementwise, name)(a, b), (left, right))


def fixed(x: Tensor) -> Shape:
    """Return the shape of a tensor without a batch."""
    return tuple(extent for extent in x.shape if isinstance(extent, int))


def some_axes(rng: np.random.Generator, x: Tensor) -> tuple[int, ...]:
    return tuple(int(a) for a in rng.permutation(x.ndim)[: rng.integers(0, x.ndim + 1)])


def _repeat(rng: np.random.Generator, x: Tensor) -> Tensor:
    ones = x.reshape(*(part for extent in x.shape for part in (1, extent)))
    shape = [int(rng.integers(1, 4)) if extent == 1 else extent for extent in ones.shape]
    return elementwise.broadcast_to(ones, (2, *shape))


def _block(rng: np.random.Generator, x: Tensor) -> Tensor:
    starts = [int(rng.integers(0, extent)) for extent in fixed(x)]
    return x[tuple(slice(start, None) for start in starts)]


def _pad(rng: np.random.Generator, x: Tensor) -> Tensor:
    shape = tuple(extent + 2 for extent in fixed(x))
    return movement.pad(x, [int(rng.integers(0, 3)) for _ in shape], shape)


def _concat(rng: np.random.Generator, a: Tensor, b: Tensor) -> Tensor:
    axis = int(rng.integers(0, a.ndim))
    return movement.concat([a, movement.flip(b), a], axis)


def _einsum(rng: np.random.Generator, a: Tensor, b: Tensor) -> Tensor:
    # The first axis is outer, the last summed over; those between are of one operand each.
    left, right = "aPQz"[: a.ndim - 1] + "z", "aRSz"[: b.ndim - 1] + "z"
    result = "".join(rng.permutation(sorted(set(left + right) - {"z"})))
    return contraction.einsum(f"{left},{right}->{result}", a, b)


def _matmul(rng: np.random.Generator, a: Tensor, b: Tensor) -> Tensor:
    order = list(range(b.ndim))
    return a @ b.transpose([*order[:-2], *order[-2:][::-1]])


def _take(rng: np.random.Generator, x: Tensor) -> Tensor:
    rows = int(str(x.shape[0]))
    return indexing.take(x, constant(rng.integers(-rows, rows, (2, 3))))


def _scatter(rng: np.random.Generator, x: Tensor) -> Tensor:
    depth = int(rng.integers(1, x.ndim + 1))
    return indexing.scatter_add(3, constant(rng.integers(0, 3, fixed(x)[:depth])), x)


ANY, POSITIVE = between(-2.0, 2.0), between(0.3, 3.0)

CASES: dict[str, Case] = {
    "exp": unary("exp", ANY),
    "log": unary("log", POSITIVE),
    "log1p": unary("log1p", between(-0.6, 3.0)),
    "expm1": unary("expm1", ANY),
    "sqrt": unary("sqrt", POSITIVE),
    "rsqrt": unary("rsqrt", POSITIVE),
    "reciprocal": unary("reciprocal", away_from_zero),
    "sin": unary("sin", between(-4.0, 4.0)),
    "cos": unary("cos", between(-4.0, 4.0)),
    "tanh": unary("tanh", ANY),
    "sigmoid": unary("sigmoid", between(-5.0, 5.0)),
    "erf": unary("erf", ANY),
    "gelu": unary("gelu", between(-3.0, 3.0)),
    "silu": unary("silu", between(-5.0, 5.0)),
    "softplus": unary("softplus", between(-5.0, 5.0)),
    "neg": unary("neg", ANY),
    "abs": unary("abs", away_from_zero),
    "square": unary("square", ANY),
    "relu": unary("relu", away_from_zero),
    "add": binary("add", ANY, ANY),
    "sub": binary("sub", ANY, ANY),
    "mul": binary("mul", ANY, ANY),
    "div": binary("div", ANY, away_from_zero),
    "pow": binary("pow", POSITIVE, ANY),
    "maximum": binary("maximum", eighths, lambda rng, shape: eighths(rng, shape) + 1 / 16),
    "minimum": binary("minimum", eighths, lambda rng, shape: eighths(rng, shape) + 1 / 16),
    "where": Case(
        lambda rng, a, b: elementwise.where(constant(rng.random(a.shape) < 0.5), a, b), (ANY, ANY)
    ),
    # Through float32, which holds small multiples of 1/8 exactly; so the step is one, too.
    "cast": Case(lambda rng, x: x.astype("float32").astype("float64"), (eighths,), step=1 / 8),
    "broadcast": Case(_repeat, (ANY,)),
    "sum": Case(lambda rng, x: reduction.sum(x, some_axes(rng, x)), (ANY,), 1),
    "max": Case(lambda rng, x: reduction.max(x, some_axes(rng, x)), (distinct,), 1),
    "min": Case(lambda rng, x: reduction.min(x, some_axes(rng, x)), (distinct,), 1),
    "reshape": Case(lambda rng, x: x.reshape(-1), (ANY,), 2),
    "transpose": Case(
        lambda rng, x: x.transpose([int(a) for a in rng.permutation(x.ndim)]), (ANY,), 2
    ),
    "flip": Case(lambda rng, x: movement.flip(x, some_axes(rng, x)), (ANY,), 1),
    "slice": Case(_block, (ANY,), 1),
    "pad": Case(_pad, (ANY,), 1),
    "concat": Case(_concat, (ANY, ANY), 1),
    "einsum": Case(_einsum, (ANY, ANY), 1),
    "take": Case(_take, (ANY,), 1),
    "scatter_add": Case(_scatter, (ANY,), 1),
}

BLOCKED: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": elementwise.sign,
    "less": lambda x: (x < 0.1).astype(x.dtype),
    "less_equal": lambda x: (x <= 0.1).astype(x.dtype),
    "greater": lambda x: (x > 0.1).astype(x.dtype),
    "greater_equal": lambda x: (x >= 0.1).astype(x.dtype),
    "equal": lambda x: (x == 0.1).astype(x.dtype),
    "not_equal": lambda x: (x != 0.1).astype(x.dtype),
    "logical_and": lambda x: ((x > 0) & (x < 1)).astype(x.dtype),
    "logical_or": lambda x: ((x > 0) | (x < 1)).astype(x.dtype),
    "logical_not": lambda x: (~(x > 0)).astype(x.dtype),
    "is_label": lambda x: indexing.one_hot(x.astype("int32"), 3, x.dtype),
    "stop_gradient": elementwise.stop_gradient,
    "uniform": lambda x: random_numbers.uniform((2,), seed=x.sum().astype("int64"), dtype=x.dtype),
    "normal": lambda x: random_numbers.normal((2,), seed=x.sum().astype("int64"), dtype=x.dtype),
}

COMPOSED: dict[str, Case] = {
    "mean": Case(lambda rng, x: reduction.mean(x, some_axes(rng, x)), (ANY,), 1),
    "logsumexp": Case(lambda rng, x: reduction.logsumexp(x, some_axes(rng, x)), (distinct,), 1),
    "softmax": Case(lambda rng, x: composite.softmax(x, int(rng.integers(x.ndim))), (distinct,), 1),
    "log_softmax": Case(
        lambda rng, x: composite.log_softmax(x, int(rng.integers(x.ndim))), (distinct,), 1
    ),
    "cross_entropy": Case(
        lambda rng, x: composite.cross_entropy(
            x, constant(rng.integers(0, x.shape[-1], x.shape[:-1]))
        ),
        (distinct,),
        2,
    ),
    "mse": Case(lambda rng, a, b: composite.mse(a, b), (ANY, ANY)),
    "matmul": Case(_matmul, (ANY, ANY), 1),
    "powers": Case(lambda rng, x: x**3 + x**0.5 + x**-1 + x**2 + x**2.5 + x**0, (POSITIVE,)),
}


def weighted_sum(rng: np.random.Generator, y: Tensor) -> Tensor:
    """Return a scalar to which every element of ``y`` contributes its own share."""
    return (y * rng.uniform(0.5, 1.5, fixed(y))).sum()


def arrange(case: Case, shape: Shape, seed: int) -> tuple[Tensor, dict[Tensor, np.ndarray]]:
    """Return the loss and the feeds for a case of this shape."""
    rng = np.random.default_rng(seed)
    shape = (*shape, *[2] * (case.least_rank - len(shape)))
    feeds = {
        input_("ab"[i], shape, "float64"): draw(rng, shape) for i, draw in enumerate(case.draws)
    }
    return weighted_sum(rng, case.apply(rng, *feeds)), feeds


@pytest.mark.parametrize("name", CASES | COMPOSED)
@settings(max_examples=30)
@given(shape=shapes(most=3), seed=st.integers(0, 2**32 - 1))
def test_the_gradient_is_the_derivative(name: str, shape: Shape, seed: int):
    case = (CASES | COMPOSED)[name]
    loss, feeds = arrange(case, shape, seed)
    check_gradients(loss, list(feeds), feeds, case.step)


@pytest.mark.parametrize("name", CASES)
def test_each_case_uses_the_operation_that_it_is_named_after(name: str):
    used = {node.op for seed in range(8) for node in _graph(CASES[name], seed)}
    assert name in used


def _graph(case: Case, seed: int) -> list[Tensor]:
    return topological_order([arrange(case, (2, 2), seed)[0]])


def test_every_rule_has_a_case():
    assert CASES.keys() | BLOCKED.keys() == operations_with_rules()


@pytest.mark.parametrize("name", BLOCKED)
def test_no_gradient_flows_through_what_is_constant_almost_everywhere(name: str):
    x = input_("x", (2,), "float64")
    loss = weighted_sum(np.random.default_rng(0), BLOCKED[name](x))
    assert name in {node.op for node in topological_order([loss])}
    with pytest.warns(UnreachedParameterWarning, match="`x`"):
        gradient = backward(loss, [x])[x]
    assert evaluate([gradient], {x: np.ones(2)})[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"cast", "max", "min"}))
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_gradient_of_the_gradient_is_its_derivative(name: str, seed: int):
    case = CASES[name]
    first, feeds = arrange(case, (2,), seed)
    leaves = list(feeds)
    # Squared, so that the first gradient depends on x even where the operation is linear.
    gradients = backward(first * first, leaves)
    rng = np.random.default_rng(seed)
    shares = [weighted_sum(rng, gradient) for gradient in gradients.values()]
    second = sum(shares, start=constant(0.0, dtype="float64"))
    check_gradients(second, leaves, feeds, tolerance=1e-4)


# Edges: what the derivative is where there is none, or where the formula would divide by zero.


def derivative(function: Callable[[Tensor], Tensor], at: float) -> float:
    x = input_("x", (), "float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachedParameterWarning)
        gradient = backward(function(x), [x])[x]
    return float(evaluate([gradient], {x: np.array(at)})[0])


@pytest.mark.parametrize(
    ("function", "at", "slope"),
    [
        (elementwise.relu, 0.0, 0.0),
        (elementwise.relu, 1e-300, 1.0),
        (elementwise.abs, 0.0, 0.0),
        (elementwise.sign, 0.0, 0.0),
        (lambda x: elementwise.maximum(x, 0.0), 0.0, 0.5),
        (lambda x: elementwise.minimum(x, 0.0), 0.0, 0.5),
        (lambda x: elementwise.pow(x, constant(0.0, dtype="float64")), 0.0, 0.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**1.5, 0.0, 0.0),
        (lambda x: elementwise.pow(2.0, x), 0.0, math.log(2.0)),
        (lambda x: elementwise.pow(0.0, x), 2.0, 0.0),
        (lambda x: elementwise.where(x > 0.0, elementwise.log(x), 0.0), 1.0, 1.0),
        (elementwise.sigmoid, 800.0, 0.0),
        (elementwise.sigmoid, -800.0, 0.0),
        (elementwise.tanh, 400.0, 0.0),
        (elementwise.softplus, 800.0, 1.0),
        (elementwise.gelu, -50.0, 0.0),
        (elementwise.silu, -800.0, 0.0),
    ],
)
def test_the_derivative_at_an_edge(function, at: float, slope: float):
    assert derivative(function, at) == pytest.approx(slope, abs=1e-12)


@pytest.mark.parametrize("function", [reduction.max, reduction.min])
def test_elements_that_tie_share_the_cotangent(function):
    x = input_("x", (4,), "float64")
    gradient = backward(function(x) * 3.0, [x])[x]
    values = np.array([1.0, 5.0, 1.0, 5.0])
    chosen = values == getattr(np, function.__name__.rstrip("_"))(values)
    np.testing.assert_allclose(evaluate([gradient], {x: values})[0], 1.5 * chosen)


def test_rows_taken_twice_receive_both_gradients():
    table = input_("table", (3, 2), "float64")
    loss = (indexing.take(table, constant([1, 1, 2])) * np.array([[1.0], [10.0], [100.0]])).sum()
    (gradient,) = evaluate([backward(loss, [table])[table]], {table: np.zeros((3, 2))})
    assert gradient.tolist() == [[0, 0], [11, 11], [100, 100]]

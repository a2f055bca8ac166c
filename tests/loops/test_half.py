"""16-bit types below the graph: rounding as an expression, memory of 2 bytes an element."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import workbench as wb
from workbench.backends.interpreter.scalar import evaluate
from workbench.graph.dtype import DType
from workbench.graph.movement import pad
from workbench.loops.expression import Var
from workbench.loops.kernel import Program
from workbench.loops.math_half import narrow
from workbench.loops.placement import WIDE
from workbench.runtime.explain import STAGES
from workbench.runtime.memory import families, lifetimes, local_layout

Array = npt.NDArray[Any]

HALVES = {"bfloat16": DType.BF16, "float16": DType.F16}
NUMPY: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
CONTEXTS = {"interpreter": wb.Context.interpreter, "compiled": lambda: wb.Context.cpu(2)}
# Prime, so that the sample meets every exponent with changing mantissas.
STEP = 4099
CUT = {"bfloat16": 16, "float16": 13}
# A product of k terms of 16-bit numbers is exact in float32; their sum is rounded k times.
TERMS = 24
SUM_SHARE = TERMS * 2.0**-24
ROWS, WIDTH, DEPTH = 512, 128, 6

both_types = pytest.mark.parametrize("dtype", HALVES)
both_contexts = pytest.mark.parametrize("context", CONTEXTS)


def patterns(step: int) -> Array:
    return np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def ties(dtype: str) -> Array:
    """Return numbers halfway between two neighbours of the type, and their own neighbours."""
    every = np.arange(1 << 16, dtype=np.uint16).view(NUMPY[dtype]).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    halfway = ((every[1:].astype(np.float64) + every[:-1]) / 2).astype(np.float32)
    beside = [np.nextafter(halfway, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([halfway, *beside])


def edges(dtype: str) -> Array:
    greatest = np.float32(ml_dtypes.finfo(NUMPY[dtype]).max)
    least = np.float32(ml_dtypes.finfo(NUMPY[dtype]).smallest_subnormal)
    near = [np.nextafter(greatest, np.float32(np.inf)), greatest, least, least / 2, least * 1.5]
    values = np.array([0.0, np.inf, np.nan, 65504, 65519.996, 65520, 5e-8, *near], np.float32)
    return np.concatenate([values, -values])


def rounded(values: Array, dtype: str) -> Array:
    """Return what the type holds of ``values``, as numpy rounds it."""
    with np.errstate(all="ignore"):  # NaN, infinity and what becomes 0
        return values.astype(NUMPY[dtype]).astype(np.float32)


def no_load(buffer: int, offsets: Array, dtype: DType) -> Array:
    raise AssertionError("the expression reads a buffer")


def same(found: Array, expected: Array) -> None:
    """Compare bits, the sign of zero included; every NaN is the same."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), nan)
    assert found[~nan].tobytes() == expected[~nan].tobytes()


def run(context: str, outputs: list[wb.Tensor], feeds: dict[wb.Tensor, Array]) -> list[Array]:
    ctx, routine = CONTEXTS[context]().compile(outputs)
    ctx = ctx.set_values(feeds).run(routine)
    return [ctx.get_values(output) for output in outputs]


def numbers(shape: tuple[int, ...], seed: int, dtype: str) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(NUMPY[dtype])


# Rounding


@both_types
@pytest.mark.parametrize("sample", ["patterns", "ties", "edges"])
def test_the_expression_rounds_as_the_format_does(dtype: str, sample: str) -> None:
    values = {"patterns": lambda: patterns(STEP), "ties": lambda: ties(dtype)}
    x = values.get(sample, lambda: edges(dtype))()
    with np.errstate(all="ignore"):
        found = evaluate(narrow(Var("x", DType.F32), HALVES[dtype]), {"x": x}, no_load)
    same(np.asarray(found), rounded(x, dtype))


@both_types
def test_the_sample_meets_every_exponent(dtype: str) -> None:
    exponents = (patterns(STEP).view(np.uint32) >> 23) & 0xFF
    assert np.bincount(exponents, minlength=256).min() > 1000
    dropped = ties(dtype)[: 1 << 15].view(np.uint32) & ((1 << CUT[dtype]) - 1)
    assert (dropped == 1 << (CUT[dtype] - 1)).sum() > 10_000


def test_the_known_edges_round_as_stated() -> None:
    x = wb.input("x", (3,))
    feeds = {x: np.array([65504, 65520, 5e-8], np.float32)}
    brain, half = run("compiled", [x.astype("bfloat16") * 1, x.astype("float16") * 1], feeds)
    assert float(brain[0]) == 65536
    assert np.isinf(half[1])
    assert half[2] == np.float16(6e-8)


@both_types
def test_a_rounded_value_is_rounded_to_itself(dtype: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(NUMPY[dtype]).astype(np.float32)
    found = evaluate(narrow(Var("x", DType.F32), HALVES[dtype]), {"x": x}, no_load)
    same(np.asarray(found), x)


# Memory


@both_types
@both_contexts
def test_every_value_of_the_type_is_loaded_and_stored_as_it_is(context: str, dtype: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(NUMPY[dtype])
    x = wb.input("x", (1 << 16,), dtype)
    wide, again = run(context, [x.astype("float32"), wb.flip(x, 0)], {x: every})
    same(wide, every.astype(np.float32))
    same(again.astype(np.float32), every[::-1].astype(np.float32))
    assert again.dtype == every.dtype


@both_types
@both_contexts
def test_storing_rounds_as_the_format_does(context: str, dtype: str) -> None:
    values = np.concatenate([edges(dtype), ties(dtype)[::97], patterns(65_537)])
    x = wb.input("x", values.shape)
    (stored,) = run(context, [x.astype(dtype)], {x: values})
    same(stored.astype(np.float32), rounded(values, dtype))


@both_types
def test_a_buffer_holds_2_bytes_for_an_element(dtype: str) -> None:
    x = wb.input("x", (1000,), dtype)
    ctx, routine = wb.Context.cpu(1).compile([(x * 2.0).named("y")])
    arrays = ctx.arrays()
    for node in (x, *routine.outputs):
        assert arrays[node].dtype == NUMPY[dtype]
        assert arrays[node].nbytes == 2 * 1024  # padded to whole cache lines


def deep_perceptron(dtype: str) -> Program:
    """Return the kernels of the loss and the gradients of a perceptron, in ``dtype``."""
    x = wb.input("x", (wb.batch, WIDTH)).astype(dtype)
    weights = [wb.parameter(np.zeros((WIDTH, WIDTH), np.float32), f"w{i}") for i in range(DEPTH)]
    for w in weights:
        x = wb.relu(x @ w.astype(dtype))
    loss = wb.square(x.astype("float32")).mean().named("loss")
    gradients = wb.backward(loss, weights)
    _, routine = wb.Context.cpu(1).compile([loss, *gradients.values()], rows=ROWS)
    return routine.program


def kept_for_the_way_back(dtype: str) -> list[wb.Tensor]:
    """Return what the way there leaves for the way back, of a row for each row of the batch."""
    program = deep_perceptron(dtype)
    turn = next(i for i, kernel in enumerate(program.kernels) if "loss" in kernel.label)
    local = set(program.local)
    # The last two are made shortly before, and the loss itself is made of them.
    return [
        node
        for node, (first, last) in lifetimes(program).items()
        if node in local and node.shape == (wb.batch, WIDTH) and first < turn - 2 and turn < last
    ]


@both_types
def test_what_the_way_back_needs_of_the_way_there_is_kept_in_16_bits(dtype: str) -> None:
    wide, narrowed = kept_for_the_way_back("float32"), kept_for_the_way_back(dtype)
    assert len(wide) == DEPTH - 2
    assert {str(node.dtype) for node in narrowed} == {dtype}


@both_types
def test_a_wide_copy_lives_for_one_product(dtype: str) -> None:
    program = deep_perceptron(dtype)
    lives = [life for node, life in lifetimes(program).items() if node.op == WIDE]
    # Two for each product of the way there and each gradient by weights, one for those by rows.
    assert len(lives) == 2 * DEPTH + (DEPTH - 1) + DEPTH
    assert max(last - first for first, last in lives) <= 2


@both_types
def test_local_memory_shrinks(dtype: str) -> None:
    def local_bytes(of: str) -> int:
        return local_layout(deep_perceptron(of), ROWS, families(deep_perceptron(of).kernels))[2]

    assert local_bytes(dtype) < local_bytes("float32")


@both_types
def test_every_stage_of_a_product_of_16_bit_tensors_can_be_shown(dtype: str) -> None:
    x, w = wb.input("x", (wb.batch, 64), dtype), wb.input("w", (64, 64), dtype)
    texts = {stage: wb.explain(x @ w, stage=stage) for stage in STAGES}
    assert "wide x" in texts["loops"]
    assert dtype in texts["graph"]
    assert "wide" not in texts["placement"]  # of the person's own tensors


# Casts


@both_types
@both_contexts
@pytest.mark.parametrize("other", ["float64", "float32", "int32", "int64", "bool"])
def test_casts_from_and_to_other_types(context: str, dtype: str, other: str) -> None:
    given = np.array([0, 1, 2, 3, 100, 257, 4099, 30_001]).astype(other)
    x = wb.input("x", given.shape, other)
    narrowed = x.astype(dtype)
    half, back = run(context, [narrowed, narrowed.astype(other)], {x: given})
    expected = given.astype(NUMPY[dtype])
    same(half.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(back, expected.astype(np.float32).astype(other))
    assert back.dtype == given.dtype


@both_types
@both_contexts
def test_a_float64_becomes_float32_before_it_becomes_16_bits(context: str, dtype: str) -> None:
    given = np.concatenate([np.random.default_rng(3).normal(size=1000), [1e300, -1e-300, np.nan]])
    x = wb.input("x", given.shape, "float64")
    (half,) = run(context, [x.astype(dtype)], {x: given})
    with np.errstate(over="ignore", under="ignore"):
        same(half.astype(np.float32), rounded(given.astype(np.float32), dtype))


@both_types
@both_contexts
def test_the_other_16_bit_type_is_reached_through_float32(context: str, dtype: str) -> None:
    other = next(name for name in HALVES if name != dtype)
    given = numbers((300,), 1, dtype)
    x = wb.input("x", given.shape, dtype)
    (made,) = run(context, [x.astype(other)], {x: given})
    same(made.astype(np.float32), rounded(given.astype(np.float32), other))


# Operations against a widened computation in numpy


def moved(x: wb.Tensor, y: wb.Tensor, n: wb.Tensor) -> dict[str, wb.Tensor]:
    return {
        "take": wb.take(x, n),
        "concat": wb.concat([x, y], 0),
        "pad": pad(x, (1, 0), (9, 11)),
        "transpose": wb.transpose(x),
        "slice": x[1:, 2:7],
        "reshape": wb.reshape(x, (-1,)),
        "where": wb.where(x > y, x, y),
        "relu": wb.relu(x),
        "neg": -x,
        "maximum": wb.maximum(x, y),
        "max": x.max(1),
        "min": x.min(0),
    }


MOVED: dict[str, Callable[[Array, Array, Array], Array]] = {
    "take": lambda x, y, n: x[n],
    "concat": lambda x, y, n: np.concatenate([x, y], 0),
    "pad": lambda x, y, n: np.pad(x, [(1, 2), (0, 3)]),
    "transpose": lambda x, y, n: x.T,
    "slice": lambda x, y, n: x[1:, 2:7],
    "reshape": lambda x, y, n: x.reshape(-1),
    "where": lambda x, y, n: np.where(x > y, x, y),
    "relu": lambda x, y, n: np.maximum(x, 0),
    "neg": lambda x, y, n: -x,
    "maximum": lambda x, y, n: np.maximum(x, y),
    "max": lambda x, y, n: x.max(1),
    "min": lambda x, y, n: x.min(0),
}
ROUNDED: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "square": lambda x, y: x * x,
    "sqrt": lambda x, y: np.sqrt(x * x),
}
SUMMED: dict[str, tuple[Callable[..., wb.Tensor], Callable[..., Array]]] = {
    "sum of rows": (lambda x, w: x.sum(1), lambda x, w: x.sum(1)),
    "sum of columns": (lambda x, w: x.sum(0), lambda x, w: x.sum(0)),
    "mean": (lambda x, w: x.mean(), lambda x, w: x.mean()),
    "product": (lambda x, w: x @ w, lambda x, w: x @ w),
    "product of a transpose": (lambda x, w: wb.transpose(w) @ x.T, lambda x, w: w.T @ x.T),
    "einsum": (
        lambda x, w: wb.einsum("ij,jk->ki", x, w),
        lambda x, w: np.einsum("ij,jk->ki", x, w),
    ),
    "batched": (
        lambda x, w: wb.einsum("ijk,ikl->ijl", x.reshape(2, 20, TERMS), wb.stack([w, -w])),
        lambda x, w: x.reshape(2, 20, TERMS) @ np.stack([w, -w]),
    ),
}


@both_types
@both_contexts
def test_what_only_moves_or_chooses_numbers_is_exact(context: str, dtype: str) -> None:
    a, b, rows = numbers((6, 8), 1, dtype), numbers((6, 8), 2, dtype), np.array([5, 0, 0, 3])
    x, y = wb.input("x", a.shape, dtype), wb.input("y", b.shape, dtype)
    n = wb.input("n", rows.shape, "int64")
    built = moved(x, y, n)
    found = run(context, list(built.values()), {x: a, y: b, n: rows})
    assert built.keys() == MOVED.keys()
    for name, value in zip(built, found, strict=True):
        assert value.dtype == NUMPY[dtype], name
        expected = MOVED[name](a.astype(np.float32), b.astype(np.float32), rows)
        np.testing.assert_array_equal(value.astype(np.float32), expected, err_msg=name)


@both_types
@both_contexts
@pytest.mark.parametrize("name", ROUNDED)
def test_arithmetic_is_that_of_float32_rounded_once(context: str, dtype: str, name: str) -> None:
    a, b = numbers((40, 24), 3, dtype), numbers((40, 24), 4, dtype)
    x, y = wb.input("x", a.shape, dtype), wb.input("y", b.shape, dtype)
    operations = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "square": wb.square(x)}
    made = operations.get(name, wb.sqrt(x.astype("float32") * x.astype("float32")).astype(dtype))
    (found,) = run(context, [made], {x: a, y: b})
    exact = ROUNDED[name](a.astype(np.float32), b.astype(np.float32))
    same(found.astype(np.float32), rounded(exact, dtype))


@both_types
@both_contexts
@pytest.mark.parametrize("name", SUMMED)
def test_sums_and_products_are_those_of_float32_rounded_once(
    context: str, dtype: str, name: str
) -> None:
    a, b = numbers((40, TERMS), 5, dtype), numbers((TERMS, 40), 6, dtype)
    x, w = wb.input("x", a.shape, dtype), wb.input("w", b.shape, dtype)
    build, exactly = SUMMED[name]
    (found,) = run(context, [build(x, w)], {x: a, w: b})
    assert found.dtype == NUMPY[dtype]
    exact = np.asarray(exactly(a.astype(np.float64), b.astype(np.float64)))
    # Rounded once: within half a unit of the exact sum, but for the rounding of float32 sums.
    unit = np.spacing(np.abs(exact).astype(NUMPY[dtype])).astype(np.float64)
    error = np.abs(found.astype(np.float64) - exact)
    slack = SUM_SHARE * np.abs(exactly(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))))
    assert (error <= unit / 2 + np.abs(slack)).all(), f"{error.max()} of {exact.ravel()[0]}"


@both_types
def test_interpreter_and_compiled_kernels_agree_on_gradients(dtype: str) -> None:
    a, b = numbers((40, TERMS), 7, dtype), numbers((TERMS, 40), 8, dtype)
    x, w = wb.input("x", a.shape, dtype), wb.parameter(b, "w", dtype=dtype)
    gradient = wb.backward(wb.square(wb.tanh(x @ w)).mean(), [w])[w]
    assert gradient.dtype is DType.F32
    first, second = (run(context, [gradient], {x: a})[0] for context in CONTEXTS)
    # Both round the same intermediate values, but a sum may fall on either side of a tie.
    eps = float(ml_dtypes.finfo(NUMPY[dtype]).eps)
    np.testing.assert_allclose(first, second, rtol=0, atol=eps * np.abs(first).max())

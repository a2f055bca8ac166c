"""Elementwise operations as scalar expressions, against numpy and scipy in float64."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from workbench.backends.interpreter.scalar import evaluate
from workbench.errors import CompileError
from workbench.graph import elementwise
from workbench.graph.dtype import DType
from workbench.loops import (
    expression,
    math_exponential,
    math_logarithm,
    math_power,
    math_saturation,
    math_trigonometry,
)
from workbench.loops.expand_math import EXPANDED, expand
from workbench.loops.expression import Apply, Expr, Number, Var, children
from workbench.loops.math_random import philox

Array = npt.NDArray[Any]

DENORMAL, NORMAL, LARGEST = 1e-45, 1.1754944e-38, 3.4028235e38
EDGES = np.array(
    [
        *(0.0, 1.0, np.inf, np.nan, DENORMAL, NORMAL, LARGEST, 0.99999994, 1.0000001, 16777216.0),
        *(-0.0, -1.0, -np.inf, -DENORMAL, -NORMAL, -LARGEST, 88.72284, -103.97208, -87.33655),
    ],
    np.float32,
)
# Prime, so that the sample meets every exponent with changing mantissas.
STEP = 8191
DENSE_STEP, DENSE_PARTS = 257, 16

X = Var("x", DType.F32)
Y = Var("y", DType.F32)


def _bit_patterns(step: int, start: int = 0) -> Array:
    return np.arange(start, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


SAMPLE = np.concatenate(
    [
        EDGES,
        _bit_patterns(STEP),
        np.random.default_rng(1).normal(scale=4.0, size=200_000).astype(np.float32),
    ]
)


def _silu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * special.expit(x))


def _gelu(x: Array) -> Array:
    return np.where(x == -np.inf, -0.0, x * special.ndtr(x))


REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": special.erf,
    "sigmoid": special.expit,
    "silu": _silu,
    "gelu": _gelu,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "square": np.square,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0.0),
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
}
# Error in units in the last place; the same figure stands in the function's docstring.
STATED: dict[str, tuple[Callable[..., Expr], float]] = {
    "exp": (math_exponential.exp, 1.7),
    "expm1": (math_exponential.expm1, 1.6),
    "sigmoid": (math_exponential.sigmoid, 3.5),
    "silu": (math_exponential.silu, 4.1),
    "softplus": (math_exponential.softplus, 2.5),
    "log": (math_logarithm.log, 0.9),
    "log1p": (math_logarithm.log1p, 1.5),
    "tanh": (math_saturation.tanh, 2.7),
    "erf": (math_saturation.erf, 2.7),
    "gelu": (math_saturation.gelu, 7.5),
    "sin": (math_trigonometry.sin, 2.0),
    "cos": (math_trigonometry.cos, 2.0),
    "pow": (math_power.power, 1.5),
}
ULP_BOUND = {name: bound for name, (_, bound) in STATED.items()} | {"rsqrt": 1.5}
# Operations that float32 arithmetic gives correctly rounded.
HALF_ULP = 0.5
# Results below these count as if they were as large.
FLOOR = {"gelu": 0.1}
# Larger arguments of these count as 0.
LARGEST_ANGLE = 2.0**28


def _no_load(buffer: int, offsets: Array, dtype: DType) -> Array:
    raise AssertionError("the expression reads a buffer")


def _value(expr: Expr, **environment: Any) -> Array:
    return evaluate(expr, environment, _no_load)


def _of(op: str, x: npt.ArrayLike, dtype: DType = DType.F32) -> Array:
    return _value(expand(op, (Var("x", dtype),), dtype), x=np.asarray(x, dtype.numpy))


def _exact(op: str, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return REFERENCE[op](x.astype(np.float64))


def _rounded(exact: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return exact.astype(np.float32)


def _ulps(value: Array, exact: Array, floor: float = 0.0) -> Array:
    """Return the error of finite results in units in the last place of the exact result."""
    size = np.maximum(np.abs(exact), floor)
    exponent = np.maximum(np.frexp(size)[1], -125)
    return np.abs(value.astype(np.float64) - exact) / np.ldexp(1.0, exponent - 24)


def _nodes(expr: Expr) -> list[Expr]:
    """Return every object of an expression once."""
    found: dict[int, Expr] = {}
    stack = [expr]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack.extend(children(node))
    return list(found.values())


def _fused(expr: Expr) -> Expr:
    """Return the expression with each float32 product and sum rounded once, as a backend may do."""
    done: dict[int, Expr] = {}

    def wide(node: Expr) -> Expr:
        return Apply("cast", (node,), DType.F64)

    def fuse(node: Expr) -> Expr:
        if id(node) in done or not isinstance(node, Apply):
            return done.get(id(node), node)
        args = tuple(fuse(arg) for arg in node.args)
        result: Expr = Apply(node.op, args, node.dtype)
        if node.op in ("add", "sub") and node.dtype is DType.F32:
            position = next((i for i, arg in enumerate(args) if _is_product(arg)), None)
            if position is not None:
                terms = [wide(arg) for arg in args]
                factors = expression.children(args[position])
                terms[position] = Apply("mul", tuple(wide(f) for f in factors), DType.F64)
                result = Apply("cast", (Apply(node.op, tuple(terms), DType.F64),), DType.F32)
        done[id(node)] = result
        return result

    return fuse(expr)


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op == "mul"


def _check_against_numpy(op: str, expr: Expr, x: Array) -> None:
    value, exact = _value(expr, x=x), _exact(op, x)
    in_range = np.abs(x) <= LARGEST_ANGLE if op in ("sin", "cos") else np.full(x.shape, True)
    rounded = _rounded(exact)
    assert np.array_equal(np.isnan(value), np.isnan(rounded))
    infinite = np.isinf(value) | np.isinf(rounded)
    assert np.array_equal(value[infinite], rounded[infinite])
    zero = (value == 0) & (rounded == 0) & in_range
    if op != "relu":  # numpy's own maximum of two zeros has either sign
        assert np.array_equal(np.signbit(value[zero]), np.signbit(rounded[zero]))
    kept = np.isfinite(rounded) & in_range
    errors = _ulps(value[kept], exact[kept], FLOOR.get(op, 0.0))
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP_BOUND.get(op, HALF_ULP), f"{op}({x[kept][worst]!r})"


@pytest.mark.parametrize("op", REFERENCE)
def test_float32_results_are_within_the_stated_error_over_the_whole_range(op: str) -> None:
    _check_against_numpy(op, expand(op, (X,), DType.F32), SAMPLE)


@pytest.mark.parametrize("op", [op for op in REFERENCE if op in ULP_BOUND])
def test_the_stated_error_holds_when_products_and_sums_are_fused(op: str) -> None:
    _check_against_numpy(op, _fused(expand(op, (X,), DType.F32)), SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in REFERENCE if op in ULP_BOUND])
def test_the_stated_error_holds_on_a_dense_sample(op: str) -> None:
    plain = expand(op, (X,), DType.F32)
    for expr in (plain, _fused(plain)):
        for start in range(0, DENSE_PARTS * DENSE_STEP, DENSE_STEP):
            _check_against_numpy(op, expr, _bit_patterns(DENSE_PARTS * DENSE_STEP, start))


@pytest.mark.parametrize("op", STATED)
def test_a_docstring_states_the_error_that_is_tested(op: str) -> None:
    function, bound = STATED[op]
    stated = re.search(r"Error:\s+([\d.]+)\s+ULP", inspect.getdoc(function) or "")
    assert stated is not None
    assert float(stated[1]) == bound


@pytest.mark.parametrize("op", REFERENCE)
def test_float64_results_agree_with_numpy(op: str) -> None:
    x = np.concatenate([EDGES.astype(np.float64), np.random.default_rng(2).normal(size=5000) * 30])
    exact = _exact(op, x)
    # From here down scipy's normal distribution function keeps digits that 1 + erf does not have.
    atol = 1e-14 if op == "gelu" else 0.0
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(_of(op, x, DType.F64), exact, rtol=1e-14, atol=atol)


def test_gelu_keeps_its_relative_precision_far_below_zero() -> None:
    x = np.linspace(-6.0, 0.0, 300_000, dtype=np.float32)[:-1]
    relative = np.abs(_of("gelu", x) / _gelu(x.astype(np.float64)) - 1)
    assert relative.max() <= 5e-6


def test_gelu_vanishes_below_the_range_of_its_polynomial() -> None:
    value = _of("gelu", -np.geomspace(6.0, 3e38, 10_000))
    assert np.all((value <= 0) & (value >= -6.1e-9))
    assert np.all(value[-9000:] == 0)


def test_an_angle_beyond_the_reducible_counts_as_zero() -> None:
    assert _of("sin", 2.0**29) == 0
    assert _of("cos", -(2.0**100)) == 1


def test_tanh_and_erf_rise_to_one_and_not_beyond() -> None:
    first, last = (int(word) for word in np.array([2.0, 12.0], np.float32).view(np.int32))
    top = np.arange(first, last, 3, dtype=np.int32)
    for op in ("tanh", "erf"):
        value = _of(op, top.view(np.float32))
        assert value.max() == 1.0
        assert np.all(np.diff(value) >= -(2.0**-23))


# --- pow -----------------------------------------------------------------------------------------

POWER = expand("pow", (X, Y), DType.F32)


def _check_power(x: Array, y: Array, expr: Expr = POWER) -> None:
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    value, rounded = _value(expr, x=x, y=y), _rounded(exact)
    assert np.array_equal(np.isnan(value), np.isnan(rounded))
    special_value = np.isinf(value) | np.isinf(rounded) | ((value == 0) & (rounded == 0))
    assert np.array_equal(value[special_value], rounded[special_value])
    assert np.array_equal(np.signbit(value[special_value]), np.signbit(rounded[special_value]))
    kept = np.isfinite(rounded)
    assert _ulps(value[kept], exact[kept]).max() <= ULP_BOUND["pow"]


def test_pow_has_the_special_cases_of_numpy() -> None:
    few = [2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 4.0, 1.5, -1.5, 8388609.0, -8388609.0, 0.3333, 1e30]
    operands = np.concatenate([EDGES, np.array(few, np.float32)])
    x, y = np.meshgrid(operands, operands)
    _check_power(x.ravel(), y.ravel())


@pytest.mark.parametrize("fuse", [False, True])
def test_pow_is_within_the_stated_error(fuse: bool) -> None:
    rng = np.random.default_rng(3)
    x = np.exp2(rng.uniform(-149, 128, 400_000)).astype(np.float32)
    y = (rng.uniform(-160, 160, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
    near_one = np.exp2(rng.uniform(-1, 1, 200_000)).astype(np.float32)
    moderate = rng.uniform(-60, 60, near_one.size).astype(np.float32)
    expr = _fused(POWER) if fuse else POWER
    _check_power(np.append(x, near_one), np.append(y, moderate), expr)


def test_a_negative_base_takes_whole_powers_only() -> None:
    x = np.full(5, -2.0, np.float32)
    y = np.array([3.0, 4.0, -3.0, 0.0, 0.5], np.float32)
    np.testing.assert_array_equal(_value(POWER, x=x, y=y), [-8.0, 16.0, -0.125, 1.0, np.nan])


# --- random numbers ------------------------------------------------------------------------------


def _hexadecimal(words: str) -> list[int]:
    return [int(word, 16) for word in words.split()]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (" ".join(["ffffffff"] * 4), "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter: str, key: str, expected: str) -> None:
    c0, c1, c2, c3, k0, k1 = (Number(v, DType.U32) for v in _hexadecimal(counter + " " + key))
    words = philox((c0, c1, c2, c3), (k0, k1))
    assert [int(_value(word)) for word in words] == _hexadecimal(expected)


def _draw(op: str, dtype: DType, seed: int, counter: int, positions: Array) -> Array:
    args = (Number(seed, DType.I64), Number(counter, DType.I64), Var("i", DType.I64))
    return _value(expand(op, args, dtype), i=positions)


def test_uniform_is_the_top_of_the_philox_words() -> None:
    first, second = 0x6627E8D5, 0xE169C58D
    position = np.zeros(1, np.int64)
    assert _draw("uniform", DType.F32, 0, 0, position) == (first >> 8) * 2.0**-24
    wide = ((first >> 5) << 26 | second >> 6) * 2.0**-53
    assert _draw("uniform", DType.F64, 0, 0, position) == wide


def test_seed_counter_and_position_fill_the_words_of_key_and_counter_in_order() -> None:
    position = np.array([0x85A308D3_243F6A88 - (1 << 64)], np.int64)
    seed, counter = 0x299F31D0_A4093822, 0x03707344_13198A2E
    drawn = _draw("uniform", DType.F32, seed, counter, position)
    assert drawn == (0xD16CFE09 >> 8) * 2.0**-24


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_uniform_numbers_are_uniform_and_below_one(dtype: DType) -> None:
    drawn = _draw("uniform", dtype, 42, 7, np.arange(200_000))
    assert drawn.dtype == dtype.numpy
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_normal_numbers_are_normal(dtype: DType) -> None:
    drawn = _draw("normal", dtype, 43, 7, np.arange(200_000))
    assert drawn.dtype == dtype.numpy
    assert np.all(np.isfinite(drawn))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3


def test_normal_is_the_cosine_branch_of_box_and_muller() -> None:
    positions = np.arange(100_000)
    args = (Number(5, DType.I64), Number(6, DType.I64))
    words = philox(
        (
            Apply("cast", (Var("i"),), DType.U32),
            Number(0, DType.U32),
            Number(6, DType.U32),
            Number(0, DType.U32),
        ),
        (Number(5, DType.U32), Number(0, DType.U32)),
    )
    u1, u2 = ((_value(word, i=positions) >> 8) * 2.0**-24 for word in words[:2])
    exact = np.sqrt(-2 * np.log(1 - u1)) * np.cos(2 * np.pi * u2)
    drawn = _value(expand("normal", (*args, Var("i")), DType.F32), i=positions)
    # Four roundings and a logarithm, a root of it, a cosine: about 3 ULP together.
    np.testing.assert_allclose(drawn, exact, rtol=4 * 2.0**-23, atol=1e-12)


@given(seed=st.integers(-(2**63), 2**63 - 1), other=st.integers(-(2**63), 2**63 - 1))
def test_another_seed_gives_other_numbers(seed: int, other: int) -> None:
    positions = np.arange(64)
    same = np.array_equal(
        _draw("uniform", DType.F32, seed, 0, positions),
        _draw("uniform", DType.F32, other, 0, positions),
    )
    assert same == (seed == other)


# --- other element types, sharing, errors ---------------------------------------------------------


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
def test_integers_have_sign_absolute_value_square_and_relu(dtype: DType) -> None:
    x = np.array([-3, 0, 5], dtype.numpy)
    references = {
        "sign": np.sign,
        "abs": np.abs,
        "neg": np.negative,
        "square": np.square,
        "relu": lambda a: np.maximum(a, 0),
    }
    for op, reference in references.items():
        np.testing.assert_array_equal(_of(op, x, dtype), reference(x))


def test_where_takes_the_arm_that_the_condition_names() -> None:
    condition = Var("c", DType.BOOL)
    value = _value(
        expand("where", (condition, X, Y), DType.F32),
        c=np.array([True, False]),
        x=np.array([1, np.nan], np.float32),
        y=np.array([np.nan, 2], np.float32),
    )
    np.testing.assert_array_equal(value, [1, 2])


def test_a_cast_cuts_toward_zero() -> None:
    value = _value(expand("cast", (X,), DType.I32), x=np.array([-1.9, 1.9], np.float32))
    assert value.dtype == np.int32
    np.testing.assert_array_equal(value, [-1, 1])


def test_every_elementwise_operation_of_the_graph_has_an_expansion() -> None:
    listed = (
        *elementwise.UNARY_FLOAT,
        *elementwise.UNARY_NUMERIC,
        *elementwise.BINARY_NUMERIC,
        *elementwise.COMPARISONS,
        *("div", "pow", "logical_and", "logical_or", "logical_not", "where", "cast"),
        *("stop_gradient", "uniform", "normal"),
    )
    assert sorted(set(listed) - set(EXPANDED)) == []


def test_expansions_use_primitives_only_and_the_library_in_float64_alone() -> None:
    primitives = {
        *expression.FLOAT_UNARY,
        *expression.ARITHMETIC,
        *expression.BITS,
        *expression.COMPARE,
        *expression.LOGIC,
        *("select", "cast", "bitcast"),
    }
    for op in REFERENCE:
        for node in _nodes(expand(op, (X,), DType.F32)):
            assert not isinstance(node, Apply) or node.op in primitives


@pytest.mark.parametrize(
    ("op", "most"),
    [("exp", 29), ("sigmoid", 33), ("tanh", 31), ("erf", 43), ("gelu", 49), ("log", 42)],
)
def test_the_number_of_operations_stays_what_it_is(op: str, most: int) -> None:
    nodes = _nodes(expand(op, (X,), DType.F32))
    counted = sum(isinstance(n, Apply) and n.op != "bitcast" for n in nodes)
    assert counted <= most


def test_an_unknown_operation_is_refused_naming_it_and_what_there_is() -> None:
    with pytest.raises(CompileError, match="`arctan` of float32") as caught:
        expand("arctan", (X,), DType.F32)
    assert "tanh" in caught.value.remedy


# --- properties ----------------------------------------------------------------------------------

finite = st.floats(-100, 100, width=32)
# What two results of a few ULP each may differ by.
FEW_ULP = 1e-6


@given(x=finite, y=finite)
def test_exp_is_monotone_up_to_its_error(x: float, y: float) -> None:
    low, high = sorted((x, y))
    smaller, greater = _of("exp", [low, high])
    assert smaller <= greater * np.float32(1 + 4 * 2.0**-23)


@given(x=st.floats(width=32, allow_nan=False))
def test_tanh_erf_and_sine_are_odd(x: float) -> None:
    for op in ("tanh", "erf", "sin"):
        if not (op == "sin" and np.isinf(x)):
            assert _of(op, x) == -_of(op, -x)


@given(x=finite)
def test_the_sigmoids_of_both_signs_add_up_to_one(x: float) -> None:
    assert float(_of("sigmoid", x) + _of("sigmoid", -x)) == pytest.approx(
        1, rel=FEW_ULP, abs=FEW_ULP
    )


@given(x=st.floats(2.0**-126, 2.0**126, width=32))
def test_exp_undoes_log(x: float) -> None:
    # An error of half a unit in the last place of the logarithm, at most 88, is this factor.
    assert float(_of("exp", _of("log", x))) == pytest.approx(x, rel=88 * 2.0**-22)


@given(x=finite)
def test_the_squares_of_sine_and_cosine_add_up_to_one(x: float) -> None:
    total = np.square(_of("sin", x)) + np.square(_of("cos", x))
    assert float(total) == pytest.approx(1, rel=FEW_ULP, abs=FEW_ULP)


@given(x=finite)
def test_softplus_of_both_signs_differ_by_the_argument(x: float) -> None:
    difference = float(_of("softplus", x)) - float(_of("softplus", -x))
    assert difference == pytest.approx(x, rel=FEW_ULP, abs=FEW_ULP)

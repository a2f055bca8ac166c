"""What each operation of the kernel language computes, against numpy."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench_kernels import compile_kernel
from workbench_kernels.language import LIBRARY_CALLS

SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 1e-40, -3e38])
WORDS = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}


def _elementwise(bench, expressions, inputs, dtype):
    """Evaluate expressions of ``p0[i], p1[i], ...`` for every element, in one kernel."""
    results = np.zeros((len(expressions), inputs[0].size), dtype)
    slot = len(inputs)
    lines = [f"    p{slot + k}[i] = {expression}" for k, expression in enumerate(expressions)]
    body = "\n".join(["for i in range(lo, hi):", *lines])
    bench(body, [*inputs, *results], hi=inputs[0].size)
    return results


def _one(bench, expression, inputs, dtype):
    return _elementwise(bench, [expression], inputs, dtype)[0]


FLOAT_OPERATIONS = {
    "p0[i] + p1[i]": np.add,
    "p0[i] - p1[i]": np.subtract,
    "p0[i] * p1[i]": np.multiply,
    "p0[i] / p1[i]": np.divide,
    "maximum(p0[i], p1[i])": np.maximum,
    "minimum(p0[i], p1[i])": np.minimum,
    "copysign(p0[i], p1[i])": np.copysign,
    "select(p0[i] < p1[i], p0[i], p1[i])": lambda a, b: np.where(a < b, a, b),
    "neg(p0[i])": lambda a, _: -a,
    "-p0[i]": lambda a, _: -a,
    "floor(p0[i])": lambda a, _: np.floor(a),
    "ceil(p0[i])": lambda a, _: np.ceil(a),
    "trunc(p0[i])": lambda a, _: np.trunc(a),
    "round_even(p0[i])": lambda a, _: np.rint(a),
    "fabs(p0[i])": lambda a, _: np.abs(a),
    "sqrt(p0[i])": lambda a, _: np.sqrt(a),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_operations_agree_with_numpy_on_special_values(bench, dtype):
    a, b = (part.ravel() for part in np.meshgrid(SPECIAL.astype(dtype), SPECIAL.astype(dtype)))
    results = _elementwise(bench, FLOAT_OPERATIONS, [a, b], dtype)
    for (expression, reference), result in zip(FLOAT_OPERATIONS.items(), results, strict=True):
        with np.errstate(all="ignore"):
            expected = reference(a, b)
        np.testing.assert_array_equal(result, expected, err_msg=expression)
        if "m(" in expression:  # maximum and minimum leave the sign of a zero open
            continue
        decided = ~np.isnan(expected)
        signs, wanted = np.signbit(result)[decided], np.signbit(expected)[decided]
        np.testing.assert_array_equal(signs, wanted, err_msg=expression)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_nan_survives_a_vectorised_maximum_wherever_it_stands(bench, name):
    values = np.arange(100, dtype=np.float32)
    for place in (0, 31, 32, 63, 96, 99):
        poisoned = values.copy()
        poisoned[place] = np.nan
        result = np.zeros(1, np.float32)
        body = f"""
        best = p0[0]
        for i in range(lo, hi):
            best = {name}(best, p0[i])
        p1[0] = best
        """
        bench(body, [poisoned, result], hi=100)
        assert np.isnan(result[0])


def test_comparisons_of_nan_are_false_except_differing(bench):
    a = np.array([np.nan, 1.0, np.nan])
    b = np.array([1.0, np.nan, np.nan])
    false = [f"p0[i] {sign} p1[i]" for sign in ("<", "<=", ">", ">=", "==")]
    assert not _elementwise(bench, false, [a, b], np.bool_).any()
    true = ["p0[i] != p1[i]", "is_nan(p0[i]) | is_nan(p1[i])"]
    assert _elementwise(bench, true, [a, b], np.bool_).all()
    finite = _one(bench, "is_finite(p0[i])", [SPECIAL], np.bool_)
    np.testing.assert_array_equal(finite, np.isfinite(SPECIAL))


@pytest.mark.parametrize("kind", WORDS)
@given(data=st.data())
def test_integer_operations_wrap_in_their_own_width(bench, kind, data):
    dtype = WORDS[kind]
    limits = np.iinfo(dtype)
    unsigned, signed = (np.dtype(f"{sign}{limits.bits // 8}") for sign in "ui")
    word = st.integers(int(limits.min), int(limits.max)) | st.sampled_from([0, 1, 2, 7])
    pairs = data.draw(st.lists(st.tuples(word, word), min_size=1, max_size=20))
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    shift = b % dtype(limits.bits)
    expected = {
        f"{kind}_add(p0[i], p1[i])": a + b,
        f"{kind}_sub(p0[i], p1[i])": a - b,
        f"{kind}_mul(p0[i], p1[i])": a * b,
        f"{kind}_and(p0[i], p1[i])": a & b,
        f"{kind}_or(p0[i], p1[i])": a | b,
        f"{kind}_xor(p0[i], p1[i])": a ^ b,
        f"{kind}_shl(p0[i], p2[i])": a << shift,
        f"{kind}_lshr(p0[i], p2[i])": (a.view(unsigned) >> shift.view(unsigned)).view(dtype),
        f"{kind}_ashr(p0[i], p2[i])": (a.view(signed) >> shift.view(signed)).view(dtype),
        f"{kind}_neg(p0[i])": dtype(0) - a,
        f"{kind}_not(p0[i])": ~a,
        "maximum(p0[i], p1[i])": np.maximum(a, b),
        "minimum(p0[i], p1[i])": np.minimum(a, b),
    }
    results = _elementwise(bench, expected, [a, b, shift], dtype)
    for (expression, wanted), result in zip(expected.items(), results, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=expression)


@pytest.mark.parametrize("kind", WORDS)
@given(data=st.data())
def test_integer_division_never_traps(bench, kind, data):
    dtype = WORDS[kind]
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    word = st.integers(low, high) | st.sampled_from([low, high, 0, 1, -1 if low else 1])
    a, b = data.draw(word), data.draw(word)
    truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    floored = a // b if b else 0
    arrays = [np.array([value], dtype) for value in (a, b)]
    expected = {
        f"{kind}_div(p0[i], p1[i])": truncated,
        f"{kind}_rem(p0[i], p1[i])": a - truncated * b,
        f"{kind}_floordiv(p0[i], p1[i])": floored,
        f"{kind}_mod(p0[i], p1[i])": a - floored * b,
        f"{kind}_mulhi(p0[i], p1[i])": (a * b) >> limits.bits,
        f"{kind}_abs(p0[i])": abs(a),
    }
    results = _elementwise(bench, expected, arrays, dtype)
    for (expression, value), result in zip(expected.items(), results, strict=True):
        wrapped = np.array(value % 2**limits.bits, f"u{limits.bits // 8}").view(dtype)
        assert result[0] == wrapped, expression


def test_literals_beyond_int64_are_unsigned(bench):
    a = np.array([3], np.uint64)
    result = _one(bench, "u64_mul(p0[i], 0x9E3779B97F4A7C15)", [a], np.uint64)
    assert result[0] == (3 * 0x9E3779B97F4A7C15) % 2**64


@given(st.integers(-(2**40), 2**40), st.integers(-1000, 1000))
def test_index_division_rounds_towards_minus_infinity(bench, a, b):
    pair = np.array([a, b])
    result = np.zeros(2, np.int64)
    bench("p1[0] = p0[0] // p0[1]\np1[1] = p0[0] % p0[1]", [pair, result])
    assert tuple(result) == ((a // b, a % b) if b else (0, a))


DTYPES = ("bool", "int32", "int64", "uint32", "uint64", "float32", "float64")
CASTS = dict(zip(DTYPES, ("b1", "i32", "i64", "u32", "u64", "f32", "f64"), strict=True))


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_casts_agree_with_numpy(bench, source, target):
    values = np.array([0, 1, 2, 3, 100, 2**31 - 200], np.int64)
    if source not in ("bool", "uint32", "uint64") and target not in ("uint32", "uint64"):
        values = np.concatenate([values, -values])
    a = values.astype(source)
    if np.dtype(source).kind == "f":
        a[3] += 0.75
    expected = a.astype(target)
    stored, cast = _elementwise(bench, ["p0[i]", f"{CASTS[target]}(p0[i])"], [a], target)
    np.testing.assert_array_equal(stored, expected)
    np.testing.assert_array_equal(cast, expected)


def test_a_float_that_fits_no_integer_does_not_trap(bench):
    a = SPECIAL.astype(np.float32)
    for target in ("int32", "int64", "uint32", "uint64"):
        result = _one(bench, "p0[i]", [a], target)
        assert result[2] == 1


def test_nan_is_true(bench):
    for truth in _elementwise(bench, ["b1(p0[i])", "truth(p0[i])"], [SPECIAL], np.bool_):
        np.testing.assert_array_equal(truth, SPECIAL.astype(np.bool_))


@pytest.mark.parametrize(
    ("whole", "word"),
    [("float32", "int32"), ("float32", "uint32"), ("float64", "int64"), ("float64", "uint64")],
)
def test_bitcasts_keep_every_bit(bench, whole, word):
    a = SPECIAL.astype(whole)
    one, other = CASTS[whole], CASTS[word]
    bits = _one(bench, f"bitcast_{one}_{other}(p0[i])", [a], word)
    np.testing.assert_array_equal(bits, a.view(word))
    back = _one(bench, f"bitcast_{other}_{one}(p0[i])", [bits], whole)
    np.testing.assert_array_equal(back.view(word), a.view(word))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(bench, dtype):
    eps = np.finfo(dtype).eps
    a, b, c = (np.array([value], dtype) for value in (1 + eps, 1 - eps, -1.0))
    result = _one(bench, "fma(p0[i], p1[i], p2[i])", [a, b, c], dtype)
    assert result[0] == -(eps**2)


@pytest.mark.parametrize("name", sorted(LIBRARY_CALLS))
def test_library_functions_agree_with_numpy(bench, name):
    symbol, kind, count = LIBRARY_CALLS[name]
    dtype = np.float32 if kind.bits == 32 else np.float64
    values = np.linspace(1.05, 2.0, 9) if symbol == "acosh" else np.linspace(0.05, 0.95, 9)
    a, b = values.astype(dtype), values[::-1].astype(dtype)
    operands = "p0[i], p1[i]" if count == 2 else "p0[i]"
    result = _one(bench, f"{name}({operands})", [a, b], dtype)
    expected = _numpy_function(symbol.removesuffix("f"))(*(a, b)[:count])
    np.testing.assert_allclose(result, expected, rtol=4 * float(np.finfo(dtype).eps))


def _numpy_function(symbol):
    import scipy.special

    renamed = {
        "asin": "arcsin",
        "acos": "arccos",
        "atan": "arctan",
        "atan2": "arctan2",
        "asinh": "arcsinh",
        "acosh": "arccosh",
        "atanh": "arctanh",
        "pow": "power",
        "er": "erf",
    }
    name = renamed.get(symbol) or symbol
    return getattr(np if hasattr(np, name) else scipy.special, name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reassociating_sums_and_products_are_close(bench, dtype):
    values = np.random.default_rng(3).uniform(0.9, 1.1, 1000).astype(dtype)
    result = np.zeros(2, dtype)
    one = "f32(1.0)" if dtype == np.float32 else "1.0"
    body = f"""
    total = {one} - {one}
    product = {one}
    for i in range(lo, hi):
        total = reassoc_add(total, p0[i])
        product = reassoc_mul(product, p0[i])
    p1[0] = total
    p1[1] = product
    """
    bench(body, [values, result], hi=1000)
    exact = values.astype(np.float64)
    reduction_error = 1000 * np.finfo(dtype).eps
    np.testing.assert_allclose(result, [exact.sum(), exact.prod()], rtol=reduction_error)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_widened_on_loading_and_rounded_to_even_on_storing(bench, dtype):
    kind = np.dtype(dtype) if dtype == "float16" else np.dtype(ml_dtypes.bfloat16)
    wide = np.concatenate([SPECIAL, np.linspace(-3, 3, 1001)]).astype(np.float32)
    wide[np.abs(wide) > 6e4] = 100.0
    narrow = np.zeros(wide.shape, kind)
    back = np.zeros_like(wide)
    body = "for i in range(lo, hi):\n    p1[i] = p0[i]\n    p2[i] = p1[i]"
    bench(body, [wide, narrow, back], hi=wide.size, dtypes=["float32", dtype, "float32"])
    with np.errstate(invalid="ignore", over="ignore"):
        expected = wide.astype(kind)
    np.testing.assert_array_equal(back, expected.astype(np.float32))


def test_float16_without_instructions_for_it_is_refused(source_of, monkeypatch):
    import workbench_kernels.compile as module

    monkeypatch.setattr(module, "has_float16_instructions", lambda: False)
    with pytest.raises(NotImplementedError, match="bfloat16"):
        compile_kernel(source_of("pass"), ["float16"])
    assert compile_kernel(source_of("pass"), ["bfloat16"]).code


def test_truth_values_are_stored_as_one_byte(bench):
    a = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    result = np.full(4, 7, np.uint8).view(np.bool_)
    bench("for i in range(lo, hi):\n    p1[i] = not p0[i]", [a, result], hi=4)
    np.testing.assert_array_equal(result.view(np.uint8), [1, 0, 0, 0])


def test_control_flow_runs_as_in_python(bench):
    def python(n):
        total, i = 0, 0
        while True:
            i += 1
            if i > n or total > 500:
                break
            if i % 3 == 0 and not 5 < i < 7:
                continue
            total += i if i < 50 else -1
        for j in range(n, 0, -2):
            total = total + j
        return total

    body = """
    total = 0
    i = 0
    while True:
        i += 1
        if i > lo or total > 500:
            break
        if i % 3 == 0 and not 5 < i < 7:
            continue
        total += i if i < 50 else -1
    for j in range(lo, 0, -2):
        total = total + j
    args[0] = total
    """
    for n in (0, 1, 7, 100):
        source_block = bench(body.replace("args[0]", "args[1]"), [np.zeros(1)], 0, lo=n)
        assert source_block[1] == python(n)


def test_fill_and_copy_take_offsets_in_elements(bench):
    a, b = np.arange(8, dtype=np.float64), np.zeros(8)
    bench("copy(p1, 1, p0, 3, 4)\nzero_fill(p0, 2, 5)", [a, b])
    np.testing.assert_array_equal(b, [0, 3, 4, 5, 6, 0, 0, 0])
    np.testing.assert_array_equal(a, [0, 1, 0, 0, 0, 0, 0, 7])


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            "b = pointer_0(args[0])\nb[lo] = b[lo] * 0.5",
            TypeError,
            r"`mul`.*\(f32, f64\), in line 3",
        ),
        ("x = maximum(i32(lo), 0)", TypeError, r"`maximum`.*\(i32, i64\), in line 2"),
        ("x = exp_f64(f32(1.0))", TypeError, r"`exp_f64` takes \(f64\), not \(f32\)"),
        ("x = lo / hi", TypeError, r"`truediv` takes floats of one type"),
        ("x = lo ** hi", TypeError, r"`pow` is not an operator of kernel texts"),
        ("x = f32(1.0)\nif lo > 2:\n    x = 1.0\nargs[0] = i64(x)", TypeError, "unify"),
        ("x = print(lo)", NameError, "cannot name print"),
        ("import os", NameError, "cannot name os"),
        ("x = [lo]", TypeError, "line 2"),
        ("zero_fill(lo, 0, 1)", TypeError, r"`zero_fill` takes \(buffer, i64, i64\)"),
        ("b = pointer_0(args[0])\ncopy(b, 0, b, 1, 1)", TypeError, "different slots"),
        ("x = = 1", SyntaxError, "invalid syntax"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_its_line(source_of, body, error, message):
    with pytest.raises(error, match=message):
        compile_kernel(source_of(body), ["float32"])


def test_a_text_must_define_the_kernel():
    with pytest.raises(SyntaxError, match=r"kernel\(args, lo, hi\)"):
        compile_kernel("def kernel(x):\n    pass", [])


def test_an_unknown_dtype_is_refused_with_those_that_are_known(source_of):
    with pytest.raises(ValueError, match="complex64; it holds bool, int32"):
        compile_kernel(source_of("pass"), ["complex64"])

"""What a routine makes of subnormal numbers: they are 0 where it is compiled, not interpreted."""

import operator

import numpy as np
import pytest

import workbench as wb
from tests.loops.test_math import FLOOR, HALF_ULP, LARGEST_ANGLE, REFERENCE, SAMPLE, ULP_BOUND
from workbench_kernels import flushes_subnormals

pytestmark = pytest.mark.skipif(
    not flushes_subnormals(), reason="this processor computes with them"
)

UNARY = [*REFERENCE, "stop_gradient"]
BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "maximum": wb.maximum,
    "minimum": wb.minimum,
    "less": operator.lt,
    "greater": operator.gt,
    "equal": operator.eq,
    "where": lambda a, b: wb.where(a > b, a, b),
}
# Prime: whatever the width of a vector, some elements are left over for the scalar loop.
COPIES = 67


def least(dtype):
    return np.finfo(dtype).smallest_normal


def flushed(values):
    """Return the array with 0 of the same sign in place of each subnormal number."""
    is_small = np.abs(values) < least(values.dtype)
    return np.where(is_small, np.copysign(0, values), values).astype(values.dtype)


def apply(op, *operands):
    if op in BINARY:
        return BINARY[op](*operands)
    if op in ("neg", "abs"):
        return {"neg": operator.neg, "abs": abs}[op](*operands)
    return getattr(wb, op)(*operands)


def computed(ops, *arrays, context=None):
    """Return the value of each operation on the arrays, computed by one routine."""
    operands = [wb.input(f"x{i}", a.shape, a.dtype.name) for i, a in enumerate(arrays)]
    outputs = {op: apply(op, *operands) for op in ops}
    ctx = wb.Context.cpu(threads=1) if context is None else context
    ctx, routine = ctx.compile(list(outputs.values()))
    ctx = ctx.set_values(dict(zip(operands, arrays, strict=True))).run(routine)
    return {op: np.array(ctx.get_values(node)) for op, node in outputs.items()}


def same(left, right):
    """Return where two arrays hold the same bits, or NaN both."""
    if left.dtype.kind != "f":
        return left == right
    word = np.int32 if left.dtype == np.float32 else np.int64
    return (left.view(word) == right.view(word)) | (np.isnan(left) & np.isnan(right))


def check(ops, *arrays):
    """Subnormal operands count as 0, or come out as they are where nothing is computed of them."""
    of_small, of_zeros = computed(ops, *arrays), computed(ops, *map(flushed, arrays))
    exact = computed(ops, *arrays, context=wb.Context.interpreter())
    for op in ops:
        fits = same(of_small[op], of_zeros[op]) | same(of_small[op], exact[op])
        assert fits.all(), (op, [a[~fits][0] for a in arrays], of_small[op][~fits][0])
        # An element's place, and with it which loop computes it, changes nothing.
        by_place = of_small[op].reshape(-1, COPIES)
        assert same(by_place, np.broadcast_to(by_place[:, :1], by_place.shape).copy()).all(), op


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_subnormal_operand_counts_as_zero(dtype):
    sizes = np.array([least(dtype) / 3, np.finfo(dtype).smallest_subnormal], dtype)
    largest = np.nextafter(least(dtype), dtype(0))
    values = np.concatenate([sizes, -sizes, [largest, -largest]]).astype(dtype)
    check(UNARY, np.repeat(values, COPIES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_two_operands_a_subnormal_one_counts_as_zero(dtype):
    tiny = least(dtype) / 5
    few = [0.0, -0.0, 1.0, -1.0, tiny, -tiny, 3 * tiny, np.inf, -np.inf, np.nan, 3.0, 0.5, -2.5]
    pairs = np.meshgrid(np.array([*few, 2 * least(dtype)], dtype), np.array(few, dtype))
    check(list(BINARY), *(np.repeat(side.ravel(), COPIES) for side in pairs))


def test_what_is_computed_with_reads_zero_and_what_is_moved_keeps_its_bits():
    x = np.full(4, 1e-39, np.float32)
    found = computed(["square", "exp", "neg", "stop_gradient"], x)
    np.testing.assert_array_equal(found["square"], 0)
    np.testing.assert_array_equal(found["exp"], 1)
    np.testing.assert_array_equal(found["neg"], -x)
    np.testing.assert_array_equal(found["stop_gradient"], x)


def test_a_result_that_would_be_subnormal_is_zero():
    small, smaller = np.full(COPIES, -1e-20, np.float32), np.full(COPIES, 1e-19, np.float32)
    product = computed(["mul"], small, smaller)["mul"]
    assert not product.any()
    assert np.signbit(product).all()
    interpreted = computed(["mul"], small, smaller, context=wb.Context.interpreter())["mul"]
    np.testing.assert_array_equal(interpreted, small * smaller)
    assert interpreted.all()


def check_error(op, value, exact):
    """Normal results are within the error that the operation states, others are 0 or as small."""
    smallest = least(np.float32)
    with np.errstate(all="ignore"):
        kept = np.isfinite(exact.astype(np.float32)) & (np.abs(exact) >= 1.01 * smallest)
    size = np.maximum(np.abs(exact[kept]), FLOOR.get(op, 0.0))
    unit = np.ldexp(1.0, np.frexp(size)[1] - 24)
    errors = np.abs(value[kept].astype(np.float64) - exact[kept]) / unit
    assert errors.max() <= ULP_BOUND.get(op, HALF_ULP), (op, exact[kept][errors.argmax()])
    assert np.abs(value[np.abs(exact) < 0.99 * smallest]).max(initial=0) <= smallest


@pytest.mark.parametrize("part", range(4))
def test_other_float32_results_are_within_the_stated_error(part):
    ops = list(REFERENCE)[part::4]
    x = SAMPLE[np.abs(SAMPLE) >= least(np.float32)]
    for op, value in computed(ops, x).items():
        with np.errstate(all="ignore"):
            exact = REFERENCE[op](x.astype(np.float64))
        reducible = np.abs(x) <= LARGEST_ANGLE if op in ("sin", "cos") else slice(None)
        check_error(op, value[reducible], exact[reducible])


def test_other_powers_are_within_the_stated_error():
    chance = np.random.default_rng(3)
    x = np.exp2(chance.uniform(-126, 128, 200_000)).astype(np.float32)
    y = (chance.uniform(-140, 130, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    check_error("pow", computed(["pow"], x, y)["pow"], exact)


def test_a_conversion_to_float32_gives_zero_below_the_smallest_normal_number():
    x = np.array([1e-39, -1e-40, 1e-37, 1.0], np.float64)
    node = wb.input("x", (4,), "float64")
    out = node.astype("float32")
    ctx, routine = wb.Context.cpu(threads=1).compile([out])
    ctx = ctx.set_values({node: x}).run(routine)
    np.testing.assert_array_equal(ctx.get_values(out), flushed(x.astype(np.float32)))


@pytest.mark.parametrize(("dtype", "kept"), [("bfloat16", 0.0), ("float16", 3e-7)])
def test_the_small_numbers_of_float16_are_normal_ones_of_float32(dtype, kept):
    # Both are widened to float32, of which bfloat16 has the range and float16 less.
    x = np.full(COPIES, 3e-7 if dtype == "float16" else 1e-39, np.float32)
    node = wb.input("x", (COPIES,), dtype)
    out = node.astype("float32") * 2.0
    back = out.astype(dtype).astype("float32")
    ctx, routine = wb.Context.cpu(threads=1).compile([out, back])
    ctx = ctx.set_values({node: x}).run(routine)
    for found in (ctx.get_values(out), ctx.get_values(back)):
        np.testing.assert_allclose(found, 2 * kept, rtol=0.2)


def layer(threads, x, w):
    """Return products, a softmax and a sum of small and ordinary numbers."""
    left, right = wb.input("x", x.shape), wb.input("w", w.shape)
    product = left @ right
    outputs = [product, wb.softmax(product * 1e38), wb.square(left * 1e30).sum(axis=0)]
    ctx, routine = wb.Context.cpu(threads).compile(outputs)
    ctx = ctx.set_values({left: x, right: w}).run(routine)
    cut = max(launch.chunks for launch in routine.launches(None, ctx.arrays()))
    return cut, [np.array(ctx.get_values(node)) for node in outputs]


@pytest.fixture(scope="module")
def operands():
    chance = np.random.default_rng(5)
    x = 10.0 ** chance.uniform(-45, -30, (512, 256)) * chance.choice([-1, 1], (512, 256))
    w = 10.0 ** chance.uniform(-9, 0, (256, 128))
    return x.astype(np.float32), w.astype(np.float32)


@pytest.mark.parametrize("threads", [2, 3])
def test_products_of_subnormal_numbers_are_the_same_bits_on_more_threads(operands, threads):
    (cut, alone), (_, found) = layer(1, *operands), layer(threads, *operands)
    assert cut > 1
    for one, more in zip(alone, found, strict=True):
        assert one.any()
        assert one.tobytes() == more.tobytes()


def test_a_product_takes_subnormal_operands_as_zero(operands):
    x, w = operands
    assert (np.abs(x) < least(np.float32)).mean() > 0.2
    for found, expected in zip(layer(2, x, w)[1], layer(2, flushed(x), w)[1], strict=True):
        assert found.tobytes() == expected.tobytes()
    (product, _, _) = layer(2, np.where(np.abs(x) < 1e-38, x, 0).astype(np.float32), w)[1]
    assert not product.any()

"""The reference evaluator of scalar expressions: exact types, sharing, depth, refusals."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.backends.interpreter.scalar import evaluate
from workbench.errors import CompileError
from workbench.graph.dtype import DType
from workbench.loops.expression import Apply, Expr, Load, Number, Var, apply, number

Array = npt.NDArray[Any]

INTEGERS = {DType.I32: 32, DType.U32: 32, DType.I64: 64, DType.U64: 64}


def _no_load(buffer: int, offsets: Array, dtype: DType) -> Array:
    raise AssertionError("the expression reads a buffer")


def _value(expr: Expr, **environment: Any) -> Array:
    return evaluate(expr, environment, _no_load)


def _binary(op: str, dtype: DType, left: Any, right: Any) -> Array:
    expr = apply(op, Var("a", dtype), Var("b", dtype))
    return _value(expr, a=np.asarray(left, dtype.numpy), b=np.asarray(right, dtype.numpy))


def _wrapped(value: int, dtype: DType) -> int:
    width = INTEGERS[dtype]
    value %= 1 << width
    signed = dtype in (DType.I32, DType.I64)
    return value - (1 << width) if signed and value >> (width - 1) else value


@given(data=st.data(), dtype=st.sampled_from(list(INTEGERS)))
def test_integers_wrap_in_their_own_width(data: st.DataObject, dtype: DType) -> None:
    info = np.iinfo(dtype.value)
    left, right = (data.draw(st.integers(int(info.min), int(info.max))) for _ in "ab")
    exact = {"add": left + right, "sub": left - right, "mul": left * right}
    for op, value in exact.items():
        result = _binary(op, dtype, left, right)
        assert result.dtype == dtype.numpy
        assert int(result) == _wrapped(value, dtype)


@given(left=st.integers(-100, 100), right=st.integers(-9, 9))
def test_integer_division_cuts_toward_zero_and_by_zero_gives_zero(left: int, right: int) -> None:
    expected = int(left / right) if right else 0
    assert int(_binary("div", DType.I64, left, right)) == expected


def test_float32_operations_are_rounded_to_float32_each() -> None:
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1)
    expr = apply("add", apply("mul", *(Var(n, DType.F32) for n in "ab")), Var("c", DType.F32))
    value = _value(expr, a=a, b=b, c=c)
    assert value.dtype == np.float32
    assert value == np.float32(2**-11)  # a fused operation would keep 2**-24


def test_a_constant_takes_the_type_of_its_node_and_does_not_widen_others() -> None:
    expr = apply("mul", Var("x", DType.F32), number(0.1, DType.F32))
    value = _value(expr, x=np.ones(3, np.float32))
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, np.full(3, np.float32(0.1)))


def test_the_maximum_and_minimum_with_nan_are_nan_on_either_side() -> None:
    for op in ("maximum", "minimum"):
        assert np.all(np.isnan(_binary(op, DType.F32, [np.nan, 1.0], [1.0, np.nan])))
    np.testing.assert_array_equal(_binary("maximum", DType.F32, [1, 3], [2, 2]), [2, 3])
    np.testing.assert_array_equal(_binary("minimum", DType.I32, [1, 3], [2, 2]), [1, 2])


def test_the_greater_of_two_zeros_is_the_second() -> None:
    zeros = _binary("maximum", DType.F32, [0.0, -0.0], [-0.0, 0.0])
    assert np.array_equal(np.signbit(zeros), [True, False])


def test_halves_are_rounded_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5], np.float32)
    np.testing.assert_array_equal(_value(apply("round", Var("x", DType.F32)), x=x), [0, 2, 2, -0.0])


def test_a_right_shift_keeps_the_sign_of_signed_integers_only() -> None:
    assert _binary("shift_right", DType.I32, -8, 1) == -4
    assert _binary("shift_right", DType.U32, 0xFFFFFFF8, 1) == 0x7FFFFFFC


def test_bits_are_reinterpreted_and_back() -> None:
    x = np.array([[1.0, -0.0, np.inf]], np.float32)
    word = Apply("bitcast", (Var("x", DType.F32),), DType.I32)
    np.testing.assert_array_equal(_value(word, x=x), [[0x3F800000, -(2**31), 0x7F800000]])
    back = Apply("bitcast", (word,), DType.F32)
    assert _value(back, x=x.T[:, :1]).tobytes() == x.tobytes()


def test_a_float_becomes_an_integer_by_cutting_and_wide_integers_lose_their_high_bits() -> None:
    cut = Apply("cast", (Var("x", DType.F64),), DType.I64)
    np.testing.assert_array_equal(_value(cut, x=np.array([-2.7, 2.7])), [-2, 2])
    low = Apply("cast", (Var("n", DType.I64),), DType.U32)
    assert _value(low, n=np.int64(-1)) == 0xFFFFFFFF


def test_infinities_and_nan_come_without_a_warning() -> None:
    huge = np.array([3e38, 1.0, 0.0], np.float32)
    x = Var("x", DType.F32)
    np.testing.assert_array_equal(_value(apply("mul", x, x), x=huge), [np.inf, 1, 0])
    np.testing.assert_array_equal(_value(apply("div", x, x), x=huge), [1, 1, np.nan])
    assert np.isnan(_value(apply("log", Var("y", DType.F64)), y=np.float64(-1)))


def test_loads_are_asked_for_with_buffer_offsets_and_type() -> None:
    memory = {3: np.arange(10, dtype=np.float32)}

    def load(buffer: int, offsets: Array, dtype: DType) -> Array:
        assert dtype is DType.F32
        return memory[buffer][offsets]

    offset = apply("add", Var("i"), Number(2, DType.I64))
    value = evaluate(Load(3, offset, DType.F32), {"i": np.array([[0, 5]])}, load)
    np.testing.assert_array_equal(value, [[2, 7]])


def test_a_shared_operand_is_read_once() -> None:
    reads: list[int] = []

    def load(buffer: int, offsets: Array, dtype: DType) -> Array:
        reads.append(buffer)
        return np.ones_like(offsets, dtype.numpy)

    total: Expr = Load(0, Var("i"), DType.F64)
    for _ in range(60):  # as a tree: 2**60 loads
        total = apply("add", total, total)
    assert evaluate(total, {"i": np.int64(0)}, load) == 2.0**60
    assert reads == [0]


def test_a_chain_of_ten_thousand_operations_is_evaluated() -> None:
    total: Expr = Var("x", DType.F64)
    for _ in range(10_000):
        total = apply("add", total, number(1, DType.F64))
    np.testing.assert_array_equal(_value(total, x=np.zeros(2)), [10_000, 10_000])


def test_selection_and_logic_work_on_truth_values() -> None:
    x = Var("x", DType.F32)
    inside = apply(
        "logical_and",
        apply("less", number(0, DType.F32), x),
        apply("logical_not", apply("greater", x, number(1, DType.F32))),
    )
    expr = Apply("select", (inside, x, number(-1, DType.F32)), DType.F32)
    value = _value(expr, x=np.array([-5, 0.5, 5], np.float32))
    np.testing.assert_array_equal(value, [-1, 0.5, -1])


@pytest.mark.parametrize("op", ["exp", "pow", "erf"])
def test_a_library_function_of_float32_is_refused_with_a_remedy(op: str) -> None:
    args = (Var("x", DType.F32),) * (2 if op == "pow" else 1)
    with pytest.raises(CompileError, match=f"no `{op}` of float32") as caught:
        _value(Apply(op, args, DType.F32), x=np.float32(1))
    assert "expand" in caught.value.remedy


def test_a_variable_without_a_value_or_of_another_type_is_refused() -> None:
    with pytest.raises(CompileError, match=r"`x` has no value here; there are \['y'\]"):
        _value(Var("x", DType.F32), y=np.float32(1))
    with pytest.raises(CompileError, match="of type float32 but its value of type float64"):
        _value(Var("x", DType.F32), x=np.float64(1))


def test_a_result_of_another_type_than_the_node_says_is_refused() -> None:
    with pytest.raises(CompileError, match=r"`add` of \(float64, float64\) gives float64"):
        _value(
            apply("add", Var("x", DType.F64), Var("x", DType.F64), dtype=DType.F32), x=np.ones(1)
        )

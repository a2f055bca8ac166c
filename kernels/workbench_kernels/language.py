"""What each name and operator of the kernel language takes, gives and emits.

Second file of the front end: :data:`OPERATIONS` holds the named functions, :data:`OPERATORS` the
Python operators, :func:`pointer` makes the ``pointer_<k>`` of a kernel. An operation first *signs*
(:mod:`~workbench_kernels.signatures`: operand kinds in, the kinds it wants and gives out), then
*emits* operands of the wanted kinds (:mod:`~workbench_kernels.instructions`). The list of names
with their meaning is the docstring of :mod:`~workbench_kernels.compile`.

Invariant: an operation that does not accept its operands says so with a ``TypeError`` that names
them; none converts between floating-point types unasked.
"""

import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

from workbench_kernels.emit import REASSOCIATE, Emitter
from workbench_kernels.instructions import (
    absolute,
    by_name,
    compare,
    contracting,
    copy_block,
    division,
    either,
    extreme,
    fill_with_zeros,
    high_product,
    is_finite,
    load_element,
    negative,
    scalar_kind,
    store_element,
    wrapping,
)
from workbench_kernels.kinds import (
    B1,
    F32,
    F64,
    FLOATS,
    I32,
    I64,
    INTEGERS,
    SCALARS,
    U32,
    U64,
    Buffer,
    Scalar,
)
from workbench_kernels.signatures import (
    Emit,
    Operands,
    Operation,
    Sign,
    Signature,
    alike,
    arithmetic,
    bits,
    block_of,
    casting,
    comparison,
    copying,
    exactly,
    float_arithmetic,
    indices,
    loading,
    selection,
    storing,
)


def _gemm(scalar: Scalar) -> Operation:
    buffer = {F32: "float32", F64: "float64"}[scalar]
    matrix = (buffer, I64, I64)
    sign = block_of(I64, I64, I64, I64, I64, I64, scalar, *matrix, *matrix, scalar, *matrix)

    def emit(e: Emitter, values: Sequence[Any], _: Operands) -> None:
        blas, trans_a, trans_b, m, n, k, alpha, *rest = values
        a, a_offset, lda, b, b_offset, ldb, beta, c, c_offset, ldc = rest
        flags = (e.is_nonzero(flag, I64) for flag in (trans_a, trans_b))
        left, right = (alpha, e.element(a, a_offset), lda), (e.element(b, b_offset), ldb)
        e.gemm(scalar, blas, (*flags, m, n, k, *left, *right, beta, e.element(c, c_offset), ldc))

    return Operation(f"gemm_{scalar}", sign, emit)


@cache
def pointer(buffer: Buffer) -> Operation:
    """Return ``pointer_<slot>``, which makes a buffer of an integer address."""

    def sign(operands: Operands) -> Signature:
        return exactly(I64)(operands)[0], buffer

    return Operation(
        f"pointer_{buffer.slot}", sign, lambda e, values, _: e.pointer(values[0], buffer)
    )


# The tables


def _casts() -> list[Operation]:
    def emit(target: Scalar) -> Emit:
        return lambda e, values, kinds: e.convert(values[0], scalar_kind(kinds), target)

    names = [*((target.name, target) for target in SCALARS), ("truth", B1)]
    return [Operation(name, casting(target), emit(target)) for name, target in names]


def _integers(kind: Scalar) -> list[Operation]:
    zero = partial(Emitter.constant, scalar=kind, value=0)
    minus_one = partial(Emitter.constant, scalar=kind, value=-1)
    binary: dict[str, Emit] = {
        "add": wrapping("add"),
        "sub": wrapping("sub"),
        "mul": wrapping("mul"),
        "and": wrapping("and_"),
        "or": wrapping("or_"),
        "xor": wrapping("xor"),
        "shl": wrapping("shl"),
        "lshr": wrapping("lshr"),
        "ashr": wrapping("ashr"),
        "mulhi": high_product,
        "div": division("quotient", floor=False),
        "rem": division("remainder", floor=False),
        "floordiv": division("quotient", floor=True),
        "mod": division("remainder", floor=True),
    }
    unary: dict[str, Emit] = {
        "neg": lambda e, values, _: e.builder.sub(zero(e), values[0]),
        "not": lambda e, values, _: e.builder.xor(values[0], minus_one(e)),
        "abs": absolute,
    }
    return [
        *(Operation(f"{kind}_{name}", exactly(kind, kind), emit) for name, emit in binary.items()),
        *(Operation(f"{kind}_{name}", exactly(kind), emit) for name, emit in unary.items()),
    ]


def _floating() -> list[Operation]:
    one, two, three = (alike(count, FLOATS) for count in (1, 2, 3))
    instructions = {
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
        "round_even": "roundeven",
        "sqrt": "sqrt",
        "fabs": "fabs",
    }

    def reassociating(method: str) -> Emit:
        return lambda e, values, _: getattr(e.builder, method)(*values, flags=REASSOCIATE)

    def is_nan(e: Emitter, values: Sequence[Any], _: Operands) -> Any:
        return e.builder.fcmp_unordered("uno", values[0], values[0])

    return [
        *(Operation(name, one, by_name(method)) for name, method in instructions.items()),
        Operation("neg", one, lambda e, values, _: e.builder.fneg(values[0])),
        Operation("copysign", two, by_name("copysign")),
        Operation("fma", three, by_name("fma")),
        Operation("reassoc_add", two, reassociating("fadd")),
        Operation("reassoc_mul", two, reassociating("fmul")),
        Operation("is_nan", alike(1, FLOATS, B1), is_nan),
        Operation("is_finite", alike(1, FLOATS, B1), is_finite),
    ]


def _choices() -> list[Operation]:
    return [
        Operation("maximum", alike(2, SCALARS), extreme("maximum", ">")),
        Operation("minimum", alike(2, SCALARS), extreme("minimum", "<")),
        Operation("select", selection, lambda e, values, _: e.builder.select(*values)),
    ]


def _bitcasts() -> list[Operation]:
    def bitcast(source: Scalar, target: Scalar) -> Operation:
        return Operation(
            f"bitcast_{source}_{target}",
            exactly(source, result=target),
            lambda e, values, _: e.reinterpret(values[0], target),
        )

    pairs = [(F32, I32), (F32, U32), (F64, I64), (F64, U64)]
    return [bitcast(*pair) for way in pairs for pair in (way, way[::-1])]


# What the C library calls each scalar function, by the name kernel texts use.
LIBRARY_CALLS: Final = {
    "exp_f64": ("exp", F64, 1),
    "exp2_f64": ("exp2", F64, 1),
    "log_f64": ("log", F64, 1),
    "log2_f64": ("log2", F64, 1),
    "log10_f64": ("log10", F64, 1),
    **{
        name: (name, F64, 1)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "erf", "erfc", "expm1", "log1p", "cbrt"),
        )
    },
    **{name: (name, F64, 2) for name in ("pow", "atan2", "fmod", "hypot")},
    **{
        name: (name, F32, 1)
        for name in (
            *("expf", "logf", "sinf", "cosf", "tanf", "tanhf", "erff", "expm1f", "log1pf"),
        )
    },
    **{name: (name, F32, 2) for name in ("powf", "atan2f", "fmodf")},
}


def _library() -> list[Operation]:
    def call(symbol: str) -> Emit:
        return lambda e, values, _: e.external(symbol, values)

    return [
        Operation(name, exactly(*(kind,) * count), call(symbol))
        for name, (symbol, kind, count) in LIBRARY_CALLS.items()
    ]


def _machinery() -> list[Operation]:
    def place(e: Emitter, values: Sequence[Any]) -> Any:
        return e.element(values[0], values[1])

    def call_kernel(e: Emitter, values: Sequence[Any], _: Operands) -> None:
        function, args, lo, hi = values
        words = e.type_of(I64).as_pointer()
        e.call_address(function, [e.builder.inttoptr(args, words), lo, hi])

    def exchange(e: Emitter, values: Sequence[Any], _: Operands) -> Any:
        pair = e.builder.cmpxchg(place(e, values), values[2], values[3], "acq_rel", "acquire")
        return e.builder.extract_value(pair, 1)

    return [
        Operation("call_kernel", block_of(I64, I64, I64, I64), call_kernel),
        Operation(
            "address_of",
            block_of("buffer", I64, result=I64),
            lambda e, values, _: e.builder.ptrtoint(place(e, values), e.type_of(I64)),
        ),
        Operation(
            "atomic_load",
            block_of("int64", I64, result=I64),
            lambda e, values, _: e.builder.load_atomic(place(e, values), "acquire", 8),
        ),
        Operation(
            "atomic_store",
            block_of("int64", I64, I64),
            lambda e, values, _: e.builder.store_atomic(values[2], place(e, values), "release", 8),
        ),
        Operation(
            "atomic_add",
            block_of("int64", I64, I64, result=I64),
            lambda e, values, _: e.builder.atomic_rmw(
                "add", place(e, values), values[2], "acq_rel"
            ),
        ),
        Operation("compare_exchange", block_of("int64", I64, I64, I64, result=B1), exchange),
        Operation("pause", block_of(), lambda e, _values, _kinds: e.pause()),
        Operation(
            "yield_processor",
            block_of(I64),
            lambda e, values, _: e.call_address(values[0], [], e.ir.IntType(32)),
        ),
        Operation("float_mode", block_of(result=I64), lambda e, _values, _kinds: e.float_mode()),
        Operation(
            "set_float_mode",
            block_of(I64),
            lambda e, values, _: e.set_float_mode(values[0]),
        ),
    ]


def _operators() -> dict[Callable[..., Any], Operation]:
    floor, modulo = (division(what, floor=True) for what in ("quotient", "remainder"))
    in_place: dict[str, tuple[Sign, Emit]] = {
        "add": (arithmetic, either("fadd", "add")),
        "sub": (arithmetic, either("fsub", "sub")),
        "mul": (arithmetic, either("fmul", "mul")),
        "truediv": (float_arithmetic, contracting("fdiv")),
        "floordiv": (indices, floor),
        "mod": (indices, modulo),
        "lshift": (indices, wrapping("shl")),
        "rshift": (indices, wrapping("ashr")),
        "and_": (bits, wrapping("and_")),
        "or_": (bits, wrapping("or_")),
        "xor": (bits, wrapping("xor")),
    }
    comparisons = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    absent = ("pow", "ipow", "matmul", "imatmul", "is_", "is_not", "contains")
    table: dict[str, tuple[Sign, Emit]] = {
        **in_place,
        **{f"i{name.strip('_')}": entry for name, entry in in_place.items()},
        **{name: (comparison, compare(sign)) for name, sign in comparisons.items()},
        **dict.fromkeys(absent, (_absent, _is_true)),
        "neg": (arithmetic, negative),
        "pos": (arithmetic, lambda _e, values, _kinds: values[0]),
        "invert": (bits, lambda e, values, _: e.builder.not_(values[0])),
        "not_": (casting(B1), _is_zero),
        "getitem": (loading, load_element),
        "setitem": (storing, store_element),
    }
    operators: dict[Callable[..., Any], Operation] = {
        getattr(operator, name): Operation(name, *entry) for name, entry in table.items()
    }
    return {**operators, bool: Operation("bool", casting(B1), _is_true)}


def _absent(_operands: Operands) -> Signature:
    raise TypeError("is not an operator of kernel texts")


def _is_true(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    return e.is_nonzero(values[0], scalar_kind(kinds))


def _is_zero(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    return e.builder.not_(_is_true(e, values, kinds))


OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation
    for operation in (
        *_casts(),
        *(operation for kind in INTEGERS for operation in _integers(kind)),
        *_floating(),
        *_choices(),
        *_bitcasts(),
        *_library(),
        _gemm(F32),
        _gemm(F64),
        Operation("zero_fill", block_of("buffer", I64, I64), fill_with_zeros),
        Operation("copy", copying, copy_block),
        *_machinery(),
    )
}

OPERATORS: Final[dict[Callable[..., Any], Operation]] = _operators()

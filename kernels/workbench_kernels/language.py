"""What each name and operator of the kernel language takes, gives and emits.

Second file of the front end: :data:`OPERATIONS` holds the named functions, :data:`OPERATORS` the
Python operators, :func:`pointer` makes the ``pointer_<k>`` of a kernel. An :class:`Operation` first
*signs* (operand kinds in, the kinds it wants and gives out), then *emits* operands of the wanted
kinds. The list of names with their meaning is the docstring of :mod:`~workbench_kernels.compile`.

Invariant: an operation that does not accept its operands says so with a ``TypeError`` that names
them; none converts between floating-point types unasked.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, final

from workbench_kernels.emit import CONTRACT, REASSOCIATE, Emitter
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
    Kind,
    Scalar,
)

Operands = tuple[Kind, ...]
Signature = tuple[Operands, Kind | None]  # wanted operands, result (None: none)
Sign = Callable[[Operands], Signature]
Emit = Callable[[Emitter, Sequence[Any], Operands], Any]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One name of the language; compared and hashed by identity."""

    name: str
    sign: Sign
    emit: Emit


# Signatures


def _refuse(wanted: str, operands: Operands) -> TypeError:
    return TypeError(f"takes {wanted}, not ({', '.join(map(str, operands))})")


def _fixed(*kinds: Scalar, result: Scalar | None = None) -> Sign:
    """Exactly these kinds, but any integer where an integer is wanted."""
    gives = kinds[0] if result is None and kinds else result

    def sign(operands: Operands) -> Signature:
        if len(operands) != len(kinds) or not all(map(_fits, operands, kinds)):
            raise _refuse(f"({', '.join(map(str, kinds))})", operands)
        return kinds, gives

    return sign


def _fits(operand: Kind, wanted: Scalar) -> bool:
    if operand == wanted:
        return True
    return isinstance(operand, Scalar) and wanted.is_integer and not operand.is_float


def _common(operands: Operands) -> Scalar | None:
    """Return the scalar kind that all operands have, if there is one."""
    kinds = set(operands)
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if isinstance(kind, Scalar) else None


def _alike(count: int, family: tuple[Scalar, ...], result: Scalar | None = None) -> Sign:
    """``count`` operands of one kind out of ``family``; that kind results unless told otherwise."""

    def sign(operands: Operands) -> Signature:
        kind = _common(operands)
        if len(operands) != count or kind is None or kind not in family:
            names = ", ".join(map(str, family))
            many = f"{count} operands of one type" if count > 1 else "one operand"
            raise _refuse(f"{many} ({names})", operands)
        return operands, result or kind

    return sign


def _number(operands: Operands) -> Signature:
    """One scalar of any kind, as it is."""
    if len(operands) != 1 or not isinstance(operands[0], Scalar):
        raise _refuse("one scalar", operands)
    return operands, operands[0]


def _cast(target: Scalar) -> Sign:
    return lambda operands: (_number(operands)[0], target)


def _selection(operands: Operands) -> Signature:
    match operands:
        case (Scalar() as condition, Scalar() as left, right) if condition == B1 and left == right:
            return operands, left
        case _:
            raise _refuse("(b1, X, X)", operands)


def _arithmetic(operands: Operands) -> Signature:
    """Floats of one kind, or integers, which then are index arithmetic in 64 bits."""
    return _floats(operands) or _integers_as_indices(operands, "floats of one type, or integers")


def _floats(operands: Operands) -> Signature | None:
    kind = _common(operands)
    return (operands, kind) if kind in FLOATS else None


def _indices(operands: Operands) -> Signature:
    return _integers_as_indices(operands, "integers")


def _integers_as_indices(operands: Operands, wanted: str) -> Signature:
    if all(operand in (B1, I32, U32, I64) for operand in operands):
        return (I64,) * len(operands), I64
    raise _refuse(f"{wanted} (for u64 there are u64_add and its like)", operands)


def _float_arithmetic(operands: Operands) -> Signature:
    signature = _floats(operands)
    if signature is None:
        raise _refuse("floats of one type", operands)
    return signature


def _bits(operands: Operands) -> Signature:
    kind = _common(operands)
    return (operands, kind) if kind in (B1, *INTEGERS) else _indices(operands)


def _comparison(operands: Operands) -> Signature:
    if _common(operands) is not None:
        return operands, B1
    return _integers_as_indices(operands, "scalars of one type, or integers")[0], B1


def _block(*pattern: Scalar | str, result: Scalar | None = None) -> Sign:
    """Scalars, and buffers given by their dtype or, for any dtype, by the word "buffer"."""

    def sign(operands: Operands) -> Signature:
        if len(operands) != len(pattern) or not all(map(_accepts, pattern, operands)):
            raise _refuse(f"({', '.join(map(str, pattern))})", operands)
        pairs = zip(pattern, operands, strict=True)
        wanted = (operand if isinstance(part, str) else part for part, operand in pairs)
        return tuple(wanted), result

    return sign


def _accepts(part: Scalar | str, operand: Kind) -> bool:
    if isinstance(part, Scalar):
        return _fits(operand, part)
    return isinstance(operand, Buffer) and part in ("buffer", operand.storage.dtype)


def _copying(operands: Operands) -> Signature:
    signature = _block("buffer", I64, "buffer", I64, I64)(operands)
    match operands:
        case (Buffer() as target, _, Buffer() as source, *_) if (
            target.storage == source.storage and target.slot != source.slot
        ):
            return signature
        case _:
            raise _refuse("two buffers of one dtype in different slots", operands)


# Emission


def _unary(method: str) -> Emit:
    return lambda e, values, _: e.math(method, values)


def _contracting(method: str) -> Emit:
    return lambda e, values, _: getattr(e.builder, method)(*values, flags=CONTRACT)


def _wrapping(method: str) -> Emit:
    return lambda e, values, _: getattr(e.builder, method)(*values)


def _either(floating: str, integer: str) -> Emit:
    """Emit the float instruction, or the index one, which may not overflow."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        if kinds[0] in FLOATS:
            return getattr(e.builder, floating)(*values, flags=CONTRACT)
        return getattr(e.builder, integer)(*values, flags=("nsw",))

    return emit


def _negative(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    if kinds[0] in FLOATS:
        return e.builder.fneg(values[0])
    return e.builder.sub(e.constant(I64, 0), values[0], flags=("nsw",))


def _compare(sign: str) -> Emit:
    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        kind = _scalar(kinds)
        if kind.is_float:
            # Only "differs" is true of a NaN, as in IEEE 754 and numpy.
            ask = e.builder.fcmp_unordered if sign == "!=" else e.builder.fcmp_ordered
        else:
            ask = e.builder.icmp_signed if kind.is_signed else e.builder.icmp_unsigned
        return ask(sign, *values)

    return emit


def _extreme(name: str, sign: str) -> Emit:
    """Emit the larger or smaller operand, NaN if either is NaN."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        if _scalar(kinds).is_float:
            # The sign of a zero is left open: with it the whole costs one or three instructions.
            return e.math(name, values, flags=("nsz",))
        return e.builder.select(_compare(sign)(e, values, kinds), *values)

    return emit


def _scalar(kinds: Operands) -> Scalar:
    kind = kinds[0]
    assert isinstance(kind, Scalar)
    return kind


def _division(wanted: str, *, floor: bool) -> Emit:
    """Emit a quotient or remainder that never traps: by zero they are 0 and ``a``."""

    def emit(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
        builder, kind = e.builder, _scalar(kinds)
        a, b = values
        zero, one = e.constant(kind, 0), e.constant(kind, 1)
        by_zero = builder.icmp_unsigned("==", b, zero)
        unsafe = by_zero
        if kind.is_signed:
            # The one quotient that does not fit wraps to `a`, as `a / 1` is.
            lowest = builder.icmp_unsigned("==", a, e.constant(kind, -(1 << (kind.bits - 1))))
            by_minus_one = builder.icmp_unsigned("==", b, e.constant(kind, -1))
            unsafe = builder.or_(by_zero, builder.and_(lowest, by_minus_one))
        divisor = builder.select(unsafe, one, b)
        quotient = (builder.sdiv if kind.is_signed else builder.udiv)(a, divisor)
        remainder = (builder.srem if kind.is_signed else builder.urem)(a, divisor)
        if floor and kind.is_signed:
            inexact = builder.icmp_unsigned("!=", remainder, zero)
            opposite = builder.icmp_signed("<", builder.xor(remainder, divisor), zero)
            down = builder.and_(inexact, opposite)
            quotient = builder.select(down, builder.sub(quotient, one), quotient)
            remainder = builder.select(down, builder.add(remainder, divisor), remainder)
        if wanted == "quotient":
            return builder.select(by_zero, zero, quotient)
        return builder.select(by_zero, a, remainder)

    return emit


def _high_product(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    kind = _scalar(kinds)
    double = e.ir.IntType(2 * kind.bits)
    widen = e.builder.sext if kind.is_signed else e.builder.zext
    product = e.builder.mul(*(widen(value, double) for value in values))
    high = e.builder.lshr(product, e.ir.Constant(double, kind.bits))
    return e.builder.trunc(high, e.type_of(kind))


def _absolute(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    kind, value = _scalar(kinds), values[0]
    if not kind.is_signed:
        return value
    zero = e.constant(kind, 0)
    is_negative = e.builder.icmp_signed("<", value, zero)
    return e.builder.select(is_negative, e.builder.sub(zero, value), value)


def _is_finite(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    infinity = e.constant(_scalar(kinds), float("inf"))
    return e.builder.fcmp_ordered("<", e.math("fabs", values), infinity)


def _gemm(scalar: Scalar) -> Operation:
    buffer = {F32: "float32", F64: "float64"}[scalar]
    matrix = (buffer, I64, I64)
    sign = _block(I64, I64, I64, I64, I64, I64, scalar, *matrix, *matrix, scalar, *matrix)

    def emit(e: Emitter, values: Sequence[Any], _: Operands) -> None:
        blas, trans_a, trans_b, m, n, k, alpha, *rest = values
        a, a_offset, lda, b, b_offset, ldb, beta, c, c_offset, ldc = rest
        flags = (e.is_nonzero(flag, I64) for flag in (trans_a, trans_b))
        left, right = (alpha, e.element(a, a_offset), lda), (e.element(b, b_offset), ldb)
        e.gemm(scalar, blas, (*flags, m, n, k, *left, *right, beta, e.element(c, c_offset), ldc))

    return Operation(f"gemm_{scalar}", sign, emit)


def _zero_fill(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    assert isinstance(kinds[0], Buffer)
    e.zero_fill(kinds[0], *values)


def _copy(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    target, to, source, at, count = values
    assert isinstance(kinds[0], Buffer)
    assert isinstance(kinds[2], Buffer)
    e.copy((kinds[0], target, to), (kinds[2], source, at), count)


# Loads and stores of a buffer


def _load_sign(operands: Operands) -> Signature:
    buffer = operands[0]
    assert isinstance(buffer, Buffer)
    return _block("buffer", I64, result=buffer.storage.scalar)(operands)


def _load(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    assert isinstance(kinds[0], Buffer)
    return e.load(kinds[0], *values)


def _store_sign(operands: Operands) -> Signature:
    buffer, *_, value = operands
    assert isinstance(buffer, Buffer)
    if not isinstance(value, Scalar):
        raise _refuse("a scalar to store", operands)
    _block("buffer", I64)(operands[:2])
    # Any scalar: what the buffer holds is said once, where it is declared.
    return (buffer, I64, buffer.storage.scalar), None


def _store(e: Emitter, values: Sequence[Any], kinds: Operands) -> None:
    assert isinstance(kinds[0], Buffer)
    e.store(kinds[0], *values)


@cache
def pointer(buffer: Buffer) -> Operation:
    """Return ``pointer_<slot>``, which makes a buffer of an integer address."""

    def sign(operands: Operands) -> Signature:
        return _fixed(I64)(operands)[0], buffer

    return Operation(
        f"pointer_{buffer.slot}", sign, lambda e, values, _: e.pointer(values[0], buffer)
    )


# The tables


def _casts() -> list[Operation]:
    def emit(target: Scalar) -> Emit:
        return lambda e, values, kinds: e.convert(values[0], _scalar(kinds), target)

    names = [*((target.name, target) for target in SCALARS), ("truth", B1)]
    return [Operation(name, _cast(target), emit(target)) for name, target in names]


def _integers(kind: Scalar) -> list[Operation]:
    zero = partial(Emitter.constant, scalar=kind, value=0)
    minus_one = partial(Emitter.constant, scalar=kind, value=-1)
    binary: dict[str, Emit] = {
        "add": _wrapping("add"),
        "sub": _wrapping("sub"),
        "mul": _wrapping("mul"),
        "and": _wrapping("and_"),
        "or": _wrapping("or_"),
        "xor": _wrapping("xor"),
        "shl": _wrapping("shl"),
        "lshr": _wrapping("lshr"),
        "ashr": _wrapping("ashr"),
        "mulhi": _high_product,
        "div": _division("quotient", floor=False),
        "rem": _division("remainder", floor=False),
        "floordiv": _division("quotient", floor=True),
        "mod": _division("remainder", floor=True),
    }
    unary: dict[str, Emit] = {
        "neg": lambda e, values, _: e.builder.sub(zero(e), values[0]),
        "not": lambda e, values, _: e.builder.xor(values[0], minus_one(e)),
        "abs": _absolute,
    }
    return [
        *(Operation(f"{kind}_{name}", _fixed(kind, kind), emit) for name, emit in binary.items()),
        *(Operation(f"{kind}_{name}", _fixed(kind), emit) for name, emit in unary.items()),
    ]


def _floating() -> list[Operation]:
    one, two, three = (_alike(count, FLOATS) for count in (1, 2, 3))
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
        *(Operation(name, one, _unary(method)) for name, method in instructions.items()),
        Operation("neg", one, lambda e, values, _: e.builder.fneg(values[0])),
        Operation("copysign", two, _unary("copysign")),
        Operation("fma", three, _unary("fma")),
        Operation("reassoc_add", two, reassociating("fadd")),
        Operation("reassoc_mul", two, reassociating("fmul")),
        Operation("is_nan", _alike(1, FLOATS, B1), is_nan),
        Operation("is_finite", _alike(1, FLOATS, B1), _is_finite),
    ]


def _choices() -> list[Operation]:
    return [
        Operation("maximum", _alike(2, SCALARS), _extreme("maximum", ">")),
        Operation("minimum", _alike(2, SCALARS), _extreme("minimum", "<")),
        Operation("select", _selection, lambda e, values, _: e.builder.select(*values)),
    ]


def _bitcasts() -> list[Operation]:
    def bitcast(source: Scalar, target: Scalar) -> Operation:
        return Operation(
            f"bitcast_{source}_{target}",
            _fixed(source, result=target),
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
        Operation(name, _fixed(*(kind,) * count), call(symbol))
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
        Operation("call_kernel", _block(I64, I64, I64, I64), call_kernel),
        Operation(
            "address_of",
            _block("buffer", I64, result=I64),
            lambda e, values, _: e.builder.ptrtoint(place(e, values), e.type_of(I64)),
        ),
        Operation(
            "atomic_load",
            _block("int64", I64, result=I64),
            lambda e, values, _: e.builder.load_atomic(place(e, values), "acquire", 8),
        ),
        Operation(
            "atomic_store",
            _block("int64", I64, I64),
            lambda e, values, _: e.builder.store_atomic(values[2], place(e, values), "release", 8),
        ),
        Operation(
            "atomic_add",
            _block("int64", I64, I64, result=I64),
            lambda e, values, _: e.builder.atomic_rmw(
                "add", place(e, values), values[2], "acq_rel"
            ),
        ),
        Operation("compare_exchange", _block("int64", I64, I64, I64, result=B1), exchange),
        Operation("pause", _block(), lambda e, _values, _kinds: e.pause()),
        Operation(
            "yield_processor",
            _block(I64),
            lambda e, values, _: e.call_address(values[0], [], e.ir.IntType(32)),
        ),
    ]


def _operators() -> dict[Callable[..., Any], Operation]:
    floor, modulo = (_division(what, floor=True) for what in ("quotient", "remainder"))
    in_place: dict[str, tuple[Sign, Emit]] = {
        "add": (_arithmetic, _either("fadd", "add")),
        "sub": (_arithmetic, _either("fsub", "sub")),
        "mul": (_arithmetic, _either("fmul", "mul")),
        "truediv": (_float_arithmetic, _contracting("fdiv")),
        "floordiv": (_indices, floor),
        "mod": (_indices, modulo),
        "lshift": (_indices, _wrapping("shl")),
        "rshift": (_indices, _wrapping("ashr")),
        "and_": (_bits, _wrapping("and_")),
        "or_": (_bits, _wrapping("or_")),
        "xor": (_bits, _wrapping("xor")),
    }
    comparisons = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
    absent = ("pow", "ipow", "matmul", "imatmul", "is_", "is_not", "contains")
    table: dict[str, tuple[Sign, Emit]] = {
        **in_place,
        **{f"i{name.strip('_')}": entry for name, entry in in_place.items()},
        **{name: (_comparison, _compare(sign)) for name, sign in comparisons.items()},
        **dict.fromkeys(absent, (_absent, _is_true)),
        "neg": (_arithmetic, _negative),
        "pos": (_arithmetic, lambda _e, values, _kinds: values[0]),
        "invert": (_bits, lambda e, values, _: e.builder.not_(values[0])),
        "not_": (_cast(B1), _is_zero),
        "getitem": (_load_sign, _load),
        "setitem": (_store_sign, _store),
    }
    operators: dict[Callable[..., Any], Operation] = {
        getattr(operator, name): Operation(name, *entry) for name, entry in table.items()
    }
    return {**operators, bool: Operation("bool", _cast(B1), _is_true)}


def _absent(_operands: Operands) -> Signature:
    raise TypeError("is not an operator of kernel texts")


def _is_true(e: Emitter, values: Sequence[Any], kinds: Operands) -> Any:
    return e.is_nonzero(values[0], _scalar(kinds))


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
        Operation("zero_fill", _block("buffer", I64, I64), _zero_fill),
        Operation("copy", _copying, _copy),
        *_machinery(),
    )
}

OPERATORS: Final[dict[Callable[..., Any], Operation]] = _operators()

"""What an operation of the kernel language takes and gives, and how it refuses.

Third file of the front end: each function here *signs*, that is, looks at the kinds of the operands
and says which kinds are wanted and which one results, or makes a function that does.

Invariant: operands that are not accepted are refused with a ``TypeError`` that names them; nothing
converts between floating-point types unasked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from workbench_kernels.emit import Emitter
from workbench_kernels.kinds import (
    B1,
    FLOATS,
    I32,
    I64,
    INTEGERS,
    U32,
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


def refusal(wanted: str, operands: Operands) -> TypeError:
    """Return the error that says what is wanted and what was given."""
    return TypeError(f"takes {wanted}, not ({', '.join(map(str, operands))})")


def exactly(*kinds: Scalar, result: Scalar | None = None) -> Sign:
    """Exactly these kinds, but any integer where an integer is wanted."""
    gives = kinds[0] if result is None and kinds else result

    def sign(operands: Operands) -> Signature:
        if len(operands) != len(kinds) or not all(map(fits, operands, kinds)):
            raise refusal(f"({', '.join(map(str, kinds))})", operands)
        return kinds, gives

    return sign


def fits(operand: Kind, wanted: Scalar) -> bool:
    """Whether ``operand`` may stand for ``wanted``: the same, or any integer for an integer."""
    if operand == wanted:
        return True
    return isinstance(operand, Scalar) and wanted.is_integer and not operand.is_float


def common_kind(operands: Operands) -> Scalar | None:
    """Return the scalar kind that all operands have, if there is one."""
    kinds = set(operands)
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if isinstance(kind, Scalar) else None


def alike(count: int, family: tuple[Scalar, ...], result: Scalar | None = None) -> Sign:
    """``count`` operands of one kind out of ``family``; that kind results unless told otherwise."""

    def sign(operands: Operands) -> Signature:
        kind = common_kind(operands)
        if len(operands) != count or kind is None or kind not in family:
            names = ", ".join(map(str, family))
            many = f"{count} operands of one type" if count > 1 else "one operand"
            raise refusal(f"{many} ({names})", operands)
        return operands, result or kind

    return sign


def one_number(operands: Operands) -> Signature:
    """One scalar of any kind, as it is."""
    if len(operands) != 1 or not isinstance(operands[0], Scalar):
        raise refusal("one scalar", operands)
    return operands, operands[0]


def casting(target: Scalar) -> Sign:
    """Sign a conversion of any scalar to ``target``."""
    return lambda operands: (one_number(operands)[0], target)


def selection(operands: Operands) -> Signature:
    """Sign a choice between two scalars of one kind by a truth value."""
    match operands:
        case (Scalar() as condition, Scalar() as left, right) if condition == B1 and left == right:
            return operands, left
        case _:
            raise refusal("(b1, X, X)", operands)


def arithmetic(operands: Operands) -> Signature:
    """Floats of one kind, or integers, which then are index arithmetic in 64 bits."""
    return floats(operands) or integers_as_indices(operands, "floats of one type, or integers")


def floats(operands: Operands) -> Signature | None:
    """Return the signature of floats of one kind, None for other operands."""
    kind = common_kind(operands)
    return (operands, kind) if kind in FLOATS else None


def indices(operands: Operands) -> Signature:
    """Sign integers of any kinds as 64-bit indices."""
    return integers_as_indices(operands, "integers")


def integers_as_indices(operands: Operands, wanted: str) -> Signature:
    """Sign integers as 64-bit indices, or say that ``wanted`` is wanted."""
    if all(operand in (B1, I32, U32, I64) for operand in operands):
        return (I64,) * len(operands), I64
    raise refusal(f"{wanted} (for u64 there are u64_add and its like)", operands)


def float_arithmetic(operands: Operands) -> Signature:
    """Sign floats of one kind."""
    signature = floats(operands)
    if signature is None:
        raise refusal("floats of one type", operands)
    return signature


def bits(operands: Operands) -> Signature:
    """Sign integers, or truth values, of one kind; mixed ones as indices."""
    kind = common_kind(operands)
    return (operands, kind) if kind in (B1, *INTEGERS) else indices(operands)


def comparison(operands: Operands) -> Signature:
    """Sign two operands that can be compared."""
    if common_kind(operands) is not None:
        return operands, B1
    return integers_as_indices(operands, "scalars of one type, or integers")[0], B1


def block_of(*pattern: Scalar | str, result: Scalar | None = None) -> Sign:
    """Scalars, and buffers given by their dtype or, for any dtype, by the word "buffer"."""

    def sign(operands: Operands) -> Signature:
        if len(operands) != len(pattern) or not all(map(accepts, pattern, operands)):
            raise refusal(f"({', '.join(map(str, pattern))})", operands)
        pairs = zip(pattern, operands, strict=True)
        wanted = (operand if isinstance(part, str) else part for part, operand in pairs)
        return tuple(wanted), result

    return sign


def accepts(part: Scalar | str, operand: Kind) -> bool:
    """Whether ``operand`` matches one part of a pattern."""
    if isinstance(part, Scalar):
        return fits(operand, part)
    return isinstance(operand, Buffer) and part in ("buffer", operand.storage.dtype)


def copying(operands: Operands) -> Signature:
    """Sign a copy between two buffers that store alike."""
    signature = block_of("buffer", I64, "buffer", I64, I64)(operands)
    match operands:
        case (Buffer() as target, _, Buffer() as source, *_) if (
            target.storage == source.storage and target.slot != source.slot
        ):
            return signature
        case _:
            raise refusal("two buffers of one dtype in different slots", operands)


def loading(operands: Operands) -> Signature:
    """Sign a read of an element."""
    buffer = operands[0]
    assert isinstance(buffer, Buffer)
    return block_of("buffer", I64, result=buffer.storage.scalar)(operands)


def storing(operands: Operands) -> Signature:
    """Sign a write of an element."""
    buffer, *_, value = operands
    assert isinstance(buffer, Buffer)
    if not isinstance(value, Scalar):
        raise refusal("a scalar to store", operands)
    block_of("buffer", I64)(operands[:2])
    # Any scalar: what the buffer holds is said once, where it is declared.
    return (buffer, I64, buffer.storage.scalar), None

"""The static types of the kernel language, free of any code generator.

First file of the front end: :mod:`~workbench_kernels.language` types and emits in these terms, so
that whatever reads a kernel text (numba today) only has to translate its own types to and from
them.

Invariant: kinds are values; two buffers of one slot, dtype and kernel size are equal.
"""

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type of the kernel language."""

    name: str  # as kernel texts write it: "f32"
    bits: int  # 1 for a truth value
    is_float: bool
    is_signed: bool

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer of 32 or 64 bits (a truth value is not)."""
        return not self.is_float and self.bits > 1

    def __str__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True)
class Storage:
    """How the elements of a buffer lie in memory, and as what they are computed with."""

    dtype: str  # numpy's name, "bfloat16" for the one numpy lacks
    scalar: Scalar  # what a load gives
    size_bytes: int


@final
@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer to the elements of one slot of a kernel's argument block."""

    storage: Storage
    slot: int  # -1 is the argument block itself
    slots: int  # number of pointer slots of the kernel: what this one is known not to overlap

    def __str__(self) -> str:
        return f"{self.storage.dtype} buffer {self.slot}"


Kind = Scalar | Buffer

B1: Final = Scalar("b1", 1, is_float=False, is_signed=False)
I32: Final = Scalar("i32", 32, is_float=False, is_signed=True)
I64: Final = Scalar("i64", 64, is_float=False, is_signed=True)
U32: Final = Scalar("u32", 32, is_float=False, is_signed=False)
U64: Final = Scalar("u64", 64, is_float=False, is_signed=False)
F32: Final = Scalar("f32", 32, is_float=True, is_signed=True)
F64: Final = Scalar("f64", 64, is_float=True, is_signed=True)

SCALARS: Final = (B1, I32, I64, U32, U64, F32, F64)
INTEGERS: Final = (I32, I64, U32, U64)
FLOATS: Final = (F32, F64)

STORAGES: Final = {
    storage.dtype: storage
    for storage in (
        Storage("bool", B1, 1),
        Storage("int32", I32, 4),
        Storage("int64", I64, 8),
        Storage("uint32", U32, 4),
        Storage("uint64", U64, 8),
        Storage("float16", F32, 2),
        Storage("bfloat16", F32, 2),
        Storage("float32", F32, 4),
        Storage("float64", F64, 8),
    )
}

ARGUMENT_SLOT: Final = -1


def argument_block(slots: int) -> Buffer:
    """Return the kind of ``args``: int64 words that no buffer of the kernel overlaps."""
    return Buffer(STORAGES["int64"], ARGUMENT_SLOT, slots)


def buffers_of(dtypes: tuple[str, ...]) -> tuple[Buffer, ...]:
    """Return the kinds of a kernel's pointer slots, in slot order.

    Raises
    ------
    ValueError
        If a dtype is none that a buffer can have.
    """
    unknown = sorted(set(dtypes) - STORAGES.keys())
    if unknown:
        raise ValueError(
            f"a buffer cannot hold {', '.join(unknown)}; it holds {', '.join(STORAGES)}"
        )
    return tuple(Buffer(STORAGES[dtype], slot, len(dtypes)) for slot, dtype in enumerate(dtypes))

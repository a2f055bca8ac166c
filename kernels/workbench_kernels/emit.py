"""The operations of the kernel language as LLVM instructions.

An :class:`Emitter` appends to one function through llvmlite's builder. It knows nothing of numba:
values are LLVM values and types are :mod:`~workbench_kernels.kinds`, so that a renderer which
builds LLVM's form itself emits the very same instructions.

Invariant: the only floating-point flags that ever appear are ``contract`` (on every arithmetic
instruction) and ``reassoc nsz`` (on reduction steps), so that NaN and infinity survive.
"""

import platform
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from workbench_kernels.float_mode import float_register
from workbench_kernels.kinds import ARGUMENT_SLOT, B1, F32, F64, I64, Buffer, Kind, Scalar
from workbench_kernels.untyped import llvm_ir

CONTRACT: Final = ("contract",)
REASSOCIATE: Final = ("reassoc", "nsz", "contract")

# Function attributes. Kernels run where subnormal numbers count as 0 and where they do not; unless
# told so, the optimiser assumes the latter and makes comparisons with 0 into tests of bits.
# ``update`` a set of attributes with them: llvmlite's ``add`` takes only names that it knows.
ANY_FLOAT_MODE: Final = ('"denormal-fp-math"="dynamic,dynamic"',)

# Functions of the C library that look at an operand's bits and mend a subnormal one by a product or
# a quotient, which is 0 or NaN where such numbers count as 0: ``log`` of one was neither its
# logarithm nor that of 0. The others take it as it is or as 0.
_NORMALISING: Final = frozenset(
    ("log", "log2", "log10", "logf", "pow", "powf", "cbrt", "atan2", "atan2f", "fmod", "fmodf")
)

# The hint that a core is in a spin loop, for the two instruction sets wheels are built for.
_PAUSE: Final = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "amd64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.hint", (1,)),
    "arm64": ("llvm.aarch64.hint", (1,)),
}


@final
class Emitter:
    """Appends the language's operations at the position of an llvmlite builder.

    Parameters
    ----------
    builder
        An ``llvmlite.ir.IRBuilder`` positioned where instructions are to go.
    """

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.ir = llvm_ir()

    # Types and constants

    def type_of(self, scalar: Scalar) -> Any:
        """Return the LLVM type of a scalar in a register."""
        if scalar.is_float:
            return self.ir.FloatType() if scalar.bits == 32 else self.ir.DoubleType()
        return self.ir.IntType(scalar.bits)

    def element_type(self, buffer: Buffer) -> Any:
        """Return the LLVM type of a buffer's element in memory."""
        match buffer.storage.dtype:
            case "bool":
                return self.ir.IntType(8)
            case "bfloat16":
                return self.ir.IntType(16)
            case "float16":
                return self.ir.HalfType()
            case _:
                return self.type_of(buffer.storage.scalar)

    def constant(self, scalar: Scalar, value: float) -> Any:
        """Return a constant of a scalar type."""
        return self.ir.Constant(self.type_of(scalar), value)

    # Conversions

    def convert(self, value: Any, source: Scalar, target: Scalar) -> Any:
        """Return ``value`` converted; what a float does not fit into is unspecified, not a trap."""
        builder, goal = self.builder, self.type_of(target)
        if source == target:
            return value
        if target == B1:
            return self.is_nonzero(value, source)
        if source.is_float and target.is_float:
            return (
                builder.fpext(value, goal)
                if target.bits > source.bits
                else (builder.fptrunc(value, goal))
            )
        if source.is_float:
            narrow = builder.fptosi if target.is_signed else builder.fptoui
            # Out of range is poison, which may undo the code around it; frozen it is some integer.
            return self._freeze(narrow(value, goal))
        if target.is_float:
            widen = builder.sitofp if source.is_signed else builder.uitofp
            return widen(value, goal)
        if target.bits == source.bits:
            return value
        if target.bits < source.bits:
            return builder.trunc(value, goal)
        return builder.sext(value, goal) if source.is_signed else builder.zext(value, goal)

    def is_nonzero(self, value: Any, source: Scalar) -> Any:
        """Return the truth of a scalar; NaN is true, as in Python and numpy."""
        if source == B1:
            return value
        zero = self.constant(source, 0)
        if source.is_float:
            return self.builder.fcmp_unordered("!=", value, zero)
        return self.builder.icmp_unsigned("!=", value, zero)

    def reinterpret(self, value: Any, target: Scalar) -> Any:
        """Return the same bits as another type of the same size."""
        return self.builder.bitcast(value, self.type_of(target))

    def _freeze(self, value: Any) -> Any:
        # llvmlite has no builder method for it; every unary instruction prints alike.
        instruction = self.ir.instructions.Instruction(
            self.builder.block, value.type, "freeze", [value]
        )
        self.builder._insert(instruction)
        return instruction

    # Calls

    def math(self, name: str, values: Sequence[Any], *, flags: Sequence[str] = ()) -> Any:
        """Call ``llvm.<name>`` on operands of one type, which the result has, too."""
        kind = values[0].type
        return self._call(f"llvm.{name}.{kind.intrinsic_name}", values, kind, flags=flags)

    def external(self, name: str, values: Sequence[Any]) -> Any:
        """Call a function of the C library that has no effect but its result."""
        if name in _NORMALISING:
            values = [self._as_seen(value) for value in values]
        return self._call(name, values, values[0].type, attributes=("readnone", "nounwind"))

    def _as_seen(self, value: Any) -> Any:
        """Return a float as arithmetic would take it: 0 if it is subnormal and those count as 0."""
        zero = self.ir.Constant(value.type, 0.0)
        is_zero = self.builder.fcmp_ordered("==", value, zero)
        return self.builder.select(is_zero, self.math("copysign", [zero, value]), value)

    def _call(
        self,
        name: str,
        values: Sequence[Any],
        result: Any,
        *,
        attributes: Sequence[str] = (),
        flags: Sequence[str] = (),
    ) -> Any:
        module = self.builder.module
        function = module.globals.get(name)
        if function is None:
            signature = self.ir.FunctionType(result, [value.type for value in values])
            function = self.ir.Function(module, signature, name)
            for attribute in attributes:
                function.attributes.add(attribute)
        return self.builder.call(function, list(values), fastmath=flags)

    # Memory

    def pointer(self, address: Any, buffer: Buffer) -> Any:
        """Return the pointer to a buffer at an integer address."""
        return self.builder.inttoptr(address, self.element_type(buffer).as_pointer())

    def element(self, pointer: Any, index: Any) -> Any:
        """Return the pointer to one element; the index counts elements."""
        return self.builder.gep(pointer, [index], inbounds=True)

    def load(self, buffer: Buffer, pointer: Any, index: Any) -> Any:
        """Return the element at ``index`` as the buffer's scalar."""
        place = self.element(pointer, index)
        value = self.builder.load(place, align=buffer.storage.size_bytes)
        self._mark(value, buffer)
        return self._loaded(value, buffer)

    def store(self, buffer: Buffer, pointer: Any, index: Any, value: Any) -> None:
        """Write the buffer's scalar at ``index``."""
        place = self.element(pointer, index)
        stored = self._stored(value, buffer)
        self._mark(self.builder.store(stored, place, align=buffer.storage.size_bytes), buffer)

    def zero_fill(self, buffer: Buffer, pointer: Any, offset: Any, count: Any) -> None:
        """Clear ``count`` elements from ``offset`` on."""
        size = self._size(buffer, count)
        arguments = [self.element(pointer, offset), self._byte(0), size, self._bit(0)]
        self._mark(self._call("llvm.memset.p0.i64", arguments, self.ir.VoidType()), buffer)

    def copy(
        self,
        target: tuple[Buffer, Any, Any],
        source: tuple[Buffer, Any, Any],
        count: Any,
    ) -> None:
        """Copy ``count`` elements between two (buffer, pointer, offset) that do not overlap."""
        (kind, to, to_offset), (_, at, at_offset) = target, source
        arguments = [
            self.element(to, to_offset),
            self.element(at, at_offset),
            self._size(kind, count),
            self._bit(0),
        ]
        self._call("llvm.memcpy.p0.p0.i64", arguments, self.ir.VoidType())

    def _size(self, buffer: Buffer, count: Any) -> Any:
        return self.builder.mul(count, self.constant(I64, buffer.storage.size_bytes), flags=["nsw"])

    def _byte(self, value: int) -> Any:
        return self.ir.Constant(self.ir.IntType(8), value)

    def _bit(self, value: int) -> Any:
        return self.ir.Constant(self.ir.IntType(1), value)

    def _loaded(self, value: Any, buffer: Buffer) -> Any:
        match buffer.storage.dtype:
            case "bool":
                return self.builder.icmp_unsigned("!=", value, self._byte(0))
            case "float16":
                return self.builder.fpext(value, self.ir.FloatType())
            case "bfloat16":
                word = self.ir.IntType(32)
                wide = self.builder.zext(value, word)
                high = self.builder.shl(wide, self.ir.Constant(word, 16))
                return self.builder.bitcast(high, self.ir.FloatType())
            case _:
                return value

    def _stored(self, value: Any, buffer: Buffer) -> Any:
        match buffer.storage.dtype:
            case "bool":
                return self.builder.zext(value, self.ir.IntType(8))
            case "float16":
                return self.builder.fptrunc(value, self.ir.HalfType())
            case "bfloat16":
                return self._rounded_to_bfloat16(value)
            case _:
                return value

    def _rounded_to_bfloat16(self, value: Any) -> Any:
        # To nearest, ties to even, by adding just under half of the last kept bit; a NaN would be
        # carried into infinity by that and is made quiet instead.
        builder, word = self.builder, self.ir.IntType(32)

        def constant(bits: int) -> Any:
            return self.ir.Constant(word, bits)

        bits = builder.bitcast(value, word)
        odd = builder.and_(builder.lshr(bits, constant(16)), constant(1))
        rounded = builder.add(bits, builder.add(odd, constant(0x7FFF)))
        quiet = builder.or_(bits, constant(0x400000))
        is_nan = builder.fcmp_unordered("uno", value, value)
        kept = builder.lshr(builder.select(is_nan, quiet, rounded), constant(16))
        return builder.trunc(kept, self.ir.IntType(16))

    def _mark(self, instruction: Any, buffer: Buffer) -> None:
        """Tell the optimiser that this access overlaps no other slot's."""
        module = self.builder.module
        domain = module.add_metadata(["workbench buffers"])
        slots = range(ARGUMENT_SLOT, buffer.slots)
        scopes = {slot: module.add_metadata([f"slot {slot}", domain]) for slot in slots}
        others = [scope for slot, scope in scopes.items() if slot != buffer.slot]
        instruction.set_metadata("alias.scope", module.add_metadata([scopes[buffer.slot]]))
        if others:
            instruction.set_metadata("noalias", module.add_metadata(others))

    # Blocks

    def gemm(self, scalar: Scalar, address: Any, words: Sequence[Any]) -> None:
        """Call BLAS for ``c = alpha * op(a) @ op(b) + beta * c``, all row-major.

        Fortran's matrices are column-major: it sees every operand transposed, so the product is
        computed as ``c' = op(b)' @ op(a)'``, the operands swapped and the flags kept.

        Parameters
        ----------
        scalar
            The dtype of the matrices, alpha and beta.
        address
            Of the Fortran routine, an integer.
        words
            trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc; the pointers already
            moved to their first elements, the flags truth values.
        """
        trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = words
        operands = [
            self._letter(trans_b),
            self._letter(trans_a),
            self._word(n),
            self._word(m),
            self._word(k),
            self._slot(alpha),
            b,
            self._word(ldb),
            a,
            self._word(lda),
            self._slot(beta),
            c,
            self._word(ldc),
        ]
        types = [operand.type for operand in operands]
        routine = self.ir.FunctionType(self.ir.VoidType(), types).as_pointer()
        self.builder.call(self.builder.inttoptr(address, routine), operands)

    def _letter(self, transposed: Any) -> Any:
        letters = self._byte(ord("T")), self._byte(ord("N"))
        return self._slot(self.builder.select(transposed, *letters))

    def _word(self, value: Any) -> Any:
        return self._slot(self.builder.trunc(value, self.ir.IntType(32)))

    def _slot(self, value: Any) -> Any:
        """Return a stack slot that holds ``value``: Fortran takes everything by reference."""
        # In the entry block: a slot made inside a loop would grow the stack with every round.
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(value.type)
        self.builder.store(value, slot)
        return slot

    # Plan machinery

    def call_address(self, address: Any, values: Sequence[Any], result: Any | None = None) -> Any:
        """Call the function at an integer address."""
        types = [value.type for value in values]
        kind = self.ir.FunctionType(result or self.ir.VoidType(), types).as_pointer()
        return self.builder.call(self.builder.inttoptr(address, kind), list(values))

    def pause(self) -> None:
        """Tell the core that it spins, where there is an instruction for it."""
        hint = _PAUSE.get(platform.machine().lower())
        if hint is not None:
            name, operands = hint
            words = [self.ir.Constant(self.ir.IntType(32), operand) for operand in operands]
            self._call(name, words, self.ir.VoidType())

    def float_mode(self) -> Any:
        """Return the thread's floating-point control register as an i64, 0 if it is not known."""
        register = float_register()
        if register is None:
            return self.constant(I64, 0)
        if not register.in_memory:
            return self._call(register.reader, [], self.type_of(I64))
        slot = self._slot(self.ir.Constant(self.ir.IntType(32), 0))
        self._call(register.reader, [self._bytes_at(slot)], self.ir.VoidType())
        return self.builder.zext(self.builder.load(slot), self.type_of(I64))

    def set_float_mode(self, mode: Any) -> None:
        """Set the thread's floating-point control register, where it is known."""
        register = float_register()
        if register is None:
            return
        operand = self._bytes_at(self._word(mode)) if register.in_memory else mode
        self._call(register.writer, [operand], self.ir.VoidType())

    def _bytes_at(self, slot: Any) -> Any:
        return self.builder.bitcast(slot, self.ir.IntType(8).as_pointer())


Emit = Callable[[Emitter, Sequence[Any], tuple[Kind, ...]], Any]

FLOAT_OF_BITS: Final = {32: F32, 64: F64}

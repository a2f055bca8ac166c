"""Kernel text in, object code out: the numba front end of the engine.

A kernel text defines one function::

    def kernel(args, lo, hi):
        b0 = pointer_0(args[0])
        b1 = pointer_1(args[1])
        n = args[2]
        for i in range(lo, hi):
            b1[i] = maximum(b0[i], f32(0.0))

``args`` points to int64 words (buffer addresses and extents; ``args[k] = v`` writes one),
``[lo, hi)`` is the kernel's share of its outermost axis, nothing is returned. The text is Python
syntax with static types: ``for ... in range(...)`` (an ``i64``), ``while``, ``break``,
``continue``, ``if``, ``a if c else b``, ``and``, ``or``, ``not``, assignments also in place, the
operators, and exactly the names below. There are no modules, containers, functions or exceptions.
Where ways through the text meet, a name has one type. Anything else is an error naming the line.

Invariant: one text, one list of buffers, one processor and one version of this package give the
same object code, whatever was compiled before it in the process.

Names a kernel text may use
---------------------------
Types are written ``b1`` (a truth value), ``i32 i64 u32 u64 f32 f64``; ``X`` stands for one of a
family and both operands must then have that very type.

Buffers
    ``pointer_<k>(address: i64) -> buffer`` of slot ``k``, with the dtype given for the slot.
    ``b[i]`` loads, ``b[i] = v`` stores (``v`` is converted to the buffer's dtype); the index is
    counted in elements, is not checked and does not wrap. Slots **must not overlap** in memory
    unless neither is written: the optimiser is told so. A buffer that is read and written is one
    slot. A ``bool`` buffer holds one byte an element and loads as ``b1``; ``float16`` and
    ``bfloat16`` load as ``f32`` and are rounded to nearest even when stored.

Plain operators
    ``+ - * /`` on floats want both sides of one type and keep it: write ``f32(0.5)``, since a bare
    ``0.5`` is an ``f64``; mixing is an error. ``+ - * // % << >>`` on ``i64 i32 u32 b1`` are index
    arithmetic in ``i64``, which **must not overflow**: integer data have the wrapping operations
    below. ``//`` and ``%`` round towards minus infinity as in Python; dividing by zero gives 0 and
    leaves ``a``. Comparisons of two operands of one type, or of integers, give ``b1``; NaN differs
    from everything and compares false otherwise. ``& | ^ ~`` work on ``b1`` and on integers. A
    multiplication and an addition may contract into one fused operation; nothing else about
    floating point is relaxed. Whether subnormal numbers count as 0 is the calling thread's mode;
    a runner's threads have them count as 0. ``inf`` and ``nan`` are ``f64`` constants.

Casts
    ``f32(x) f64(x) i32(x) i64(x) u32(x) u64(x) b1(x)`` from every scalar type. Float to integer
    truncates; a value that does not fit, or NaN, gives an unspecified integer (never a trap).
    ``b1(x)`` is ``x != 0``, and so is ``truth(x)``, for texts that call a buffer ``b1``: a name
    that a text assigns hides the language's.

Integers that wrap in their own width
    ``<t>_add <t>_sub <t>_mul <t>_and <t>_or <t>_xor <t>_shl <t>_lshr <t>_ashr`` for ``t`` in
    ``i32 u32 i64 u64``; integer operands are converted to ``t`` first (so literals may be bare). A
    shift count must lie in ``[0, width)``. ``<t>_mulhi`` is the upper half of the double-width
    product; ``<t>_div`` and ``<t>_rem`` truncate towards zero, ``<t>_floordiv`` and ``<t>_mod``
    round towards minus infinity; none traps (a zero divisor gives 0 and ``a``).
    ``<t>_neg <t>_not <t>_abs`` take one operand.

Floats, ``X`` in ``f32 f64``
    ``reassoc_add(acc: X, x: X)``, ``reassoc_mul(acc: X, x: X)``: a reduction step whose order the
    optimiser may change, so that sums run in vector registers. Only this operation is relaxed.
    ``maximum(a, b)``, ``minimum(a, b)``: NaN if either is NaN, as numpy; also for integers and
    ``b1``. Of ``0.0`` and ``-0.0`` either may result. As a reduction step they run in vector
    registers.
    ``select(c: b1, a, b)``: ``a`` or ``b`` of one type, both evaluated, no branch.
    ``floor ceil trunc round_even sqrt fabs neg`` of one ``X``; ``copysign(magnitude, sign)``,
    ``fma(a, b, c)``. One machine instruction each where the processor has it.
    ``is_nan(x)``, ``is_finite(x)`` give ``b1``.
    ``bitcast_f32_i32 bitcast_i32_f32 bitcast_f64_i64 bitcast_i64_f64`` and the ``u32``/``u64``
    twins reinterpret the bits.

Scalar calls of the C library
    ``exp_f64 exp2_f64 log_f64 log2_f64 log10_f64 sin cos tan asin acos atan sinh cosh tanh asinh
    acosh atanh erf erfc expm1 log1p cbrt`` (f64), ``pow atan2 fmod hypot`` (f64, f64) and the
    single-precision ``expf logf sinf cosf tanf tanhf erff expm1f log1pf`` (f32), ``powf atan2f
    fmodf`` (f32, f32). They are not vectorised.

Blocks
    ``gemm_f32(blas, trans_a, trans_b, m, n, k, alpha, a, a_offset, lda, b, b_offset, ldb, beta,
    c, c_offset, ldc)`` and ``gemm_f64``: row-major
    ``c[m, n] = alpha * op(a)[m, k] @ op(b)[k, n] + beta * c``. ``blas`` is the address that
    :func:`~workbench_kernels.blas.blas_addresses` gives for the dtype; ``trans_*`` are 0 or 1 and
    may be run-time values; ``a b c`` are buffers of the dtype, offsets count elements, leading
    dimensions are those of the stored (untransposed) matrices and at least 1. Extents must fit
    in 32 bits.
    ``zero_fill(b, offset, count)``, ``copy(target, target_offset, source, source_offset, count)``
    on whole elements; source and target share a dtype and lie in different slots.

Plan machinery (used by :mod:`~workbench_kernels.runner`; also open to hand-written kernels)
    ``call_kernel(function, args, lo, hi)``, ``address_of(b, i) -> i64``, and on ``int64`` buffers
    ``atomic_load(b, i)`` (acquire), ``atomic_store(b, i, v)`` (release),
    ``atomic_add(b, i, v) -> old`` and ``compare_exchange(b, i, expected, new) -> b1`` (acquire
    and release), ``pause()`` (a hint to the core that this is a spin loop) and
    ``yield_processor(function)`` (call a C function without arguments at an address).
    ``float_mode() -> i64`` and ``set_float_mode(mode)`` read and write the thread's floating-point
    control register; where it is not known, they give 0 and do nothing. A mode is for kernels that
    are called under it: the optimiser may move arithmetic of the same text past it.
"""

from collections.abc import Sequence

from workbench_kernels.codegen import has_float16_instructions, object_code, optimised
from workbench_kernels.kinds import buffers_of
from workbench_kernels.numba_front import llvm_text
from workbench_kernels.object_code import KernelText, ObjectCode, kernel_key, symbol_of


def compile_kernel(source: str, buffers: Sequence[str]) -> ObjectCode:
    """Return the object code of one kernel text for this processor.

    Parameters
    ----------
    source
        Text that defines ``kernel(args, lo, hi)`` in the language described above.
    buffers
        The dtype of each pointer slot, in slot order: ``bool int32 int64 uint32 uint64 float16
        bfloat16 float32 float64``.

    Raises
    ------
    SyntaxError, NameError, TypeError
        If the text is not in the language; the message names the operation and its operands.
    ValueError
        If a dtype is none that a buffer can have.
    NotImplementedError
        If a buffer is float16 and the processor has no instructions for it.
    """
    if "float16" in buffers and not has_float16_instructions():
        raise NotImplementedError("this processor has no float16; store in bfloat16 or float32")
    symbol = symbol_of(kernel_key(KernelText(source, tuple(buffers))))
    return ObjectCode(object_code(llvm_text(source, buffers_of(tuple(buffers)), symbol)), symbol)


def optimised_text(source: str, buffers: Sequence[str]) -> str:
    """Return the LLVM text of a kernel after optimisation, for looking at."""
    return str(optimised(llvm_text(source, buffers_of(tuple(buffers)), "kernel")))

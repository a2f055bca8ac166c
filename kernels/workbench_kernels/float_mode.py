"""How the processor treats floats too small to be normal, and the mode that kernels run in.

A float32 below 1.18e-38 (a float64 below 2.3e-308) is *subnormal*: it has fewer digits, and most
processors take tens of cycles more for each operation that meets one. Each thread has a control
register that can have them counted as 0 instead, operands and results alike. What is here says what
goes into that register; who sets it, and sets it back, is :mod:`~workbench_kernels.runner`.

Invariant: a mode is the whole register. It says how to round as well, so that what kernels compute
does not depend on how the calling thread happened to be set.
"""

import platform
from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class FloatRegister:
    """The control register of one family of processors.

    Attributes
    ----------
    reader, writer
        LLVM's intrinsic functions for it.
    in_memory
        Whether they take the address of an ``i32``; if not, they give and take an ``i64``.
    standard
        Its value at the start of a process: IEEE 754, rounding to nearest, no traps.
    flushing
        The same with subnormal operands and results counted as 0.
    """

    reader: str
    writer: str
    in_memory: bool
    standard: int
    flushing: int


# MXCSR: all exceptions masked (bits 7 to 12), subnormal operands are zeros (6) and results (15).
_X86: Final = FloatRegister(
    "llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr", True, 0x1F80, 0x1F80 | 1 << 6 | 1 << 15
)
# FPCR: subnormal operands and results of float32 and float64 are zeros (24).
_ARM: Final = FloatRegister("llvm.aarch64.get.fpcr", "llvm.aarch64.set.fpcr", False, 0, 1 << 24)

_REGISTERS: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def float_register(machine: str | None = None) -> FloatRegister | None:
    """Return the register of a kind of processor, by default this one's; None if it is not known.

    Parameters
    ----------
    machine
        As :func:`platform.machine` names it.
    """
    return _REGISTERS.get((machine or platform.machine()).lower())


def flushes_subnormals() -> bool:
    """Return whether kernels that a runner runs on this processor count subnormal numbers as 0."""
    return float_register() is not None


def running_mode(*, keep_subnormals: bool = False) -> int:
    """Return the mode for kernels to run in; 0 on a processor whose register is not known."""
    register = float_register()
    if register is None:
        return 0
    return register.standard if keep_subnormals else register.flushing

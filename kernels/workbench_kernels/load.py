"""Object code in, callable addresses out.

LLVM's just-in-time linker maps the object files of one call into one engine, resolves the few
functions of the C library they call, and hands out addresses. Nothing is compiled here and numba is
not imported: this is all that a process with a warm cache runs.

Invariant: an address is valid for as long as its `LoadedKernel` is held. Code is unmapped when none
of the kernels that were mapped with it is held any more.
"""

import ctypes
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from threading import Lock
from typing import Any, Final, final

from workbench_kernels.codegen import make_target_machine
from workbench_kernels.language import LIBRARY_CALLS
from workbench_kernels.object_code import ObjectCode
from workbench_kernels.untyped import llvm_binding

# What LLVM itself calls where the processor has no instruction for it.
_LOWERED_CALLS: Final = tuple(
    f"{name}{suffix}"
    for name in ("fma", "floor", "ceil", "trunc", "roundeven", "sqrt")
    for suffix in ("", "f")
)

# A branch on Arm reaches 128 MB: there llvmlite's own memory manager is needed, which keeps the
# sections of an object together.
_ON_ARM: Final = platform.machine().lower() in ("aarch64", "arm64")

_LOCK: Final = Lock()
_NUMBERS: Final = count()


@final
@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LoadedKernel:
    """A kernel in this process's memory.

    Attributes
    ----------
    address
        Of its function ``void (int64_t *, int64_t, int64_t)``. Whoever calls it holds the kernel
        until the call has returned.
    engine
        What owns the mapped code.
    """

    address: int
    engine: Any


def load(objects: Sequence[ObjectCode]) -> list[LoadedKernel]:
    """Map object code into the process and return the kernels, in the order given.

    Parameters
    ----------
    objects
        Object code for this processor; the symbols must differ.

    Raises
    ------
    ValueError
        If two objects define the same symbol.
    """
    symbols = [item.symbol for item in objects]
    if len(set(symbols)) != len(symbols):
        raise ValueError(f"two objects define {next(s for s in symbols if symbols.count(s) > 1)}")
    if not objects:
        return []
    llvm = llvm_binding()
    with _LOCK:
        _register_library()
        module = llvm.parse_assembly("")
        module.name = f"loaded {next(_NUMBERS)}"
        # An engine owns its description of the processor, and deletes it when it goes.
        engine = llvm.create_mcjit_compiler(module, make_target_machine(), use_lmm=_ON_ARM)
        for item in objects:
            engine.add_object_file(llvm.ObjectFileRef.from_data(item.code))
        engine.finalize_object()
        return [LoadedKernel(engine.get_function_address(s), engine) for s in symbols]


@cache
def _register_library() -> None:
    """Tell the linker where the C library's scalar functions are.

    It looks through what the process has loaded for all other names, but on some systems libm is
    only loaded privately by an extension module.
    """
    library = _math_library()
    names = {symbol for symbol, _, _ in LIBRARY_CALLS.values()} | set(_LOWERED_CALLS)
    for name in sorted(names):
        function = getattr(library, name, None)
        if function is not None:
            address = ctypes.cast(function, ctypes.c_void_p).value
            llvm_binding().add_symbol(name, address)


def _math_library() -> ctypes.CDLL:
    # By name: ctypes.util.find_library starts a process to search for it, which takes 10 ms.
    if sys.platform == "win32":
        return ctypes.CDLL("ucrtbase")
    return ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)

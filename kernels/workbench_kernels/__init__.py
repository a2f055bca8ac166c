"""Kernel texts to machine code, and launch plans that run it. Importable alone.

Reading order: ``kinds`` and ``language`` (what a kernel text may say; the list of names is the
docstring of ``compile``), ``emit`` (each name as LLVM instructions), ``numba_front`` (text to LLVM
text), ``codegen`` (LLVM text to object code), ``compile`` (the two in one call), ``object_code``
(the key), ``load`` (object code to addresses), ``cache`` (object code on disk), ``store`` (memo,
disk, compiler), ``blas`` (matrix products by address), ``float_mode`` (how the processor treats
subnormal numbers), ``plan`` and ``runner`` (a table of launches, run natively on several threads,
in that mode). ``untyped`` is how numba and llvmlite are reached.

Importing this package imports neither numba nor llvmlite.
"""

from workbench_kernels.blas import blas_addresses
from workbench_kernels.cache import CacheWarning, ObjectCache
from workbench_kernels.compile import compile_kernel, optimised_text
from workbench_kernels.float_mode import flushes_subnormals
from workbench_kernels.load import LoadedKernel, load
from workbench_kernels.object_code import KernelText, ObjectCode
from workbench_kernels.plan import LaunchPlan
from workbench_kernels.runner import Runner
from workbench_kernels.store import KernelStore, shared_store

__all__ = [
    "CacheWarning",
    "KernelStore",
    "KernelText",
    "LaunchPlan",
    "LoadedKernel",
    "ObjectCache",
    "ObjectCode",
    "Runner",
    "blas_addresses",
    "compile_kernel",
    "flushes_subnormals",
    "load",
    "optimised_text",
    "shared_store",
]

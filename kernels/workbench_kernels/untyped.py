"""The code generators, imported when first needed and seen as ``Any``.

llvmlite carries no annotations and numba's are partial, so the type checkers can say nothing about
either. They are reached through this one file; what comes back from it is checked by tests instead.
A process that finds its object code in the cache calls :func:`llvm_binding` alone.
"""

from importlib import import_module
from typing import Any


def llvm_binding() -> Any:
    """Return ``llvmlite.binding``: LLVM itself (a shared library of some 150 MB, mapped)."""
    return import_module("llvmlite.binding")


def llvm_ir() -> Any:
    """Return ``llvmlite.ir``: the builder of LLVM's textual form, pure Python."""
    return import_module("llvmlite.ir")


def numba_core(name: str) -> Any:
    """Return the module ``numba.core.<name>``; the first call imports all of numba (0.25 s)."""
    return import_module(f"numba.core.{name}")

"""Kernel texts, their object code, and the key that names both.

The key is a hash over everything that object code depends on: the text, the dtypes of its buffers,
the processor, LLVM, numba, and the source of this package's own compiler. It addresses the memo of
a process and the cache on disk, and names the function inside the object code.

Invariant: equal keys mean interchangeable object code.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import final

from workbench_kernels.untyped import llvm_binding

# The files whose text decides what a kernel text compiles to.
_COMPILER_FILES = (
    "codegen.py",
    "compile.py",
    "emit.py",
    "float_mode.py",
    "instructions.py",
    "kinds.py",
    "language.py",
    "numba_front.py",
    "signatures.py",
)


@final
@dataclass(frozen=True, slots=True)
class KernelText:
    """The text of one kernel and the dtype of each of its pointer slots."""

    source: str
    buffers: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class ObjectCode:
    """A relocatable object file with one global function, ``symbol(int64*, int64, int64)``."""

    code: bytes
    symbol: str


@final
@dataclass(frozen=True, slots=True)
class Target:
    """What object code is made for and with."""

    cpu: str  # LLVM's name of the processor
    features: str  # hash of its feature list
    compiler: str  # hash of this package's compiler
    numba: str
    llvmlite: str


@cache
def host_target() -> Target:
    """Return the target of this process."""
    llvm = llvm_binding()
    features: str = llvm.get_host_cpu_features().flatten()
    here = Path(__file__).parent
    compiler = b"".join((here / name).read_bytes() for name in _COMPILER_FILES)
    return Target(
        cpu=llvm.get_host_cpu_name(),
        features=_digest(features.encode()),
        compiler=_digest(compiler),
        numba=_version("numba"),
        llvmlite=_version("llvmlite"),
    )


def _version(package: str) -> str:
    """Return the version of an installed package without importing it."""
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        # The name of the metadata folder says it; importlib.metadata would take 20 ms to load.
        found = list(Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"))
        if len(found) == 1:
            return found[0].name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(package)


def kernel_key(text: KernelText) -> str:
    """Return the key of a kernel on this machine: 64 hexadecimal digits."""
    target = host_target()
    parts = (
        text.source,
        *text.buffers,
        target.cpu,
        target.features,
        target.compiler,
        target.numba,
        target.llvmlite,
    )
    # Lengths first: no two lists of parts make the same bytes.
    return _digest("".join(f"{len(part)}:{part}" for part in parts).encode())


def symbol_of(key: str) -> str:
    """Return the name of the function that the object code of ``key`` defines."""
    return f"wbk_{key[:32]}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

"""The machine as a whole: its processor, and what of other devices' software is installed.

In: what the operating system and the installed packages say. Out: pairs of names and texts.
Invariant: nothing here opens a device or imports a package of one, so that it may be asked at any
time and by anyone; what can only be learnt from a device is not here.
"""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib import util
from pathlib import Path
from typing import Final

from workbench.backends.facts import Identity
from workbench_kernels.float_mode import flushes_subnormals
from workbench_kernels.untyped import llvm_binding

_FEATURES: Final = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512fp16", "neon", "sve")
_WIDTHS: Final = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse4.2", 128), ("neon", 128))


def host_capabilities() -> tuple[tuple[str, str], ...]:
    """Return what this machine offers the backends, in a fixed order; no device is opened.

    Examples
    --------
    >>> import workbench as wb
    >>> names = [name for name, _ in wb.host_capabilities()]
    >>> names[:3]
    ['system', 'processor', 'processors']
    """
    return (*processor(), *_software())


@cache
def processor() -> Identity:
    """Return the system, and the processor with what of it matters to compiled code."""
    binding = llvm_binding()
    features: dict[str, bool] = binding.get_host_cpu_features()
    present = [name for name in _FEATURES if features.get(name)]
    width = next((bits for name, bits in _WIDTHS if features.get(name)), 0)
    return (
        ("system", f"{platform.system()} {platform.machine()}"),
        ("processor", _model()),
        ("processors", str(usable_processors())),
        ("target", binding.get_host_cpu_name()),
        ("features", " ".join(present)),
        ("vector bits", str(width)),
        ("float16 arithmetic", "native" if features.get("avx512fp16") else "through float32"),
        ("subnormal numbers", "count as 0" if flushes_subnormals() else "computed with"),
    )


def usable_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def toolchain() -> Identity:
    """Return the versions of what compiles for the processor."""
    return tuple((name, _version(name)) for name in ("numba", "llvmlite", "numpy", "scipy"))


def _software() -> Identity:
    return (
        ("python", f"{platform.python_implementation()} {platform.python_version()}"),
        *toolchain(),
        ("cupy", _cupy()),
        ("cuda headers", _folder("CUDA_PATH", "/usr/local/cuda", "include/cuda.h")),
        ("rocm headers", _folder("ROCM_HOME", "/opt/rocm", "include/hip/hip_runtime.h")),
        ("metal", "no kernels for it" if sys.platform == "darwin" else "not this system"),
    )


def _model() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def _version(package: str) -> str:
    from importlib import metadata  # 20 ms

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def _cupy() -> str:
    """Return the name and version of the CuPy there is: its builds are packages of many names."""
    if util.find_spec("cupy") is None:
        return "absent"
    from importlib import metadata

    for name in sorted(set(metadata.packages_distributions().get("cupy", ()))):
        return f"{name} {_version(name)}"
    return "present"


def _folder(variable: str, usual: str, header: str) -> str:
    root = Path(os.environ.get(variable) or usual)
    return str(root) if (root / header).is_file() else "absent"

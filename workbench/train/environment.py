"""What a run was made with: versions and the machine, as plain text for files.

Invariant: nothing here changes what is computed; it tells a reader why two runs may differ.
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from typing import Final

__all__ = ["environment"]

_PACKAGES: Final = ("training-workbench", "numpy", "scipy", "numba", "llvmlite", "safetensors")


def environment() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute, and what the machine is."""
    # A copy: the caller may add to it.
    return dict(_environment())


@lru_cache(maxsize=1)
def _environment() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # 8 ms

    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from its source, or an extra that is not installed
            found[package] = "not installed"
    return found | {
        "system": platform.platform(),
        "processor": platform.machine(),
        "processors": str(os.cpu_count()),
    }

"""Kernel texts in, addresses out, by the cheapest way there is.

Asked for a text, a store looks in the memo of the process, then in the cache on disk, and compiles
only what is in neither; everything that must be mapped is mapped in one go.

Invariant: a text is compiled and mapped at most once in a process.
"""

from collections.abc import Sequence
from functools import cache as once
from threading import RLock
from typing import Final, final

from workbench_kernels.cache import ObjectCache
from workbench_kernels.compile import compile_kernel
from workbench_kernels.load import load
from workbench_kernels.object_code import KernelText, ObjectCode, kernel_key

# Mapped code is never unmapped, so what an address means is a fact of the process, not of a store.
_ADDRESSES: Final[dict[str, int]] = {}
_LOCK: Final = RLock()


@final
class KernelStore:
    """Finds, loads or compiles kernels.

    Parameters
    ----------
    cache
        Where object code outlives the process; by default the user's own cache.

    Attributes
    ----------
    compiled, loaded, reused
        How many requests this store has answered by compiling, from disk and from the memo.
    """

    def __init__(self, cache: ObjectCache | None = None) -> None:
        self.cache = ObjectCache() if cache is None else cache
        self.compiled = 0
        self.loaded = 0
        self.reused = 0

    def addresses(self, requests: Sequence[KernelText]) -> list[int]:
        """Return the address of each kernel, in the order asked; equal texts share one.

        Raises
        ------
        SyntaxError, NameError, TypeError, ValueError, NotImplementedError
            As :func:`~workbench_kernels.compile.compile_kernel`.
        """
        keys = [kernel_key(text) for text in requests]
        with _LOCK:
            missing = {
                key: text for key, text in zip(keys, requests, strict=True) if key not in _ADDRESSES
            }
            found = self._object_code(missing)
            _ADDRESSES.update(zip(found, load(list(found.values())), strict=True))
            self.reused += len(keys) - len(missing)
            return [_ADDRESSES[key] for key in keys]

    def _object_code(self, missing: dict[str, KernelText]) -> dict[str, ObjectCode]:
        found: dict[str, ObjectCode] = {}
        for key, text in missing.items():
            item = self.cache.get(key)
            if item is not None:
                self.loaded += 1
            else:
                # One after the other: LLVM in a second thread was tried, and waits longer for the
                # interpreter lock between its calls than it gains.
                item = compile_kernel(text.source, text.buffers)
                self.compiled += 1
                self.cache.put(key, item)
            found[key] = item
        return found


@once
def shared_store() -> KernelStore:
    """Return the store of the process, over the user's cache."""
    return KernelStore()

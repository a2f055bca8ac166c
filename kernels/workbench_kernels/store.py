"""Kernel texts in, kernels out, by the cheapest way there is.

Asked for a text, a store looks in the memo of the process, then in the cache on disk, and compiles
only what is in neither; everything that must be mapped is mapped in one go.

Invariant: a text is mapped at most once at a time. A kernel stays mapped while somebody holds it,
or while it is among the latest that were asked for, so that a cell that is run again finds it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import cache as once
from threading import RLock
from typing import Final, final
from weakref import WeakValueDictionary

from workbench_kernels.cache import ObjectCache
from workbench_kernels.compile import compile_kernel
from workbench_kernels.load import LoadedKernel, load
from workbench_kernels.object_code import KernelText, ObjectCode, kernel_key

# What is mapped is a fact of the process, not of a store.
_MAPPED: Final[WeakValueDictionary[str, LoadedKernel]] = WeakValueDictionary()
_LATEST: Final[OrderedDict[str, LoadedKernel]] = OrderedDict()
_LATEST_COUNT: Final = 256  # 4 to 8 MB of code
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

    def kernels(self, requests: Sequence[KernelText]) -> list[LoadedKernel]:
        """Return the kernels in the order asked; equal texts share one.

        Raises
        ------
        SyntaxError, NameError, TypeError, ValueError, NotImplementedError
            As :func:`~workbench_kernels.compile.compile_kernel`.
        """
        keys = [kernel_key(text) for text in requests]
        with _LOCK:
            # Held in `found` from here on: what only the memo knows may go at any moment.
            found = {key: kernel for key in keys if (kernel := _MAPPED.get(key)) is not None}
            missing = {
                key: text for key, text in zip(keys, requests, strict=True) if key not in found
            }
            code = self._object_code(missing)
            found.update(zip(code, load(list(code.values())), strict=True))
            _MAPPED.update(found)
            _keep_latest(found)
            self.reused += len(keys) - len(missing)
            return [found[key] for key in keys]

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


def _keep_latest(kernels: dict[str, LoadedKernel]) -> None:
    for key, kernel in kernels.items():
        _LATEST[key] = kernel
        _LATEST.move_to_end(key)
    while len(_LATEST) > _LATEST_COUNT:
        _LATEST.popitem(last=False)


@once
def shared_store() -> KernelStore:
    """Return the store of the process, over the user's cache."""
    return KernelStore()

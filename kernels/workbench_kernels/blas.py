"""Where the matrix products live: scipy's BLAS, by address and on one thread.

Kernels call BLAS inside the chunks that the runner's threads work on. Its own threads would
compete with them for the same cores and both would spin while waiting (seen: ten times slower), so
it is set to one thread when its addresses are first asked for. That holds for the whole process:
the user's own ``scipy.linalg`` calls run on one thread from then on. numpy brings a BLAS of its
own, which is left alone.
"""

import ctypes
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

_MODULE: Final = "scipy.linalg.cython_blas"
_ROUTINES: Final = {"float32": "sgemm", "float64": "dgemm"}

# Setters of the number of threads: OpenBLAS as scipy's wheels rename it, OpenBLAS, MKL, BLIS. Each
# takes one int by value.
_THREAD_SETTERS: Final = (
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)


@cache
def blas_addresses() -> dict[str, int]:
    """Return the address of Fortran's ``gemm`` for float32 and float64, and make it sequential.

    Raises
    ------
    RuntimeError
        If scipy's BLAS takes integers of another size than 32 bits.
    """
    module = _cython_blas()
    capsules = module.__pyx_capi__
    addresses = {dtype: _address(capsules[name]) for dtype, name in _ROUTINES.items()}
    _use_one_thread(module)
    return addresses


def _cython_blas() -> ModuleType:
    loaded = sys.modules.get(_MODULE)
    if loaded is not None:
        return loaded
    # On its own: the package around it imports half of scipy, which takes ten times as long.
    with suppress(ImportError, OSError):
        return _load_alone()
    return import_module(_MODULE)


def _load_alone() -> ModuleType:
    folder = Path(next(iter(import_module("scipy").__path__))) / "linalg"
    name = _MODULE.rpartition(".")[2]
    candidates = (folder / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    path = next((candidate for candidate in candidates if candidate.exists()), None)
    if path is None:
        raise ImportError(f"{_MODULE} is not a file of its own")
    loader = ExtensionFileLoader(_MODULE, str(path))
    spec = spec_from_file_location(_MODULE, path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    # A second import would make a second module; a later `import scipy.linalg` finds this one.
    sys.modules[_MODULE] = module
    return module


def _address(capsule: object) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    if signature.count(b"int *") != 6:
        raise RuntimeError(f"scipy's BLAS is `{signature.decode()}`; 32-bit integers are wanted")
    address: int = api.PyCapsule_GetPointer(capsule, signature)
    return address


def _use_one_thread(module: ModuleType) -> None:
    # A handle of the extension module also searches the libraries it is linked to, so that this
    # finds the very BLAS whose addresses are given out, and no other.
    assert module.__file__ is not None
    library = ctypes.CDLL(module.__file__)
    for name in _THREAD_SETTERS:
        setter = getattr(library, name, None)
        if setter is not None:
            setter.argtypes = [ctypes.c_int]
            setter.restype = None
            setter(1)
            return

"""Compiling and calling kernels in tests."""

import ctypes
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from workbench_kernels import KernelStore, KernelText, ObjectCache

Native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def kernel_source(body):
    """The text of a kernel with this body; a line may start with any common indentation."""
    return "def kernel(args, lo, hi):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ")


class Bench:
    """Runs kernel bodies on arrays: slot ``k`` is the ``k``-th array, as ``p<k>``."""

    def __init__(self, store):
        self.store = store
        self.held = []

    def address(self, body, dtypes):
        names = "\n".join(f"p{slot} = pointer_{slot}(args[{slot}])" for slot in range(len(dtypes)))
        source = kernel_source(f"{names}\n{textwrap.dedent(body).strip()}")
        [kernel] = self.store.kernels([KernelText(source, tuple(dtypes))])
        self.held.append(kernel)
        return kernel.address

    def block(self, arrays, *words):
        return np.array([*(array.ctypes.data for array in arrays), *words], np.int64)

    def __call__(self, body, arrays, *words, lo=0, hi=1, dtypes=None):
        """Run a body on ``[lo, hi)``; ``words`` follow the arrays in ``args``."""
        names = [array.dtype.name for array in arrays] if dtypes is None else dtypes
        block = self.block(arrays, *words)
        Native(self.address(body, names))(block.ctypes.data, lo, hi)
        return block


@pytest.fixture(scope="session")
def kernel_store(tmp_path_factory):
    """A store over a cache of this test run."""
    return KernelStore(ObjectCache(tmp_path_factory.mktemp("cache") / "kernels"))


@pytest.fixture(scope="session")
def bench(kernel_store):
    return Bench(kernel_store)


@pytest.fixture(scope="session")
def native():
    """The ctypes type of every compiled kernel."""
    return Native


@pytest.fixture(scope="session")
def source_of():
    return kernel_source


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Run code in a new process that finds this package; return what it printed."""
    cache = str(tmp_path_factory.mktemp("processes"))

    def run(code, *options, limit_s=60, **variables):
        path = os.pathsep.join(filter(None, sys.path))
        result = subprocess.run(
            [sys.executable, "-W", "error", *options, "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": path, "WORKBENCH_CACHE": cache, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run

"""Where an address comes from: memo, disk, compiler."""

import textwrap
import threading
import uuid

import numpy as np
import pytest

from workbench_kernels import KernelStore, KernelText, ObjectCache, load, shared_store


@pytest.fixture
def text(source_of):
    """A text that nothing in this process has seen."""
    number = uuid.uuid4().int % 2**62
    return KernelText(source_of(f"args[0] = {number}"), ())


@pytest.fixture
def store(tmp_path):
    return KernelStore(ObjectCache(tmp_path / "kernels"))


def _counts(store):
    return store.compiled, store.loaded, store.reused


def test_a_text_is_compiled_once_and_then_reused(store, text):
    first = store.kernels([text])
    assert store.kernels([text, text]) == first * 2
    assert _counts(store) == (1, 0, 2)


def test_a_text_asked_for_twice_at_once_is_compiled_once(store, text):
    one, other = store.kernels([text, text])
    assert one == other
    assert _counts(store) == (1, 0, 1)


def test_the_memo_is_the_processs_not_the_stores(store, text, tmp_path):
    first = store.kernels([text])
    other = KernelStore(ObjectCache(tmp_path / "other"))
    assert other.kernels([text]) == first
    assert _counts(other) == (0, 0, 1)


def test_no_requests_give_no_kernels(store):
    assert store.kernels([]) == []
    assert _counts(store) == (0, 0, 0)


def test_threads_that_ask_at_once_compile_once(store, text):
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(store.kernels([text]))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert _counts(store) == (1, 0, 3)


def test_an_unwritable_cache_still_compiles_and_warns_once(tmp_path, text, source_of):
    (tmp_path / "kernels").write_text("in the way")
    told = []
    store = KernelStore(ObjectCache(tmp_path / "kernels", report=told.append))
    other = KernelText(text.source.replace("args[0]", "args[1]"), ())
    assert all(store.kernels([text, other]))
    assert len(told) == 1


def test_the_shared_store_is_one():
    assert shared_store() is shared_store()


def test_one_symbol_cannot_be_loaded_twice_at_once(text):
    from workbench_kernels import compile_kernel

    item = compile_kernel(text.source, text.buffers)
    with pytest.raises(ValueError, match=item.symbol):
        load([item, item])
    assert load([]) == []


WARM = """
import sys
import numpy as np
import workbench_kernels as wk
assert not {"numba", "llvmlite"} & set(sys.modules), "imported with the package"
store = wk.shared_store()
runner = wk.Runner(2)
source = "def kernel(args, lo, hi):\\n    p0 = pointer_0(args[0])\\n    p0[lo] = exp_f64(p0[lo])"
[kernel] = store.kernels([wk.KernelText(source, ("float64",))])
value = np.array([1.0])
block = np.array([value.ctypes.data])
row = [kernel.address, block.ctypes.data, 0, 1]
plan = wk.LaunchPlan(np.array([row, row]), np.array([[0, 1], [1, 1]]))
steps = runner.run(plan, 1, np.zeros(2, np.int64))
right = bool(np.isclose(value[0], np.exp(np.exp(1.0))))
print(steps, right, store.compiled, store.loaded, "numba" in sys.modules)
"""


def test_a_second_process_loads_everything_and_never_imports_numba(python, tmp_path):
    cold = python(WARM, WORKBENCH_CACHE=str(tmp_path)).split()
    assert cold == ["1", "True", "3", "0", "True"]
    warm = python(WARM, WORKBENCH_CACHE=str(tmp_path)).split()
    assert warm == ["1", "True", "0", "3", "False"]


def test_a_spoiled_entry_is_compiled_again_in_the_next_process(python, tmp_path):
    python(WARM, WORKBENCH_CACHE=str(tmp_path))
    for path in (tmp_path / "kernels").iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    again = python(WARM, WORKBENCH_CACHE=str(tmp_path)).split()
    assert again == ["1", "True", "3", "0", "True"]
    assert python(WARM, WORKBENCH_CACHE=str(tmp_path)).split()[3] == "3"


def test_a_home_that_cannot_be_written_warns_once_and_works(python, tmp_path):
    (tmp_path / "file").write_text("")
    recorded = textwrap.indent(WARM, "    ")
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        f"    warnings.simplefilter('always')\n{recorded}\n"
        "print([type(warning.message).__name__ for warning in caught])"
    )
    printed = python(code, WORKBENCH_CACHE=str(tmp_path / "file")).splitlines()
    assert printed == ["1 True 3 0 True", "['CacheWarning']"]


def test_addresses_are_callable(bench, native, text, store):
    block, [kernel] = np.zeros(1, np.int64), store.kernels([text])
    native(kernel.address)(block.ctypes.data, 0, 0)
    assert f"args[0] = {block[0]}" in text.source

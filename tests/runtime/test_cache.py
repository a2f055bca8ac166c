"""The cache of compiled kernels, as somebody meets it who compiles in a context."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import warnings
import numpy as np
import workbench as wb

x = wb.input("x", (100,))
y = wb.tanh(x) * 3.0 + 1.0

def compiled(threads=1):
    ctx, routine = wb.Context.cpu(threads).compile([y])
    ctx = ctx.set_values({x: np.linspace(-2, 2, 100, dtype=np.float32)}).run(routine)
    return ctx.get_values(y)

def is_right(values):
    return np.allclose(values, np.tanh(np.linspace(-2, 2, 100)) * 3 + 1, atol=1e-6)

"""

COUNTS = """
from workbench.backends.numba_cpu.backend import kernel_store
print(is_right(compiled()), kernel_store().compiled, kernel_store().loaded)
"""


def in_a_process(folder, code):
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path, "WORKBENCH_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A cache that one process has filled."""
    folder = tmp_path_factory.mktemp("cache")
    right, compiled, loaded = in_a_process(folder, COUNTS)
    assert right == "True"
    assert int(compiled) > 1
    assert loaded == "0"
    assert len(list((folder / "kernels").iterdir())) == int(compiled)
    return folder


@pytest.fixture
def filled(original, tmp_path):
    """A copy of the filled cache, and its entries."""
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path, sorted((tmp_path / "kernels").glob("*.wbk"))


def test_the_second_process_compiles_nothing(filled):
    folder, entries = filled
    assert in_a_process(folder, COUNTS) == ["True", "0", str(len(entries))]


def flipped(data):
    """One byte of machine code turned over: a trap, were it executed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def test_tampered_entries_are_rebuilt_and_never_executed(filled):
    folder, entries = filled
    originals = [entry.read_bytes() for entry in entries]
    for entry, original in zip(entries, originals, strict=True):
        entry.write_bytes(flipped(original))
    assert in_a_process(folder, COUNTS) == ["True", str(len(entries)), "0"]
    assert [entry.read_bytes() for entry in entries] == originals


def test_entries_that_were_exchanged_are_rebuilt(filled):
    folder, entries = filled
    contents = [entry.read_bytes() for entry in entries]
    for entry, content in zip(entries, contents[1:] + contents[:1], strict=True):
        entry.write_bytes(content)
    assert in_a_process(folder, COUNTS) == ["True", str(len(entries)), "0"]


def test_a_folder_that_others_may_write_is_not_believed(filled):
    folder, entries = filled
    (folder / "kernels").chmod(0o777)
    quiet = "warnings.simplefilter('ignore')" + COUNTS
    assert in_a_process(folder, quiet) == ["True", str(len(entries)), "0"]


def test_a_folder_that_cannot_be_used_warns_once_and_compiles_in_memory(tmp_path):
    # A file stands where the folder would be: nobody, not even root, can make one there.
    (tmp_path / "kernels").write_text("not a folder")
    warned, right, again, named = in_a_process(
        tmp_path,
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first, second = is_right(compiled(1)), is_right(compiled(2))
        ours = [w for w in caught if issubclass(w.category, wb.CacheWarning)]
        print(len(ours), first, second, "WORKBENCH_CACHE" in str(ours[0].message))
        """,
    )
    assert (warned, right, again, named) == ("1", "True", "True", "True")

"""Paths and files of any kind, at every entrance that takes one: an answer, never a hang."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.errors import DataError
from workbench.files import as_path, read_regular
from workbench.train.update.values_file import load_values, restore_values, save_values

X = wb.parameter(np.ones(2, np.float32), "x")
CTX = wb.Context.interpreter().compile([X])[0]
PARAMS = {"w": np.zeros(2)}
RUN = wb.Run(PARAMS, wb.sgd(PARAMS), wb.Config(1, 4, 0.1, 7), context=wb.Context.interpreter())

READERS = {
    "restore": lambda path: wb.restore(RUN, path),
    "load_parameters": lambda path: wb.load_parameters(RUN, path),
    "inspect": wb.inspect,
    "load_values": load_values,
    "restore_values": lambda path: restore_values(CTX, [X], path),
}
WRITERS = {
    "save_checkpoint": lambda path: wb.save_checkpoint(RUN, path),
    "export_parameters": lambda path: wb.export_parameters(PARAMS, path),
    "save_values": lambda path: save_values(CTX, [X], path),
}
FOLDERS = {
    "runs": wb.runs,
    "compare": wb.compare,
    "mnist": wb.data.mnist,
    "cifar10": wb.data.cifar10,
}
PATHS = {
    "a NUL": "a\0b",
    "nobody's home": "~nobody-of-that-name/x",
    "a number": 3,
    "nothing": None,
    "bytes": b"x",
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("entrance", [*READERS, *WRITERS, *FOLDERS])
def test_what_is_no_path_is_refused_everywhere_with_one_sentence(entrance, name):
    with pytest.raises(DataError, match="path") as caught:
        (READERS | WRITERS | FOLDERS)[entrance](PATHS[name])
    with pytest.raises(DataError) as expected:
        as_path(PATHS[name])
    assert caught.value.problem == expected.value.problem


@pytest.mark.parametrize("entrance", [*READERS, *WRITERS])
def test_a_name_that_is_too_long_is_refused(entrance, tmp_path):
    with refused(DataError, "too long"):
        (READERS | WRITERS)[entrance](tmp_path / ("x" * 300))


@pytest.fixture
def kinds(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(tmp_path)  # a socket's path is short
        made.bind("socket")
        os.chdir(here)
        yield tmp_path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "null", "round"])
@pytest.mark.parametrize("entrance", [*READERS, *WRITERS])
def test_what_is_no_regular_file_is_refused_without_waiting_and_stays(kinds, entrance, kind):
    if kind == "round" and entrance in WRITERS:
        return  # a link to itself names a file that may be made
    with refused(DataError, str(kinds / kind) if kind != "null" else "/dev/null"):
        (READERS | WRITERS)[entrance](kinds / kind)
    assert os.path.lexists(kinds / kind)


def test_no_more_is_read_than_was_allowed(tmp_path):
    (tmp_path / "x").write_bytes(bytes(100))
    assert read_regular(tmp_path / "x", most=100) == bytes(100)
    with refused(DataError, "longer than 99"):
        read_regular(tmp_path / "x", most=99)


def test_links_are_followed_only_where_that_was_allowed(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "link").symlink_to("x")
    assert read_regular(tmp_path / "link", most=9) == b"x"
    with refused(DataError, "a link"):
        read_regular(tmp_path / "link", most=9, follow=False)


def test_a_cache_in_the_home_of_nobody_is_told_and_kernels_are_compiled():
    code = (
        "import warnings, workbench_kernels.cache as c\n"
        "warnings.simplefilter('error')\n"
        "said = []\n"
        "cache = c.ObjectCache(report=said.append)\n"
        "assert cache.get('0' * 64) is None\n"
        "cache.put('0' * 64, c.ObjectCode(b'x', 'y'))\n"
        "print(len(said), said[0])\n"
    )
    root = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join(str(root / folder) for folder in (".", "kernels", "widgets"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths, "WORKBENCH_CACHE": "~nobody-of-that-name"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("1 compiled kernels are not kept in ~nobody-of-that-name")

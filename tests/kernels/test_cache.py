"""The cache on disk: what it keeps, and what it refuses to execute."""

import ast
import json
import os
import warnings
from pathlib import Path

import pytest

import workbench_kernels
from workbench_kernels import CacheWarning, ObjectCache, ObjectCode
from workbench_kernels.cache import MAGIC, default_folder
from workbench_kernels.object_code import _COMPILER_FILES, KernelText, kernel_key, symbol_of

FOLDER = Path(workbench_kernels.__file__).parent
KEY = kernel_key(KernelText("def kernel(args, lo, hi):\n    pass", ()))
ITEM = ObjectCode(bytes(range(256)) * 3, symbol_of(KEY))
POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="file owners and modes are POSIX")


@pytest.fixture
def cache(tmp_path):
    return ObjectCache(tmp_path / "deep" / "kernels", report=pytest.fail)


@pytest.fixture
def entry(cache):
    cache.put(KEY, ITEM)
    [path] = cache.folder.iterdir()
    return path


def test_what_was_put_is_got_by_a_new_cache(cache, entry):
    assert ObjectCache(cache.folder).get(KEY) == ITEM
    assert entry.name == f"{KEY}.wbk"


def test_an_absent_key_or_folder_gives_nothing(cache, entry):
    assert cache.get("0" * 64) is None
    assert ObjectCache(cache.folder / "none").get(KEY) is None


@POSIX
def test_folder_and_file_are_their_owners_alone(cache, entry):
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert entry.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kept", [0, 1, len(MAGIC), 40, -33, -1])
def test_a_truncated_entry_is_ignored_and_rebuilt(cache, entry, kept):
    entry.write_bytes(entry.read_bytes()[:kept])
    assert cache.get(KEY) is None
    cache.put(KEY, ITEM)
    assert cache.get(KEY) == ITEM


def test_an_entry_with_any_bit_flipped_is_ignored(cache, entry):
    whole = entry.read_bytes()
    for place in range(0, len(whole), 13):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << (place % 8)
        entry.write_bytes(spoiled)
        assert cache.get(KEY) is None, place
    entry.write_bytes(whole)
    assert cache.get(KEY) == ITEM


def test_an_entry_under_another_key_is_ignored(cache, entry):
    other = "f" * 64
    entry.rename(entry.with_name(f"{other}.wbk"))
    assert cache.get(other) is None


@pytest.mark.parametrize("field", ["cpu", "features", "compiler", "numba", "llvmlite"])
def test_an_entry_of_another_processor_or_compiler_is_ignored(cache, monkeypatch, field):
    import dataclasses

    import workbench_kernels.cache as module

    here = module.host_target()
    elsewhere = dataclasses.replace(here, **{field: "another"})
    monkeypatch.setattr(module, "host_target", lambda: elsewhere)
    cache.put(KEY, ITEM)
    assert cache.get(KEY) == ITEM
    monkeypatch.setattr(module, "host_target", lambda: here)
    assert cache.get(KEY) is None


def test_an_entry_of_another_format_version_is_ignored(cache, entry):
    import hashlib

    body = entry.read_bytes()[:-32].replace(MAGIC, b"WBKERN00")
    entry.write_bytes(body + hashlib.sha256(body).digest())
    assert cache.get(KEY) is None


def test_a_header_that_is_not_json_is_ignored(cache, entry):
    import hashlib

    body = entry.read_bytes()[:-32].replace(b'{"key"', b"[[[[[[")
    entry.write_bytes(body + hashlib.sha256(body).digest())
    assert cache.get(KEY) is None


def test_the_header_is_readable_and_says_what_the_entry_is_for(entry):
    data = entry.read_bytes()
    start = len(MAGIC) + 4
    length = int.from_bytes(data[len(MAGIC) : start], "little")
    header = json.loads(data[start : start + length])
    assert header["key"] == KEY
    assert header["symbol"] == ITEM.symbol
    assert header["payload_bytes"] == len(ITEM.code)
    assert set(header["target"]) == {"cpu", "features", "compiler", "numba", "llvmlite"}


@POSIX
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_ignored(cache, entry, mode):
    entry.chmod(mode)
    assert cache.get(KEY) is None


@POSIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_neither_read_nor_written(tmp_path, mode):
    folder = tmp_path / "kernels"
    ObjectCache(folder).put(KEY, ITEM)
    folder.chmod(mode)
    told = []
    cache = ObjectCache(folder, report=told.append)
    assert cache.get(KEY) is None
    cache.put("a" * 64, ITEM)
    assert len(list(folder.iterdir())) == 1
    assert len(told) == 1
    assert f"{mode:04o}" in told[0]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
def test_what_belongs_to_another_user_is_ignored(cache, entry):
    os.chown(entry, 12345, -1)
    assert cache.get(KEY) is None
    os.chown(entry, 0, -1)
    os.chown(cache.folder, 12345, -1)
    told = []
    assert ObjectCache(cache.folder).get(KEY) is None
    ObjectCache(cache.folder, report=told.append).put(KEY, ITEM)
    assert "belongs to user 12345" in told[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_links_pipes_and_folders_in_place_of_an_entry_are_ignored(cache, entry, tmp_path):
    real = tmp_path / "real"
    entry.rename(real)
    entry.symlink_to(real)
    assert cache.get(KEY) is None
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert cache.get(KEY) is None
    entry.unlink()
    entry.mkdir(mode=0o700)
    assert cache.get(KEY) is None


def test_an_unusable_folder_is_reported_once_as_a_warning(tmp_path):
    (tmp_path / "kernels").write_text("in the way")
    cache = ObjectCache(tmp_path / "kernels")
    with pytest.warns(CacheWarning, match=r"not kept in .*kernels.*WORKBENCH_CACHE"):
        cache.put(KEY, ITEM)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, ITEM)
    assert cache.get(KEY) is None


def test_a_full_or_read_only_disk_leaves_no_pieces_behind(cache, entry, monkeypatch):
    from pathlib import Path

    told = []
    failing = ObjectCache(cache.folder, report=told.append)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        failing.put("b" * 64, ITEM)
        failing.put("c" * 64, ITEM)
    assert [path.name for path in cache.folder.iterdir()] == [entry.name]
    assert len(told) == 1
    assert "No space left" in told[0]


def test_the_folder_is_the_users_own_unless_the_environment_names_one(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    assert default_folder() == tmp_path / "kernels"
    monkeypatch.delenv("WORKBENCH_CACHE")
    assert default_folder().parts[-2:] == ("training-workbench", "kernels")


def test_a_usable_folder_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = ObjectCache(tmp_path / "kernels")
        cache.put(KEY, ITEM)
        assert cache.get(KEY) == ITEM


def _imports(name):
    """Return the modules of the package that one of its files imports."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    origins = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    package = "workbench_kernels."
    return {origin.removeprefix(package) for origin in origins if origin.startswith(package)}


def test_every_file_that_decides_what_a_text_compiles_to_is_in_the_key():
    found, waiting = set(), {"compile"}
    while waiting:
        found |= waiting
        waiting = {other for name in waiting for other in _imports(name)} - found
    # Neither has a word in it: one makes the key, the other imports llvmlite.
    assert {f"{name}.py" for name in found - {"object_code", "untyped"}} == set(_COMPILER_FILES)

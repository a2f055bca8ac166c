"""IDX files: every way in which one can be wrong is told apart."""

import gzip
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from workbench.data import idx as idx_module
from workbench.data.idx import read_idx
from workbench.errors import DataError


def idx(values, *, type_code=8):
    header = bytes((0, 0, type_code, values.ndim))
    extents = b"".join(int(extent).to_bytes(4) for extent in values.shape)
    return header + extents + values.tobytes()


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0)), st.booleans())
def test_what_was_written_is_read(tmp_path_factory, values, zipped):
    path = tmp_path_factory.mktemp("idx") / "values"
    path.write_bytes(gzip.compress(idx(values)) if zipped else idx(values))
    read = read_idx(path, axes=values.ndim)
    assert read.shape == values.shape
    assert (read == values).all()


@pytest.mark.parametrize("name", ["images.gz", "images"])
@pytest.mark.parametrize("zipped", [True, False])
def test_the_content_says_whether_a_file_is_gzipped_not_its_name(tmp_path, name, zipped):
    (tmp_path / name).write_bytes(gzip.compress(idx(IMAGES)) if zipped else idx(IMAGES))
    assert (read_idx(tmp_path / name, axes=3) == IMAGES).all()


def refused(path, content, axes=3):
    """Return the text with which a file of that content is refused."""
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(path, axes)
    assert str(caught.value).startswith(f"{path}: expected ")
    assert caught.value.remedy
    return str(caught.value)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_refused_naming_both_sizes(tmp_path, zipped):
    content = idx(IMAGES)[:-5]
    problem = refused(tmp_path / "images", gzip.compress(content) if zipped else content)
    assert re.search(r"expected 24 bytes of values \(2 x 3 x 4\), found (19|a file)", problem)


@pytest.mark.parametrize("zipped", [True, False])
def test_bytes_after_the_last_value_are_refused(tmp_path, zipped):
    content = idx(IMAGES) + b"\0"
    problem = refused(tmp_path / "images", gzip.compress(content) if zipped else content)
    assert "expected 24 bytes of values (2 x 3 x 4), found more" in problem


def test_labels_in_place_of_images_are_refused_naming_both(tmp_path):
    problem = refused(tmp_path / "images", idx(IMAGES.ravel()))
    assert "expected the magic 2051 (2051: unsigned byte values on 3 axes)" in problem
    assert "found 2049: unsigned byte values on 1 axis" in problem


@pytest.mark.parametrize(
    ("code", "words"), [(0x09, "signed byte"), (0x0D, "32-bit float"), (0x0E, "64-bit float")]
)
def test_another_element_type_is_refused_naming_it(tmp_path, code, words):
    problem = refused(tmp_path / "images", idx(IMAGES, type_code=code))
    assert f"found {(code << 8) + 3}: {words} values on 3 axes" in problem


def test_an_unknown_element_type_is_refused_showing_the_bytes(tmp_path):
    problem = refused(tmp_path / "images", idx(IMAGES, type_code=0x7F))
    assert "found the bytes 00 00 7f 03, which begin no IDX file" in problem


def test_another_kind_of_file_is_refused_showing_its_first_bytes(tmp_path):
    problem = refused(tmp_path / "images", b"<html>not found</html>")
    assert "found the bytes 3c 68 74 6d" in problem


@pytest.mark.parametrize("size", [0, 3])
def test_a_file_without_a_magic_is_refused_naming_its_size(tmp_path, size):
    assert f"found a file of {size} bytes" in refused(tmp_path / "images", bytes(size))


def test_a_header_cut_off_is_refused_naming_both_sizes(tmp_path):
    problem = refused(tmp_path / "images", idx(IMAGES)[:9])
    assert "expected a header of 16 bytes, found 9" in problem


@pytest.mark.parametrize("zipped", [True, False])
def test_extents_that_the_file_cannot_back_ask_for_no_memory(tmp_path, zipped):
    content = bytes((0, 0, 8, 3)) + b"\xff" * 12 + b"few values"
    problem = refused(tmp_path / "images", gzip.compress(content) if zipped else content)
    assert "found a file that holds at most" in problem


def test_a_gzip_file_cut_off_is_refused(tmp_path):
    whole = gzip.compress(idx(np.random.default_rng(0).integers(0, 256, (4, 9, 9), np.uint8)))
    problem = refused(tmp_path / "images.gz", whole[:-20])
    assert f"expected a whole gzip file, found {len(whole) - 20} bytes" in problem


@pytest.mark.parametrize("place", [12, -6])
def test_a_damaged_gzip_file_is_refused(tmp_path, place):
    content = bytearray(gzip.compress(idx(IMAGES)))
    content[place] ^= 0xFF
    assert "expected" in refused(tmp_path / "images.gz", bytes(content))


def test_what_a_zipped_file_declares_is_bounded_before_it_is_unpacked(tmp_path, monkeypatch):
    shape = (1 << 11, 1 << 10, 1 << 10)  # 2 GiB of zeros, for which 2 MB are enough
    header = bytes((0, 0, 8, 3)) + b"".join(extent.to_bytes(4, "big") for extent in shape)
    unpacked = []
    filled = idx_module._fill
    monkeypatch.setattr(idx_module, "_fill", lambda *a: unpacked.append(a) or filled(*a))
    content = gzip.compress(header, mtime=0) + os.urandom(4 << 20)
    problem = refused(tmp_path / "images.gz", content)
    assert f"at most {1 << 30}" in problem
    assert not unpacked


def test_rows_of_other_extents_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(idx(IMAGES)[:16])
    with pytest.raises(DataError, match="expected images of 28 x 28 pixels, found 3 x 4"):
        read_idx(path, 3, (28, 28))

"""Files of arrays and a document: what goes in comes out, and what was damaged does not."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tests.refusal import refused
from workbench.errors import DataError
from workbench.train.container import ArraySpec, open_container, write_container, write_tensors
from workbench.train.fingerprint import BLOCK_WORDS, Fingerprint, Sums

ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.zeros((0, 4), np.float64),
    "count": np.array(130, np.int64),
    "nan": np.array([np.nan, np.inf, -0.0]),
    "half": np.array([1.5, 2.5], np.float16),
    "brain": np.array([1.5, 2.5], ml_dtypes.bfloat16),
    "yes": np.array([True, False]),
    "odd": np.arange(7, dtype=np.uint8),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.safetensors"
    write_container(path, ARRAYS, {"format": 1, "note": "a note"})
    return path


def test_arrays_and_document_come_back_bit_by_bit(file):
    made = open_container(file)
    assert made.document == {"format": 1, "note": "a note"}
    assert made.size_bytes == file.stat().st_size
    found = made.arrays()
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        assert made.specs[name] == ArraySpec(array.dtype.name, array.shape)


def test_another_reader_of_the_format_opens_the_file(file):
    path = file.with_name("plain.safetensors")
    arrays = {name: array for name, array in ARRAYS.items() if name != "brain"}
    write_container(path, arrays, {})
    for name, array in load_file(path).items():
        assert array.tobytes() == arrays[name].tobytes()


def test_every_array_begins_at_a_multiple_of_its_element(file):
    length = int.from_bytes(file.read_bytes()[:8], "little")
    header = json.loads(file.read_bytes()[8 : 8 + length])
    assert length % 8 == 0
    for name, array in ARRAYS.items():
        assert header[name]["data_offsets"][0] % array.itemsize == 0


def test_arrays_of_any_memory_order_are_written_as_they_are_indexed(tmp_path):
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = {
        "turned": base.T,
        "every second": base[::2, ::3],
        "big": base.astype(">f4"),
        "read-only": np.broadcast_to(base[0], (3, 6)),
    }
    write_container(tmp_path / "x", arrays, {})
    for name, array in open_container(tmp_path / "x").arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.flags.writeable


numbers = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
documents = st.dictionaries(
    st.text(),
    st.recursive(numbers, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=10),
)


@settings(max_examples=40)
@given(documents)
def test_documents_of_plain_values_come_back(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("documents") / "x"
    write_container(path, {}, document)
    assert repr(open_container(path).document) == repr(document)


def test_numbers_of_numpy_become_pythons_own(tmp_path):
    write_container(tmp_path / "x", {}, {"a": np.float32(0.5), "b": np.int64(7), "c": (1, 2)})
    assert open_container(tmp_path / "x").document == {"a": 0.5, "b": 7, "c": [1, 2]}


def test_a_document_with_something_else_is_refused_naming_the_place(tmp_path):
    with refused(DataError, "the document.state[1]", "`set`"):
        write_container(tmp_path / "x", {}, {"state": [1, {2}]})
    with refused(DataError, "the document", "key 3"):
        write_container(tmp_path / "x", {}, {"state": {3: 1}})


def test_an_array_that_the_format_lacks_is_refused_by_name(tmp_path):
    with refused(DataError, "`z`", "complex128"):
        write_container(tmp_path / "x", {"z": np.zeros(2, complex)}, {})


# -- damage


def read(path):
    return open_container(path).arrays()


def test_a_change_of_one_bit_of_any_byte_is_refused(tmp_path):
    path = tmp_path / "x"
    arrays = {"w": np.array([0.1, -3.0]), "i": np.array([3, 4], np.int16)}
    write_container(path, arrays, {"format": 1, "lr": 0.25})
    whole = path.read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(DataError):
            read(path)


def test_a_file_that_was_cut_anywhere_is_refused(file):
    whole = file.read_bytes()
    for length in range(0, len(whole), 3):
        file.write_bytes(whole[:length])
        with pytest.raises(DataError):
            open_container(file)


def test_a_truncated_file_is_refused_naming_both_sizes(file):
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with refused(DataError, "damaged", f"{len(whole) - 3} bytes", f"promises {len(whole)}"):
        open_container(file)


def test_a_file_that_goes_on_after_its_end_is_refused(file):
    whole = file.read_bytes()
    file.write_bytes(whole + b"x")
    with refused(DataError, f"{len(whole) + 1} bytes", f"promises {len(whole)}"):
        open_container(file)


def test_a_changed_value_is_refused_although_the_form_is_right(file):
    changed = bytearray(file.read_bytes())
    changed[-1] ^= 1
    file.write_bytes(changed)
    assert open_container(file).document["format"] == 1
    with refused(DataError, "damaged", "fingerprint"):
        read(file)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00", b"epoch,loss\n1,0.5\n", b"PK\x03\x04" + bytes(100), bytes(1000), b"{}" * 9],
    ids=["empty", "one byte", "text", "archive", "zeros", "braces"],
)
def test_a_foreign_file_is_refused_naming_it(tmp_path, content):
    path = tmp_path / "foreign.bin"
    path.write_bytes(content)
    with refused(DataError, "foreign.bin", f"{len(content)} bytes", "not a checkpoint"):
        open_container(path)


def test_tensors_without_a_document_are_no_checkpoint(tmp_path):
    save_file({"w": np.zeros(3)}, tmp_path / "model.safetensors")
    with refused(DataError, "model.safetensors", "1 tensors", "no checkpoint"):
        open_container(tmp_path / "model.safetensors")
    write_tensors(tmp_path / "export.safetensors", {"w": np.zeros(3)}, {"producer": "x"})
    with refused(DataError, "no checkpoint"):
        open_container(tmp_path / "export.safetensors")


def test_a_folder_and_a_missing_file_are_refused_by_name(tmp_path):
    with refused(DataError, str(tmp_path), "folder"):
        open_container(tmp_path)
    with refused(DataError, "nothing.safetensors", "No such file"):
        open_container(tmp_path / "nothing.safetensors")


# -- the fingerprint


def fingerprint(octets):
    sums = Sums()
    sums.add(octets)
    made = Fingerprint("")
    made.add("", "", sums)
    return made.text()


@pytest.mark.parametrize("bit", [0, 7, 31, 32, 62, 63])
def test_changes_that_would_cancel_in_a_plain_sum_are_seen(bit):
    words = np.random.Philox(key=1).random_raw(2 * BLOCK_WORDS)
    before = fingerprint(words.tobytes())
    for pair in ((0, 1), (5, BLOCK_WORDS - 1), (3, BLOCK_WORDS + 3)):
        changed = words.copy()
        changed[list(pair)] ^= np.uint64(1 << bit)
        assert fingerprint(changed.tobytes()) != before


def test_words_that_changed_places_are_seen():
    words = np.random.Philox(key=2).random_raw(2 * BLOCK_WORDS)
    before = fingerprint(words.tobytes())
    blocks = words.reshape(2, -1)[::-1].ravel()
    neighbours = words.copy()
    neighbours[[10, 11]] = neighbours[[11, 10]]
    assert len({before, fingerprint(blocks.tobytes()), fingerprint(neighbours.tobytes())}) == 3


def test_zeros_at_the_end_are_told_from_none():
    sizes = {fingerprint(bytes(n * 8 * BLOCK_WORDS)) for n in (0, 1, 2)}
    assert len(sizes) == 3


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (1, "e14f1fbd449d66d84cf6d1f50058b7014cee80e02548aefa90b4071d94d10322"),
        (700, "ba33835c5bc105b4829791a735c582b31b4e88db842b3c19ec427bc50b015252"),
    ],
)
def test_the_fingerprint_is_part_of_the_format(times, expected):
    # A change of these digits would make every file that was ever written unreadable.
    assert fingerprint(bytes(range(256)) * times) == expected


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16384, 16385, 131071, 131072, 131073, 400001])
def test_a_change_of_the_last_byte_is_seen_whatever_the_length(length):
    octets = bytes(length)
    longer = fingerprint(octets + b"\x00")
    assert len({fingerprint(octets), longer, fingerprint(octets + b"\x80")}) == 3


# -- names, depth and sizes


@pytest.mark.parametrize("name", ["", "\0", "a/b", "../x", "x" * 5000, "grüße", "$float", "a\nb"])
def test_odd_names_come_back(tmp_path, name):
    write_container(tmp_path / "x", {name: np.arange(3.0)}, {name: 1, "inner": {name: 2}})
    made = open_container(tmp_path / "x")
    assert list(made.arrays()) == [name]
    assert made.document == {name: 1, "inner": {name: 2}}


@pytest.mark.parametrize("name", ["__metadata__", "a\ud800"])
def test_a_name_that_a_file_cannot_hold_is_refused_when_it_is_written(tmp_path, name):
    for write in (write_container, write_tensors):
        with refused(DataError, "is named"):
            write(tmp_path / "x", {name: np.zeros(2)}, {})


def test_keys_that_look_like_the_formats_own_come_back(tmp_path):
    document = {"a": {"$float": "no number"}, "b": {"$$float": 1}, "c": {"$": float("inf")}}
    write_container(tmp_path / "x", {}, document)
    assert open_container(tmp_path / "x").document == document


def test_a_document_without_end_is_refused(tmp_path):
    deep = []
    deep.append(deep)
    with refused(DataError, "too deeply"):
        write_container(tmp_path / "x", {}, {"deep": deep})


def of_header(text, data=b""):
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        of_header(b"[" * 100_000),
        of_header(b'{"a":' * 50_000),
        of_header(
            b'{"w":{"dtype":"F32","shape":[19342813113834066795298816],"data_offsets":[0,4]}}'
        ),
        of_header(b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}'),
        of_header(b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', bytes(4)),
        of_header(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
        of_header(b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{}}', bytes(4)),
        of_header(b'{"w":null}'),
        of_header(b'{"__metadata__":[]}'),
        of_header(b'{"w":{"dtype":"F32","shape":[' + b"9" * 9999 + b'],"data_offsets":[0,4]}}'),
        (1 << 62).to_bytes(8, "little") + b"{}",
        b"\xff" * 8 + bytes(100),
    ],
    ids=range(12),
)
def test_what_a_header_declares_is_not_believed(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with refused(DataError, str(tmp_path / "x")):
        open_container(tmp_path / "x")


# -- while it is written


def test_arrays_are_those_of_the_header_that_was_read_although_the_file_was_replaced(tmp_path):
    path = tmp_path / "x"
    write_container(path, {"w": np.zeros(3)}, {"n": 1})
    made = open_container(path)
    write_container(tmp_path / "y", {"w": np.ones((2, 2))}, {"n": 2})
    (tmp_path / "y").replace(path)
    assert made.document == {"n": 1}
    np.testing.assert_array_equal(made.arrays()["w"], np.zeros(3))


def test_a_file_that_is_cut_short_in_place_is_damaged_and_ends_nothing(tmp_path):
    path = tmp_path / "x"
    write_container(path, {"w": np.zeros(1 << 16)}, {})
    made = open_container(path)
    with path.open("r+b") as file:
        file.truncate(5000)
    with refused(DataError, "damaged", "cut short"):
        made.arrays()

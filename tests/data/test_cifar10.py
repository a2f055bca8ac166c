"""CIFAR-10: the record layout, the two places of the files, and damaged batches."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from workbench.data import cifar10
from workbench.errors import ConfigurationError, DataError

SHARED = Path(__file__).parents[3] / "shared" / "data"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
RANDOM = np.random.default_rng(2)


def records(count):
    labels = RANDOM.integers(0, 10, count, np.uint8)
    pixels = RANDOM.integers(0, 256, (count, 3072), np.uint8)
    return np.column_stack([labels, pixels])


def write(folder, batches):
    folder.mkdir(exist_ok=True)
    for name, rows in batches.items():
        (folder / name).write_bytes(rows.tobytes())


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_the_training_batches_follow_one_another(tmp_path, inner):
    batches = {name: records(count) for count, name in enumerate(TRAIN, 1)}
    write(tmp_path / inner, batches)
    data, stored = cifar10(tmp_path), np.concatenate(list(batches.values()))
    assert data.y.tolist() == stored[:, 0].tolist()
    planes = stored[:, 1:].reshape(15, 3, 32, 32).astype(np.float32)
    assert (data.x == planes / np.float32(255)).all()
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.int32)


def test_a_record_is_a_label_then_red_green_and_blue_planes(tmp_path):
    planes = np.repeat(np.array([255, 51, 0], np.uint8), 1024)
    write(tmp_path, {"test_batch.bin": np.insert(planes, 0, 6)})
    data = cifar10(tmp_path, "test")
    assert data.names[data.y[0]] == "frog"
    assert data.x[0, :, 5, 7].tolist() == [1.0, np.float32(0.2), 0.0]


@pytest.mark.parametrize("cut", [1, 3072])
def test_a_truncated_batch_is_refused_naming_both_sizes(tmp_path, cut):
    rows = records(3).ravel()[:-cut]
    write(tmp_path, {"test_batch.bin": rows})
    with pytest.raises(DataError, match=rf"test_batch\.bin: .*multiple of 3073.*found {rows.size}"):
        cifar10(tmp_path, "test")


def test_an_empty_batch_is_refused(tmp_path):
    write(tmp_path, {"test_batch.bin": np.zeros(0, np.uint8)})
    with pytest.raises(DataError, match=r"multiple of 3073 bytes.*found 0"):
        cifar10(tmp_path, "test")


def test_a_label_above_9_is_refused_naming_file_record_and_value(tmp_path):
    rows = records(4)
    rows[2:, 0] = 77
    write(tmp_path, {"test_batch.bin": rows})
    with pytest.raises(DataError, match=r"test_batch\.bin: .*0 to 9, found 77 in record 2"):
        cifar10(tmp_path, "test")


def test_a_missing_batch_is_refused_naming_it(tmp_path):
    write(tmp_path, {name: records(1) for name in TRAIN if name != "data_batch_4.bin"})
    with pytest.raises(DataError, match=r"has none of data_batch_4\.bin; it holds data_batch_1"):
        cifar10(tmp_path)


def test_an_unknown_subset_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="subset is 'both'"):
        cifar10(tmp_path, "both")  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
@pytest.mark.skipif(
    not (SHARED / "unpack_cifar10.py").exists() or importlib.util.find_spec("PIL") is None,
    reason="the CIFAR-10 images or Pillow are not at hand",
)
def test_a_whole_test_part_is_read(tmp_path):
    spec = importlib.util.spec_from_file_location("unpack", SHARED / "unpack_cifar10.py")
    assert spec is not None
    assert spec.loader is not None
    unpack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unpack)
    images, labels, names = unpack.decode("test")
    unpack.write_batch(tmp_path / "test_batch.bin", images, labels)
    data = cifar10(tmp_path, "test")
    assert np.bincount(data.y).tolist() == [1000] * 10
    assert (data.x * 255).round().astype(np.uint8).tobytes() == images.tobytes()
    assert data.names == tuple(names)

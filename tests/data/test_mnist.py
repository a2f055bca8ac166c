"""MNIST: both namings, gzipped or not, and every mismatch between its files."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from workbench.data import mnist
from workbench.errors import ConfigurationError, DataError

REAL = Path(__file__).parents[3] / "shared" / "data" / "mnist"
needs_mnist = pytest.mark.skipif(
    not (REAL / "train-images-idx3-ubyte.gz").exists(), reason="the MNIST files are not at hand"
)


def idx(values):
    extents = b"".join(int(extent).to_bytes(4) for extent in values.shape)
    return bytes((0, 0, 8, values.ndim)) + extents + values.tobytes()


def write(folder, images, labels, *, stem="train", joint="-", suffix=""):
    pack = gzip.compress if suffix else bytes
    (folder / f"{stem}-images{joint}idx3-ubyte{suffix}").write_bytes(pack(idx(images)))
    (folder / f"{stem}-labels{joint}idx1-ubyte{suffix}").write_bytes(pack(idx(labels)))


IMAGES = np.random.default_rng(1).integers(0, 256, (7, 28, 28), np.uint8)
LABELS = np.array([3, 0, 9, 1, 1, 2, 8], np.uint8)


@pytest.mark.parametrize("joint", ["-", "."])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(("subset", "stem"), [("train", "train"), ("test", "t10k")])
def test_every_published_naming_is_found(tmp_path, joint, suffix, subset, stem):
    write(tmp_path, IMAGES, LABELS, stem=stem, joint=joint, suffix=suffix)
    data = mnist(tmp_path, subset)
    assert (data.x == IMAGES.reshape(7, 784).astype(np.float32) / np.float32(255)).all()
    assert data.y.tolist() == LABELS.tolist()
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.int32)
    assert subset in data.source


def test_images_keep_their_plane_when_not_flattened(tmp_path):
    write(tmp_path, IMAGES, LABELS)
    data = mnist(str(tmp_path), flatten=False)
    assert data.x.shape == (7, 1, 28, 28)
    assert (data.x.reshape(7, 784) == mnist(tmp_path).x).all()


def test_another_number_of_labels_than_images_is_refused_naming_both(tmp_path):
    write(tmp_path, IMAGES, LABELS[:5])
    with pytest.raises(DataError, match=r"train-labels.*expected 7 labels.*train-images.*found 5"):
        mnist(tmp_path)


def test_a_label_above_9_is_refused_naming_file_row_and_value(tmp_path):
    write(tmp_path, IMAGES, np.where(LABELS == 9, 47, LABELS).astype(np.uint8))
    with pytest.raises(DataError, match=r"train-labels.*from 0 to 9, found 47 in row 2"):
        mnist(tmp_path)


def test_images_of_another_size_are_refused_naming_both_sizes(tmp_path):
    write(tmp_path, IMAGES[:, :20], LABELS)
    with pytest.raises(DataError, match=r"train-images.*expected images of 28 x 28.*found 20 x 28"):
        mnist(tmp_path)


def test_swapped_files_are_refused(tmp_path):
    write(tmp_path, LABELS, IMAGES)
    with pytest.raises(DataError, match=r"expected the magic 2049 .*found 2051") as caught:
        mnist(tmp_path)
    assert "swapped" in caught.value.remedy


def test_a_truncated_file_is_refused_naming_it(tmp_path):
    write(tmp_path, IMAGES, LABELS)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte: expected 5488 bytes.*found"):
        mnist(tmp_path)


def test_the_wrong_folder_is_refused_with_the_names_looked_for_and_found(tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(DataError) as caught:
        mnist(tmp_path)
    problem = str(caught.value)
    for joint in "-.":
        assert f"train-images{joint}idx3-ubyte," in problem
        assert f"train-images{joint}idx3-ubyte.gz" in problem
    assert f"{tmp_path} has none of" in problem
    assert "it holds holiday.jpg" in problem
    assert "download=True" in caught.value.remedy


def test_a_folder_of_many_other_files_is_not_listed_whole(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}").touch()
    with pytest.raises(DataError, match=r"06, 07 and 12 more"):
        mnist(tmp_path)


def test_a_folder_that_is_missing_empty_or_a_file_is_told_apart(tmp_path):
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "empty").mkdir()
    for name, words in (("nowhere", "no such"), ("file", "not a"), ("empty", "is empty")):
        with pytest.raises(DataError, match=words):
            mnist(tmp_path / name)


def test_an_unknown_subset_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="subset is 'validation'") as caught:
        mnist(tmp_path, "validation")  # pyright: ignore[reportArgumentType]
    assert "'test'" in caught.value.remedy


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reading_holds_less_than_one_and_a_half_times_the_result(tmp_path, suffix):
    images = np.zeros((2000, 28, 28), np.uint8)
    images[::7] = 200
    write(tmp_path, images, np.zeros(2000, np.uint8), suffix=suffix)
    tracemalloc.start()
    data = mnist(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.x.nbytes <= peak < 1.5 * data.x.nbytes


@needs_mnist
def test_the_published_test_part_is_read_whole():
    data = mnist(REAL, "test")
    assert data.x.shape == (10_000, 784)
    assert np.bincount(data.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.y[:5].tolist() == [7, 2, 1, 0, 4]
    # The published mean ink of the test images.
    assert abs(float(data.x.mean(dtype=np.float64)) - 0.1325) < 5e-5


@needs_mnist
def test_the_published_training_part_is_read_whole():
    data = mnist(REAL, flatten=False)
    assert data.x.shape == (60_000, 1, 28, 28)
    assert data.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert abs(float(data.x.mean(dtype=np.float64)) - 0.1307) < 5e-5
    assert abs(float(data.x.std(dtype=np.float64)) - 0.3081) < 5e-5

"""The embedded digits: complete, in order, and under their licence."""

import hashlib
from importlib.resources import files

import numpy as np

from workbench.data import digits

# Of the pixels followed by the labels, as bytes, computed from the published file.
SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_the_digits_have_the_promised_shapes_and_types():
    data = digits()
    assert (data.n, data.x.shape, data.y.shape) == (1797, (1797, 64), (1797,))
    assert (data.x.dtype, data.y.dtype) == (np.float32, np.int32)
    assert (data.x.min(), data.x.max(), data.nan_count) == (0.0, 1.0, 0)


def test_the_digits_are_those_of_the_published_file():
    data = digits()
    stored = (data.x * 16).astype(np.uint8).tobytes() + data.y.astype(np.uint8).tobytes()
    assert hashlib.sha256(stored).hexdigest() == SHA256


def test_each_digit_occurs_as_often_as_published():
    counts = np.bincount(digits().y).tolist()
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_digits_name_their_classes_source_and_licence():
    data = digits()
    assert data.names == tuple("0123456789")
    assert "Alpaydin" in data.source
    assert "UCI" in data.source
    assert data.licence == "CC BY 4.0"


def test_changing_the_digits_does_not_change_the_next_ones():
    digits().x[:] = -1.0
    assert digits().x.min() == 0.0


def test_the_embedded_file_is_small():
    assert len((files("workbench.data") / "digits.npz").read_bytes()) < 100_000

"""Downloading: through a server on this machine, with the real pooch."""

import gc
import gzip
import hashlib
import io
import tarfile
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from workbench.data import cifar10, cifar10_files, download, mnist, mnist_files
from workbench.data.download import RemoteFile, fetch
from workbench.errors import DataError


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: object) -> None:
        """Say nothing; a test's output is its result."""


class Server:
    """A folder of published files and the address it is served at."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address

    def publish(self, name: str, content: bytes) -> RemoteFile:
        (self.folder / name).write_bytes(content)
        return RemoteFile(self.address + name, hashlib.sha256(content).hexdigest())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "published"
    folder.mkdir()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Server(folder, f"http://127.0.0.1:{http.server_port}/")
    http.shutdown()
    thread.join()
    http.server_close()
    # After an error pooch leaves its connection to the garbage collector, which warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def idx(values):
    extents = b"".join(int(extent).to_bytes(4) for extent in values.shape)
    return bytes((0, 0, 8, values.ndim)) + extents + values.tobytes()


def tar_gz(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def published_mnist(server, monkeypatch):
    images, labels = np.zeros((2, 28, 28), np.uint8), np.array([4, 2], np.uint8)
    published = (
        server.publish("t10k-images-idx3-ubyte.gz", gzip.compress(idx(images))),
        server.publish("t10k-labels-idx1-ubyte.gz", gzip.compress(idx(labels))),
    )
    monkeypatch.setattr(mnist_files, "MNIST_FILES", published)
    return server


def test_mnist_is_fetched_when_asked_for(published_mnist, tmp_path):
    data = mnist(tmp_path / "new" / "folder", "test", download=True)
    assert data.y.tolist() == [4, 2]


def test_nothing_is_fetched_unless_asked_for(published_mnist, tmp_path):
    with pytest.raises(DataError, match="has none of"):
        mnist(tmp_path, "test")


def test_a_file_that_is_there_under_another_name_is_not_fetched(published_mnist, tmp_path):
    (tmp_path / "t10k-labels.idx1-ubyte").write_bytes(idx(np.array([7, 7], np.uint8)))
    (published_mnist.folder / "t10k-labels-idx1-ubyte.gz").unlink()
    assert mnist(tmp_path, "test", download=True).y.tolist() == [7, 7]


def test_bytes_with_another_digest_are_refused_and_not_kept(server, tmp_path):
    file = server.publish("file.bin", b"as published")
    (server.folder / "file.bin").write_bytes(b"tampered with")
    with pytest.raises(DataError, match=f"expected the sha256 {file.sha256}") as caught:
        fetch(file, tmp_path / "here")
    assert hashlib.sha256(b"tampered with").hexdigest() in str(caught.value)
    assert not (tmp_path / "here" / "file.bin").exists()


def test_a_file_that_the_server_lacks_is_refused_naming_the_address(server, tmp_path):
    file = RemoteFile(server.address + "gone.bin", "0" * 64)
    with pytest.raises(DataError, match=r"gone\.bin could not be fetched .*404") as caught:
        fetch(file, tmp_path)
    assert "by hand" in caught.value.remedy


BATCHES = {
    f"cifar-10-batches-bin/{name}": bytes([label]) + bytes(3072)
    for label, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"])
}


def test_cifar10_is_fetched_and_unpacked_when_asked_for(server, tmp_path, monkeypatch):
    archive = server.publish("cifar.tar.gz", tar_gz(BATCHES))
    monkeypatch.setattr(cifar10_files, "CIFAR10_ARCHIVE", archive)
    assert cifar10(tmp_path / "data", download=True).y.tolist() == [0, 1, 2, 3, 4]
    (server.folder / "cifar.tar.gz").unlink()
    assert cifar10(tmp_path / "data", "test", download=True).y.tolist() == [5]


def test_no_member_of_an_archive_is_unpacked_outside_the_folder(server, tmp_path):
    members = {"../up.bin": b"1", "/root.bin": b"2", "a/../../deep.bin": b"3", "in/ok.bin": b"4"}
    folder = tmp_path / "inner" / "data"
    download.fetch_archive(server.publish("bad.tar.gz", tar_gz(members)), folder)
    assert (folder / "in" / "ok.bin").read_bytes() == b"4"
    outside = {path.name for path in tmp_path.rglob("*.bin") if folder not in path.parents}
    assert outside == set()


def test_every_published_file_has_a_secure_address_and_a_digest():
    for file in (*download.MNIST_FILES, download.CIFAR10_ARCHIVE):
        assert file.address.startswith("https://")
        assert len(bytes.fromhex(file.sha256)) == 32

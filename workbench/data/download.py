"""Fetch public data sets, when a user asks for it and never otherwise.

Each file is named with the address it is published at and the digest of its bytes; pooch fetches
it to a temporary file and moves it into place only if the digest agrees.  Invariant: a file that
this module leaves in a folder is, bit for bit, the one named here.
"""

import shutil
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from workbench.errors import DataError

__all__ = ["CIFAR10_ARCHIVE", "MNIST_FILES", "RemoteFile", "fetch", "fetch_archive"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on a public server and the digest that its bytes must have."""

    address: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's own name, without the address."""
        return self.address.rpartition("/")[2]


# The four files as first published, at the copy that the data sets' users are sent to today.
_MNIST: Final = "https://storage.googleapis.com/cvdf-datasets/mnist/"

MNIST_FILES: Final = tuple(
    RemoteFile(_MNIST + name, sha256)
    for name, sha256 in (
        (
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    )
)

CIFAR10_ARCHIVE: Final = RemoteFile(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)


_LARGEST_MEMBER_BYTES: Final = 1 << 28  # a batch of CIFAR-10 has 31 MB


def fetch(file: RemoteFile, folder: Path) -> Path:
    """Return ``file`` in ``folder``, fetched there unless it is there already.

    Parameters
    ----------
    file
        What to fetch.
    folder
        Where to put it; made when missing.

    Raises
    ------
    DataError
        If the server cannot be reached, or if the bytes it sends have another digest.
    """
    # pooch carries no types, and importing it takes longer than the rest of this layer together.
    pooch: Any = import_module("pooch")
    try:
        pooch.retrieve(file.address, f"sha256:{file.sha256}", fname=file.name, path=folder)
    except ValueError as error:
        raise DataError(
            f"{file.address}: expected the sha256 {file.sha256}; {error}",
            remedy="try again later, or fetch the file from another publisher.",
        ) from error
    except OSError as error:
        raise DataError(
            f"{file.address} could not be fetched into {folder}: {error}",
            remedy=f"check the connection, or put {file.name} into the folder by hand.",
        ) from error
    return folder / file.name


def fetch_archive(file: RemoteFile, folder: Path) -> None:
    """Fetch a tar archive into ``folder`` and unpack its files beside it.

    Plain files alone are unpacked, each to ``folder / parent / name`` with the last two parts of
    its path, so that no member can reach outside the folder.  A file appears under its name only
    when it is complete.

    Raises
    ------
    DataError
        As for `fetch`; or if a member is declared to be far larger than any is, or the archive
        cannot be unpacked.
    """
    import tarfile  # 5 ms with what it brings, for those who download
    from tempfile import TemporaryDirectory

    archive = fetch(file, folder)
    try:
        with TemporaryDirectory(dir=folder) as scratch, tarfile.open(archive) as members:
            _unpack(members, archive, Path(scratch), folder)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise DataError(
            f"{archive} could not be unpacked: {error}",
            remedy="make room, or remove the archive and fetch it again.",
        ) from error


def _unpack(members: Any, archive: Path, scratch: Path, folder: Path) -> None:
    for member in members:
        content = members.extractfile(member) if member.isfile() else None
        parent, name = Path(member.name).parent.name, Path(member.name).name
        if content is None or ".." in (parent, name):
            continue
        if member.size > _LARGEST_MEMBER_BYTES:
            raise DataError(
                f"{archive}: `{name}` is declared to have {member.size} bytes, more than the "
                f"{_LARGEST_MEMBER_BYTES} that a member may have",
                remedy="fetch the archive from another publisher.",
            )
        part = scratch / name
        with content, part.open("wb") as target:
            shutil.copyfileobj(content, target)
        (folder / parent).mkdir(exist_ok=True)
        part.replace(folder / parent / name)

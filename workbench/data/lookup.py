"""Find the files of a data set in the folder that a user names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from workbench.errors import ConfigurationError, DataError

__all__ = ["Subset", "check_subset", "find_file"]

Subset: TypeAlias = Literal["train", "test"]

# Enough to recognise a wrong folder by, without printing a whole home directory.
_NAMES_SHOWN: Final = 8


def check_subset(subset: str) -> None:
    """Refuse the name of a part that the data set does not have.

    Raises
    ------
    ConfigurationError
        If ``subset`` is neither ``"train"`` nor ``"test"``.
    """
    if subset not in ("train", "test"):
        raise ConfigurationError(
            f"subset is {subset!r}; the data set has the parts 'train' and 'test'",
            remedy="pass subset='train' or subset='test'.",
        )


def find_file(folders: Sequence[Path], names: Sequence[str]) -> Path:
    """Return the first of ``names`` that exists in the first of ``folders`` to have one.

    Raises
    ------
    DataError
        If none exists; the text lists the names looked for and what the folder holds instead.
    """
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise DataError(
        f"{folders[0]} has none of {', '.join(names)}; {_contents(folders[0])}",
        remedy="name the folder that holds the files, or pass download=True to fetch them there.",
    )


def _contents(folder: Path) -> str:
    if not folder.exists():
        return "there is no such folder"
    if not folder.is_dir():
        return "it is not a folder"
    names = sorted(entry.name for entry in folder.iterdir())
    if not names:
        return "the folder is empty"
    more = len(names) - _NAMES_SHOWN
    tail = f" and {more} more" if more > 0 else ""
    return f"it holds {', '.join(names[:_NAMES_SHOWN])}{tail}"

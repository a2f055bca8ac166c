"""The one way in which tests look at an error: its kind, what its text names, its advice."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from workbench.errors import WorkbenchError


@contextmanager
def refused(kind: type[WorkbenchError], *named: str, remedy: str = "") -> Iterator[None]:
    """Expect an error of ``kind`` whose text holds each of ``named``, its advice ``remedy``."""
    with pytest.raises(kind) as caught:
        yield
    for part in named:
        assert part in caught.value.problem, f"`{part}` is not in: {caught.value.problem}"
    assert caught.value.remedy.strip()
    assert remedy in caught.value.remedy, f"`{remedy}` is not in: {caught.value.remedy}"

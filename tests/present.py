"""What a test expects to be there."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return ``value``, which must not be None."""
    assert value is not None
    return value

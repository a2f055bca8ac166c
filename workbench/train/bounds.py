"""What an option may be.

In: the name of an option and the value that was typed.  Out: the value as a plain number.
Invariant: what comes back is finite and not below its least value.
"""

import math
from operator import index

from workbench.errors import ConfigurationError

__all__ = ["number_from", "share_from", "whole_from"]


def number_from(name: str, value: object, least: float, *, open_end: bool = False) -> float:
    """Return ``value`` as a finite float that is at least ``least``.

    Parameters
    ----------
    name
        What the option is called.
    value
        Whatever was typed.
    least
        The least value allowed; not allowed itself if ``open_end``.
    open_end
        Whether the value has to be above ``least``.

    Raises
    ------
    ConfigurationError
        If it is no number, not finite or too small.
    """
    try:
        number = float(value)  # type: ignore[arg-type]  # asked of whatever was typed
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{name} is {value!r}, which is not a number", remedy=f"pass {name} as a number"
        ) from None
    if not math.isfinite(number) or number < least or (open_end and number == least):
        bound = "above" if open_end else "at least"
        raise ConfigurationError(
            f"{name} is {number}; it is finite and {bound} {least:g}",
            remedy=f"use a number {'above' if open_end else 'from'} {least:g}"
            + ("" if open_end else " on"),
        )
    return number


def share_from(name: str, value: object) -> float:
    """Return ``value`` as a float from 0 to 1.

    Raises
    ------
    ConfigurationError
        If it is no number, or outside.
    """
    number = number_from(name, value, 0.0)
    if number > 1.0:
        raise ConfigurationError(
            f"{name} is {number}; it is a share, from 0 to 1", remedy="divide percentages by 100"
        )
    return number


def whole_from(name: str, value: object, least: int) -> int:
    """Return ``value`` as an int that is at least ``least``.

    Raises
    ------
    ConfigurationError
        If it is no integer, or too small.
    """
    try:
        number = index(value)  # type: ignore[arg-type]  # asked of whatever was typed
    except TypeError:
        raise ConfigurationError(
            f"{name} is {value!r}, which is not an integer", remedy=f"pass {name} as an integer"
        ) from None
    if isinstance(value, bool) or number < least:
        raise ConfigurationError(
            f"{name} is {value!r}; it is an integer from {least} on",
            remedy=f"use {least} or more",
        )
    return number

"""Durations as people read them.

In: seconds.  Out: text with one or two units.  Invariant: what is shown differs from the duration
by less than a second or a fortieth part.
"""

from typing import Final

__all__ = ["duration"]

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def duration(seconds: float) -> str:
    """Return ``seconds`` in the two greatest units that it has.

    Examples
    --------
    >>> [duration(s) for s in (0.2, 16, 200, 7500, 100_000)]
    ['under 1 s', '16 s', '3 min 20 s', '2 h 5 min', '1 d 4 h']
    """
    whole = round(seconds)
    if whole < 1:
        return "under 1 s"
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _pair(whole, _MINUTE, "min", 1, "s")
    if round(seconds / _MINUTE) * _MINUTE < _DAY:
        return _pair(round(seconds / _MINUTE) * _MINUTE, _HOUR, "h", _MINUTE, "min")
    return _pair(round(seconds / _HOUR) * _HOUR, _DAY, "d", _HOUR, "h")


def _pair(whole: int, unit: int, name: str, lesser: int, lesser_name: str) -> str:
    rest = whole % unit // lesser
    return f"{whole // unit} {name}" + (f" {rest} {lesser_name}" if rest else "")

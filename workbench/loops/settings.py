"""Settings of the engine: what a person may change about how graphs are compiled and shown.

In: environment variables and ``with settings(...)`` blocks. Out: one frozen `Settings`. Invariant:
every setting is read by some stage; an unknown name or a value out of range is refused where it is
given.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict, Unpack

from workbench.errors import ConfigurationError

PREFIX: Final = "WORKBENCH_"
"""With this before its name in capitals, a setting is an environment variable."""

NOT_SETTINGS: Final = ("WORKBENCH_CACHE",)
"""Environment variables of that prefix that say something else: the folder of compiled kernels."""

_WORDS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}

_KINDS: Final[Mapping[type, str]] = {
    bool: "True or False",
    int: "a whole number",
    str: "a text",
}

# Lowest and highest value; what a negative cap means is said where it is documented.
_RANGES: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "max_visits": (0, None),
    "max_inline_reduction": (None, None),
    "max_inline_fanin": (None, None),
    "max_shared_cost": (0, None),
    "max_inline_cost": (0, None),
    "min_product": (1, None),
    "local_bytes": (0, None),
    "print_precision": (1, 15),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Caps of the default placement policy, how memory is shared, and how values are printed.

    Attributes
    ----------
    max_visits
        A computed node that is read more often than this per cell is stored.
    max_inline_reduction
        A node that combines more points than this is stored; negative: no such limit.
    max_inline_fanin
        A node that would read more stored nodes than this is stored; negative: no such limit.
    max_shared_cost
        A node read at several places is stored if one cell costs more than this, in
        multiplications.
    max_inline_cost
        A node whose inlined value grows beyond this is stored, to bound the size of a kernel.
    min_product
        Products of at least this many multiplications per matrix go to the BLAS.
    local_bytes
        A stored node that nobody observes lives in routine-local memory up to this size.
    fuse
        Whether statements whose loops agree share a kernel.
    footprint_scratch
        Whether a node of which readers need few cells is computed in boxes of those cells only.
    print_precision
        Digits after the point in printed numbers, from 1 to 15.
    buffer_aliasing
        Whether stored nodes that nobody asked for share bytes if their lives do not meet.
    backend
        The backend that `Context.auto` takes; empty for the first that is available.
    large_models
        Whether a static index and the batch may be bound to numbers beyond 31 bits.

    Raises
    ------
    ConfigurationError
        If a value is of another type or out of range.
    """

    max_visits: int = 1
    max_inline_reduction: int = 16
    max_inline_fanin: int = 8
    max_shared_cost: int = 8
    max_inline_cost: int = 256
    min_product: int = 4096
    local_bytes: int = 16384
    fuse: bool = True
    footprint_scratch: bool = True
    print_precision: int = 2
    buffer_aliasing: bool = False
    backend: str = ""
    large_models: bool = False

    def __post_init__(self) -> None:
        for entry in fields(self):
            _check(entry.name, getattr(self, entry.name), entry.default)


class Changes(TypedDict, total=False):
    """The keywords of `settings`: any of the fields of `Settings`."""

    max_visits: int
    max_inline_reduction: int
    max_inline_fanin: int
    max_shared_cost: int
    max_inline_cost: int
    min_product: int
    local_bytes: int
    fuse: bool
    footprint_scratch: bool
    print_precision: int
    buffer_aliasing: bool
    backend: str
    large_models: bool


def _check(name: str, value: object, default: object) -> None:
    if type(value) is not type(default):
        kind = _KINDS[type(default)]
        raise ConfigurationError(
            f"the setting `{name}` is {value!r}, which is not {kind}",
            remedy=f"give {kind}; the default is {default!r}",
        )
    if not isinstance(value, int):
        return
    low, high = _RANGES.get(name, (None, None))
    if (low is not None and value < low) or (high is not None and value > high):
        span = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise ConfigurationError(
            f"the setting `{name}` is {value}",
            remedy=f"give a number {span}; the default is {default!r}",
        )


DEFAULT_SETTINGS: Final = Settings()
_DEFAULTS: Final[Mapping[str, object]] = {
    entry.name: entry.default for entry in fields(DEFAULT_SETTINGS)
}

_changed: ContextVar[Mapping[str, Any] | None] = ContextVar("settings", default=None)


def current_settings() -> Settings:
    """Return the settings in force here: the defaults, the environment, then `settings` blocks.

    Raises
    ------
    ConfigurationError
        If the environment holds an unknown setting or a value that is none.
    """
    return _settings_of({**_from_environment(os.environ), **(_changed.get() or {})})


@contextmanager
def settings(**changes: Unpack[Changes]) -> Generator[Settings, None, None]:
    """Change settings for what is compiled, explained and printed inside the block.

    Blocks nest; each ends with the settings that it began with. Another thread is not affected. A
    context that was made with settings of its own keeps them.

    Parameters
    ----------
    **changes
        Fields of `Settings`. Those not named stay as they are. The environment variable
        ``WORKBENCH_<NAME>`` changes one for the whole process.

    Yields
    ------
    Settings
        All settings as they are inside the block.

    Raises
    ------
    ConfigurationError
        If there is no such setting (the text names the nearest), or its value is none.

    Examples
    --------
    >>> import workbench as wb
    >>> with wb.settings(max_inline_reduction=64) as inside:
    ...     print(inside.max_inline_reduction, inside.max_visits)
    64 1
    """
    merged = {**(_changed.get() or {}), **changes}
    known = _settings_of({**_from_environment(os.environ), **merged})
    token = _changed.set(merged)
    try:
        yield known
    finally:
        _changed.reset(token)


def _settings_of(changes: Mapping[str, Any]) -> Settings:
    for name in changes:
        if name not in _DEFAULTS:
            raise _unknown(name, name)
    return Settings(**changes)


def _from_environment(environment: Mapping[str, str]) -> dict[str, int | bool | str]:
    found: dict[str, int | bool | str] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in _DEFAULTS:
            raise _unknown(name, variable)
        found[name] = _parsed(variable, text, _DEFAULTS[name])
    return found


def _parsed(variable: str, text: str, default: object) -> int | bool | str:
    word = text.strip().lower()
    if isinstance(default, str):
        return word
    if isinstance(default, bool):
        if word in _WORDS:
            return _WORDS[word]
        kind = "true or false"
    else:
        try:
            return int(word)
        except ValueError:
            kind = "a whole number"
    raise ConfigurationError(
        f"the environment variable {variable} is {text!r}, which is not {kind}",
        remedy=f"set it to {kind}, or unset it; the default is {default!r}",
    )


def _unknown(name: str, given: str) -> ConfigurationError:
    # Only errors need it, and it takes time to import.
    import difflib

    (nearest,) = difflib.get_close_matches(name.lower(), _DEFAULTS, n=1, cutoff=0.0)
    shown = f"{PREFIX}{nearest.upper()}" if given.startswith(PREFIX) else nearest
    return ConfigurationError(
        f"there is no setting `{given}`; the nearest is `{shown}`",
        remedy=f"use `{shown}`, or one of {', '.join(f'`{known}`' for known in _DEFAULTS)}",
    )

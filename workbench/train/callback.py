"""Callbacks: what they declare, the order in which they run, and what is refused.

In: the objects that a person passes to a run.  Out: their order at each hook.  Invariant: the order
is total and depends on bands and positions alone, so it can be printed before the run.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from inspect import iscoroutinefunction, isgeneratorfunction
from typing import Any, Final, TypeAlias, TypeVar, cast

from workbench.errors import ConfigurationError
from workbench.train.events import Hook
from workbench.train.reports import Report

__all__ = [
    "CHECKPOINT_BAND",
    "EARLY_STOP_BAND",
    "LOG_BAND",
    "PROGRESS_BAND",
    "SCHEDULE_BAND",
    "Callback",
    "declared",
    "explain_order",
    "hooks_of",
    "in_order",
    "validate",
]

C = TypeVar("C")

SCHEDULE_BAND: Final = 10
EARLY_STOP_BAND: Final = 20
CHECKPOINT_BAND: Final = 30
LOG_BAND: Final = 40
PROGRESS_BAND: Final = 50

_METHODS: Final = tuple(hook.method for hook in Hook)
# What other loops call the parts of a run, and their two sides.
_PARTS: Final = frozenset(
    {"run", "train", "fit", "epoch", "batch", "step", "eval", "evaluate", "validation", "test"}
)
_SIDES: Final = frozenset({"begin", "start", "end"})


HookMethod: TypeAlias = Callable[[Any], "Report | str | Sequence[Report | str] | None"]


class Callback:
    """A base that gives a callback its defaults; any object with the same attributes will do.

    A subclass defines the hooks that it wants and no others, each with one event as its argument:
    ``on_run_begin``, ``on_epoch_begin``, ``on_batch_begin``, ``on_batch_end``, ``on_eval_end``,
    ``on_epoch_end``, ``on_run_end``.  A hook returns None, or a text (or `Report`) for the loop to
    print, or a list of them; of anything else the run says that it is ignored.  Hooks that a
    callback lacks cost nothing; a batch hook brings Python back into the loop.

    What it remembers belongs to the run that it serves.  A subclass with a memory defines
    ``pack()``, which returns a dict of plain values and arrays, and ``unpack(memory)``, which takes
    that back: it then goes into checkpoints, and the next run begins without it.

    Attributes
    ----------
    band
        From 10 to 50: at begin hooks and after an evaluation lower bands run first, at the ends of
        batches, epochs and runs they run last.  Schedules are 10, early stopping 20, checkpoints
        30, logs 40, progress 50.
    reads, writes
        Names of what it reads and what it alone writes: fields of the run's state, or names that
        callbacks agree on.
    fatal
        Whether an exception in it ends the run.  Otherwise it is reported once, the callback is
        dropped and the run goes on.
    name
        What texts call it; the name of its class unless set.

    Examples
    --------
    >>> class Halve(Callback):
    ...     band = 10
    ...     writes = ("lr",)
    ...
    ...     def on_epoch_begin(self, event):
    ...         event.state.lr /= 2
    >>> [hook.name for hook in hooks_of(Halve())]
    ['EPOCH_BEGIN']
    """

    band: int = LOG_BAND
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    fatal: bool = False

    name: str = ""


def name_of(callback: object) -> str:
    """Return what a callback is called in texts: its ``name``, or its class's."""
    return str(getattr(callback, "name", "")) or type(callback).__name__


def band_of(callback: object) -> int:
    """Return the band of a callback; one that declares none reads only, like a log."""
    return getattr(callback, "band", LOG_BAND)


def is_fatal(callback: object) -> bool:
    """Return whether an exception in the callback ends the run."""
    return bool(getattr(callback, "fatal", False))


def hooks_of(callback: object) -> tuple[Hook, ...]:
    """Return the hooks that a callback defines."""
    return tuple(hook for hook in Hook if callable(getattr(callback, hook.method, None)))


def in_order(callbacks: Sequence[C], hook: Hook) -> list[C]:
    """Return the callbacks that define ``hook``, in the order in which it calls them.

    Ascending by band and, within a band, by position; at a reversed hook the exact reverse.
    """
    ascending = sorted(callbacks, key=band_of)
    chosen = [callback for callback in ascending if hook in hooks_of(callback)]
    return chosen[::-1] if hook.is_reversed else chosen


def explain_order(callbacks: Sequence[object]) -> str:
    """Return, a line for each hook, which callbacks run and in what order.

    Examples
    --------
    >>> class Rate(Callback):
    ...     band = 10
    ...     def on_epoch_begin(self, event): ...
    ...     def on_epoch_end(self, event): ...
    >>> class Line(Callback):
    ...     def on_epoch_end(self, event): ...
    >>> print(explain_order([Line(), Rate()]))
    run begin    -
    epoch begin  Rate (10)
    batch begin  -
    batch end    -
    eval end     -
    epoch end    Line (40), Rate (10)
    run end      -
    """
    lines: list[str] = []
    for hook in Hook:
        called = ", ".join(f"{name_of(c)} ({band_of(c)})" for c in in_order(callbacks, hook))
        lines.append(f"{hook.name.lower().replace('_', ' '):<11}  {called or '-'}")
    return "\n".join(lines)


def validate(callbacks: Sequence[object]) -> None:
    """Refuse callbacks that cannot work together.

    Raises
    ------
    ConfigurationError
        If a callback's band is outside 10 to 50; if it defines no hook, or a method that looks like
        a hook and is none; if it is registered twice; if two callbacks write one thing; or if one
        reads what another writes without having a higher band.
    """
    for position, callback in enumerate(callbacks):
        _check_band(callback)
        _check_methods(callback)
        if any(callback is other for other in callbacks[:position]):
            raise ConfigurationError(
                f"the callback `{name_of(callback)}` is registered twice",
                remedy="register it once, or make two",
            )
    writer_of = _writers(callbacks)
    for reader in callbacks:
        for name in declared(reader, "reads"):
            writer = writer_of.get(name, reader)
            if writer is not reader and band_of(reader) <= band_of(writer):
                raise ConfigurationError(
                    f"`{name_of(reader)}` in band {band_of(reader)} reads `{name}`, which "
                    f"`{name_of(writer)}` in band {band_of(writer)} writes",
                    remedy="give the reader a higher band than the writer",
                )


def _writers(callbacks: Sequence[object]) -> dict[str, object]:
    writer_of: dict[str, object] = {}
    for callback in callbacks:
        for name in declared(callback, "writes"):
            before = writer_of.setdefault(name, callback)
            if before is not callback:
                raise ConfigurationError(
                    f"`{name_of(before)}` and `{name_of(callback)}` both write `{name}`",
                    remedy="keep one of them, or make one callback of the two",
                )
    return writer_of


def declared(callback: object, attribute: str) -> tuple[str, ...]:
    """Return the names that a callback declares under ``"reads"`` or ``"writes"``."""
    names = getattr(callback, attribute, ())
    # A lone text would be read letter by letter.
    return (names,) if isinstance(names, str) else tuple(names)


def _check_band(callback: object) -> None:
    band = cast("object", band_of(callback))
    if isinstance(band, bool) or not isinstance(band, int):
        raise ConfigurationError(
            f"the callback `{name_of(callback)}` has the band {band!r}, which is not an integer",
            remedy=f"use an integer from {SCHEDULE_BAND} to {PROGRESS_BAND}",
        )
    if not SCHEDULE_BAND <= band <= PROGRESS_BAND:
        raise ConfigurationError(
            f"the callback `{name_of(callback)}` has the band {band}, outside "
            f"{SCHEDULE_BAND} to {PROGRESS_BAND}",
            remedy=f"use {SCHEDULE_BAND} for what sets the run's state, {LOG_BAND} for what only "
            f"reads, {PROGRESS_BAND} for what comes last",
        )


def _check_methods(callback: object) -> None:
    if isinstance(callback, type):
        raise ConfigurationError(
            f"`{callback.__name__}` is a class, not a callback",
            remedy=f"make one: `{callback.__name__}()`",
        )
    for name in dir(callback):
        if name in _METHODS or not _looks_like_a_hook(name):
            continue
        near = get_close_matches(name, _METHODS, n=1)
        meant = f"; did you mean `{near[0]}`?" if near else ""
        raise ConfigurationError(
            f"the callback `{name_of(callback)}` has a method `{name}`, which is no hook{meant}",
            remedy=f"the hooks are {', '.join(_METHODS)}",
        )
    for hook in hooks_of(callback):
        method = getattr(callback, hook.method)
        if iscoroutinefunction(method) or isgeneratorfunction(method):
            kind = "a coroutine" if iscoroutinefunction(method) else "a generator"
            raise ConfigurationError(
                f"`{hook.method}` of the callback `{name_of(callback)}` is {kind}, whose body a "
                "call does not run",
                remedy="make it a plain function: `def`, without `async` and `yield`",
            )
    if not hooks_of(callback):
        raise ConfigurationError(
            f"the callback `{name_of(callback)}` defines no hook",
            remedy=f"define at least one of {', '.join(_METHODS)}",
        )


def _looks_like_a_hook(name: str) -> bool:
    """Tell hooks of other loops, and misspelt ones, from a widget's own ``on_...`` methods."""
    if not name.startswith("on_"):
        return False
    words = set(name.split("_"))
    return bool(words & _PARTS and words & _SIDES) or bool(
        get_close_matches(name, _METHODS, n=1, cutoff=0.85)
    )

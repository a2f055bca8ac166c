"""Who may write what of a run's state: each field has one writer.

In: the callbacks of a run.  Out: for each a guard, which the state asks at every write while that
callback is called.  Invariant: a refused write changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from workbench.arguments import number_from, shown
from workbench.errors import ConfigurationError
from workbench.train.callback import declared, name_of

__all__ = ["guards"]

Guard = Callable[[str, object], None]

_FOR_CALLBACKS: Final = frozenset({"lr", "stop", "best_path"})


def guards(callbacks: Sequence[object]) -> dict[int, Guard]:
    """Return, by the callback's ``id``, what refuses the writes that are not its own.

    Callbacks may write ``lr``, ``stop`` and ``best_path``. Each of these has one writer: the
    callback that declares it among its ``writes``, or if none does the first that writes it.
    """
    writers: dict[str, object] = {}
    for each in callbacks:
        for name in declared(each, "writes"):
            writers.setdefault(name, each)
    return {id(each): _guard(each, writers) for each in callbacks}


def _guard(callback: object, writers: dict[str, object]) -> Guard:
    name = name_of(callback)

    def refuse(field: str, value: object) -> None:
        own = "stop" if field == "stop_reason" else field
        if own not in _FOR_CALLBACKS:
            raise ConfigurationError(
                f"the callback `{name}` writes {shown(value)} into `state.{field}`, which the "
                "loop alone writes",
                remedy="ask the run instead: `event.run.stop()` ends it, `event.run.epochs = n` "
                "changes how long it is",
            )
        writer = writers.setdefault(own, callback)
        if writer is not callback:
            stop = "call `event.state.request_stop(reason)`, which any callback may, or "
            raise ConfigurationError(
                f"the callback `{name}` writes {shown(value)} into `state.{field}`, which "
                f"`{name_of(writer)}` writes",
                remedy=f"{stop if own == 'stop' else ''}keep one of them, or make one callback of "
                "the two",
            )
        if field == "lr":
            number_from(f"state.lr of the callback {name}", value, 0.0)

    return refuse

"""Calling callbacks: each event to those that want it, in order, with failures kept apart.

In: an event.  Out: the reports of that hook, by ascending band, for the loop to print.  Invariant:
a callback that raises is reported once and never called again; the others are called as before.
"""

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import cast, final

from workbench.train.callback import (
    HookMethod,
    band_of,
    in_order,
    is_fatal,
    name_of,
    validate,
)
from workbench.train.events import Event, Hook
from workbench.train.reports import Report
from workbench.train.state_guard import guards

__all__ = ["Dispatcher"]


@final
@dataclass(frozen=True, slots=True)
class _Call:
    """One hook method of one callback."""

    callback: object
    method: HookMethod
    rank: int


@final
class Dispatcher:
    """The callbacks of one run, ready to be called.

    Parameters
    ----------
    callbacks
        In the order in which they were passed; checked by `validate`.

    Raises
    ------
    ConfigurationError
        If the callbacks cannot work together.
    """

    __slots__ = ("_calls", "_guards", "_ignored", "failures")

    def __init__(self, callbacks: Sequence[object]) -> None:
        validate(callbacks)
        ascending = sorted(callbacks, key=band_of)
        rank = {id(callback): position for position, callback in enumerate(ascending)}
        # Hooks are looked up once: a run calls them hundreds of thousands of times.
        self._calls: dict[Hook, tuple[_Call, ...]] = {
            hook: tuple(
                _Call(callback, getattr(callback, hook.method), rank[id(callback)])
                for callback in in_order(callbacks, hook)
            )
            for hook in Hook
        }
        self.failures: list[Report] = []
        self._ignored: set[tuple[int, Hook]] = set()
        self._guards = guards(callbacks)

    def wants(self, hook: Hook) -> bool:
        """Return whether any callback still has this hook."""
        return bool(self._calls[hook])

    def dispatch(self, event: Event) -> tuple[Report, ...]:
        """Call every callback that has the event's hook, and return their reports.

        Callbacks run in the hook's order; their reports come by ascending band whatever that
        order was, so that what is printed reads the same at each hook.

        Raises
        ------
        Exception
            What a callback raised that declares itself fatal.  `KeyboardInterrupt` and
            `SystemExit` always pass.
        """
        calls = self._calls[event.hook]
        if not calls:
            return ()
        ranked: list[tuple[int, Report]] = []
        state = event.state
        stopped = state.stop
        state.put("guarded", get_ident())
        for call in calls:
            state.put("guard", self._guards[id(call.callback)])
            try:
                said = call.method(event)
            except Exception as error:  # any fault of a person's own code, named in the report
                if is_fatal(call.callback):
                    raise
                self._drop(call.callback)
                ranked.append((call.rank, self._failure(call.callback, event, error)))
                continue
            finally:
                state.put("guard", None)
            if state.stop and not (stopped or state.stopped_by):
                state.stopped_by = name_of(call.callback)
            if said is not None:
                ranked += [(call.rank, report) for report in self._reports(call, event, said)]
        if len(ranked) > 1:
            ranked.sort(key=lambda pair: pair[0])
        return tuple([report for _, report in ranked])

    def _reports(self, call: _Call, event: Event, said: object) -> Iterator[Report]:
        """Yield what a hook returned as reports; tell once of what is none."""
        several = cast("Sequence[object]", said if isinstance(said, (list, tuple)) else [said])
        for each in several:
            if isinstance(each, Report):
                yield each
            elif isinstance(each, str):
                yield Report(each)
            elif (call.rank, event.hook) not in self._ignored:
                self._ignored.add((call.rank, event.hook))
                yield Report(
                    f"`{event.hook.method}` of the callback `{name_of(call.callback)}` returned a "
                    f"`{type(each).__name__}`, which is ignored; return a text to report, and ask "
                    "for the end of the run with `event.state.request_stop(reason)`",
                    severity="warning",
                )

    def _drop(self, callback: object) -> None:
        for hook, calls in self._calls.items():
            self._calls[hook] = tuple(call for call in calls if call.callback is not callback)

    def _failure(self, callback: object, event: Event, error: Exception) -> Report:
        trace = "".join(traceback.format_exception(error)).rstrip()
        report = Report(
            f"the callback `{name_of(callback)}` raised in `{event.hook.method}` at step "
            f"{event.state.global_step} and is dropped; the run goes on\n{trace}",
            severity="error",
        )
        self.failures.append(report)
        return report

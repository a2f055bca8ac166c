"""Steering a run from any thread: stop, pause, rate, patience, epochs, checkpoints.

In: what a person asks for. Out: words for native code, and requests that the loop obeys between two
steps. Invariant: asking never waits for the loop and never holds it up; each action is in the
run's history as the line of code that does it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from workbench.arguments import choice_from, number_from, text_from, whole_from
from workbench.errors import ConfigurationError
from workbench.train.action import Action
from workbench.train.belonging import Memories, claim
from workbench.train.callback import name_of
from workbench.train.callbacks.early_stopping import EarlyStopping
from workbench.train.config import Config
from workbench.train.controls import After, Controls, Request
from workbench.train.events import RunView
from workbench.train.history import History
from workbench.train.rates import sets_rate
from workbench.train.reports import Report
from workbench.train.state import RunState

if TYPE_CHECKING:
    from workbench.train.editing import Editing
    from workbench.train.loop import Loop

__all__ = ["KeepsBest", "SavesNow", "Steering"]

_BY_REQUEST = "stopped by request"


@runtime_checkable
class SavesNow(Protocol):
    """A callback that can write a checkpoint when it is asked to."""

    def save_now(self, run: RunView) -> Path:
        """Write a checkpoint of the run, which stands between two batches; return its file."""
        ...


@runtime_checkable
class KeepsBest(Protocol):
    """A callback that can give a run its best parameters back."""

    @property
    def keeps_best(self) -> bool:
        """Whether it keeps them."""
        ...

    def give_best(self, run: RunView) -> Report:
        """Give the run, which stands between two batches, its best parameters; say which."""
        ...


class Steering:
    """What can be asked of a run while it goes on; each of these may be called by any thread."""

    config: Config
    state: RunState
    history: History
    callbacks: tuple[object, ...]
    memories: Memories
    edits: Editing

    def __init__(self) -> None:
        self.controls = Controls()
        self.interrupted = False
        # The thread that trains, and the loop in it, while there is one.
        self.trainer: int | None = None
        self.loop: Loop | None = None
        # A rate set by hand while a schedule sets it.
        self.rate_held: float | None = None

    @property
    def is_training(self) -> bool:
        """Whether the loop is at work, or paused."""
        raise NotImplementedError  # `Run` says it

    # -- asking

    def act(self, code: str, *, detail: str = "") -> None:
        """Put an action in the history, unless it is the loop's own or that of a callback."""
        if self.trainer != threading.get_ident():
            state = self.state
            self.history.record(Action(code, state.global_step, state.epoch, detail))

    def ask(self, request: Request, *, once: bool = False) -> Request:
        """Have a request obeyed between two batches, or now if the run does not train."""
        request.thread = self.trainer
        asked = self.controls.ask(request, once=once)
        if not self.is_training:
            self.obey_idle()
        return asked

    def obey_requests(self) -> Iterator[Report]:
        """Obey all requests, and give what is to be reported."""
        for request in self.controls.take_requests():
            said = request.obey()
            if said is not None:
                yield said

    def obey_idle(self) -> None:
        """Obey what was asked of a run that does not train."""
        for report in self.obey_requests():
            self.say(report)

    def say(self, report: Report) -> None:
        """Keep a report."""
        raise NotImplementedError  # `Run` says it

    @property
    def _view(self) -> RunView:
        """The run as callbacks see it."""
        return cast("RunView", self)

    def pack_steering(self) -> dict[str, Any]:
        """Return what goes into a checkpoint: the rate held by hand, and the actions."""
        acted = [[a.code, a.step, a.epoch, a.detail] for a in self.history.actions]
        return {"rate_held": self.rate_held, "actions": acted}

    def unpack_steering(self, packed: Mapping[str, Any]) -> None:
        """Take back what `pack_steering` returned, over a history without actions."""
        self.rate_held = packed.get("rate_held")
        for action in packed.get("actions", ()):
            self.history.record(Action(*action))

    # -- stop and pause

    def stop(self, *, after: After = "batch", reason: str = _BY_REQUEST) -> None:
        """Ask the run to end after this batch or this epoch; it can be continued later."""
        choice_from("after", after, ("batch", "epoch"))
        text_from("reason", reason)
        self.controls.request_stop(after, reason)
        given = [f'after="{after}"'] * (after != "batch")
        given += [f"reason={reason!r}"] * (reason != _BY_REQUEST)
        self.act(f"run.stop({', '.join(given)})")

    def interrupt(self) -> None:
        """Stop after this batch because of a keyboard or kernel interrupt."""
        self.interrupted = True
        self.controls.request_stop("batch", "interrupted from the keyboard")

    def pause(self) -> None:
        """Ask the run to wait after this batch."""
        self.controls.pause()
        self.act("run.pause()")

    def resume(self) -> None:
        """Let a paused run go on, or one that a callback stopped: the next `fit` trains further."""
        if not self.is_training:
            self.state.forget_stop()
        self.controls.resume()
        self.act("run.resume()")

    # -- the rate

    @property
    def lr(self) -> float:
        """The learning rate of the next batch; may be assigned while the run goes on.

        It is used from the next step on. Where a schedule sets the rate, the one that is assigned
        during the training is held against it, until `follow_schedule`.
        """
        return self.state.lr

    @lr.setter
    def lr(self, rate: float) -> None:
        rate = number_from("lr", rate, 0.0, example="0.01")
        schedules = [] if self.trainer == threading.get_ident() else self._schedules()
        newly = bool(schedules) and self.rate_held is None and self.is_training
        if newly or self.rate_held is not None:
            self.rate_held = rate
        if self._schedules():
            self.state.lr = rate  # a callback's write is refused there
        else:
            self.state.put("lr", rate)

        def take() -> str | None:
            # Once more, in the loop's own thread: it may have written its own rate meanwhile.
            if self.rate_held is None:
                self.state.lr = rate
            self._fill_rates()
            return self._held(schedules).text if newly and self.rate_held is not None else None

        self.ask(Request("lr", take))
        self.act(f"run.lr = {rate!r}")

    def follow_schedule(self) -> None:
        """Give a rate that was held by hand back to the schedule.

        One by the update goes on from the next step, one by the epoch from the next epoch.
        """
        self.rate_held = None

        def take() -> None:
            self._fill_rates()

        self.ask(Request("follow_schedule", take))
        self.act("run.follow_schedule()")

    def _fill_rates(self) -> None:
        if self.loop is not None:
            self.loop.rates.fill(self.loop.program)

    def _schedules(self) -> list[str]:
        """Return the names of what sets the rate."""
        named = [f"`{name_of(callback)}`" for callback in self.callbacks if sets_rate(callback)]
        return named if self.edits.schedule_in_force is None else ["`run.schedule`"]

    def settle_rate(self) -> Iterator[Report]:
        """Say that a rate is still held when a training begins, or hold it no more."""
        if self.rate_held is None:
            return
        schedules = self._schedules()
        if schedules:
            yield self._held(schedules)
        else:
            self.state.lr, self.rate_held = self.rate_held, None

    def _held(self, schedules: Sequence[str]) -> Report:
        return Report(
            f"the rate is held at {self.rate_held:g}, against {', '.join(schedules)}; "
            "`run.follow_schedule()` gives it back"
        )

    # -- how long

    @property
    def epochs(self) -> int:
        """How many epochs the run has; may be assigned while it goes on.

        The epoch at hand is finished in any case. Schedules keep the length that they were made
        with.
        """
        return self.config.epochs

    @epochs.setter
    def epochs(self, epochs: int) -> None:
        self.config = replace(self.config, epochs=epochs)
        self.state.put("epochs", self.config.epochs)
        self.act(f"run.epochs = {self.config.epochs}")

    @property
    def patience(self) -> int:
        """The patience of the run's early stopping; may be assigned while the run goes on.

        Raises
        ------
        ConfigurationError
            If there is no early stopping, or more than one.
        """
        return self._early_stopping().patience

    @patience.setter
    def patience(self, patience: int) -> None:
        stopping = self._early_stopping()
        for said in claim(self, self.callbacks):
            self.say(said)
        stopping.patience = whole_from("patience", patience, 0)
        self.act(f"run.patience = {stopping.patience}")

    def _early_stopping(self) -> EarlyStopping:
        found = [c for c in self.callbacks if isinstance(c, EarlyStopping)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigurationError(
                "the run has no early stopping",
                remedy="pass `wb.EarlyStopping(...)` among the callbacks",
            )
        raise ConfigurationError(
            f"the run has {len(found)}: {', '.join(name_of(each) for each in found)}",
            remedy="set the `patience` of the one that is meant",
        )

    # -- checkpoints

    def checkpoint(self) -> Request:
        """Ask for a checkpoint, to be written between two batches by the run's `Checkpointing`.

        Returns
        -------
        Request
            ``.wait()`` waits until it was taken; of several that wait, one is taken.

        Raises
        ------
        ConfigurationError
            If no callback writes checkpoints.
        """
        saving = next((c for c in self.callbacks if isinstance(c, SavesNow)), None)
        if saving is None:
            raise ConfigurationError(
                "no callback of the run writes checkpoints",
                remedy="pass `wb.Checkpointing(path)` among the callbacks, or call "
                "`wb.save_checkpoint(run, path)`",
            )

        def take() -> str:
            return f"checkpoint {saving.save_now(self._view)} at step {self.state.global_step}"

        self.act("run.checkpoint()")
        return self.ask(Request("checkpoint", take), once=True)

    def restore_best(self) -> Request:
        """Ask that the run go on with its best parameters; the optimizer's state stays.

        Returns
        -------
        Request
            ``.wait()`` waits until they are in their places.

        Raises
        ------
        ConfigurationError
            If no callback keeps them.
        """
        keeping = [c for c in self.callbacks if isinstance(c, KeepsBest) and c.keeps_best]
        if not keeping:
            raise ConfigurationError(
                "no callback of the run keeps the best parameters",
                remedy="pass `wb.EarlyStopping(..., restore_best=True)` or "
                "`wb.Checkpointing(path, monitor=..., higher_is_better=...)`",
            )
        for said in claim(self, self.callbacks):
            self.say(said)
        self.act("run.restore_best()")
        best = keeping[0]
        return self.ask(Request("restore_best", lambda: best.give_best(self._view)), once=True)

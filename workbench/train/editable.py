"""Parts of a run that a person writes in cells: step, loss, optimizer and schedule.

In: functions. Out: the same functions, tried and handed on. Invariant: a part holds nothing itself;
what is in force is asked of the run's `Editing`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final, overload

from workbench.errors import ConfigurationError
from workbench.train.step_version import Part, StepVersion

if TYPE_CHECKING:
    from workbench.train.editing import Editing

__all__ = ["Editable"]

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """Gives a function back as it was."""

    def __call__(self, function: F, /) -> F:
        """Return ``function``."""
        ...


@final
class Editable:
    """A part of a run that may be written in a cell, and changed by running the cell again.

    ``@run.step``, ``@run.loss``, ``@run.optimizer`` and ``@run.schedule`` are of this kind. While
    the run goes on, the new function is traced and compiled at once, in the thread that runs the
    cell and beside the training; it takes over between two batches. If that fails, the old one goes
    on, and the error is raised in the cell and kept in ``run.step_history``.
    """

    def __init__(self, editing: Editing, part: Part) -> None:
        self._editing = editing
        self._part: Part = part

    @overload
    def __call__(self, function: F, /, *, params: object = None) -> F: ...
    @overload
    def __call__(self, function: None = None, /, *, params: object = None) -> Decorator: ...
    def __call__(self, function: Any = None, /, *, params: object = None) -> Any:
        """Make ``function`` this part of the run, and return it.

        Parameters
        ----------
        function
            For ``run.step``: as for `fit`. For ``run.loss``: ``loss(params, x, y)``, the mean over
            the rows, and then the step is that of `default_step` unless there is another. For
            ``run.optimizer``: ``optimizer(params)`` returns an optimizer state, such as `adam`. For
            ``run.schedule``: ``schedule(step)`` returns the rate of an update, counted from 0.
        params
            The tree of parameters that it is written for, if that is another one than before.
            Parameters at the same place, of the same shape and type, go on from where they are; new
            ones begin with the values here; those that vanish are kept aside until they return.

        Raises
        ------
        TracingError, GraphError, DataError, CompileError
            What is wrong with it; the run goes on as before.
        """
        if function is None:
            return partial(self, params=params)
        self._editing.declare(self._part, function, params)
        return function

    def clear(self) -> None:
        """Take a schedule away: the rates are again those of the callbacks, or the run's own."""
        if self._part != "schedule":
            raise ConfigurationError(
                f"a run cannot be without its {self._part}",
                remedy=f"give it another one: `@run.{self._part}`",
            )
        self._editing.declare(self._part, None, None)

    @property
    def current(self) -> Callable[..., Any]:
        """The function in force; in a step, ``run.loss.current`` is the loss to be learned.

        Raises
        ------
        ConfigurationError
            If there is none.
        """
        return self._editing.function(self._part)

    @property
    def versions(self) -> tuple[StepVersion, ...]:
        """The versions of this part."""
        return self._editing.history.of(self._part)

    def __repr__(self) -> str:
        versions = [v for v in self.versions if v.state in ("in force", "waiting")]
        return f"<run.{self._part}: {versions[-1].line_of_text() if versions else 'none yet'}>"

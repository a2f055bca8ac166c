"""The learning rate of each batch: from a schedule by the update, from callbacks, or by hand.

In: where a run stands. Out: the table that native code reads. Invariant: a rate set by hand holds
against every schedule until it is given back; without one, rates depend on the position alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from workbench.train.callback import declared
from workbench.train.callbacks.schedule import PerStep
from workbench.train.program import StepProgram

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["Rates", "sets_rate"]


def sets_rate(callback: object) -> bool:
    """Return whether a callback declares that it sets the learning rate."""
    return "lr" in declared(callback, "writes")


@final
class Rates:
    """The rates of one run, by the update.

    Parameters
    ----------
    run
        Whose they are.
    batches
        Batches of an epoch.

    Attributes
    ----------
    written
        The rate that stands in the table, where no schedule by the update writes it.
    """

    def __init__(self, run: Run, batches: int) -> None:
        self.run, self.batches = run, batches
        self.window = run.accum_steps
        self.written = run.state.lr
        self._own = next((c for c in run.callbacks if isinstance(c, PerStep)), None)

    @property
    def schedule(self) -> PerStep | None:
        """What knows the rate of each update, if the rates are not held by hand."""
        if self.run.rate_held is not None:
            return None
        return self.run.edits.schedule_in_force or self._own

    def fill(self, program: StepProgram) -> None:
        """Write the learning rates of what is left of the epoch."""
        run, rates, first = self.run, program.rates, self.run.batches_done
        self.hold()
        schedule = self.schedule
        if schedule is None:
            rates[first:] = self.written = run.state.lr
            return
        # A batch belongs to the update that its window ends with.
        done = self.updates(first)
        update = [self.updates(batch) - done for batch in range(first, self.batches)]
        table = schedule.step_rates(run.state.global_step, update[-1] + 1 if update else 0)
        rates[first : self.batches] = table[update]

    def updates(self, batches: int) -> int:
        """Return the updates that the first ``batches`` batches of an epoch make.

        Under gradient accumulation a window of batches makes one, and so does what is left at the
        end of the epoch.
        """
        cut_short = batches == self.batches and batches % self.window > 0
        return batches // self.window + cut_short

    def show(self, step: int) -> None:
        """Show the rate of an update as the run's, if a schedule by the step knows it."""
        schedule = self.schedule
        if schedule is not None:
            self.run.state.lr = float(schedule.step_rates(step, 1)[0])

    def hold(self) -> None:
        """Put a rate that is held by hand before what callbacks wrote."""
        held = self.run.rate_held
        if held is not None:
            self.run.state.lr = held

"""The compiled steps and evaluations of a run, each made once.

In: functions and data. Out: programs. Invariant: a function is traced anew unless nothing that it
refers to can have changed; what computes the same over the same data is the same program, and is
not compiled again.
"""

from __future__ import annotations

from typing import Final, TypeVar, final

from workbench.data.dataset import Dataset
from workbench.data.stream import Stream
from workbench.runtime.context import Context
from workbench.train.config import Config
from workbench.train.program import (
    MetricProgram,
    StepProgram,
    compile_metrics,
    compile_step,
    compile_stream_step,
)
from workbench.train.references import Record, record_of
from workbench.train.resident import Resident
from workbench.train.trace import Leaves
from workbench.train.training import EvalBatch, Step

__all__ = ["Programs"]

Key = tuple[object, ...]
P = TypeVar("P", StepProgram, MetricProgram)

_KEPT: Final = 8
"""So many compiled steps, and evaluations, are kept: a person goes back and forth between a few."""


@final
class Programs:
    """What was compiled for a run.

    Parameters
    ----------
    resident
        Its parameters and optimizer state.
    """

    def __init__(self, resident: Resident) -> None:
        self._resident = resident
        # By what they are over: the function traced last, what it referred to, and its program.
        self._traced: dict[Key, tuple[Step, Record | None, StepProgram]] = {}
        self.steps: dict[Key, StepProgram] = {}
        self.evaluations: dict[Key, MetricProgram] = {}

    def step(
        self,
        step: Step,
        train: Dataset | Stream,
        config: Config,
        params: Leaves,
        opt: Leaves,
    ) -> StepProgram:
        """Return ``step`` compiled for ``train`` over the given leaves."""
        leaves = tuple(tensor.uid for tensor in (*params.tensors, *opt.tensors))
        kind = config.batch_size, config.drop_last, config.steps_per_epoch, opt.structure
        over: Key = (train, *kind, leaves, self._resident.context.settings_in_force())
        record = record_of(step)
        function, before, program = self._traced.get(over, (None, None, None))
        if program is not None and function is step and record is not None and record == before:
            return program

        def find(fingerprint: str) -> StepProgram | None:
            return self.steps.get((*over, fingerprint))

        def make(context: Context) -> tuple[Context, StepProgram]:
            held = context, params, opt
            if isinstance(train, Stream):
                made = compile_stream_step(*held, step, train, find=find)
            else:
                made = compile_step(
                    *held,
                    step,
                    train,
                    config.batch_size,
                    drop_last=config.drop_last,
                    steps=config.steps_per_epoch,
                    find=find,
                )
            key = (*over, made.fingerprint)
            known = key in self.steps
            return context if known else made.context, _kept(self.steps, key, made)

        program = self._resident.compiled((*params.tensors, *opt.tensors), make)
        self._traced.clear()  # of one training at a time
        self._traced[over] = step, record, program
        return program

    def evaluation(
        self, data: Dataset, eval_batch: EvalBatch, batch_size: int, params: Leaves
    ) -> MetricProgram:
        """Return the evaluation compiled for ``data``."""
        leaves = tuple(tensor.uid for tensor in params.tensors)
        over: Key = (data, batch_size, leaves, self._resident.context.settings_in_force())

        def find(fingerprint: str) -> MetricProgram | None:
            return self.evaluations.get((*over, fingerprint))

        def make(context: Context) -> tuple[Context, MetricProgram]:
            made = compile_metrics(context, params, eval_batch, data, batch_size, find=find)
            key = (*over, made.fingerprint)
            known = key in self.evaluations
            return context if known else made.context, _kept(self.evaluations, key, made)

        return self._resident.compiled(params.tensors, make)


def _kept(programs: dict[Key, P], key: Key, made: P) -> P:
    """Keep a program as the latest; the one unused for longest may be dropped."""
    programs.pop(key, None)
    programs[key] = made
    if len(programs) > _KEPT:
        del programs[next(iter(programs))]
    return made

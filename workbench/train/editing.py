"""Changing what a run computes while it goes on.

In: functions from cells, run again at any time. Out: compiled steps, handed to the loop between two
batches. Invariant: whatever is wrong with a new function, the old one goes on; parameters and
optimizer state go on wherever their places, shapes and types are the same.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

from workbench.errors import ConfigurationError, DataError
from workbench.graph.tensor import Tensor
from workbench.train.accumulate import AccumulatedState, accumulate
from workbench.train.callbacks.schedule import StepSchedule, based_on
from workbench.train.carry_over import Known, followed
from workbench.train.controls import Request
from workbench.train.program import MetricProgram, StepProgram
from workbench.train.programs import Programs
from workbench.train.reports import Report, Severity
from workbench.train.source_text import fault_place
from workbench.train.step import State, StepResult, default_step
from workbench.train.step_version import Part, StepHistory, StepVersion
from workbench.train.trace import Leaves
from workbench.train.training import Step, Training

if TYPE_CHECKING:
    from workbench.train.run import Run

__all__ = ["Editing"]

F = TypeVar("F", bound=Callable[..., Any])

_CHECKED_RATES: Final = 256
"""So many rates of a new schedule, an epoch's at least, are computed at once to see that they are
rates."""


@final
@dataclass(frozen=True, slots=True)
class _Candidate:
    """What may take over.

    Attributes
    ----------
    params, opt
        The leaves that will be in force.
    program, evaluation
        Compiled over them; None if there is nothing to compile for yet.
    """

    params: Leaves
    opt: Leaves
    program: StepProgram | None = None
    evaluation: MetricProgram | None = None


def _gone() -> ConfigurationError:
    return ConfigurationError(
        "the run of this step is gone, so nothing can be changed in it",
        remedy="keep the run in a variable for as long as its steps are edited",
    )


@final
class Editing:
    """The editable parts of one run.

    Parameters
    ----------
    run
        The run.

    Attributes
    ----------
    history
        All versions.
    programs
        What was compiled.
    training
        What the run was last begun with.
    fingerprint
        Of what is computed now; empty before the first training.
    schedule_in_force
        The schedule that was given to the run itself.
    in_force
        What a batch runs now, or ran last; None before the first training.
    graphs
        How many different steps have been that.
    version_in_force
        Number of the latest version that it was made of: a step's, a loss's or an optimizer's.
    """

    def __init__(self, run: Run) -> None:
        # Only weakly, so that dropping the last reference to a run frees its memory at once.
        self._held = weakref.ref(run)
        self.history = StepHistory()
        self.programs = Programs(run.resident)
        self.training: Training | None = None
        self.schedule_in_force: StepSchedule | None = None
        self.in_force: StepProgram | None = None
        self.graphs = self.version_in_force = 0
        self._current: dict[Part, StepVersion] = {}
        self._ahead: _Candidate | None = None
        self._params, self._opt = Known(), Known("opt.")
        self._lock = threading.RLock()
        self._traced = threading.local()
        self.fingerprint = self._restored_fingerprint = ""

    @property
    def _run(self) -> Run:
        """The run, unless nobody holds it any more.

        Raises
        ------
        ConfigurationError
            If it is gone; a step's version may outlive it.
        """
        run = self._held()
        if run is None:
            raise _gone()
        return run

    # -- functions

    def function(self, part: Part) -> Callable[..., Any]:
        """Return the function of a part; while one is being traced, the one on trial."""
        on_trial: Mapping[Part, StepVersion] | None = getattr(self._traced, "parts", None)
        if on_trial is not None:
            self._traced.read.add(part)
        version = (on_trial or self._current).get(part)
        if version is None or version.function is None:
            raise ConfigurationError(
                f"the run has no {part}", remedy=f"give it one: write `@run.{part}` before it"
            )
        return version.function

    def _step_of(self, parts: Mapping[Part, StepVersion]) -> Step:
        if "step" in parts:
            return cast("Step", parts["step"].function)
        if "loss" not in parts:
            raise ConfigurationError(
                "the run has no step",
                remedy="pass one, or write `@run.step` before it, or `@run.loss` before a loss",
            )

        def step(
            params: object,
            opt: State,
            x: Tensor,
            y: Tensor,
            lr: Tensor,
            weights: Tensor | None = None,
        ) -> StepResult:
            return default_step(params, opt, x, y, lr, self.function("loss"), weights=weights)

        return step

    # -- versions

    def declare(
        self, part: Part, function: Callable[..., Any] | None, tree: object, *, code: str = ""
    ) -> StepVersion:
        """Try a new version of a part, and have it take over; see ``editable``."""
        with self._lock:
            version = self._new_version(part, function)
            try:
                candidate = self._tried(version, tree)
            except Exception as fault:  # of a person's own function; it is recorded and passes
                self._fail(version, fault)
                raise
            if self._is_known(version, candidate):
                return self._run_again(version)
            self.history.add(version)
            again = f"({version.name})" if function is not None else ".clear()"
            self._run.act(code or f"run.{part}{again}", detail=version.diff)
            self._restored_fingerprint = ""
            self._hand_over(version, candidate)
            return version

    def restore(self, version: StepVersion) -> None:
        """Put a version in force again."""
        with self._lock:
            if version.error is not None:
                raise ConfigurationError(
                    f"version {version.number} of the {version.part} failed: {version.error}",
                    remedy="correct its cell and run that",
                )
            code = f"run.step_history[{version.number - 1}].restore()"
            tree = version.params if version.part in ("step", "loss") else None
            self.declare(version.part, version.function, tree, code=code)

    def _new_version(self, part: Part, function: Callable[..., Any] | None) -> StepVersion:
        run, before = self._run, self._current.get(part)
        number = len(self.history) + 1
        editing = weakref.ref(self)  # a version that is kept keeps no run

        def restore(version: StepVersion) -> None:
            held = editing()
            if held is None:
                raise _gone()
            held.restore(version)

        return StepVersion(number, part, function, before, run.state.global_step, restore)

    def _fail(self, version: StepVersion, fault: Exception) -> None:
        version.line, text = fault_place(fault)
        place = "" if version.line is None else f" (line {version.line}: `{text}`)"
        version.error = f"{type(fault).__name__}: {fault}{place}"
        if version not in self.history:
            self.history.add(version)

    def _run_again(self, version: StepVersion) -> StepVersion:
        """Return the version in force, which is that of the cell that was run again."""
        before = self._current[version.part]
        before.function = version.function
        return before

    def _is_known(self, version: StepVersion, candidate: _Candidate) -> bool:
        """Return whether a version changes nothing: the cell was only run again."""
        before = self._current.get(version.part)
        if before is None or before.source != version.source or before.state != "in force":
            return False
        if version.part == "schedule":
            return before.function is version.function
        program = candidate.program
        return (
            program is not None
            and program.fingerprint == self.fingerprint
            and _places(candidate) == _places(self._base())
        )

    # -- trying

    def _base(self) -> _Candidate:
        """Return the leaves that will be in force when all that was asked for is done."""
        ahead, resident = self._ahead, self._run.resident
        return ahead if ahead is not None else _Candidate(resident.params, resident.opt)

    def _tried(self, version: StepVersion, tree: object) -> _Candidate:
        """Return what would take over with this version, traced and compiled."""
        if version.part == "schedule":
            self._check_schedule(version)
            return self._base()
        parts: dict[Part, StepVersion] = {**self._current, version.part: version}
        params, opt = self._leaves_for(version, tree)
        training = self.training
        if training is None:
            # There are no data yet: the first `fit` or `start` traces it.
            return _Candidate(params, opt)
        return self._compiled(parts, params, opt, training, version.part)

    def _leaves_for(self, version: StepVersion, tree: object) -> tuple[Leaves, Leaves]:
        base = self._base()
        self._params.remember(base.params)
        self._opt.remember(base.opt)
        params = base.params
        if isinstance(tree, Leaves):
            params = tree
        elif tree is not None:
            params = self._params.carried(tree)
        is_changed = _uids(params) != _uids(base.params) or (
            params.structure != base.params.structure
        )
        optimizer = self._current.get("optimizer")
        if version.part == "optimizer":
            optimizer = version
        elif not is_changed:
            return params, base.opt
        if optimizer is not None and (is_changed or optimizer is version):
            state = self._state_from(optimizer, params)
        else:
            state = followed(base.opt, base.params, params)
        return params, self._opt.carried(state)

    def _state_from(self, optimizer: StepVersion, params: Leaves) -> State:
        """Return the state that an optimizer begins with."""
        run = self._run
        assert optimizer.function is not None
        tree = run.resident.read(params)
        state = optimizer.function(tree)
        if run.accum_steps > 1 and not isinstance(state, AccumulatedState):
            state = accumulate(state, tree, run.accum_steps)
        steps = state.steps if isinstance(state, AccumulatedState) else 1
        if steps != run.accum_steps:
            raise ConfigurationError(
                f"the optimizer accumulates {steps} batches, and the run {run.accum_steps}",
                remedy="make another run: a window cannot change while it is open",
            )
        return cast("State", state)

    def _compiled(
        self,
        parts: Mapping[Part, StepVersion],
        params: Leaves,
        opt: Leaves,
        training: Training,
        edited: Part | None,
    ) -> _Candidate:
        run = self._run
        train, val = run.parts.of(training, run.config)
        self._traced.parts, self._traced.read = parts, set[Part]()
        try:
            program = self.programs.step(self._step_of(parts), train, run.config, params, opt)
            if edited == "loss" and "loss" not in self._traced.read:
                raise ConfigurationError(
                    f"the step `{parts['step'].name}` has a loss of its own",
                    remedy="let it learn `run.loss.current(params, x, y)`, or change the step",
                )
            evaluation = None
            config, eval_batch = run.config, training.eval_batch
            evaluates = config.eval_every or config.eval_every_steps
            if val is not None and val.n and eval_batch is not None and evaluates:
                evaluation = self.programs.evaluation(val, eval_batch, config.batch_size, params)
        finally:
            self._traced.parts = None
        return _Candidate(params, opt, program, evaluation)

    def _check_schedule(self, version: StepVersion) -> None:
        if version.function is not None:
            state = self._run.state
            schedule = _schedule(version.function, self._run)
            schedule.step_rates(state.global_step, max(_CHECKED_RATES, state.batches + 1))

    # -- taking over

    def _hand_over(self, version: StepVersion, candidate: _Candidate) -> None:
        run, before = self._run, self._current.get(version.part)
        self._current[version.part] = version
        self._ahead = candidate
        version.params = candidate.params

        def take_over() -> Report:
            resident, program = run.resident, candidate.program
            try:
                if version.part == "schedule":
                    self._set_schedule(version)
            except Exception as fault:
                # It was tried before, and is a person's own function: it may answer otherwise now.
                self._fail(version, fault)
                if before is not None:
                    self._current[version.part] = before
                raise
            with resident.gate.running():
                resident.params, resident.opt = candidate.params, candidate.opt
                if self._ahead is candidate:
                    self._ahead = None
                if run.loop is not None and program is not None:
                    run.loop.swap(program, candidate.evaluation)
            if program is not None:
                others = [v for v in self._current.values() if v.state == "in force"]
                self._mark(program, [*others, version])
            if program is not None or version.part == "schedule":
                self._took_over(version)
                run.store.mark(version.part, version.line_of_text())
            where = f"from step {run.state.global_step}"
            said = f"{version.part} {version.number}, `{version.name}`, {where}"
            warnings = () if program is None else program.warnings()
            severity: Severity = "warning" if warnings else "info"
            return Report("\n".join([said, *warnings]), severity=severity)

        version.request = run.ask(Request(version.part, take_over))

    def _mark(self, program: StepProgram, versions: Iterable[StepVersion]) -> None:
        """Remember what is computed now, for files, for versions to come, for whoever looks."""
        if program is not self.in_force:
            with self._run.gate.visiting():
                program.last.forget()
                self.in_force, self.graphs = program, self.graphs + 1
        self.fingerprint = program.fingerprint
        for version in versions:
            if version.part != "schedule":
                self.version_in_force = max(self.version_in_force, version.number)
            version.fingerprint, version.changes = program.fingerprint, program.changes

    def _took_over(self, version: StepVersion) -> None:
        version.global_step, version.error = self._run.state.global_step, None
        for other in self.history.of(version.part):
            if other is not version and other.number < version.number:
                other.replaced = True

    def _set_schedule(self, version: StepVersion) -> None:
        run, function = self._run, version.function
        before = self.schedule_in_force, run.rate_held
        # A schedule that is written now is meant to be followed.
        self.schedule_in_force = None if function is None else _schedule(function, run)
        run.rate_held = None
        try:
            if run.loop is not None:
                run.loop.rates.fill(run.loop.program)
        except Exception:  # of a person's own schedule: the one before goes on
            self.schedule_in_force, run.rate_held = before
            raise

    # -- beginning

    def begin(self, training: Training) -> tuple[StepProgram, MetricProgram | None]:
        """Return what a training begins with, compiled for its data.

        Raises
        ------
        DataError
            If a checkpoint was restored that was written under another step.
        """
        with self._lock:
            known, parts = self._current.get("step"), dict(self._current)
            given = None
            if training.step is not None and (known is None or known.function is not training.step):
                given = parts["step"] = self._new_version("step", training.step)
            base = self._base()
            try:
                found = self._compiled(parts, base.params, base.opt, training, None)
                assert found.program is not None
                self._refuse_another_step(found.program.fingerprint)
            except Exception as fault:  # of a person's own function; it is recorded and passes
                self._fail_at_beginning(fault, given)
                raise
            if given is not None and self._is_known(given, found):
                self._run_again(given)
            elif given is not None:
                self.history.add(given)
                self._current["step"] = given
            self.training = training
            self._restored_fingerprint = ""
            self._mark(found.program, self._current.values())
            for version in tuple(self._current.values()):
                if version.state in ("waiting", "failed"):
                    version.params = base.params
                    self._took_over(version)
            return found.program, found.evaluation

    def expect(self, fingerprint: str) -> None:
        """Expect the step under which the checkpoint was written that was just restored."""
        self._restored_fingerprint = fingerprint

    def _fail_at_beginning(self, fault: Exception, given: StepVersion | None) -> None:
        """Keep what went wrong with the version that was to begin."""
        version = given or self._current.get("step") or self._current.get("loss")
        if version is not None and version.state != "in force":
            self._fail(version, fault)

    def _refuse_another_step(self, found: str) -> None:
        wanted = self._restored_fingerprint
        if wanted and wanted != found:
            raise DataError(
                f"the checkpoint was written under a step with the fingerprint {wanted[:16]}, and "
                f"this step has {found[:16]}",
                remedy="go on with the step that was saved, or declare this one after `restore`, "
                "`run.step(step)`, so that the change is recorded",
            )


def _schedule(function: Callable[[int], float], run: Run) -> StepSchedule:
    return StepSchedule(based_on(function, run.config))


def _uids(leaves: Leaves) -> tuple[int, ...]:
    return tuple(tensor.uid for tensor in leaves.tensors)


def _places(candidate: _Candidate) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return _uids(candidate.params), _uids(candidate.opt)

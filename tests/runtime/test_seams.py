"""Stepping into a compile: transforms, programs lowered before, reuse, retained code, failures."""

import gc
from dataclasses import replace

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.counting import counting_context
from workbench.assign.from_graph import computation
from workbench.backends import registry
from workbench.loops.kernel import Program
from workbench.loops.placement import Mode
from workbench.loops.traffic import traffic
from workbench.runtime import compiling
from workbench.runtime.context import Context
from workbench.runtime.outcome import Phase, backend_compiles, blames, classify
from workbench.runtime.seams import LoweringReuse

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}


@pytest.fixture(params=MAKE)
def root(request):
    return MAKE[request.param]()


def model():
    """Input, parameter, loss, and the update of the parameter."""
    x = wb.input("x", (4, 3))
    w = wb.parameter(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    loss = wb.mean(wb.square(x @ w)).named("loss")
    return x, w, loss, {w: w - 0.1 * wb.backward(loss, [w])[w]}


FEED = np.ones((4, 3), np.float32)


def results(ctx, routine, x, nodes):
    ctx = ctx.set_values({x: FEED}).run(routine)
    return [ctx.get_values(node).tobytes() for node in nodes]


def one_by_one(program):
    """Return a segment for each kernel, each with all memory."""
    return [replace(program, kernels=(kernel,)) for kernel in program.kernels]


# -- names


def test_a_routine_has_the_name_given_or_that_of_its_computation(root):
    x, _, loss, _ = model()
    made = computation([loss], name="forward")
    assert root.compile(made)[1].name == "forward"
    assert root.compile(made, name="mine")[1].name == "mine"
    assert root.compile([x + 1.0])[1].name == "routine"


# -- transforms


def test_a_transform_sees_the_lowered_program_and_its_segments_run_in_order(root):
    x, w, loss, updates = model()
    seen = []

    def split(program):
        seen.append(program)
        return one_by_one(program)

    ctx, routine = root.compile([loss], updates=updates)
    plain = results(ctx, routine, x, [loss, w])
    ctx, routine = root.compile([loss], updates=updates, lowered_transform=split)
    assert results(ctx, routine, x, [loss, w]) == plain
    assert isinstance(seen[0], Program)
    assert len(seen[0].kernels) > 1
    assert routine.program.kernels == seen[0].kernels


def test_what_a_transform_moves_to_the_device_can_be_read(root):
    x, _, loss, _ = model()
    h = loss.operands[0].operands[0].operands[0]

    def stored(program):
        return [replace(program, device=(*program.device, *program.local), local=())]

    with wb.settings(max_inline_reduction=0, fuse=False):
        plain, _ = root.compile([loss])
        ctx, routine = root.compile([loss], lowered_transform=stored)
    assert h.shape == (4, 4)
    assert not plain.set_values({x: FEED}).observability(h).is_readable
    ctx = ctx.set_values({x: FEED}).run(routine)
    assert ctx.get_values(h).tolist() == [[12.0, 15.0, 18.0, 21.0]] * 4
    assert ctx.placements[h].mode is Mode.ON_DEVICE


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        (lambda program: [], "no list of programs"),
        (lambda program: program, "no list of programs"),
        (lambda program: None, "returned None"),
        (lambda program: [replace(program, device=())], "not well formed"),
        (lambda program: [replace(program, kernels=(), device=())], "left no memory for"),
    ],
)
def test_a_transform_that_returns_no_program_is_refused_as_its_own_fault(root, transform, problem):
    _, _, loss, _ = model()
    with refused(wb.CompileError, "lowered_transform", problem, remedy=""):
        root.compile([loss], lowered_transform=transform)
    outcome = root.compile_outcome([loss], lowered_transform=transform)
    assert outcome.failure is not None
    assert outcome.failure.phase is Phase.TRANSFORM
    assert outcome.made is None


# -- programs lowered before


def test_a_program_lowered_before_is_compiled_in_place_of_what_would_be(root):
    x, w, loss, updates = model()
    ctx, first = root.compile([loss], updates=updates)
    plain = results(ctx, first, x, [loss, w])
    other, second = root.compile([loss], updates=updates, prelowered=first.program)
    assert second.program is first.program
    assert results(other, second, x, [loss, w]) == plain


def test_a_program_alone_says_what_it_reads_and_writes(root):
    x, w, loss, updates = model()
    ctx, first = root.compile([loss], updates=updates)
    plain = results(ctx, first, x, [loss, w])
    read, written = traffic(first.program)
    assert {node.uid for node in read} == {x.uid, w.uid}
    assert {w.uid, loss.uid} <= {node.uid for node in written}
    alone, routine = root.compile([], name="alone", prelowered=first.program)
    with refused(wb.ExecutionError, "no value was ever written to", "x"):
        alone.run(routine)
    assert results(alone, routine, x, [loss, w]) == plain
    assert set(routine.computation.updates) == {w}


def test_a_program_that_is_not_well_formed_is_refused(root):
    _, _, loss, _ = model()
    _, routine = root.compile([loss])
    with refused(wb.CompileError, "prelowered", "not well formed"):
        root.compile([loss], prelowered=replace(routine.program, device=()))


# -- reuse


def test_one_lowering_serves_the_compiles_of_a_search(root, monkeypatch):
    x, w, loss, updates = model()
    lowerings = []
    original = compiling.lower

    def counted(*args, **options):
        lowerings.append(args)
        return original(*args, **options)

    monkeypatch.setattr(compiling, "lower", counted)
    cell = LoweringReuse()
    assert not cell.is_filled
    found = []
    for transform in (None, one_by_one, lambda program: [program]):
        ctx, routine = root.compile(
            [loss], updates=updates, name="step", lowered_transform=transform, reuse=cell
        )
        found.append(results(ctx, routine, x, [loss, w]))
        routine.program.views.clear()  # each has a copy of its own
    assert len(lowerings) == 1
    assert cell.is_filled
    assert found[0] == found[1] == found[2]


def test_a_reuse_cell_is_for_one_context_computation_size_and_name(root):
    x, _, loss, _ = model()
    cell = LoweringReuse()
    ctx, _ = root.compile([loss], name="step", reuse=cell)
    for what, ask in {
        "the context": lambda: ctx.compile([loss], name="step", reuse=cell),
        "the computation": lambda: root.compile([loss, x * 2.0], name="step", reuse=cell),
        "the rows": lambda: root.compile([loss], name="step", rows=7, reuse=cell),
        "the name": lambda: root.compile([loss], name="other", reuse=cell),
    }.items():
        with refused(wb.ConfigurationError, "another compile", what, "differs", remedy="one"):
            ask()


def test_a_reuse_cell_and_a_program_lowered_before_exclude_each_other(root):
    _, _, loss, _ = model()
    _, routine = root.compile([loss])
    with refused(wb.ConfigurationError, "a lowered program and a reuse cell", remedy="one of"):
        root.compile([loss], prelowered=routine.program, reuse=LoweringReuse())


# -- retained code


def retained_step(root):
    x, w, loss, updates = model()
    kept = []
    outcome = root.compile_outcome([loss], updates=updates, name="step", retain=kept.append)
    assert outcome.failure is None
    ctx, routine = outcome.result()
    return ctx, routine, kept[0], x, [loss, w]


def test_retained_code_is_linked_again_without_being_compiled_again(root):
    ctx, routine, retained, x, nodes = retained_step(root)
    plain = results(ctx, routine, x, nodes)
    ctx.release()
    before, used = backend_compiles(), root.used_memory()
    again, second = root.relink(retained)
    assert backend_compiles() == before
    assert second.id != routine.id
    assert second.program is routine.program
    assert root.used_memory() > used
    assert results(again, second, x, nodes) == plain


def test_retained_code_is_linked_again_once_and_where_it_was_compiled(root):
    ctx, _, retained, _, _ = retained_step(root)
    with refused(wb.ConfigurationError, "`step`", f"context {root.id}", remedy="link it in"):
        ctx.relink(retained)
    root.relink(retained)
    with refused(wb.ConfigurationError, "`step`", "linked again already", remedy="retain"):
        root.relink(retained)
    with refused(wb.ConfigurationError, "linked again already"):
        root.relink_outcome(retained)


def test_a_released_context_links_nothing_again(root):
    x, _, loss, _ = model()
    below, _ = root.compile([x + 1.0])
    kept = []
    below.compile_outcome([loss], retain=kept.append)
    below.release()
    for ask in (below.relink, below.relink_outcome):
        with refused(wb.ExecutionError, f"{below.unit.name} was released"):
            ask(kept[0])


def test_what_retaining_raises_passes_after_the_routine_was_released(root):
    _, _, loss, updates = model()
    gc.collect()  # what other tests have left in cycles is not to go in between
    used = root.used_memory()

    def full(retained):
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        root.compile_outcome([loss], updates=updates, retain=full)
    assert root.used_memory() == used


# -- failures by phase


def test_a_compile_counts_when_the_backend_has_made_code(root):
    _, _, loss, _ = model()
    before = backend_compiles()
    root.compile([loss])
    assert backend_compiles() == before + 1

    def refuses(program):
        raise LookupError("no such schedule")

    root.compile_outcome([loss], lowered_transform=refuses)
    assert backend_compiles() == before + 1


def test_a_failure_of_the_transform_comes_back_and_the_lineage_goes_on(root):
    _, _, loss, _ = model()

    def refuses(program):
        raise LookupError("no such schedule")

    outcome = root.compile_outcome([loss], lowered_transform=refuses)
    failure = outcome.failure
    assert failure is not None
    assert (failure.phase, failure.is_candidates) == (Phase.TRANSFORM, True)
    assert str(failure) == "transform: LookupError: no such schedule"
    with pytest.raises(LookupError):
        outcome.result()
    with pytest.raises(LookupError):
        root.compile([loss], lowered_transform=refuses)
    assert root.compile_outcome([loss]).failure is None


def test_a_failure_of_the_code_generator_comes_back(monkeypatch):
    ctx, backend = counting_context()

    def fails(program):
        raise NotImplementedError("no kernel for this")

    monkeypatch.setattr(backend, "compile", fails)
    outcome = ctx.compile_outcome([wb.input("x", (3,)) * 2.0])
    assert outcome.failure is not None
    assert outcome.failure.phase is Phase.BACKEND_CODEGEN


def test_a_link_without_room_comes_back(root):
    outcome = root.compile_outcome([wb.input("x", (2**60,)) * 2.0])
    assert outcome.failure is not None
    assert outcome.failure.phase is Phase.BACKEND_LINK
    assert isinstance(outcome.failure.error, wb.DeviceMemoryError)


@pytest.mark.parametrize(
    "fault", [AssertionError("broken"), RecursionError(), MemoryError(), KeyboardInterrupt()]
)
def test_what_is_no_candidates_fault_is_raised_in_every_phase(root, fault):
    _, _, loss, _ = model()

    def fails(program):
        raise fault

    with pytest.raises(type(fault)) as caught:
        root.compile_outcome([loss], lowered_transform=fails)
    assert caught.value is fault
    assert not any(root.failure_classifier()(phase, fault) for phase in Phase)


def test_what_the_caller_did_wrong_is_raised_and_not_returned(root):
    x, _, loss, _ = model()
    below, _ = root.compile([x + 1.0])
    below.release()
    with refused(wb.ExecutionError, "was released"):
        below.compile_outcome([loss])
    with refused(wb.GraphError, "not state"):
        root.compile_outcome([loss], updates={loss: loss})


# -- runs


def test_a_run_comes_back_with_its_context(root):
    x, _, loss, _ = model()
    ctx, routine = root.compile([loss])
    ran = ctx.set_values({x: FEED}).run_outcome(routine).result()
    assert ran.get_values(loss) > 0


def test_a_binding_out_of_range_comes_back_and_nothing_was_run(root):
    step = wb.static_index("step", 4)
    counted = wb.parameter(np.float32(0.0), "counted")
    bindings = {step: 9}
    ctx, routine = root.compile(
        [], updates={counted: counted + step.astype("float32")}, bindings=bindings, name="count"
    )
    outcome = ctx.run_outcome(routine)
    assert outcome.failure is not None
    assert (outcome.failure.phase, outcome.failure.is_candidates) == (Phase.PREFLIGHT, True)
    assert "9" in str(outcome.failure)
    assert ctx.poisoned_failure() is None
    bindings[step] = 3
    assert ctx.run_outcome(routine).result().get_values(counted) == 3


def test_what_fails_for_every_form_of_a_routine_is_raised(root):
    _, _, loss, _ = model()
    ctx, routine = root.compile([loss])
    with refused(wb.ExecutionError, "no value was ever written to"):
        ctx.run_outcome(routine)


def failing_launch(monkeypatch, says):
    x, _, loss, _ = model()
    ctx, routine = Context.interpreter().compile([loss], name="step")
    ctx = ctx.set_values({x: FEED})
    known = replace(registry.DRIVERS["interpreter"], blames=lambda error: says)
    monkeypatch.setattr(
        "workbench.runtime.outcome.DRIVERS", {**registry.DRIVERS, "interpreter": known}
    )

    def fails(*args, **options):
        raise ArithmeticError("illegal address")

    bound = routine.bind(None, ctx.arrays())
    monkeypatch.setattr(type(bound), "run", fails)
    return ctx, routine


def test_a_failed_launch_that_nobody_vouches_for_poisons_the_lineage(monkeypatch):
    ctx, routine = failing_launch(monkeypatch, None)
    outcome = ctx.run_outcome(routine)
    assert outcome.failure is not None
    assert (outcome.failure.phase, outcome.failure.is_candidates) == (Phase.LAUNCH, False)
    assert ctx.poisoned_failure() is outcome.failure.error
    with refused(wb.ExecutionError, "`step` failed", "illegal address"):
        ctx.run_outcome(routine)


def test_a_failed_launch_that_the_backend_blames_on_the_routine_poisons_nothing(monkeypatch):
    ctx, routine = failing_launch(monkeypatch, True)
    outcome = ctx.run_outcome(routine)
    assert outcome.failure is not None
    assert (outcome.failure.phase, outcome.failure.is_candidates) == (Phase.LAUNCH, True)
    assert ctx.poisoned_failure() is None


def test_phases_before_a_launch_write_nothing_and_a_processor_vouches_for_no_launch():
    before = {phase for phase in Phase if phase.wrote_nothing}
    assert before == set(Phase) - {Phase.LAUNCH, Phase.SYNC}
    for phase in Phase:
        assert classify(phase, ValueError("x"), blames("cpu")) is (phase in before)

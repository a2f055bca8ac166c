"""The execution ledger: what may run when, what counts as written, and what a failure does."""

import gc
import random
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.train.problems import new_run, rows, step

CONTEXTS = {"interpreter": wb.Context.interpreter, "processor": lambda: wb.Context.cpu(1)}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


class Descent:
    """A gradient in one routine, the step that uses it in another, compiled in this order."""

    def __init__(self, root):
        self.w = wb.parameter([1.0, 2.0], "w")
        self.slope = wb.state("slope", (2,))
        loss = (self.w * self.w).sum().named("loss")
        gradient = wb.backward(loss, [self.w])[self.w]
        ctx, self.grad = root.compile([loss], updates={self.slope: gradient}, name="grad")
        ctx, self.sgd = ctx.compile([], updates={self.w: self.w - 0.5 * self.slope}, name="sgd")
        self.ctx = ctx


# -- order


def test_the_gradient_and_then_the_step_and_the_gradient_again(root):
    pair = Descent(root)
    ctx = pair.ctx.run(pair.grad).run(pair.sgd)
    assert ctx.get_values(pair.w).tolist() == [0.0, 0.0]
    ctx = ctx.run(pair.grad)
    assert ctx.get_values(pair.slope).tolist() == [0.0, 0.0]


def test_the_step_before_the_gradient_is_refused_by_the_run_and_changes_nothing(root):
    pair = Descent(root)
    assert pair.ctx.can_run(pair.grad)
    assert not pair.ctx.can_run(pair.sgd)
    for ask in (pair.ctx.run, pair.ctx.check_runnable, pair.ctx.check_lineage_runnable):
        with refused(
            wb.ExecutionError,
            f"`sgd` (id={pair.sgd.id})",
            f"`grad` (id={pair.grad.id})",
            "`slope`",
            remedy=f"run `grad` (id={pair.grad.id}) first",
        ):
            ask(pair.sgd)
    pair.ctx.check_launch_bindings(pair.sgd)
    assert pair.ctx.get_values(pair.w).tolist() == [1.0, 2.0]
    ctx = pair.ctx.run(pair.grad)
    assert ctx.can_run(pair.sgd)
    assert ctx.run(pair.sgd).get_values(pair.w).tolist() == [0.0, 0.0]


def test_routines_that_share_no_memory_run_in_any_order(root):
    a, b = wb.state("a"), wb.state("b")
    ctx, first = root.compile([], updates={a: a + 1.0})
    ctx, second = ctx.compile([], updates={b: b + 2.0})
    ctx = ctx.run(second).run(first)
    assert (ctx.get_values(a), ctx.get_values(b)) == (1.0, 2.0)


def test_readers_of_one_value_do_not_wait_for_each_other(root):
    a = wb.parameter([3.0], "a")
    ctx, double = root.compile([a * 2.0])
    ctx, treble = ctx.compile([a * 3.0])
    ctx = ctx.run(treble).run(double)
    assert ctx.get_values(double.outputs[0]).tolist() == [6.0]


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("write", "read", "a read after the write it is to see"),
        ("write", "write", "the later write is to last"),
        ("read", "write", "a write after the read that is not to see it"),
    ],
)
def test_reads_and_writes_of_one_buffer_keep_the_order_of_their_compilation(
    root, first, second, shared
):
    a = wb.state("a", (), value=5.0)
    made = {"read": {"wanted": [a * 2.0]}, "write": {"wanted": [], "updates": {a: a * 0.0 + 1.0}}}
    ctx, before = root.compile(**made[first], name="before")
    ctx, after = ctx.compile(**made[second], name="after")
    assert not ctx.can_run(after), shared
    with refused(wb.ExecutionError, "`after`", "`before`", "`a`", remedy="run `before`"):
        ctx.run(after)
    assert ctx.get_values(a) == 5.0
    assert ctx.run(before).can_run(after)


def test_what_ran_once_may_run_again_in_any_order(root):
    pair = Descent(root)
    ctx = pair.ctx.run(pair.grad).run(pair.sgd)
    for routine in (pair.sgd, pair.sgd, pair.grad, pair.sgd):
        ctx = ctx.run(routine)
    assert ctx.get_values(pair.w).tolist() == [0.0, 0.0]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_whatever_order_is_accepted_gives_the_values_of_the_order_of_compilation(seed):
    draw = random.Random(seed)
    cells = [wb.state(name, (), "int64", value=1) for name in "abcd"]

    def update():
        read, written = (draw.sample(cells, draw.randint(1, 2)) for _ in range(2))
        number = draw.randint(2, 9)
        total = read[0] * number + (read[1] if len(read) > 1 else 1)
        return {cell: total + place for place, cell in enumerate(written)}

    programs = [update() for _ in range(4)]
    ctx, routines = wb.Context.interpreter(), []
    for updates in programs:
        ctx, routine = ctx.compile([], updates=updates)
        routines.append(routine)
    waiting = list(routines)
    while waiting:
        ready = [routine for routine in waiting if ctx.can_run(routine)]
        assert waiting[0] is ready[0]  # the first one compiled never waits
        for routine in waiting:
            if not any(routine is each for each in ready):
                with refused(wb.ExecutionError, "compiled to run after"):
                    ctx.check_runnable(routine)
        chosen = draw.choice(ready)
        ctx = ctx.run(chosen)
        waiting = [routine for routine in waiting if routine is not chosen]
    one_by_one = wb.Context.interpreter()
    for updates in programs:
        one_by_one, routine = one_by_one.compile([], updates=updates)
        one_by_one = one_by_one.run(routine)
    for cell in cells:
        assert ctx.get_values(cell) == one_by_one.get_values(cell)


def test_siblings_do_not_wait_for_each_other(root):
    a = wb.state("a")
    base, _ = root.compile([a + 0.0])
    left, one = base.compile([], updates={a: a + 1.0}, name="one")
    right, two = base.compile([], updates={a: a + 2.0}, name="two")
    assert base.can_run(_)
    base = base.run(_)
    assert right.can_run(two)
    assert right.run(two).get_values(a) == 2.0
    assert left.run(one).get_values(a) == 3.0


def test_a_routine_that_nobody_holds_any_more_holds_up_nobody(root):
    # A cell that compiles is run a second time before anything else: the first routine is lost.
    a = wb.state("a")
    ctx, routine = root.compile([], updates={a: a + 1.0})
    ctx, routine = ctx.compile([], updates={a: a + 10.0})
    gc.collect()
    assert ctx.can_run(routine)
    assert ctx.run(routine).get_values(a) == 10.0


def test_a_write_from_outside_overtakes_what_was_compiled_before(root):
    a = wb.state("a")
    ctx, count = root.compile([], updates={a: a + 1.0}, name="count")
    ctx = ctx.set_values({a: 7.0})
    ctx, double = ctx.compile([a * 2.0], name="double")
    assert ctx.can_run(double)
    ctx = ctx.run(double)
    assert ctx.get_values(double.outputs[0]) == 14.0
    # The routine from before is a routine like any other.
    assert ctx.run(count).get_values(a) == 8.0


def test_a_routine_of_another_root_cannot_run_here(root):
    a = wb.parameter([1.0], "a")
    _, routine = CONTEXTS["interpreter"]().compile([a * 2.0], name="there")
    ctx, _ = root.compile([a * 2.0])
    assert not ctx.can_run(routine)
    with refused(wb.ExecutionError, "there", "another lineage", remedy="compile it in this"):
        ctx.run(routine)


# -- what holds a value


def test_an_input_that_nobody_wrote_is_named_before_a_routine_that_did_not_run(root):
    x = wb.input("x", (2,))
    a = wb.state("a", (2,))
    ctx, write = root.compile([], updates={a: a + 1.0}, name="write")
    ctx, both = ctx.compile([x + a], name="both")
    with refused(wb.ExecutionError, "both", "`x`", remedy="set_values"):
        ctx.run(both)
    ctx = ctx.set_values({x: [1.0, 2.0]})
    with refused(wb.ExecutionError, "`write`", remedy="run `write`"):
        ctx.run(both)
    assert ctx.run(write).run(both).get_values(both.outputs[0]).tolist() == [2.0, 3.0]


def test_state_without_a_value_is_refused_though_its_memory_is_there_and_zero(root):
    total = wb.input("total", (2,))
    ctx, count = root.compile([], updates={total: total + 1.0}, name="count")
    assert ctx.buffers[total].view().tolist() == [0.0, 0.0]
    assert not ctx.buffer_written(total)
    with refused(
        wb.ExecutionError, "count", "`total`", "read before it is written", remedy="set_values"
    ):
        ctx.run(count)
    ctx = ctx.set_values({total: [0.0, 0.0]})
    assert ctx.run(count).get_values(total).tolist() == [1.0, 1.0]


def test_what_is_written_before_it_is_read_needs_no_value(root):
    total = wb.input("total", (2,))
    ctx, clear = root.compile([], updates={total: wb.constant([0.0, 0.0])}, name="clear")
    assert ctx.run(clear).get_values(total).tolist() == [0.0, 0.0]


def test_initialized_is_of_the_context_and_written_of_the_memory(root):
    x = wb.input("x", (2,))
    ctx, routine = root.compile([x * 2.0])
    (double,) = routine.outputs
    filled = ctx.set_values({x: [1.0, 2.0]})
    asked = [(c.is_initialized(x), c.buffer_written(x)) for c in (root, ctx, filled)]
    assert asked == [(False, False), (False, True), (True, True)]
    assert not filled.buffer_written(double)
    done = filled.run(routine)
    assert done.is_initialized(double)
    assert done.buffer_written(double)
    assert not filled.is_initialized(double)
    assert filled.buffer_written(double)


def test_a_context_from_before_an_upload_may_run_over_the_memory_that_it_filled(root):
    x = wb.input("x", (2,))
    ctx, routine = root.compile([x * 2.0])
    ctx.set_values({x: [1.0, 2.0]})
    assert ctx.run(routine).get_values(routine.outputs[0]).tolist() == [2.0, 4.0]


def test_records_are_counted_and_running_again_adds_none(root):
    x = wb.input("x", (2,))
    assert root.record_count() == 0
    ctx, routine = root.compile([x * 2.0])
    assert ctx.record_count() == root.record_count() == 1  # one routine
    ctx = ctx.set_values({x: [1.0, 2.0]})
    assert ctx.record_count() == 2  # and one buffer
    ctx = ctx.run(routine)
    assert ctx.record_count() == 4  # and a run, and another buffer
    for _ in range(3):
        ctx = ctx.set_values({x: [1.0, 2.0]}).run(routine)
    assert ctx.record_count() == 4


def test_records_go_with_what_they_are_about(root):
    x = wb.parameter([1.0, 2.0], "x")
    ctx, routine = root.compile([x * 2.0])
    ctx = ctx.run(routine)
    held = weakref.ref(routine)
    assert root.record_count() == 4
    del ctx, routine
    gc.collect()
    assert held() is None
    assert root.record_count() == 1  # that a routine ran is remembered: others may wait for it


def test_the_ledger_knows_who_wrote_a_buffer_last(root):
    a = wb.state("a")
    ctx, one = root.compile([], updates={a: a + 1.0})
    ctx, two = ctx.compile([], updates={a: a + 2.0})
    record = ctx.buffers[a].record
    found = [ctx.ledger.writer(record)]
    for routine in (one, two, two, one):
        ctx = ctx.run(routine)
        found.append(ctx.ledger.writer(record))
    assert found == [None, one.id, two.id, two.id, one.id]
    ctx = ctx.set_values({a: 0.0})
    assert ctx.ledger.writer(record) is None
    ctx = ctx.run(one)
    ctx.rollback_execution(one)
    assert ctx.ledger.writer(record) is None


# -- taking back


def test_a_run_taken_back_has_to_be_done_again_and_what_it_wrote_counts_as_unwritten(root):
    pair = Descent(root)
    x = wb.input("x", (2,))
    ctx, scale = pair.ctx.compile([], updates={x: pair.w * 2.0}, name="scale")
    ctx, show = ctx.compile([x + 1.0], name="show")
    ctx = ctx.run(pair.grad).run(pair.sgd).run(scale)
    assert ctx.buffer_written(x)
    ctx.rollback_execution(scale)
    assert not ctx.buffer_written(x)
    assert not ctx.can_run(show)
    with refused(wb.ExecutionError, "show", "`x`", remedy="run"):
        ctx.run(show)
    ctx = ctx.run(scale)
    assert ctx.run(show).get_values(show.outputs[0]).tolist() == [1.0, 1.0]


def test_taking_a_run_back_leaves_what_others_wrote(root):
    a = wb.state("a")
    ctx, count = root.compile([], updates={a: a + 1.0})
    ctx = ctx.run(count)
    ctx.rollback_execution(count)
    assert ctx.buffer_written(a)
    assert ctx.run(count).get_values(a) == 2.0


# -- poison


def test_a_poisoned_lineage_refuses_everything_that_touches_memory(root):
    pair = Descent(root)
    sibling, _ = root.compile([pair.w * 3.0])
    failure = ZeroDivisionError("a kernel divided by zero")
    assert pair.ctx.poisoned_failure() is None
    pair.ctx.poison_lineage(pair.grad, failure)
    pair.ctx.poison_lineage(pair.sgd, OSError("a later failure"))
    for ctx in (root, pair.ctx, sibling):
        assert ctx.poisoned_failure() is failure
    calls = [
        lambda: pair.ctx.run(pair.grad),
        lambda: pair.ctx.check_runnable(pair.grad),
        lambda: pair.ctx.lend(pair.grad),
        pair.ctx.sync,
        lambda: sibling.get_values(pair.w),
        lambda: sibling.set_values({pair.w: [1.0, 1.0]}),
    ]
    for call in calls:
        with refused(
            wb.ExecutionError,
            "`grad`",
            "ZeroDivisionError: a kernel divided by zero",
            "half written",
            remedy="new root",
        ):
            call()
    with pytest.raises(wb.ExecutionError) as caught:
        pair.ctx.run(pair.grad)
    assert caught.value.__cause__ is failure
    # Other roots, looking and compiling are not concerned.
    assert "Context" in repr(pair.ctx)
    assert pair.ctx.observability(pair.w).is_readable
    pair.ctx.compile([pair.w + 1.0])
    assert CONTEXTS["interpreter"]().get_values(pair.w).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("failure", [ValueError("bad"), KeyboardInterrupt()])
def test_a_failure_in_the_midst_of_a_run_passes_as_it_is_and_poisons_the_lineage(
    failure, monkeypatch
):
    pair = Descent(wb.Context.interpreter())
    ctx = pair.ctx.run(pair.grad)

    def fail(*_):
        raise failure

    monkeypatch.setattr("workbench.backends.interpreter.backend.run_kernel", fail)
    with pytest.raises(type(failure)) as caught:
        ctx.run(pair.sgd)
    assert caught.value is failure
    monkeypatch.undo()
    assert ctx.poisoned_failure() is failure
    with refused(wb.ExecutionError, "`sgd`", type(failure).__name__, remedy="new root"):
        ctx.run(pair.grad)


def test_a_refusal_before_the_run_poisons_nothing(root):
    pair = Descent(root)
    with refused(wb.ExecutionError, "`grad`"):
        pair.ctx.run(pair.sgd)
    assert pair.ctx.poisoned_failure() is None


def test_nothing_is_refused_in_a_lineage_whose_memory_could_not_be_had(monkeypatch):
    x = wb.input("x", (wb.batch,))
    ctx, routine = wb.Context.interpreter().compile([x * 2.0])
    ctx = ctx.set_values({x: np.ones(3)})

    def no_room(*_, **__):
        raise wb.DeviceMemoryError("no room", remedy="wait")

    monkeypatch.setattr("workbench.runtime.running.arena", no_room)
    with pytest.raises(wb.DeviceMemoryError):
        ctx.run(routine)
    monkeypatch.undo()
    assert ctx.poisoned_failure() is None
    assert ctx.run(routine).get_values(routine.outputs[0]).tolist() == [2.0] * 3


# -- native loops


def test_what_a_native_loop_runs_counts_as_run(root):
    pair = Descent(root)
    bound = pair.grad.bind(None, pair.ctx.lend(pair.grad))
    bound.run(1, np.zeros(8, np.int64))
    assert pair.ctx.run(pair.sgd).get_values(pair.w).tolist() == [0.0, 0.0]


def test_after_training_the_context_of_the_run_goes_on_with_routines():
    run = new_run()
    wb.fit(run, [], rows(40), rows(20, seed=1), step)
    w = run.leaves.tensors[0]
    before = run.context.get_values(w)
    ctx, halve = run.context.compile([], updates={w: w * 0.5})
    assert np.array_equal(ctx.run(halve).get_values(w), before * np.float32(0.5))

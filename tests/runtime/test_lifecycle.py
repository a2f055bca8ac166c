"""Release units: what is freed when, what is refused afterwards, and how far up."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.runtime.context import Context

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}


@pytest.fixture(params=MAKE)
def root(request):
    return MAKE[request.param]()


@pytest.fixture(autouse=True)
def collected():
    """Leftovers of other tests would be freed while bytes are counted."""
    gc.collect()
    gc.disable()  # what is counted here must be freed without a collection
    yield
    gc.enable()


def model(width=64):
    """A layer with state: parameter, input, its loss and the update."""
    w = wb.parameter(np.eye(width, dtype=np.float32), "w")
    x = wb.input("x", (wb.batch, width))
    loss = wb.mean(wb.square(x @ w)).named("loss")
    return w, x, loss, {w: w - 0.1 * wb.backward(loss, [w])[w]}


def ran(root, rows=8):
    _, x, loss, updates = model()
    ctx, step = root.compile([loss], updates=updates, name="step")
    ctx = ctx.set_values({x: np.ones((rows, 64), np.float32)}).run(step)
    return ctx, step, loss, x


def test_a_release_frees_all_though_contexts_and_routines_are_still_held(root):
    before = root.used_memory()
    ctx, step, _, x = ran(root)
    filled = ctx.set_values({x: np.ones((9, 64), np.float32)})
    later = filled.run(step)
    assert root.used_memory() >= before + 64 * 64 * 4
    later.release()
    assert root.used_memory() == before
    later.release()
    assert root.used_memory() == before
    assert later.held_memory() == 0


def test_dropping_the_last_reference_to_a_context_frees_its_buffers_without_release(root):
    before = root.used_memory()
    ctx, step, _, _ = ran(root)
    assert root.used_memory() > before
    del ctx  # the routine is still there, as it is in a notebook
    assert root.used_memory() == before
    assert "step" in repr(step)


def test_what_a_later_context_still_binds_outlives_the_ones_it_was_made_of(root):
    ctx, _, loss, _ = ran(root)
    value = ctx.get_values(loss)
    below, second = ctx.compile([loss + 1.0], name="second")
    del ctx
    assert below.get_values(loss) == value
    assert below.run(second).get_values(loss + 1.0) == below.get_values(loss) + 1.0


@pytest.mark.parametrize("how", ["release", "drop"])
def test_a_hundred_compiles_end_with_the_memory_they_began_with(root, how):
    before = root.used_memory()
    _, x, loss, updates = model(16)
    feed = {x: np.ones((4, 16), np.float32)}
    ctx = root
    for _ in range(100):
        ctx, step = root.compile([loss], updates=updates, name="step")
        ctx = ctx.set_values(feed).run(step)
        if how == "release":
            ctx.release()
            assert root.used_memory() == before
    held = ctx.held_memory()
    del ctx
    assert root.used_memory() == before
    assert (held == 0) is (how == "release")


def test_a_cell_that_goes_on_from_its_own_context_a_hundred_times_holds_memory_flat(root):
    _, x, loss, updates = model(16)
    ctx, step = root.compile([loss], updates=updates, name="step")
    sizes = []
    for turn in range(100):
        ctx, step = ctx.compile([loss], updates=updates, name="step")
        ctx = ctx.set_values({x: np.ones((3 + turn % 2, 16), np.float32)}).run(step)
        sizes.append(root.used_memory())
    assert set(sizes[2:]) <= set(sizes[:2])


def test_a_hundred_runs_leave_one_entry_in_the_lineage(root):
    ctx, step, _, _ = ran(root)
    for _ in range(100):
        ctx = ctx.run(step)
    chain, origin = [], ctx.origin
    while origin is not None:
        chain.append((origin.made_by, origin.times))
        origin = origin.before
    assert chain[-3:] == [("set_values", 1), ("compile step", 1), ("root", 1)]
    assert len(chain) <= 5
    assert sum(times for name, times in chain if name == "run step") == 101


# -- what a released context refuses

ENTRIES = {
    "compile": lambda ctx, step, loss, x: ctx.compile([loss]),
    "run": lambda ctx, step, loss, x: ctx.run(step),
    "sync": lambda ctx, step, loss, x: ctx.sync(),
    "get_values": lambda ctx, step, loss, x: ctx.get_values(loss),
    "read": lambda ctx, step, loss, x: ctx.read([loss, x]),
    "set_values": lambda ctx, step, loss, x: ctx.set_values({x: np.ones((8, 64), np.float32)}),
    "observability": lambda ctx, step, loss, x: ctx.observability(loss),
    "printf": lambda ctx, step, loss, x: ctx.printf(loss),
    "decide_materialized": lambda ctx, step, loss, x: ctx.decide_materialized([loss]),
    "decide_inline": lambda ctx, step, loss, x: ctx.decide_inline([loss]),
    "lowered_for_decisions": lambda ctx, step, loss, x: ctx.lowered_for_decisions([loss]),
    "copy": lambda ctx, step, loss, x: Context.copy(ctx, Context.interpreter(), loss),
    "compile_outcome": lambda ctx, step, loss, x: ctx.compile_outcome([loss]),
    "run_outcome": lambda ctx, step, loss, x: ctx.run_outcome(step),
    "decision_surface": lambda ctx, step, loss, x: ctx.decision_surface([loss]),
    "own_constants": lambda ctx, step, loss, x: ctx.own_constants([]),
    "link_floor": lambda ctx, step, loss, x: ctx.link_floor([loss]),
    "check_runnable": lambda ctx, step, loss, x: ctx.check_runnable(step),
    "adopt_ancestor": lambda ctx, step, loss, x: ctx.adopt_ancestor(ctx),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_released_context_refuses_every_use_naming_itself(root, entry):
    ctx, step, loss, x = ran(root)
    ctx.release()
    name = ctx.unit.name
    with refused(wb.ExecutionError, f"{name} was released", remedy="compile again"):
        ENTRIES[entry](ctx, step, loss, x)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_context_below_a_released_one_refuses_saying_how_many_levels_up(root, entry):
    ctx, step, loss, x = ran(root)
    one, _ = ctx.compile([loss + 1.0])
    two, _ = one.compile([loss + 2.0])
    ctx.release()
    for below, far in ((one, "1 level up"), (two, "2 levels up")):
        problem = [f"{below.unit.name} was made of {ctx.unit.name}", far, "was released"]
        with refused(wb.ExecutionError, *problem, remedy="release the last contexts first"):
            ENTRIES[entry](below, step, loss, x)
    one.release()  # still accepted, to free what is its own
    two.release()
    assert two.held_memory() == 0


def test_a_routine_of_a_released_context_is_refused_in_its_parent_and_its_siblings(root):
    ctx, _, loss, _ = ran(root)
    sibling, second = ctx.compile([loss * 3.0], name="second")
    other, _ = ctx.compile([loss * 3.0], name="third")
    sibling.release()
    for where in (ctx, other):
        with refused(
            wb.ExecutionError,
            f"second was compiled in {sibling.unit.name}, which was released",
            remedy="compile it again",
        ):
            where.run(second)
    assert other.get_values(loss) == ctx.get_values(loss)


def test_a_released_context_can_still_be_looked_at(root):
    ctx, _, loss, _ = ran(root)
    placements = dict(ctx.placements)
    assert ctx.buffer_written(loss)
    ctx.release()
    assert not ctx.buffer_written(loss)
    assert ctx.placements == placements
    assert "0 buffers" in repr(ctx)
    assert f"Context {ctx.id}" in ctx._repr_html_()
    assert "step" in str(ctx.lineage())
    assert "loss" in str(ctx.placement_table())


# -- units


def test_compiling_goes_a_level_down_and_runs_and_uploads_do_not(root):
    assert root.lifecycle_depth == 0
    ctx, step, loss, x = ran(root)
    assert ctx.lifecycle_depth == 1
    again = ctx.set_values({x: np.ones((8, 64), np.float32)}).run(step)
    assert again.lifecycle_depth == 1
    assert again.same_release_unit(ctx)
    below, _ = ctx.compile([loss + 1.0])
    assert below.lifecycle_depth == 2
    assert not below.same_release_unit(ctx)


def test_a_second_upload_that_needs_memory_is_a_fork_and_keeps_what_it_shares(root):
    before = root.used_memory()
    _, x, loss, updates = model()
    ctx, step = root.compile([loss], updates=updates, name="step")
    feed = {x: np.ones((8, 64), np.float32)}
    first, fork = ctx.set_values(feed), ctx.set_values(feed)
    assert first.same_release_unit(ctx)
    assert not fork.same_release_unit(ctx)
    assert fork.lifecycle_depth == ctx.lifecycle_depth == 1
    first.release()
    with refused(wb.ExecutionError, "was released"):
        ctx.run(step)
    fork = fork.run(step)  # its routine was compiled in what is released, its memory is shared
    assert fork.get_values(loss) == 1.0
    fork.release()
    assert root.used_memory() == before
    with refused(wb.ExecutionError, "was released"):
        fork.get_values(loss)


def test_an_upload_into_memory_that_is_there_belongs_to_the_same_unit(root):
    ctx, _, _, x = ran(root)
    feed = {x: np.ones((8, 64), np.float32)}
    assert all(ctx.set_values(feed).same_release_unit(ctx) for _ in range(3))


# -- adopted ancestors


def test_an_adopted_ancestor_is_released_with_the_unit_deepest_first(root):
    before = root.used_memory()
    ctx, _, loss, _ = ran(root)
    one, _ = ctx.compile([loss + 1.0])
    two, _ = one.compile([loss + 2.0])
    two.adopt_ancestor(ctx)
    two.adopt_ancestor(one)
    two.adopt_ancestor(one)
    two.release()
    assert ctx.unit.is_released
    assert one.unit.is_released
    assert not root.unit.is_released
    assert root.used_memory() == before


def test_an_adopted_ancestor_lives_until_the_last_fork_that_holds_it_is_released(root):
    ctx, _, loss, _ = ran(root)
    z = wb.input("z", (3,))
    below, _ = ctx.compile([loss + 1.0])
    below.adopt_ancestor(ctx)
    first, fork = below.set_values({z: np.ones(3)}), below.set_values({z: np.ones(3)})
    big = wb.input("big", (4,))
    first, second = first.set_values({big: np.ones(4)}), first.set_values({big: np.ones(4)})
    assert not first.same_release_unit(second)
    first.release()
    assert not ctx.unit.is_released
    second.release()
    assert not ctx.unit.is_released
    fork.release()
    assert ctx.unit.is_released


def test_a_release_that_failed_goes_on_where_it_was(root, monkeypatch):
    before = root.used_memory()
    ctx, step, loss, _ = ran(root)
    below, _ = ctx.compile([loss + 1.0])
    below.adopt_ancestor(ctx)
    forget, failures = step.forget_memory, [OSError("busy")]

    def fails_once():
        if failures:
            raise failures.pop()
        forget()

    monkeypatch.setattr(step, "forget_memory", fails_once)
    with pytest.raises(OSError, match="busy"):
        below.release()
    assert below.unit.is_released
    assert root.used_memory() > before
    below.release()
    assert ctx.unit.is_released
    assert root.used_memory() == before


def test_only_an_ancestor_can_be_adopted(root):
    ctx, _, loss, _ = ran(root)
    below, _ = ctx.compile([loss + 1.0])
    sibling, _ = ctx.compile([loss + 1.0])
    for stranger in (sibling, below, Context.interpreter()):
        with refused(wb.ExecutionError, "is no lifecycle ancestor", remedy="compiled or decided"):
            below.adopt_ancestor(stranger)

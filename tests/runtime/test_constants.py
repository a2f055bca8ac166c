"""Array constants: one copy for all contexts of a device, and who is told when one is written."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.runtime.context import Context

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}


@pytest.fixture(params=MAKE)
def make(request):
    gc.collect()
    return MAKE[request.param]


def scaled(size=1000):
    """A constant, an input, and their product."""
    c = wb.constant(np.arange(size, dtype=np.float32))
    x = wb.input("x", (size,))
    return c, x, c * x


def ready(ctx, x, y, name="scale"):
    ctx, routine = ctx.compile([y], name=name)
    return ctx.set_values({x: np.ones(x.shape, np.float32)}), routine


def test_contexts_that_were_made_apart_bind_one_copy(make):
    c, x, y = scaled()
    before = make().used_memory()
    one, first = ready(make(), x, y)
    alone = one.used_memory() - before
    other, second = ready(make(), x, y)
    assert one.buffers[c].array.ctypes.data == other.buffers[c].array.ctypes.data
    assert one.buffers[x].array.ctypes.data != other.buffers[x].array.ctypes.data
    assert one.used_memory() - before < 2 * alone - 4000 + 64
    for ctx, routine in ((one, first), (other, second)):
        assert ctx.run(routine).get_values(y).tolist() == list(range(1000))


def test_backends_do_not_share_memory():
    c, x, y = scaled()
    one, _ = ready(Context.interpreter(), x, y)
    other, _ = ready(Context.cpu(1), x, y)
    assert one.buffers[c].array.ctypes.data != other.buffers[c].array.ctypes.data


@pytest.mark.parametrize("how", ["release", "drop"])
def test_a_constant_is_freed_with_the_last_unit_that_binds_it(make, how):
    c, x, y = scaled()
    before = make().used_memory()
    one, first = ready(make(), x, y)
    other, second = ready(make(), x, y)
    one = one.run(first)
    if how == "release":
        one.release()
    else:
        del one
    assert other.used_memory() > before + 4000
    other = other.run(second)
    assert other.get_values(y)[5] == 5
    if how == "release":
        other.release()
        assert other.used_memory() == before
    else:
        del other
        assert make().used_memory() == before
    assert c.value is not None


def test_a_loop_of_fresh_graphs_that_are_released_holds_memory_flat(make):
    sizes = set()
    for _ in range(20):
        _, x, y = scaled()
        ctx, routine = ready(make(), x, y)
        ctx.run(routine).release()
        sizes.add(ctx.used_memory())
    assert len(sizes) == 1


# -- writing into one


def test_a_root_that_wrote_reads_what_it_wrote_and_its_siblings_do(make):
    c, x, y = scaled(3)
    root = make()
    one, first = ready(root, x, y)
    other, second = ready(root, x, y)
    one = one.set_values({c: [7, 7, 7]}).run(first)
    assert one.get_values(y).tolist() == [7, 7, 7]
    assert other.run(second).get_values(y).tolist() == [7, 7, 7]
    assert c.value is not None
    assert c.value.tolist() == [0, 1, 2]


def test_another_root_is_told_at_a_run_and_at_a_read(make):
    c, x, y = scaled(3)
    one, _ = ready(make(), x, y)
    other, second = ready(make(), x, y)
    written = one.set_values({c: [7, 7, 7]})
    for use in (
        lambda: other.run(second),
        lambda: other.check_runnable(second),
        lambda: other.lend(second),
        lambda: other.get_values(c),
    ):
        with refused(
            wb.ExecutionError,
            "constant",
            written.unit.name,
            "another root has written",
            remedy="own_constants",
        ):
            use()


def test_a_copy_takes_the_value_over(make):
    c, x, y = scaled(3)
    one, _ = ready(make(), x, y)
    other, second = ready(make(), x, y)
    written = one.set_values({c: [7, 7, 7]})
    taken = Context.copy(written, other, c)
    assert taken.same_release_unit(other)
    assert taken.held_memory() == other.held_memory()
    assert taken.run(second).get_values(y).tolist() == [7, 7, 7]
    one = written.set_values({c: [8, 8, 8]})
    with refused(wb.ExecutionError, "another root has written"):
        taken.run(second)
    with refused(wb.ExecutionError, "another root has written"):
        Context.copy(taken, one, c)


def test_a_root_that_writes_in_its_turn_reads_its_own(make):
    c, x, y = scaled(3)
    one, first = ready(make(), x, y)
    other, second = ready(make(), x, y)
    one = one.set_values({c: [7, 7, 7]})
    other = other.set_values({c: [5, 5, 5]})
    assert other.run(second).get_values(y).tolist() == [5, 5, 5]
    with refused(wb.ExecutionError, other.unit.name):
        one.run(first)


def test_memory_of_its_own_gives_the_constant_back(make):
    c, x, y = scaled(3)
    one, _ = ready(make(), x, y)
    other, second = ready(make(), x, y)
    one.set_values({c: [7, 7, 7]})
    own = other.own_constants([c])
    assert own.run(second).get_values(y).tolist() == [0, 1, 2]
    own = own.set_values({c: [4, 4, 4]})
    assert own.run(second).get_values(y).tolist() == [4, 4, 4]
    assert one.get_values(c).tolist() == [7, 7, 7]


def test_only_array_constants_can_be_owned(make):
    p = wb.parameter(np.ones(3, np.float32), "p")
    with refused(wb.PlacementError, "p", "no array constant", remedy="wb.constant"):
        make().own_constants([p])

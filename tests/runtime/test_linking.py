"""What a link requests from the device: said before, and then requested exactly."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.refusal import refused
from tests.strategies import random_graph
from workbench.backends.device import Device
from workbench.runtime.context import Context

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}
SEEDS = st.integers(0, 2**32 - 1)
CAPS = st.fixed_dictionaries(
    {
        "max_visits": st.integers(0, 3),
        "max_inline_reduction": st.sampled_from([-1, 0, 16]),
        "local_bytes": st.sampled_from([0, 64, 16384]),
        "buffer_aliasing": st.booleans(),
    }
)


@pytest.fixture(params=MAKE)
def root(request):
    return MAKE[request.param]()


@pytest.fixture(autouse=True)
def collected():
    """Leftovers of other tests would be freed while bytes are counted."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@given(SEEDS, CAPS)
@settings(max_examples=8)
def test_the_delta_is_what_a_compile_then_allocates(seed, caps):
    outputs, _ = random_graph(seed)
    half = outputs[: max(1, len(outputs) // 2)]
    ctx = Context.interpreter()
    with wb.settings(**caps):
        for wanted in (half, outputs, outputs):
            used = ctx.used_memory()
            delta = ctx.link_delta(wanted)
            floor = ctx.link_floor(wanted)
            assert ctx.link_trial(wanted) == delta
            assert ctx.used_memory() == used
            ctx, _ = ctx.compile(wanted)
            assert ctx.used_memory() - used == delta
            assert floor <= delta
        assert delta == 0


@given(SEEDS, st.lists(CAPS, min_size=2, max_size=3))
@settings(max_examples=8)
def test_the_floor_is_below_every_way_of_compiling(seed, many):
    outputs, _ = random_graph(seed)
    floors, deltas = set(), set()
    for caps in many:
        with wb.settings(**caps):
            floors.add(Context.interpreter().link_floor(outputs))
            deltas.add(Context.interpreter().link_delta(outputs))
    assert max(floors) <= min(deltas)


def layer(size=100):
    w = wb.parameter(np.ones((size, size), np.float32), "w")
    c = wb.constant(np.ones((size, size), np.float32))
    x = wb.input("x", (wb.batch, size))
    return w, x, wb.tanh(x @ w) @ c


def test_asking_allocates_and_changes_nothing(root):
    _, _, y = layer()
    before = root.used_memory(), root.reset_peak_memory(), root.record_count(), root.lifecycle_depth
    assert root.link_delta([y]) > 2 * 100 * 100 * 4
    assert root.link_floor([y]) == root.link_delta([y])
    root.link_trial([y])
    root.link_trial([y], floor=True)
    after = root.used_memory(), root.peak_memory(), root.record_count(), root.lifecycle_depth
    assert after == before
    assert root.buffers == {}


def test_what_the_context_holds_and_the_device_has_is_not_requested_again(root):
    _, _, y = layer()
    whole = root.link_delta([y])
    first, _ = root.compile([y])
    assert first.link_delta([y]) == 0
    other = Context(root.backend)
    constant = 100 * 100 * 4
    assert whole - constant - 400 < other.link_delta([y]) < whole - constant + 400


def test_a_routine_that_writes_and_a_lowered_program_are_counted_as_well(root):
    w, x, y = layer()
    loss = wb.mean(wb.square(y))
    updates = {w: w - 0.1 * wb.backward(loss, [w])[w]}
    delta = root.link_delta([loss], updates=updates)
    used = root.used_memory()
    ctx, routine = root.compile([loss], updates=updates)
    assert root.used_memory() - used == delta
    fresh = Context(root.backend)
    assert fresh.link_delta(routine.program) == fresh.link_delta([loss], updates=updates)
    assert ctx.link_delta(routine.program) == 0
    assert x.shape[0] is wb.batch


def test_a_trial_is_refused_as_the_link_would_be(root):
    far_too_long = wb.input("x", (2**60,))
    used = root.used_memory()
    for ask in (
        lambda: root.link_trial([far_too_long * 2.0]),
        lambda: root.link_trial([far_too_long * 2.0], floor=True),
        lambda: root.compile([far_too_long * 2.0]),
    ):
        with refused(wb.DeviceMemoryError, "no room for", "bytes", remedy="release contexts"):
            ask()
    assert root.used_memory() == used


def test_a_trial_that_fails_half_way_gives_back_what_it_had():
    device = Device("test")
    with refused(wb.DeviceMemoryError, "1,000 in use"):
        device.trial([1000, 2**60])
    assert (device.used(), device.peak()) == (0, 0)


def test_a_released_context_is_not_asked(root):
    _, _, y = layer()
    ctx, _ = root.compile([y])
    ctx.release()
    for ask in (ctx.link_delta, ctx.link_trial, ctx.link_floor):
        with refused(wb.ExecutionError, "was released"):
            ask([y])


def test_the_floor_counts_once_what_two_shapes_of_one_value_may_share(root):
    x = wb.input("x", (100,))
    h = wb.exp(x)
    shapes = [wb.reshape(h, (10, 10)), wb.reshape(h, (4, 25))]
    one = root.link_floor(shapes[:1])
    assert root.link_floor(shapes) == one <= root.link_delta(shapes)
    assert root.link_floor([h, *shapes]) == one

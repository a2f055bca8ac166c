"""Contexts: values that are passed on, and what they refuse."""

import sys
import types
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.graph.dtype import DType

CONTEXTS = {
    "interpreter": wb.Context.interpreter,
    "one thread": lambda: wb.Context.cpu(1),
    "two threads": lambda: wb.Context.cpu(2),
}


@pytest.fixture(params=CONTEXTS)
def root(request):
    return CONTEXTS[request.param]()


def ready(root, outputs, values, **options):
    ctx, routine = root.compile(outputs, **options)
    return ctx.set_values(values), routine


# -- values

NUMBERS = {
    "float32": [[1.5, -0.0], [np.inf, np.nan]],
    "float64": [[1e300, -0.0], [np.inf, np.nan]],
    "int32": [[0, -1], [2**31 - 1, -(2**31)]],
    "int64": [[0, -1], [2**63 - 1, -(2**63)]],
    "bool": [[True, False], [False, True]],
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_is_set_is_what_is_read(root, dtype):
    x = wb.input("x", (2, 2), dtype)
    value = np.array(NUMBERS[dtype], dtype)
    found = root.set_values({x: value}).get_values(x)
    assert found.dtype == value.dtype
    assert found.tobytes() == value.tobytes()


@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_is_set_comes_through_a_kernel_unchanged(root, dtype):
    x = wb.input("x", (2, 2), dtype)
    moved = wb.flip(x, 1)
    ctx, routine = ready(root, [moved], {x: np.array(NUMBERS[dtype], dtype)})
    found = ctx.run(routine).get_values(moved)
    assert found.dtype == np.dtype(dtype)
    assert found.tobytes() == np.array(NUMBERS[dtype], dtype)[:, ::-1].tobytes()


def test_what_is_read_is_a_copy(root):
    x = wb.input("x", (3,))
    ctx = root.set_values({x: [1.0, 2.0, 3.0]})
    ctx.get_values(x)[0] = 99.0
    assert ctx.get_values(x)[0] == 1.0


def test_what_is_set_is_a_copy(root):
    x = wb.input("x", (3,))
    value = np.ones(3, np.float32)
    ctx = root.set_values({x: value})
    value[0] = 99.0
    assert ctx.get_values(x)[0] == 1.0


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2.0), (3.0, 4.0)),
        np.array([[1, 2], [3, 4]], ">f8"),
        np.array([[1, 3], [2, 4]], np.float32).T,
        np.array([[1, 2], [3, 4]], np.uint8),
    ],
    ids=["list", "tuple", "big-endian", "transposed", "bytes"],
)
def test_arrays_of_any_layout_and_byte_order_are_taken(root, value):
    x = wb.input("x", (2, 2))
    assert root.set_values({x: value}).get_values(x).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_read_only_array_is_taken(root):
    x = wb.input("x", (2,))
    value = np.ones(2, np.float32)
    value.flags.writeable = False
    assert root.set_values({x: value}).get_values(x).tolist() == [1.0, 1.0]


def test_a_parameter_has_its_own_value_before_anything_is_set(root):
    p = wb.parameter(np.arange(3.0), "p")
    assert root.get_values(p).tolist() == [0.0, 1.0, 2.0]
    ctx, routine = root.compile([p * 2.0])
    assert ctx.run(routine).get_values(routine.outputs[0]).tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("value", "shown"), [(np.zeros(3), "(3,)"), (np.zeros((3, 2)), "(3, 2)"), (0.0, "()")]
)
def test_a_value_of_another_shape_is_refused(root, value, shown):
    x = wb.input("x", (2, 3))
    with refused(wb.ShapeError, "`x`", shown, remedy="(2, 3)"):
        root.set_values({x: value})


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", [0.5]),
        ("bool", [1]),
        ("float32", [1j]),
        ("float32", ["one"]),
    ],
)
def test_a_value_of_another_kind_is_refused(root, dtype, value):
    x = wb.input("x", (1,), dtype)
    with refused(wb.DTypeError, "`x`", str(np.asarray(value).dtype), remedy=f"astype('{dtype}')"):
        root.set_values({x: value})


# -- reading what there is and what there is not


def test_a_tensor_of_no_context_is_refused(root):
    with refused(wb.NotReadableError, "not part of this context", remedy="ctx.compile([t])"):
        root.get_values(wb.input("x", (2,)) + 1.0)


def test_an_output_cannot_be_read_before_the_run(root):
    x = wb.input("x", (2,))
    doubled = x * 2.0
    ctx, routine = ready(root, [doubled], {x: [1.0, 2.0]})
    with refused(wb.NotReadableError, "mul", remedy="run"):
        ctx.get_values(doubled)
    assert ctx.run(routine).get_values(doubled).tolist() == [2.0, 4.0]


def test_an_input_that_was_never_written_is_refused_naming_it(root):
    x, y = wb.input("x", (2,)), wb.input("y", (2,))
    ctx, routine = ready(root, [x + y], {x: [1.0, 2.0]}, name="sum")
    with refused(wb.ExecutionError, "sum", "`y`", remedy="set_values"):
        ctx.run(routine)


def test_a_routine_is_refused_where_its_memory_is_not(root):
    p = wb.parameter(np.ones(2), "p")
    _, routine = root.compile([p + 1.0])
    with refused(wb.ExecutionError, "`p`"):
        root.run(routine)


def test_a_routine_of_another_backend_is_refused():
    x = wb.input("x", (2,))
    _, routine = wb.Context.interpreter().compile([x + 1.0])
    with refused(wb.ExecutionError, "interpreter", remedy="compile it in this context"):
        wb.Context.cpu(1).set_values({x: [1.0, 2.0]}).run(routine)


# -- persistence


def test_every_operation_gives_a_new_context_and_leaves_the_old_one(root):
    x = wb.input("x", (2,))
    doubled = x * 2.0
    compiled, routine = root.compile([doubled])
    filled = compiled.set_values({x: [1.0, 2.0]})
    done = filled.run(routine)
    steps = [root, compiled, filled, done]
    assert len({ctx.id for ctx in steps}) == 4
    assert [ctx.origin.before for ctx in steps[1:]] == [ctx.origin for ctx in steps[:-1]]
    assert [ctx.made_by.split()[0] for ctx in steps] == ["root", "compile", "set_values", "run"]
    assert (root.buffers, root.placements, root.initialized) == ({}, {}, frozenset())
    assert x not in compiled.initialized
    assert doubled not in filled.initialized
    assert doubled in done.initialized


def test_an_old_context_can_still_be_run_and_compiled_in(root):
    x = wb.input("x", (2,))
    compiled, routine = root.compile([x * 2.0])
    filled = compiled.set_values({x: [1.0, 2.0]})
    filled.run(routine)
    again = filled.run(routine)
    assert again.get_values(routine.outputs[0]).tolist() == [2.0, 4.0]
    other, second = filled.compile([x + 1.0])
    assert other.run(second).get_values(second.outputs[0]).tolist() == [2.0, 3.0]
    assert second.outputs[0] not in filled.buffers


def test_two_routines_share_the_memory_of_what_both_use(root):
    p = wb.parameter(np.zeros(3), "p")
    ctx, count = root.compile([], updates={p: p + 1.0}, name="count")
    ctx, show = ctx.compile([p * 10.0], name="show")
    for turn in range(1, 4):
        ctx = ctx.run(count).run(show)
        assert ctx.get_values(show.outputs[0]).tolist() == [10.0 * turn] * 3


def test_siblings_do_not_share_what_only_one_of_them_compiled(root):
    x = wb.input("x", (2,))
    base = root.set_values({x: [1.0, 2.0]})
    left, one = base.compile([x * 2.0])
    right, two = base.compile([x * 3.0])
    left, right = left.run(one), right.run(two)
    assert one.outputs[0] not in right.buffers
    assert two.outputs[0] not in left.buffers
    assert left.get_values(one.outputs[0]).tolist() == [2.0, 4.0]
    assert right.get_values(two.outputs[0]).tolist() == [3.0, 6.0]


def test_two_roots_hold_values_of_their_own():
    p = wb.parameter(np.zeros(2), "p")
    first, count = wb.Context.cpu(1).compile([], updates={p: p + 1.0})
    second, _ = wb.Context.cpu(1).compile([], updates={p: p + 1.0})
    first = first.run(count).run(count)
    assert first.get_values(p).tolist() == [2.0, 2.0]
    assert second.get_values(p).tolist() == [0.0, 0.0]
    assert np.array_equal(np.asarray(p.value), [0.0, 0.0])


def test_a_context_says_what_it_is(root):
    x = wb.input("x", (2,))
    ctx, routine = ready(root, [x + 1.0], {x: [1.0, 2.0]}, name="more")
    ctx = ctx.run(routine)
    assert "made by run more" in repr(ctx)
    assert root.backend.name in repr(ctx)
    assert "'more'" in repr(routine)
    assert "<li>" in routine._repr_html_()
    assert ctx.sync() is ctx
    assert ctx.held_memory() >= 2 * 2 * 4


# -- the batch


def test_one_routine_runs_at_every_batch_size(root):
    x = wb.input("x", (wb.batch, 3))
    w = wb.parameter(np.arange(6.0).reshape(3, 2), "w")
    product = wb.tanh(x.astype("float64") @ w)
    total = product.sum()
    ctx, routine = root.compile([product, total], rows=4)
    numbers = np.random.default_rng(0)
    for rows in (4, 1, 7, 4, 64, 2, 7):
        value = numbers.normal(size=(rows, 3)).astype(np.float32)
        ctx = ctx.set_values({x: value}).run(routine)
        expected = np.tanh(value.astype(np.float64) @ np.arange(6.0).reshape(3, 2))
        np.testing.assert_allclose(ctx.get_values(product), expected, rtol=1e-12)
        assert ctx.get_values(total) == pytest.approx(expected.sum(), rel=1e-12, abs=1e-12)


def test_a_context_of_an_earlier_batch_size_keeps_its_values(root):
    x = wb.input("x", (wb.batch,))
    doubled = x * 2.0
    ctx, routine = root.compile([doubled])
    three = ctx.set_values({x: np.arange(3.0)}).run(routine)
    five = three.set_values({x: np.arange(5.0)}).run(routine)
    assert three.get_values(doubled).tolist() == [0.0, 2.0, 4.0]
    assert five.get_values(doubled).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert three.get_values(x).shape == (3,)


def test_a_batch_of_no_rows_is_run(root):
    x = wb.input("x", (wb.batch, 2))
    doubled, total = x * 2.0, x.sum()
    ctx, routine = root.compile([doubled, total])
    ctx = ctx.set_values({x: np.zeros((0, 2))}).run(routine)
    assert ctx.get_values(doubled).shape == (0, 2)
    assert ctx.get_values(total) == 0.0


def test_inputs_of_two_batch_sizes_are_refused(root):
    x, y = wb.input("x", (wb.batch,)), wb.input("y", (wb.batch, 2))
    ctx, routine = ready(root, [x.sum() + y.sum()], {x: np.zeros(3), y: np.zeros((4, 2))})
    with refused(wb.ExecutionError, "`x`", "3", "`y`", "4", remedy="same number of rows"):
        ctx.run(routine)


def test_a_multiple_of_the_batch_must_be_one(root):
    x = wb.input("x", (wb.batch * 2,))
    ctx, routine = ready(root, [x.sum()], {x: np.ones(6)})
    assert ctx.run(routine).get_values(routine.outputs[0]) == 6.0
    with refused(wb.ShapeError, "`x`", "(5,)", remedy="batch*2"):
        root.set_values({x: np.ones(5)})


# -- outputs in another shape


def test_a_view_of_an_input_can_be_read(root):
    x = wb.input("x", (2, 6))
    views = [x.reshape(3, 4), x.reshape(12), x.reshape(2, 3, 2)]
    ctx, routine = ready(root, views, {x: np.arange(12.0).reshape(2, 6)})
    ctx = ctx.run(routine)
    for view in views:
        assert ctx.get_values(view).shape == view.shape
        assert ctx.get_values(view).ravel().tolist() == list(range(12))


def test_a_view_of_a_result_can_be_read_with_and_without_the_result(root):
    x = wb.input("x", (2, 6))
    result = wb.exp(x) + 1.0
    view = result.reshape(4, 3)
    value = np.linspace(-1, 1, 12).reshape(2, 6)
    for outputs in ([view], [result, view], [view, result], [view.reshape(12)]):
        ctx, routine = ready(root, outputs, {x: value})
        ctx = ctx.run(routine)
        for output in outputs:
            found = ctx.get_values(output)
            assert found.shape == output.shape
            np.testing.assert_allclose(found.ravel(), np.exp(value.ravel()) + 1.0, rtol=1e-6)


def test_a_view_that_was_read_once_is_renewed_by_later_routines(root):
    x = wb.input("x", (2, 6))
    result = x * 2.0
    view = result.reshape(4, 3)
    ctx, first = ready(root, [view], {x: np.ones((2, 6))})
    ctx = ctx.run(first)
    ctx, second = ctx.compile([view.sum()])
    ctx = ctx.set_values({x: np.full((2, 6), 5.0)}).run(second)
    assert ctx.get_values(second.outputs[0]) == 120.0
    assert (ctx.get_values(view) == 10.0).all()


def test_a_view_with_the_batch_in_it_follows_the_batch(root):
    x = wb.input("x", (wb.batch, 6))
    view = (x + 1.0).reshape(-1, 2, 3)
    ctx, routine = root.compile([view])
    for rows in (2, 5, 1):
        value = np.arange(rows * 6.0).reshape(rows, 6)
        ctx = ctx.set_values({x: value}).run(routine)
        assert ctx.get_values(view).tolist() == (value + 1.0).reshape(rows, 2, 3).tolist()


def test_an_output_that_is_a_leaf_is_its_new_value(root):
    p = wb.parameter(np.zeros(2), "p")
    ctx, routine = root.compile([p], updates={p: p + 1.0})
    assert ctx.run(routine).get_values(p).tolist() == [1.0, 1.0]


def test_constants_and_arrays_can_be_outputs(root):
    number, array = wb.constant(2.5), wb.constant(np.arange(3.0))
    ctx, routine = root.compile([number, array, array.reshape(3, 1)])
    ctx = ctx.run(routine)
    assert ctx.get_values(number) == 2.5
    assert ctx.get_values(array).tolist() == [0.0, 1.0, 2.0]
    assert ctx.get_values(routine.outputs[2]).shape == (3, 1)


# -- which backend


def test_cuda_without_its_package_says_what_is_missing(monkeypatch):
    monkeypatch.setattr("workbench.backends.graphics.util.find_spec", lambda name: None)
    with refused(wb.BackendUnavailable, "cupy", "not installed", remedy="training-workbench[gpu]"):
        wb.Context.cuda()


def install_cupy(monkeypatch, count):
    runtime = types.SimpleNamespace(getDeviceCount=count)
    cupy: Any = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    monkeypatch.setattr("workbench.backends.graphics.util.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_cuda_without_a_driver_says_what_the_driver_said(monkeypatch):
    def count():
        raise RuntimeError("cudaErrorInsufficientDriver")

    install_cupy(monkeypatch, count)
    with refused(wb.BackendUnavailable, "cudaErrorInsufficientDriver", remedy="nvidia-smi"):
        wb.Context.cuda()


def test_auto_takes_the_processor_where_there_is_no_device(monkeypatch):
    monkeypatch.setattr("workbench.backends.graphics.util.find_spec", lambda name: None)
    assert wb.Context.auto().backend.name == "numba_cpu"
    assert wb.Context.auto(threads=1).backend.threads == 1


@pytest.mark.parametrize("threads", [0, -2])
def test_a_context_without_threads_is_refused(threads):
    with refused(wb.ConfigurationError, f"threads={threads}", remedy="threads=1"):
        wb.Context.cpu(threads)


def test_the_types_tested_here_are_those_a_person_can_make():
    assert set(NUMBERS) <= {str(dtype) for dtype in DType}


# -- what a context is on


def test_a_context_says_what_it_is_on():
    processor, other, interpreter = wb.Context.cpu(1), wb.Context.cpu(2), wb.Context.interpreter()
    assert processor.same_backend(other)
    assert not processor.same_backend(interpreter)
    assert (processor.backend_name, processor.device_ordinal) == ("numba_cpu", 0)
    assert processor.backend_facts.makes_code
    assert not interpreter.backend_facts.makes_code
    assert processor.hardware_limits.threads is None
    assert processor.free_and_total_memory() is None
    (properties,) = processor.static_properties()
    assert properties.name == "cpu:0"
    assert processor.device_identity() == other.device_identity() != interpreter.device_identity()


def test_contexts_that_were_made_apart_share_their_device_and_its_count():
    x = wb.input("x", (1000,))
    one, other = wb.Context.cpu(1), wb.Context.cpu(2)
    before = other.used_memory()
    one = one.set_values({x: np.ones(1000)})
    assert other.used_memory() == before + one.held_memory()
    assert one.held_memory() >= 4000


def test_the_peak_is_the_most_that_was_in_use_since_its_reset(root):
    x, y = wb.input("x", (1000,)), wb.input("y", (10,))
    assert root.reset_peak_memory() == root.used_memory() == root.peak_memory()
    before = root.used_memory()
    size = root.set_values({x: np.ones(1000)}).held_memory()
    small = root.set_values({y: np.ones(10)})
    assert root.peak_memory() == before + size > root.used_memory()
    assert root.reset_peak_memory() == before + small.held_memory()


def test_counts_for_finding_faults_tell_what_was_compiled_and_allocated():
    ctx = wb.Context.cpu(1)
    before = ctx.debug_information()
    x = wb.input("x", (3,))
    ctx, _ = ctx.compile([x * 2.0])
    ctx, _ = ctx.compile([x * 2.0])
    after = ctx.debug_information()
    kernels = [name for name in after if name.startswith("kernels")]
    assert sum(after[name] - before[name] for name in kernels) == 2
    assert after["kernels reused"] > before["kernels reused"]
    assert after["allocations"] == before["allocations"] + 1
    assert after["bytes in use"] - before["bytes in use"] == ctx.held_memory()
    assert set(wb.Context.interpreter().debug_information()) == set(after) - set(kernels)

"""Values from one context into another, through memory, the host and merge buffers."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from workbench.runtime.context import Context
from workbench.runtime.observe import Reading

MAKE = {"interpreter": Context.interpreter, "processor": lambda: Context.cpu(1)}


@pytest.fixture(params=MAKE)
def make(request):
    return MAKE[request.param]


def vector(label, size=3):
    return wb.input(label, (size,))


def holding(ctx, node, values):
    return ctx.set_values({node: np.array(values, np.float32)})


# -- into memory


def test_a_value_arrives_in_a_context_that_lacked_it_and_again_when_it_has_it(make):
    a = vector("a")
    source = holding(make(), a, [11, 22, 33])
    target = Context.copy(source, make(), a)
    assert target.get_values(a).tolist() == [11, 22, 33]
    source = holding(source, a, [100, 200, 300])
    assert target.get_values(a).tolist() == [11, 22, 33]
    held = target.held_memory()
    target = Context.copy(source, target, a)
    assert target.get_values(a).tolist() == [100, 200, 300]
    assert target.held_memory() == held


def test_a_literal_that_the_source_has_no_memory_for_comes_from_the_host(make):
    literal = wb.constant([5.0, 6.0])
    target = Context.copy(make(), make(), literal)
    assert target.get_values(literal).tolist() == [5, 6]


def test_a_virtual_node_is_computed_where_it_is_copied_from(make):
    a = vector("a")
    double = a * 2.0
    source, _ = make().compile([double + 1.0])
    source = holding(source, a, [1, 2, 3])
    target = Context.copy(source, make(), double)
    assert target.get_values(double).tolist() == [2, 4, 6]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_value_crosses_from_one_backend_to_another(turn):
    a = vector("a", 2)
    first, second = [Context.interpreter, lambda: Context.cpu(1)][::turn]
    target = Context.copy(holding(first(), a, [1.5, 2.4]), second(), a)
    assert target.get_values(a).tolist() == np.array([1.5, 2.4], np.float32).tolist()


def test_what_is_copied_is_an_input_that_holds_a_value_and_deepens_nothing(make):
    a = vector("a")
    target, double = make().compile([a * 2.0], name="double")
    with refused(wb.ExecutionError, "no value was ever written"):
        target.run(double)
    source = holding(make(), a, [1, 2, 3])
    copied = target
    for _ in range(3):
        copied = Context.copy(source, target, a)
        assert copied.same_release_unit(target)
        assert copied.lifecycle_depth == target.lifecycle_depth
    assert copied.run(double).get_values(a * 2.0).tolist() == [2, 4, 6]
    assert "copy a" in str(copied.lineage())


def test_a_batch_brings_its_size_along(make):
    x = wb.input("x", (wb.batch, 2))
    source = holding(make(), x, np.ones((5, 2)))
    target, total = make().compile([wb.sum(x)])
    target = Context.copy(source, target, x).run(total)
    assert target.get_values(total.outputs[0]) == 10


def test_what_the_source_cannot_read_is_refused_with_its_reason_and_changes_nothing(make):
    a = vector("a")
    target = make()
    with refused(wb.NotReadableError, "not part of this context"):
        Context.copy(make(), target, a)
    assert target.buffers == {}


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("into_merge", [False, True])
def test_a_released_or_poisoned_context_is_refused_on_both_sides(make, side, into_merge):
    a = vector("a")
    live = holding(make(), a, [1, 2, 3])
    dead, step = make().compile([a * 2.0], name="step")
    dead = holding(dead, a, [1, 2, 3])
    pair = (dead, live) if side == "source" else (live, dead)
    dead.poison_lineage(step, ValueError("overflow"))
    with refused(wb.ExecutionError, "step", "overflow"):
        Context.copy(*pair, a, into_merge=into_merge)
    dead.release()
    with refused(wb.ExecutionError, f"{dead.unit.name} was released"):
        Context.copy(*pair, a, into_merge=into_merge)


def test_a_copy_onto_a_local_node_is_refused(make):
    w, x = wb.parameter(np.ones((8, 32), np.float32), "w"), wb.input("x", (32,))
    h = (w @ x).named("h")
    with wb.settings(min_product=10**9):
        target, _ = make().compile([wb.relu(h)])
    source = holding(make(), h, np.ones(8))
    with refused(wb.PlacementError, "h", "local", remedy="given=[t]"):
        Context.copy(source, target, h)


# -- into the merge buffer


def adding(make):
    """b, what adds a merged value to it, and a context that holds b = 1."""
    a, b = vector("a"), wb.parameter(np.ones(3, np.float32), "b")
    return a, b, {b: b + wb.merge_buffer(a)}, make()


def test_a_merged_value_is_added(make):
    a, b, updates, target = adding(make)
    source = holding(make(), a, [11, 22, 33])
    target = Context.copy(source, target, a, into_merge=True)
    target, add = target.compile([], updates=updates, name="add")
    assert target.run(add).get_values(b).tolist() == [12, 23, 34]


def test_a_consumer_compiled_without_a_transfer_is_refused_naming_the_node(make):
    _, _, updates, target = adding(make)
    with refused(wb.CompileError, "`add`", "a.merge", "holds nothing", remedy="into_merge=True"):
        target.compile([], updates=updates, name="add")
    other = vector("other")
    target = Context.copy(holding(make(), other, [1, 2, 3]), target, other, into_merge=True)
    with refused(wb.CompileError, "a.merge", "holds", "other.merge"):
        target.compile([], updates=updates, name="add")


def test_with_a_transfer_the_output_is_the_merged_value(make):
    a = vector("a", 2)
    out = wb.parameter(np.array([9, 9], np.float32), "out")
    target = Context.copy(holding(make(), a, [3, 4]), make(), a, into_merge=True)
    target, take = target.compile([], updates={out: wb.merge_buffer(a) * 1.0}, name="take")
    assert target.get_values(out).tolist() == [9, 9]
    assert target.run(take).get_values(out).tolist() == [3, 4]


def test_a_second_fill_waits_for_those_that_read_the_first(make):
    a, b, updates, target = adding(make)
    source = holding(make(), a, [11, 22, 33])
    target = Context.copy(source, target, a, into_merge=True)
    target, add = target.compile([], updates=updates, name="add")
    with refused(
        wb.ExecutionError,
        "a.merge",
        f"`add` (id={add.id})",
        "did not read",
        remedy="run or release",
    ):
        Context.copy(source, target, a, into_merge=True)
    ran = target.run(add)
    again = Context.copy(holding(source, a, [1, 1, 1]), ran, a, into_merge=True)
    with refused(
        wb.ExecutionError, "`add`", "a later copy has replaced", remedy="compile it again"
    ):
        again.run(add)
    again, more = again.compile([], updates=updates, name="more")
    assert again.run(more).get_values(b).tolist() == [13, 24, 35]


@pytest.mark.parametrize("how", ["release", "drop"])
def test_a_consumer_that_is_given_up_does_not_block_the_next_fill(make, how):
    a, _, updates, target = adding(make)
    source = holding(make(), a, [11, 22, 33])
    target = Context.copy(source, target, a, into_merge=True)
    waiting, add = target.compile([], updates=updates, name="add")
    if how == "release":
        waiting.release()
    else:
        del waiting
        gc.collect()
    target = Context.copy(source, target, a, into_merge=True)
    assert add.name == "add"


def test_a_context_of_before_the_latest_fill_cannot_compile_a_consumer(make):
    a, _, updates, target = adding(make)
    source = holding(make(), a, [11, 22, 33])
    earlier = Context.copy(source, target, a, into_merge=True)
    Context.copy(source, earlier, a, into_merge=True)
    with refused(wb.CompileError, "a.merge", "filled again since"):
        earlier.compile([], updates=updates)


def test_a_fill_waits_for_what_writes_the_source(make):
    x = vector("x")
    made = (x * 2.0).named("made")
    source, double = make().compile([made], name="double")
    source = holding(source, x, [1, 2, 3])
    with refused(
        wb.ExecutionError,
        "made",
        f"`double` (id={double.id})",
        "has not run",
        remedy="run `double`",
    ):
        Context.copy(source, make(), made, into_merge=True)
    target = Context.copy(source.run(double), make(), made, into_merge=True)
    target, take = target.compile([wb.merge_buffer(made) + 0.0])
    assert target.run(take).get_values(take.outputs[0]).tolist() == [2, 4, 6]


def test_a_fill_takes_no_value_from_the_host_nor_from_another_backend(make):
    literal = wb.constant([5.0, 6.0])
    with refused(wb.ExecutionError, "no memory", "from the host", remedy="memory of its own"):
        Context.copy(make(), make(), literal, into_merge=True)
    a = vector("a")
    one, other = Context.interpreter(), Context.cpu(1)
    with refused(wb.ExecutionError, "interpreter", "numba_cpu", "the same backend"):
        Context.copy(holding(one, a, [1, 2, 3]), other, a, into_merge=True)
    memory, _ = make().compile([a * 2.0])
    with refused(wb.ExecutionError, "no value was ever written to", remedy="set its value"):
        Context.copy(memory, make(), a, into_merge=True)


def test_repeated_fills_keep_the_unit_the_depth_the_memory_and_the_records(make):
    a, _, updates, target = adding(make)
    source = holding(make(), a, [11, 22, 33])
    target = Context.copy(source, target, a, into_merge=True)
    target, add = target.compile([], updates=updates)
    target = target.run(add)
    found = set()
    for _ in range(5):
        filled = Context.copy(source, target, a, into_merge=True)
        assert filled.same_release_unit(target)
        target = filled
        found.add((target.used_memory(), target.lifecycle_depth, target.record_count()))
    assert len(found) == 1


# -- observing what came through it


def test_what_was_read_from_a_merge_buffer_cannot_be_recomputed(make):
    a = vector("a")
    merged = wb.merge_buffer(a)
    v = (merged * 2.0).named("v")
    target = Context.copy(holding(make(), a, [1, 2, 3]), make(), a, into_merge=True)
    target, routine = target.compile([v + 1.0])
    target = target.run(routine)
    verdict = target.observability(v)
    assert verdict.reading is Reading.UNOBSERVABLE_MERGE
    assert [node.uid for node in verdict.path] == [v.uid, merged.uid]
    assert verdict.placeholder == "<unobservable: reads merge buffer a.merge>"
    assert verdict.remedies[0].nodes == (v,)
    with refused(wb.NotReadableError, "v", "a.merge", "until the next copy", remedy="ctx.compile"):
        target.get_values(v)
    with refused(wb.NotReadableError, "a.merge"):
        target.get_values(merged)
    assert target.get_values(v + 1.0).tolist() == [3, 5, 7]

"""The graph of the step in force: what it tells, when, and that looking at it changes nothing."""

import threading

import numpy as np
import pytest

import workbench as wb
from tests.refusal import refused
from tests.runtime.test_looking import state_of
from tests.train.problems import at, logits, loss, measure, new_run, rows, same_bits, step
from tests.train.test_steering import LONG, PATIENCE_S, until
from tests.train.test_stream import stream

DATA, VAL = rows(60), rows(9, seed=1)  # 8 batches an epoch, the last of 4 rows


def steeper(params, opt, x, y, lr):
    return wb.default_step(params, opt, x, y, lr, lambda p, x, y: 3.0 * loss(p, x, y))


def stopped(batches, *, data=DATA, **options):
    """Return a run that was stopped after so many batches, and the loss of the last one."""
    run = new_run(**options)
    seen = []

    def count(event):
        seen.append(event.loss)
        if len(seen) == batches:
            event.run.stop()

    wb.fit(run, [at("BATCH_END", count)], data, None, step)
    return run, seen[-1]


def reads(graph, *names):
    return [graph.context.get_values(graph.node(name)) for name in names]


def test_before_anything_was_compiled_there_is_no_graph_and_it_says_what_to_do():
    with refused(wb.ConfigurationError, "no step yet", remedy="run.start"):
        new_run().step_graph()


def test_a_graph_tells_loss_parameters_gradients_and_which_step_it_is():
    run, last = stopped(11)
    graph = run.step_graph()
    assert graph.context.get_values(graph.loss) == last
    assert set(graph.params) == {"0.w", "0.b", "1.w", "1.b"}
    assert set(graph.gradients) == set(run.leaves.tensors)
    assert graph.caption == "`step`, version 1, values after update 11"
    (weights,) = reads(graph, "0.w")
    assert weights.tobytes() == run.params[0]["w"].tobytes()
    assert reads(graph, "opt.t")[0] == 11


@pytest.mark.parametrize("batches", [1, 7, 8, 9, 24])
def test_the_rows_are_those_of_the_batch_that_was_run_last(batches):
    run, last = stopped(batches)
    graph = run.step_graph()
    order, rate = reads(graph, "order", "lr")
    before = wb.data.row_order(60, seed=7, epoch=(batches - 1) // 8)
    first = (batches - 1) % 8 * 8
    assert order.tolist() == before[first : first + 8].tolist()
    assert rate == np.float32(0.01)
    assert graph.context.get_values(graph.loss) == last


def test_between_two_epochs_the_last_batch_can_still_be_looked_at():
    run, seen = new_run(2), []

    def look(event):
        graph = event.run.step_graph()
        if graph.global_step:
            seen.append((graph.global_step, len(reads(graph, "order")[0])))

    wb.fit(run, [at("EPOCH_BEGIN", look), at("EPOCH_END", look)], DATA, None, step)
    assert seen == [(8, 4), (8, 4), (16, 4)]


def test_before_the_first_batch_parameters_are_there_and_its_rows_are_not():
    run, seen = new_run(1), []

    def look(event):
        graph = event.run.step_graph()
        readable = graph.context.observability
        seen.append([readable(graph.node(name)).is_readable for name in ("0.w", "order", "all x")])
        seen.append(readable(graph.loss).is_readable)

    wb.fit(run, [at("EPOCH_BEGIN", look)], DATA, None, step)
    assert seen == [[True, False, True], False]


def test_a_batch_of_a_stream_is_there_until_the_next_one_was_run():
    run, seen = new_run(2), []

    def look(event):
        graph = event.run.step_graph()
        seen.append(reads(graph, "x")[0])

    batches, drawn = stream(), []
    wb.fit(run, [at("BATCH_END", look), at("EPOCH_END", look)], batches, None, step)
    for epoch in range(2):
        drawn += [x for x, _ in batches.read(epoch, 0)]
        drawn.append(drawn[-1])
    assert len(seen) == len(drawn) == 14
    assert all(np.array_equal(a, b) for a, b in zip(seen, drawn, strict=True))


def test_looking_while_a_run_goes_on_changes_no_bit_and_all_values_belong_to_one_update():
    plain, looked = new_run(40), new_run(40)
    wb.fit(plain, [], DATA, VAL, step, measure)
    looked.start([], DATA, VAL, step, measure)
    graphs = []
    while looked.is_training:
        graph = looked.step_graph()
        graphs.append((graph.global_step, int(reads(graph, "opt.t")[0])))
        graph.context.read([*graph.params.values()])
        wb.why(graph.node("x"), graph.context, routine=graph.routine)
    looked.wait()
    assert same_bits(looked, plain)
    assert graphs
    assert all(said == read for said, read in graphs)


def test_what_is_done_in_the_context_of_a_graph_never_reaches_the_run_nor_its_data():
    run, _ = stopped(11)
    graph, weights, features = run.step_graph(), run.params[0]["w"].copy(), DATA.x.copy()
    context = graph.context
    for name in ("0.w", "all x", "order"):
        node = graph.node(name)
        context = context.set_values({node: np.zeros_like(context.get_values(node))})
    card = wb.why(graph.node("x"), context, routine=graph.routine)
    assert card.apply("materialize").observability.is_readable
    held = state_of(run.context)
    tried = wb.why("x", run).apply("materialize")
    assert tried.observability.is_readable
    assert np.shares_memory(tried.context.buffers[graph.node("all x")].array, DATA.x)
    assert state_of(run.context) == held
    graph.context.release()
    assert np.array_equal(run.params[0]["w"], weights)
    assert np.array_equal(DATA.x, features)
    assert not np.array_equal(run.step_graph().context.get_values(graph.node("0.w")), weights * 0)
    other, _ = stopped(11)
    for each in (run, other):
        wb.fit(each, [], DATA, None, step)
    assert same_bits(run, other)


def test_another_version_of_the_step_is_another_graph_and_going_back_the_first_one_again():
    run = new_run(LONG)
    run.start([], DATA, VAL, step, measure)
    try:
        first = run.step_graph()
        run.step(steeper)
        run.step_history[-1].wait(PATIENCE_S)
        second = run.step_graph()
        assert (second.number, second.version, second.name) == (2, 2, "steeper")
        assert second.loss is not first.loss
        assert second.node("0.w") is first.node("0.w")
        run.step_history[0].restore()
        run.step_history[-1].wait(PATIENCE_S)
        third = run.step_graph()
        assert (third.number, third.version) == (3, 3)
        assert third.loss is first.loss
    finally:
        run.stop()
        run.wait(PATIENCE_S)


def test_another_loss_is_another_version_of_the_same_step():
    run = new_run(2)
    run.loss(loss)

    def learning(params, opt, x, y, lr):
        return wb.default_step(params, opt, x, y, lr, run.loss.current)

    wb.fit(run, [], DATA, None, learning)
    first = run.step_graph()
    run.loss(lambda params, x, y: 2.0 * loss(params, x, y))
    second = run.step_graph()
    assert (first.name, first.version) == ("learning", 2)
    assert (second.name, second.version) == ("learning", 3)
    assert second.loss is not first.loss


def test_a_step_that_has_just_taken_over_has_no_batch_to_show():
    run, _ = stopped(5)
    run.step(steeper)
    graph = run.step_graph()
    assert graph.name == "steeper"
    assert not graph.context.observability(graph.loss).is_readable
    assert graph.context.observability(graph.node("0.w")).is_readable


def test_many_may_look_at_once():
    run, faults = new_run(LONG), []
    run.start([], DATA, VAL, step, measure)

    def look():
        try:
            for _ in range(20):
                graph = run.step_graph()
                assert int(reads(graph, "opt.t")[0]) == graph.global_step
        except Exception as fault:  # noqa: BLE001 - judged below
            faults.append(fault)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    before = run.state.global_step
    until(lambda: run.state.global_step > before + 10)
    run.stop()
    run.wait(PATIENCE_S)
    assert faults == []


def test_a_name_that_no_node_has_is_answered_with_those_that_are_like_it():
    run, _ = stopped(1)
    with refused(wb.GraphError, "no node called `0.v`", remedy="`0.w`"):
        run.step_graph().node("0.v")


def test_a_label_of_the_forward_pass_names_its_node():
    def named(params, opt, x, y, lr):
        def loss(params, x, y):
            return wb.cross_entropy(logits(params, x).named("logits"), y)

        return wb.default_step(params, opt, x, y, lr, loss)

    run = new_run(1)
    wb.fit(run, [], DATA, None, named)
    assert run.step_graph().node("logits").label == "logits"


def test_gradients_of_a_step_in_mixed_precision_are_those_by_the_masters():
    run = new_run(1, optimizer=lambda params: wb.mixed_bf16(wb.adam(params)))
    wb.fit(run, [], DATA, None, step)
    assert set(run.step_graph().gradients) == set(run.leaves.tensors)
